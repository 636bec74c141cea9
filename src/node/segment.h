// SPDX-License-Identifier: Apache-2.0
//
// The memory that the ranks of one node share: one block for each rank, written by its owner except where
// noted, and the table of decisions for each rank's devices and each other rank. Everything here is trivially
// copyable or atomic, is in memory that starts as zeros, and means the same in every process (no pointers).

#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "base/system/processor.h"
#include "device/ipc_registry.h"
#include "kernels/blocks.h"
#include "node/doorbell.h"
#include "node/file_identity.h"

namespace fairlead::node {

using device::RemoteMemory;

constexpr int rendezvous_per_rank = 256;
constexpr int devices_per_rank = 64;  // as many as a provider supports
constexpr int chunks_in_flight = 8;
constexpr int revocations_kept = 64;

// Copies what another process may change at any time: what is checked is then what is used.
template <class T>
T read_once(const T& shared) {
  T copy = shared;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return copy;
}

// 128 random bits that all ranks of a job agree on: no user message starts with them by accident.
struct Nonce {
  uint64_t words[2];
  bool operator==(const Nonce&) const = default;
};

// The states of a rendezvous (see src/p2p/rendezvous_send.h and get.h), and the side that makes each step:
//
//   free -> offered                  sender: the bytes are where `source` says
//   free -> announced -> offered     sender: the bytes will be there when its GPU stream has come to the send
//   offered -> claimed -> done       receiver, which has mapped them and copies them itself
//   offered | claimed -> refused     receiver, which cannot: the sender must stage them
//   refused -> claimed               receiver, which retries because the sender does not answer
//   refused -> moving                sender, which answers
//   offered -> moving -> buffered    sender: `source` names its own buffer now; then as from `offered`
//   free | moving -> pipelined -> done   chunks through memory of the sender; the receiver sets `done`
//   free -> put -> done              sender: its GPU writes the bytes to the buffer that the receiver has
//                                    posted; the receiver sets `done`
//   put -> pipelined                 sender, which could not write them
//   done -> free                     sender
enum class RendezvousState : uint32_t {
  free,
  offered,
  claimed,
  refused,
  moving,
  buffered,
  pipelined,
  done,
  announced,
  put,
};

// The path of bytes from one rank's memory of one device to another rank.
enum class Path : uint8_t { unknown, peer, staged };
const char* to_string(Path path);

// Why a pair is staged.
enum class Reason : uint8_t {
  none,
  switched_off,    // FAIRLEAD_IPC is off
  not_exportable,  // the sender's memory cannot be shared
  no_context,      // the receiver uses no GPU (yet)
  import_failed,   // the receiver could not map it
  wrong_bytes,     // it could, but saw other bytes
  copy_failed,     // a copy returned an error
  no_kernel,       // the layout has gaps, and no kernel of the receiver can read it
  no_memory,       // set by the sender: there is no host memory to stage it in
  damaged,         // the rendezvous holds impossible values
  abandoned,       // set by the sender: its communicator was revoked
};
const char* to_string(Reason reason);

// The memory that a pipelined transfer passes through.
enum class Medium : uint32_t {
  host,    // the sender's arena of pinned host memory
  device,  // the sender's buffer pool, which `source` names: the receiver copies peer to peer
};

struct alignas(cache_line) Rendezvous {
  // The sender: from here on it may store where the bytes are, and a receiver that sees any of that does not
  // find the former state any more. False: `from`, which is stored there, has ended meanwhile.
  bool begin_to_move(RendezvousState& from) {
    if (!state.compare_exchange_strong(from, RendezvousState::moving)) return false;
    std::atomic_thread_fence(std::memory_order_release);
    return true;
  }
  // The receiver: is what it has read since it loaded this state the sender's for this state?
  bool is_still(RendezvousState then) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return state.load(std::memory_order_relaxed) == then;
  }

  std::atomic<RendezvousState> state;
  std::atomic<Reason> reason;       // set by the receiver with `refused`, by the sender when it gives up
  std::atomic<uint32_t> fetched;    // set by the receiver with `done`: it copied the bytes itself
  std::atomic<uint32_t> looked_at;  // set by the receiver: a probe took the RTS header, no receive has yet
  int32_t receiver;                 // node rank
  int32_t device;                   // device that holds the bytes, as the sender numbers its devices
  uint64_t bytes;
  RemoteMemory source;
  // The layout of the bytes, and the offset of the first of them from the beginning of `source`.
  kernels::StridedShape shape;
  int64_t first;

  uint32_t posted;  // put: the number of the buffer in the receiver's block

