// SPDX-License-Identifier: Apache-2.0
//
// Small collectives that run in the GPU stream of a communicator, without the CPU, if all its ranks share a
// node and their GPUs map each other's memory. Each rank has a scratch of device memory that the others map,
// and 32-bit words for each ordered pair of ranks in host memory of the node:
//
//   arrived[from][to]  1: what `from` has put into its scratch is there for `to`
//   left[from][to]     1: `from` no longer reads the scratch of `to`; so at first
//
// A call is a wait for `left` of all, a kernel that copies the input to the scratch, clears `left` and sets
// `arrived`, a wait for `arrived`, and a kernel that computes the result from all scratches, clears `arrived`
// and sets `left`. Addresses and values are the same in all calls, so that a graph may replay them.
//
// Whether a call runs so depends only on what MPI requires to be equal on all ranks and on what they agreed
// on in make(). A buffer that kernels cannot use, or one with gaps, is moved by an operation that is enqueued
// like any other, when the stream comes to it.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "device/ipc_registry.h"
#include "mpi/coll/collective_call.h"
#include "mpi/stream/stream.h"
#include "node/node_memory.h"

namespace fairlead::mpi {

// The words of a communicator. Their memory is given back when all ranks have left it and no stream waits,
// because the driver's call for that waits for all streams.
struct StreamWords {
  node::NodeMemory::Range memory;
  int ranks = 0, device = -1;
  bool registered = false, own = false;

  static size_t bytes_for(int ranks);
  uint32_t* arrived(int from, int to) const { return word(from * ranks + to); }
  uint32_t* left(int from, int to) const { return word((ranks + from) * ranks + to); }
  // The number of the last call of a rank that has ended, and how many ranks have left.
  uint64_t* ended(int rank) const { return reinterpret_cast<uint64_t*>(word(2 * ranks * ranks)) + rank; }
  std::atomic<uint32_t>& gone() const { return *reinterpret_cast<std::atomic<uint32_t>*>(ended(ranks)); }

 private:
  uint32_t* word(int index) const { return reinterpret_cast<uint32_t*>(memory.data()) + index; }
};

class StreamCollective {
 public:
  // Collective over the communicator, whose ranks all have a stream. Null on all ranks if one of them cannot.
  static std::unique_ptr<StreamCollective> make(MPI_Comm comm, std::shared_ptr<GpuStream> stream);
  ~StreamCollective();
  StreamCollective(const StreamCollective&) = delete;
  StreamCollective& operator=(const StreamCollective&) = delete;

  // The same on all ranks. Only for valid arguments.
  bool takes(const CollectiveCall& call) const;
  // Enqueues the call. `move` enqueues an operation of the CPU that moves bytes between a buffer of the
  // program and device memory. Returns an MPI error code.
  using Move = std::function<int(StartOperation)>;
  int enqueue(const CollectiveCall& call, const Move& move);

  // Has the stream passed all calls outside graphs, and do no ranks read what this one gave them?
  bool ended() const;
  // Once that is so, driver calls that wait for all streams are possible again.
  void permit_waiting_calls();
  // Lets the stream pass all its waits, as MPI is over.
  void abandon();

 private:
  bool has_passed_all() const;
  struct Shape;
  struct Offer;
  struct Side {
    std::vector<uint32_t*> waited, cleared, set;  // the latter as kernels address them
  };
  struct Buffer {
    void* address = nullptr;
    MPI_Count count = 0;
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    uint64_t bytes = 0;
  };
  StreamCollective() = default;
  void prepare(MPI_Comm comm, Offer* offer);
  // Null, or why this rank cannot take part.
  const char* join(const std::vector<Offer>& offers);
  Buffer input_of(const CollectiveCall& call, const Shape& shape, uint64_t unit) const;
  Buffer result_of(const CollectiveCall& call, const Shape& shape, uint64_t unit) const;
  bool is_direct(const Buffer& buffer) const;
  void begin_enqueuing();
  void end_enqueuing();
  void forbid_waiting_calls(bool captured);
  device::Error contribute(device::Stream stream, const Buffer& input, bool moved, const Side& side,
                           uint64_t number);
  device::Error receive(device::Stream stream, const CollectiveCall& call, const Shape& shape, uint64_t unit,
                        void* to, const Side& side, uint64_t number);

  std::shared_ptr<GpuStream> stream_;
  std::vector<int> node_ranks_;
  MPI_Comm self_ = MPI_COMM_NULL;  // for move()
  int me_ = 0, ranks_ = 1, device_ = -1;
  uint64_t most_ = 0, kernels_ = 0;  // bytes of a buffer at most, and the reductions with kernels
  uint32_t* counter_ = nullptr;      // of the kernels' blocks
  char* scratch_ = nullptr;          // `most_` bytes for the others, as many for own results, a counter
  std::vector<const char*> scratches_;
  std::vector<device::MappedMemory> mapped_;
  StreamWords words_;
  uint64_t* ended_ = nullptr;                   // as kernels address it
  std::vector<Side> contributing_, receiving_;  // by the only other rank, or ranks_: all others
  std::atomic<uint64_t> number_ = 0;            // of the last call outside graphs
  std::atomic<bool> broken_ = false;            // the driver has refused a part of a call
  std::mutex mutex_;                            // guards what follows
  int enqueuing_ = 0;
  bool forbids_ = false, in_graphs_ = false;
};

// Gives back the words of communicators that are freed, where that is possible now; `at_end`: of all.
void release_stream_words(bool at_end);

}  // namespace fairlead::mpi
