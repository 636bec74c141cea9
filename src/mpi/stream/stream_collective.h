// SPDX-License-Identifier: Apache-2.0
//
// Small collectives that run in the GPU stream of a communicator, without the CPU, if all its ranks share a
// node and their GPUs map each other's memory. Each rank has a scratch of device memory that the others map:
// two places for its input, which the calls use in turn, and a word for each rank that counts what it gives.
//
// Where all blocks are short, a call is as kernels/meet.h says. Otherwise it is a kernel that copies the
// input to the scratch and adds to this rank's word in all others' scratches, a wait of the stream for all
// words in its own, and a kernel that computes the result from all scratches and subtracts from the words
// (Exchange in kernels/reduce.h). A rank that has passed the wait of a call knows that all ranks have left
// the call before it, so that the place that was used there is free for the next call. Addresses and values
// are the same in all calls, so that a graph may replay them.
//
// Where each rank would read long inputs of all ranks, or all ranks that of one, they do so in two calls:
// each makes a part of the result in the first, and they exchange the parts in the second.
//
// In MPI_Alltoallv and among neighbours no rank knows the bytes of all others, but both ends know those of a
// block. Each block has its own part of the place; one that is longer is an ordinary message behind the call.
//
// Whether a call runs so depends only on what MPI requires to be equal on all ranks and on what they agreed
// on in make(). A buffer that kernels cannot use, or one with gaps, is moved by an operation that is enqueued
// like any other, when the stream comes to it.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/ipc_registry.h"
#include "device/recorded_calls.h"
#include "kernels/meet.h"
#include "mpi/abi/mutex.h"
#include "mpi/coll/collective_work.h"
#include "mpi/stream/stream.h"

namespace fairlead::mpi {

class StreamCollective {
 public:
  // Collective over the communicator, whose ranks all have a stream. Null on all ranks if one of them cannot.
  static std::unique_ptr<StreamCollective> make(MPI_Comm comm, std::shared_ptr<GpuStream> stream);
  ~StreamCollective();
  StreamCollective(const StreamCollective&) = delete;
  StreamCollective& operator=(const StreamCollective&) = delete;

  // Enqueues the call, and returns an MPI error code; nullopt if the CPU must do it, which for valid
  // arguments is the same on all ranks. `by_cpu` enqueues operations of the CPU that move bytes.
  using ByCpu = std::function<int(std::vector<EnqueuedWork>)>;
  std::optional<int> enqueue(const CollectiveCall& call, const ByCpu& by_cpu);

  // Has the stream passed all calls outside graphs?
  bool ended() const;
  bool in_graphs() const { return in_graphs_; }
  // Once that is so, driver calls that wait for all streams are possible again.
  void permit_waiting_calls();
  // Lets the stream pass all its waits, as MPI is over.
  void abandon();
  // The stream may go on using the memory, which is never freed then.
  void keep_memory() { broken_ = true; }

