// SPDX-License-Identifier: Apache-2.0
//
// The flight recorder: what each rank of a node is doing and its last MPI calls, in memory that outlives a
// rank that dies. A call costs some stores; nothing is formatted, and no other process is needed, so that
// another rank, or `fairlead hang`, can say what a rank does that is blocked anywhere or dead.
//
// The file is a memfd, like that of the node's segment, with a block for each rank. Handles are stored as the
// bits that the program has; each block says what they stand for. Everything here may be damaged: readers
// (view.h) take numbers from it, never addresses.

#pragma once

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fairlead::flight {

constexpr size_t calls_kept = 32, threads_kept = 8, requests_kept = 256, communicators_kept = 32,
                 members_kept = 256, functions_kept = 512, operations_kept = 16, streams_kept = 16;
constexpr int absent = INT_MIN;  // an argument that the function does not have

enum class Kind : uint8_t {
  local,       // waits for nothing
  message,     // to or from
  collective,  // `to` is the root
  enqueued,    // the same, in a GPU stream
  completion,  // waits for requests
  polling,     // asks for messages or requests; repeated calls at one place are one entry
};

struct alignas(64) Call {
  uint64_t since;  // the time in ns, but the last 16 bits are those of the number of the call
  uint64_t site;   // return address in the program
  uint64_t comm;   // as are `op` and `request`, the bits of a handle
  uint64_t bytes;
  uint64_t request;  // that it starts or waits for; in the table of streams, 0: an unused line
  int32_t to, from;  // ranks of `comm`
  union {
    struct {
      int32_t sendtag, recvtag;
    };
    uint64_t op;  // of a collective
  };
  // How often the call was repeated; in the table of requests, which completion call waits for it; of an
  // enqueued collective, 1 if no stream passes it before all members have enqueued it.
  uint32_t repeats;
  uint16_t function;
  Kind kind;
  uint8_t device;  // memory
};
static_assert(sizeof(Call) == 64);

struct alignas(64) Thread {
  std::atomic<uint64_t> begun;  // calls so far
  std::atomic<uint64_t> open;   // the number of the call that the thread is in, from 1 on; 0: none
  Call calls[calls_kept];       // call n is at (n - 1) % calls_kept
};

// The collectives that were enqueued on a communicator with a GPU stream.
struct alignas(64) Enqueued {
  std::atomic<uint64_t> comm;      // the handle; 0: unused
  std::atomic<uint64_t> begun;     // so far, outside graphs
  std::atomic<uint32_t> captured;  // others are in graphs, and nobody knows how often those run
  Call calls[calls_kept];          // as in Thread
};

struct Communicator {
  uint64_t handle;  // 0: unused
  uint64_t id;      // the same on all members
  int32_t size;
  char name[36];
  int32_t members[members_kept];  // ranks in MPI_COMM_WORLD; -1: of another job
};

enum class State : uint32_t { unused, running, finalized };

struct alignas(4096) Rank {
  std::atomic<State> state;
  int32_t pid;
  int32_t rank, size;  // in MPI_COMM_WORLD
  uint64_t job;        // the same on all ranks of a job, and only there
  int32_t any_source, any_tag, null_rank;
  uint64_t world;  // the handle
  uint64_t operations[operations_kept];
  // The program, as call sites need it: where it is loaded, and what its addresses in the file begin with.
  uint64_t program_begin, program_end, program_base;
  char program[256];
  uint32_t lived;  // in a copy (Header::copied)

  std::atomic<uint32_t> threads_taken;  // a bit for each
  std::atomic<uint32_t> communicators;  // noted so far
  Thread threads[threads_kept];
  Call requests[requests_kept];  // by hash
  Call streams[streams_kept];    // the calls at which GPU streams of the program are, by number
  Enqueued enqueued[streams_kept];
  Communicator known[communicators_kept];
};

constexpr uint64_t magic = 0x32746867696c66ul << 8 | 'F';
struct Header {
  uint64_t magic;
  uint32_t bytes_of_rank;
  int32_t ranks;               // blocks
  std::atomic<int32_t> taken;  // blocks
  uint64_t copied;             // when this copy was made, in ns, for other nodes; 0: it is in use
  char functions[functions_kept][36];
};

constexpr size_t header_bytes = (sizeof(Header) + 4095) / 4096 * 4096;
constexpr size_t bytes_of(int ranks) {
  return header_bytes + sizeof(Rank) * static_cast<size_t>(ranks);
}
inline Rank& block(Header* header, int index) {
  return *reinterpret_cast<Rank*>(reinterpret_cast<char*>(header) + header_bytes +
                                  sizeof(Rank) * static_cast<size_t>(index));
}
inline size_t place_of(uint64_t request) {
  return (request * 0x9e3779b97f4a7c15u) >> 56;
}
static_assert(requests_kept == 256);
// What marks a request for which this call waits.
inline uint32_t waiting_mark(uint64_t number, size_t thread) {
  return static_cast<uint32_t>(number * threads_kept + thread) | 1u << 31;
}

// The name by which processes find the file: /proc/<pid>/fd has links to "/memfd:<name> (deleted)".
constexpr const char* file_name = "fairlead-flight";
int make_file(int ranks);                    // a descriptor; -1 if the kernel refuses
Header* map_file(int file, bool may_write);  // null if it is none
// Are these bytes a file, as this release makes them?
bool is_sound(const Header* header, size_t bytes);

// ---- The process's own rank ---------------------------------------------------------------------------

// Takes a block and records from now on; null if none is left.
Rank* take_block(Header* header);

namespace detail {
extern constinit std::atomic<Rank*> rank;
extern constinit thread_local Thread* thread;
Thread* take_thread(Rank* rank);
}  // namespace detail

inline Rank* own_rank() {
  return detail::rank.load(std::memory_order_relaxed);
}
// Null before MPI_Init.
inline Thread* own_thread() {
  if (detail::thread) [[likely]]
    return detail::thread;
  Rank* rank = own_rank();
  return rank ? detail::take_thread(rank) : nullptr;
}

// The last call that this thread has begun, for note_stream(); null if there is none.
const Call* last_call();
// The GPU stream with this number has come to an operation that was enqueued by such a call, and that is not
// complete; null: it is at none. One thread at a time for each stream.
void note_stream(int stream, const Call* call);

// The watching thread reads while others write.
template <class Value>
void put(Value& there, Value value) {
  __atomic_store(&there, &value, __ATOMIC_RELAXED);  // the form that takes enumerations, too
}

}  // namespace fairlead::flight