  // Pipelined transfer: chunk k of the message is at chunks[k % chunks_in_flight], in bytes from the start of
  // the medium.
  Medium medium;
  uint64_t chunk_bytes;
  uint64_t chunk_count;            // which chunk_bytes must agree with
  std::atomic<uint64_t> produced;  // chunks the receiver may read
  std::atomic<uint64_t> consumed;  // chunks the sender may use again
  uint64_t chunks[chunks_in_flight];
  // Once `flushed` is set, all bytes from chunk flushed_from on are in the memory of the node
  // (node_memory.h).
  std::atomic<uint32_t> flushed;
  uint64_t flushed_from;
  uint64_t flushed_bytes;
  uint64_t flushed_offset;
  std::atomic<uint32_t> awaited;  // set by the receiver: it consumes the chunks as they are produced
};

// The buffer of a receive that has been posted: its sender may claim it and write the message to it
// (src/p2p/posted_buffer.h).
struct alignas(cache_line) PostedBuffer {
  RemoteMemory memory;
  uint64_t bytes;
  int32_t device;  // that holds it, as the receiver numbers its devices
  uint32_t turn;   // what the sender's GPU stores to the word of this buffer when the bytes are there
};
// They are in sets, each of which is found by one cache line.
constexpr int posted_sets = 16, posted_per_set = 8;
constexpr int posted_per_rank = posted_sets * posted_per_set;

// The address of a rank's socket for file descriptors (fd_socket.h).
struct FdSocketAddress {
  FileIdentity file;
  std::atomic<int32_t> number_plus_1;  // number of the rank's descriptor of that file, plus 1; 0: no socket
  std::atomic<uint32_t> was_full;      // set by senders
};

// For the peer-access probe: a few bytes of known content in the memory of one device.
struct PeerProbe {
  RemoteMemory memory;
  uint8_t gpu[16];  // the UUID of the device
  std::atomic<uint32_t> ready;
};

struct alignas(cache_line) RankBlock {
  // Set while the rank is blocked in a host MPI call that cannot poll: it answers no rendezvous.
  alignas(cache_line) std::atomic<uint32_t> blocked_in_host;
  // Receives that failed in the host MPI: one of them may have consumed an RTS header.
  std::atomic<uint32_t> failed_receives;
  // Nonzero while the rank receives a message from the host MPI only to inspect it.
  std::atomic<uint32_t> looking;
  // Receives in flight whose buffers cannot take an RTS header: while there are any, senders send whole
  // messages (src/mpi/core/forwarded_receives.h).
  std::atomic<uint32_t> rts_held_off;

  alignas(cache_line) Doorbell doorbell;  // other ranks ring it

  // Set while a thread of the program polls: it takes messages as soon as they come.
  std::atomic<uint32_t> polls;
  // The words of posted buffers, in the memory of the node; 0: there are none yet.
  std::atomic<uint64_t> posted_words_offset;
  // The channels of partitioned messages to this rank (src/p2p/partition_channel.h); 0: there are none yet.
  std::atomic<uint64_t> channels_offset;
  // Which message each posted buffer is for: 0 for none, with the lowest bit set once its sender has claimed
  // it.
  alignas(cache_line) std::atomic<uint64_t> posted_for[posted_sets][posted_per_set];
  PostedBuffer posted[posted_per_rank];

  alignas(cache_line) int32_t world_rank;
  pid_t pid;
  FdSocketAddress box;

  // By device, as this rank numbers them. Before a rank copies from one of these devices, it checks with the
  // probe that mapped memory really shows the owner's bytes.
  PeerProbe probes[devices_per_rank];

  // Allocations that were exported and no longer exist; importers close their mappings. Entry number k is at
  // index k % revocations_kept; an importer that falls behind closes all its mappings of this owner's memory.
  std::atomic<uint64_t> revocations;
  struct {
    uint64_t base, id;
  } revoked[revocations_kept];

  // The pinned host memory through which this rank stages, in the memory of the node; no bytes until first
  // use.
  uint64_t arena_offset, arena_chunk_bytes;
  std::atomic<uint64_t> arena_bytes;

  Rendezvous rendezvous[rendezvous_per_rank];
};

// The decision on memory of one device of one rank, for another rank: `peer` if some device of the other rank
// can access it.
struct PathDecision {
  std::atomic<Path> path;
  std::atomic<Reason> reason;
  std::atomic<bool> in_turns;  // set before `peer`: both use one GPU, and take turns on it
};

struct SegmentHeader {
  Nonce nonce;
  int32_t ranks;
  std::atomic<uint32_t> rts_sent;    // set before the first one is sent
  std::atomic<uint32_t> host_path;   // between nodes; see src/mpi/network/host_capability.h
  std::atomic<uint64_t> memory_end;  // end of the file that contains this segment (node_memory.h)
};

}  // namespace fairlead::node