 private:
  struct Offer;
  // A block that another rank sends, and its number among those of that rank.
  struct Source {
    int rank, number;
  };
  // Between which ranks blocks move, in the order of this rank's blocks. MPI_PROC_NULL: nowhere.
  struct Edges {
    std::vector<int> out;
    std::vector<Source> in;
    uint64_t most = 0;  // bytes of a block in the place; 0: such collectives do not run here
  };
  struct Buffer : EvenBuffer {
    uint64_t memory = 0;  // the id of the allocation, if kernels use it
  };
  // What a call does, in terms of addresses.
  struct Plan {
    const CollectiveShape* shape = nullptr;
    int root = 0;
    const void* input = nullptr;
    uint64_t input_bytes = 0, unit = 0;  // of the input, and of a block
    void* result = nullptr;              // null on a rank that gets nothing
    uint64_t memory[2] = {};             // of both: other memory may have the same address later
    kernels::ReduceOp op{};
    kernels::Element element{};
    // Of blocks, in place of the input and the result.
    bool by_blocks = false;
    std::vector<device::CopyItem> given = {}, taken = {};
    std::vector<uint64_t> memories = {};
    bool operator==(const Plan&) const = default;
  };
  StreamCollective() = default;
  void prepare(MPI_Comm comm, Offer* offer);
  // Null, or why this rank cannot take part.
  const char* join(const std::vector<Offer>& offers);
  void connect(const std::vector<Offer>& offers);
  bool takes(const CollectiveCall& call) const;
  std::optional<int> enqueue_blocks(const CollectiveCall& call, const ByCpu& by_cpu);
  int submit(const Plan& plan, MPI_Comm comm, const ByCpu& by_cpu, std::vector<EnqueuedWork> before,
             std::vector<EnqueuedWork> after);
  EnqueuedWork moving(const Buffer& from, const Buffer& to) const;
  static Buffer packed(char* address, uint64_t bytes);
  bool is_direct(Buffer* buffer) const;
  void begin_enqueuing();
  void end_enqueuing();
  void forbid_waiting_calls(bool captured);
  // Nobody asks whether a graph of the program's has passed a call, and to tell takes a microsecond.
  enum class Tells : bool { nothing, end };
  device::Error run(device::Stream stream, const Plan& plan, Tells tells) const;
  bool meets(const Plan& plan) const;
  kernels::Meet meeting(const Plan& plan, uint64_t* flag) const;
  device::Error give(device::Stream stream, const Plan& plan) const;
  device::Error take(device::Stream stream, const Plan& plan, uint64_t* flag) const;
  kernels::Exchange taking() const;
  device::Error wait(device::Stream stream) const;
  // Of an input or a result, in bytes.
  struct Span {
    uint64_t first, bytes;
  };
  device::Error reduce(device::Stream stream, const Plan& plan, const Span& part, void* result,
                       const kernels::Signal& signal) const;
  bool is_in_parts(const Plan& plan) const;
  Span part_of(const Plan& plan, int rank) const;
  device::Error run_in_parts(device::Stream stream, const Plan& plan, uint64_t* flag) const;
  kernels::ExchangeHeader* header() const { return reinterpret_cast<kernels::ExchangeHeader*>(scratch_); }
  // The two places in a scratch, behind the slots, then one for buffers that the CPU moves.
  char* place(char* scratch, int which) const;
  static constexpr size_t granule = 16, places = 3;
  char* moved() const { return place(scratch_, 2); }

  std::shared_ptr<GpuStream> stream_;
  std::vector<int> node_ranks_;
  MPI_Comm self_ = MPI_COMM_NULL, messages_ = MPI_COMM_NULL;  // for moving(), and for long blocks
  CommPosition position_;
  Edges to_all_, to_neighbors_;
  int me_ = 0, ranks_ = 1, device_ = -1;
  uint64_t most_ = 0, reductions_ = 0;  // bytes of a buffer at most, and the reductions with kernels
  uint64_t slot_bytes_ = 0;             // for short blocks (kernels/meet.h)
  char* scratch_ = nullptr;
  uint64_t* passed_for_kernels_ = nullptr;
  uint64_t* passed_ = nullptr;  // page-locked: how many calls the stream has passed
  std::vector<char*> scratches_;
  std::vector<device::MappedMemory> mapped_;
  std::vector<uint32_t*> given_, taken_;   // words in the scratches of the others, and in this rank's
  std::vector<device::WordAccess> waits_;  // for the latter
  std::atomic<uint32_t> number_ = 0;       // of calls, as long as none is in a graph of the program's
  std::atomic<bool> broken_ = false;       // the driver has refused a part of a call
  // Calls that enqueue exclude each other.
  device::RecordedCalls<Plan> recorded_;
  Mutex mutex_;  // guards what follows
  int enqueuing_ = 0;
  bool forbids_ = false;
  std::atomic<bool> in_graphs_ = false;
};

}  // namespace fairlead::mpi
