// SPDX-License-Identifier: Apache-2.0
//
// What the host MPI says about device memory, and the trial of what it says. One rank of each node with a GPU
// exchanges messages of known bytes with the next and the previous one: from device to device memory, from
// device to host and from host to device memory, of sizes below and above every eager limit. A wrong byte or
// an error on any node makes the result "no" on all of them.
//
// A host MPI that handles no device memory would crash on these messages, so only one that says that it does
// is tried. If it crashes all the same, the process writes one line that says so before it dies.

#pragma once

#include <memory>
#include <string>

#include "device/runtime.h"
#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi::network {

struct Claim {
  bool yes = false;
  std::string words;  // "MPIX_Query_cuda_support says yes"
};
// For the memory of this process's GPU provider. Uses no device memory.
Claim claim_of_host(const device::PromptRuntime& gpu);

// The caller holds the engine's lock, except while it makes or destroys a trial.
class HostTrial {
 public:
  // Between the ranks of this communicator, which the trial owns.
  explicit HostTrial(MPI_Comm ranks);
  ~HostTrial();
  HostTrial(const HostTrial&) = delete;
  HostTrial& operator=(const HostTrial&) = delete;

  // Joins the trial, with device memory of this device; with -1, this rank has none, and there is no trial.
  // The messages begin when all ranks have joined.
  void join(int device);
  bool joined() const { return step_ != Step::waiting; }
  // The program may have freed the memory of its device: from here on this rank takes part with host memory,
  // and the trial proves nothing.
  void leave_device();
  // Never blocks; to be called until over().
  void advance();
  bool over() const { return step_ == Step::over; }

  // When it is over: each value is worse than the next, and the worst of all ranks is the result. `missing`:
  // a rank had no device memory.
  enum class Result : int { missing, wrong, left, right };
  Result result() const { return tried_ ? static_cast<Result>(all_) : Result::missing; }
  // The messages have begun.
  bool tried() const { return tried_; }
  MPI_Comm ranks() const { return ranks_; }
  int nodes() const { return size_; }
  bool first() const { return rank_ == 0; }
  // What this rank found wrong; "" if nothing.
  const std::string& wrong() const { return wrong_; }

 private:
  enum class Step { waiting, joining, exchanging, concluding, over };
  struct Kind;
  static const Kind kinds[];
  static constexpr size_t most_bytes = size_t{2} << 20;

  void agree(Result mine, Step next);
  bool agreed();
  void take_steps();
  bool prepare();
  void start_exchange();
  bool exchange_ended();
  bool message_ended(int which);
  void receive(int which);
  void check_received();
  void note_wrong(const char* what);
  unsigned char* buffer(bool on_device, int which);
  void write(unsigned char* to, const unsigned char* from, size_t bytes);
  uint64_t id_of_memory() const;

  MPI_Comm ranks_;
  int rank_ = 0, size_ = 1, device_ = -1;
  int next_ = 0, previous_ = 0;
  Step step_ = Step::waiting;
  bool tried_ = false, host_only_ = false;
  int mine_ = 0, all_ = 0;
  MPI_Request agreement_ = MPI_REQUEST_NULL;
  size_t kind_ = 0;
  MPI_Request messages_[4];  // the two receives, then the two sends
  unsigned char* device_memory_ = nullptr;
  uint64_t memory_id_ = 0;  // the driver's, of device_memory_
  std::unique_ptr<unsigned char[]> host_memory_;
  std::string wrong_;
};

}  // namespace fairlead::mpi::network
