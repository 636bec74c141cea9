// SPDX-License-Identifier: Apache-2.0
//
// What carries out a collective over all ranks, or an exchange of two: MPI, or NCCL for comparison.

#pragma once

#include <mpi.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "bench/buffer.h"
#include "bench/options/arguments.h"

namespace fairlead::tools {

// One call, as each rank makes it.
struct CollectiveCall {
  uint64_t elements;  // of the size
  int root;
  const void* from;  // null where this rank sends nothing
  void* to;          // null where it receives nothing
};

class CollectiveChannel {
 public:
  virtual ~CollectiveChannel() = default;
  virtual std::string name() const = 0;
  // Returns when the operation is complete in this rank. Throws a Failure with the library's own words.
  virtual void run(const CollectiveCall& call) = 0;
  // Why it cannot take vectors of so many elements; empty where it can.
  virtual std::string refusal(uint64_t elements) const = 0;
  // Memory that the calls send from or receive into; it ends with this object. Collective.
  virtual Buffer& buffer(Place place, uint64_t bytes) { return buffers_.emplace_back(place, bytes); }

 protected:
  std::list<Buffer> buffers_;
};

// One that computation may stand in: run() is start() and wait().
class NonblockingChannel : public CollectiveChannel {
 public:
  void run(const CollectiveCall& call) override {
    start(call);
    wait();
  }
  virtual void start(const CollectiveCall& call) = 0;
  virtual void test() = 0;
  virtual void wait() = 0;
};

// The blocking function, the nonblocking one and its MPI_Wait, or MPI_Start of a persistent request and that.
class MpiCollective final : public NonblockingChannel {
 public:
  // Collective over all ranks, as is the end.
  explicit MpiCollective(const BenchArguments& arguments);
  ~MpiCollective() override;

  std::string name() const override { return "MPI"; }
  void run(const CollectiveCall& call) override;
  std::string refusal(uint64_t elements) const override;

  // Throws a cannot_run Failure where this MPI has no such function of MPI 4. Needs no MPI_Init.
  static void require_persistent(const BenchArguments& arguments);

  void start(const CollectiveCall& call) override;
  void test() override;
  void wait() override;

 private:
  struct Parameters;
  struct Function;
  struct Vectors;
  enum class Offsets;
  using P = Parameters;
  using R = MPI_Request;
  static const Function functions[];

  Parameters parameters(const CollectiveCall& call);
  MPI_Request persistent_request(const CollectiveCall& call);
  void free_requests();
  void require(int error, const char* call) const;

  const CollectiveKind& kind_;
  const Function& function_;
  std::string name_;  // of the function
  bool nonblocking_, persistent_;
  int ranks_ = 1;
  MPI_Comm comm_ = MPI_COMM_NULL;  // returns its errors
  const ElementType& element_;
  MPI_Datatype type_;
  MPI_Op operation_;
  std::unique_ptr<Vectors> vectors_;
  std::map<int, MPI_Request> requests_;  // persistent ones, by root
  MPI_Request started_ = MPI_REQUEST_NULL;
};

std::unique_ptr<NonblockingChannel> make_exchange(const BenchArguments& arguments);
std::unique_ptr<CollectiveChannel> make_nccl_collective(const BenchArguments& arguments, int device);

}  // namespace fairlead::tools
