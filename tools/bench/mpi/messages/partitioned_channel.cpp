// SPDX-License-Identifier: Apache-2.0
//
// Messages in partitions (MPI 4). Requests are made anew only where buffer or size change.

#include "bench/mpi/messages/channel.h"
#include "bench/mpi/mpi4.h"

namespace fairlead::tools {
namespace {

struct Functions {
  int (*send_init)(const void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request*);
  int (*receive_init)(void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request*);
  int (*ready)(int, MPI_Request);
};

Functions partitioned_functions() {
  auto find = []<class Function>(const char* name, Function* function) {
    *function = function_of_mpi4<Function>(name);
  };
  Functions functions{};
  find("MPI_Psend_init", &functions.send_init);
  find("MPI_Precv_init", &functions.receive_init);
  find("MPI_Pready", &functions.ready);
  return functions;
}

// A persistent request for one buffer and size.
struct Transfer {
  Transfer() = default;
  ~Transfer() {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Whether it is another than before, and has to be initialised.
  bool turn_to(const void* new_address, uint64_t new_bytes) {
    if (request != MPI_REQUEST_NULL && address == new_address && bytes == new_bytes) return false;
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    address = new_address;
    bytes = new_bytes;
    return true;
  }

  const void* address = nullptr;
  uint64_t bytes = 0;
  MPI_Request request = MPI_REQUEST_NULL;
};

class PartitionedChannel : public Channel {
 public:
  PartitionedChannel(int partner, int partitions) : partner_(partner), partitions_(partitions) {}

  std::string name() const override { return "MPI"; }

  void send(const void* from, uint64_t bytes) override {
    if (out_.turn_to(from, bytes))
      mpi_.send_init(from, partitions_, share(bytes), MPI_BYTE, partner_, message_tag, MPI_COMM_WORLD,
                     MPI_INFO_NULL, &out_.request);
    MPI_Start(&out_.request);
    for (int partition = 0; partition < partitions_; ++partition) mpi_.ready(partition, out_.request);
    MPI_Wait(&out_.request, MPI_STATUS_IGNORE);
  }

  void receive(void* to, uint64_t bytes) override {
    if (in_.turn_to(to, bytes))
      mpi_.receive_init(to, partitions_, share(bytes), MPI_BYTE, partner_, message_tag, MPI_COMM_WORLD,
                        MPI_INFO_NULL, &in_.request);
    MPI_Start(&in_.request);
    MPI_Wait(&in_.request, MPI_STATUS_IGNORE);
  }

  void window(const void*, void*, uint64_t, int) override {
    throw Failure(exit_problem, "partitioned messages have no window");
  }

 private:
  MPI_Count share(uint64_t bytes) const { return static_cast<MPI_Count>(bytes) / partitions_; }

  int partner_, partitions_;
  Functions mpi_ = partitioned_functions();
  Transfer out_, in_;
};

}  // namespace

void require_partitioned() {
  partitioned_functions();
}

std::unique_ptr<Channel> make_partitioned_channel(int partner, int partitions) {
  return std::make_unique<PartitionedChannel>(partner, partitions);
}

}  // namespace fairlead::tools
