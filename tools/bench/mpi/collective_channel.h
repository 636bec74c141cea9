// SPDX-License-Identifier: Apache-2.0
//
// What carries out a collective over all ranks: MPI, or NCCL for comparison.

#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "bench/arguments.h"

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
};

// The blocking function, the nonblocking one and its MPI_Wait, or MPI_Start of a persistent request and that.
class MpiCollective final : public CollectiveChannel {
 public:
  // Collective over all ranks, as is the end.
  explicit MpiCollective(const BenchArguments& arguments);
  ~MpiCollective() override;

  std::string name() const override { return "MPI"; }
  void run(const CollectiveCall& call) override;
  std::string refusal(uint64_t elements) const override;

  // Throws a cannot_run Failure where this MPI has no such function of MPI 4. Needs no MPI_Init.
  static void require_persistent(const BenchArguments& arguments);

  // The steps of the nonblocking function.
  MPI_Request start(const CollectiveCall& call);
  void test(MPI_Request* request);
  void wait(MPI_Request* request);

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
};

std::unique_ptr<CollectiveChannel> make_nccl_collective(const BenchArguments& arguments);

}  // namespace fairlead::tools
