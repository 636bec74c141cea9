// SPDX-License-Identifier: Apache-2.0
//
// overlap: two ranks exchange messages by MPI_Irecv, MPI_Isend and MPI_Waitall. The root of a call is the
// partner.

#include <fmt/format.h>

#include <climits>

#include "bench/mpi/collectives/collective_channel.h"
#include "bench/mpi/collectives/types.h"
#include "bench/mpi/ranks.h"

namespace fairlead::tools {
namespace {

class ExchangeChannel final : public NonblockingChannel {
 public:
  explicit ExchangeChannel(const BenchArguments& arguments)
      : type_(mpi_type(element_type(arguments.element).id)) {}

  std::string name() const override { return "MPI"; }
  std::string refusal(uint64_t elements) const override {
    return elements > INT_MAX ? fmt::format("{} elements, more than an MPI count holds", elements) : "";
  }

  // The receive first, so that no message comes unexpected.
  void start(const CollectiveCall& call) override {
    const int count = static_cast<int>(call.elements);
    MPI_Irecv(call.to, count, type_, call.root, message_tag, MPI_COMM_WORLD, &requests_[0]);
    MPI_Isend(call.from, count, type_, call.root, message_tag, MPI_COMM_WORLD, &requests_[1]);
  }
  void test() override {
    int done = 0;
    MPI_Testall(2, requests_, &done, MPI_STATUSES_IGNORE);
  }
  void wait() override { MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE); }

 private:
  MPI_Datatype type_;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

}  // namespace

std::unique_ptr<NonblockingChannel> make_exchange(const BenchArguments& arguments) {
  return std::make_unique<ExchangeChannel>(arguments);
}

}  // namespace fairlead::tools
