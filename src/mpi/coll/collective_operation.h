// SPDX-License-Identifier: Apache-2.0
//
// A collective with device memory, or one of host memory that must wait for others of its communicator, from
// the call to its completion. It arrives at the communicator's meeting; then it runs on the GPU, or, with
// copies of its buffers in host memory, in the host MPI, in the order of the calls.
//
// A blocking call cannot be made by the host MPI's nonblocking form, which would not match that of the other
// ranks: such an operation is complete when it must stage, and the caller goes on (collective.cpp).

#pragma once

#include <functional>

#include "base/report_timer.h"
#include "coll/gpu_collective.h"
#include "mpi/coll/argument_arrays.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/coll/host_image.h"
#include "mpi/core/deferred_free.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

// The call's own nonblocking form in the host MPI, with these buffers and the arrays of `call`.
using StartInHost = std::function<int(const CollectiveCall& call, MPI_Comm comm, const void* sendbuf,
                                      void* recvbuf, MPI_Request* request)>;

class CollectiveOperation : public Operation {
 public:
  // `start_in_host`: none for a blocking call.
  CollectiveOperation(std::shared_ptr<CommunicatorState> point, const CollectiveCall& call, Regions regions,
                      StartInHost start_in_host);

  int start() override;
  void advance() override;
  void quiesce() override;
  bool quiesced() const override;
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::string in_words() const override { return mpi::in_words(regions_); }

  // Of a blocking call that is complete.
  bool must_stage() const { return must_stage_; }
  const Regions& regions() const { return regions_; }
  // The caller has staged it.
  void note_staged();
  // The same as advance(), but makes no host MPI call: for a thread of ours, while the program's is
  // elsewhere.
  void advance_on_gpu();

 private:
  coll::Work take_work();
  void arrive();
  void decide();
  void show_late();
  void run_by_nccl();
  void run_on_gpu();
  void take_turn();
  void finish_in_host();
  void note_result(int result);
  void over(int error);
  void took(Traffic path);
  void complain_of_missing();

  std::shared_ptr<CommunicatorState> point_;
  CollectiveCall call_;
  Regions regions_;
  StartInHost start_in_host_;
  std::optional<KeptHandles> kept_;
  KeptArrays arrays_;
  coll::Capability capability_ = coll::Capability::host, arrived_with_ = coll::Capability::none;
  coll::Work work_;
  bool has_work_ = false;
  uint64_t number_ = 0;
  bool cleared_ = false;

  enum class Step {
    arriving,
    deciding,
    by_nccl,
    on_gpu,
    waiting_for_turn,
    in_host,
    over
  } step_ = Step::arriving;
  std::optional<coll::GpuCollective> gpu_;
  StagedBuffers staged_;
  bool loaded_ = false;
  ReportTimer report_timer_;
  int error_ = MPI_SUCCESS;
  bool raised_ = false;  // the error, by the host MPI, on the communicator of the call
  bool must_stage_ = false;
  Fallback why_staged_ = Fallback::chosen_staged;
};

}  // namespace fairlead::mpi
