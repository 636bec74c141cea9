// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one node share: one block for each rank, written by its owner except where said, and
// the table of verdicts about each rank's devices and each other rank. Everything here is trivially copyable
// or atomic, lies in memory that starts as zeros, and means the same in every process (no pointers).

#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "device/ipc_registry.h"
#include "kernels/blocks.h"
#include "node/file_identity.h"

namespace fairlead::node {

using device::RemoteMemory;

constexpr int rendezvous_per_rank = 256;
constexpr int devices_per_rank = 64;  // as many as a provider counts
constexpr int chunks_in_flight = 8;
constexpr int revocations_kept = 64;

// 128 random bits that all ranks of a job agree on: nothing a user sends starts with them by accident.
struct Nonce {
  uint64_t words[2];
  bool operator==(const Nonce&) const = default;
};

// Life of an offer (see src/p2p/rendezvous_send.h and pull.h). The side that makes each step:
//
//   free -> offered                  sender: the bytes are where `source` says
//   offered -> claimed -> done       receiver, which has mapped them and copies them itself
//   offered | claimed -> refused     receiver, which cannot: the sender shall stage them
//   refused -> claimed               receiver, which tries again: the sender does not answer
//   refused -> moving                sender, which answers
//   offered -> moving -> buffered    sender: `source` names its own buffer now; then as offered
//   free | moving -> pipelined -> done   chunks through memory of the sender; done by the receiver
//   done -> free                     sender
enum class RendezvousState : uint32_t { free, offered, claimed, refused, moving, buffered, pipelined, done };

// How the bytes from one rank's memory of one device to another rank travel.
enum class Path : uint8_t { unknown, peer, staged };
const char* to_string(Path path);

// Why a pair is staged.
enum class Reason : uint8_t {
  none,
  switched_off,    // option ipc
  not_exportable,  // the sender's memory cannot be shared
  no_context,      // the receiver uses no GPU (yet)
  import_failed,   // the receiver could not map it
  wrong_bytes,     // it could, but saw other bytes
  copy_failed,     // a copy returned an error
  no_kernel,       // the layout has gaps, and no kernel of the receiver can read it
  no_memory,       // sender's: there is no host memory to stage it in
  damaged,         // the offer says what cannot be
};
const char* to_string(Reason reason);

// The memory that a streamed message passes through.
enum class Medium : uint32_t {
  host,    // the sender's arena of pinned host memory
  device,  // the sender's buffer pool, which `source` names: the receiver copies peer to peer
};

struct alignas(64) Rendezvous {
  std::atomic<RendezvousState> state;
  std::atomic<Reason> reason;       // receiver's, with refused; sender's, of a stream that it gave up
  std::atomic<uint32_t> fetched;    // receiver's, with done: it copied the bytes itself
  std::atomic<uint32_t> looked_at;  // receiver's: a probe took the descriptor, no receive has yet
  int32_t receiver;                 // node rank
  int32_t device;                   // whose memory the bytes lie in, as the sender counts
  uint64_t bytes;
  RemoteMemory source;
  // How the bytes lie there, and where the first of them does, from the beginning of `source`.
  kernels::Shape shape;
  int64_t first;

  // Streaming: chunk number k of the message lies at chunks[k % chunks_in_flight], in bytes from the start of
  // the medium.
  Medium medium;
  uint64_t chunk_bytes;
  std::atomic<uint64_t> produced;  // chunks the receiver may read
  std::atomic<uint64_t> consumed;  // chunks the sender may use again
  uint64_t chunks[chunks_in_flight];
  // Once `spilled`, all bytes from chunk number spilled_from on lie in the memory of the node.
  std::atomic<uint32_t> flushed;
  uint64_t flushed_from;
  uint64_t flushed_bytes;
  uint64_t flushed_offset;
  std::atomic<uint32_t> awaited;  // receiver's: it takes the chunks as they come
};

// Where the others find the box of a rank (see file_box.h).
struct FdSocketAddress {
  FileIdentity file;
  std::atomic<int32_t> number_plus_1;  // of the rank's descriptor of that file; 0: there is no box
  std::atomic<uint32_t> was_full;      // set by senders
};

// A few bytes of known content in the memory of one device.
struct PeerProbe {
  RemoteMemory memory;
  std::atomic<uint32_t> ready;
};

struct alignas(64) RankBlock {
  // Set while the rank sits in a host MPI call that cannot poll: it will answer no offer.
  alignas(64) std::atomic<uint32_t> blocked_in_host;
  // Receives that failed in the host MPI: one of them may have swallowed a descriptor.
  std::atomic<uint32_t> failed_receives;
  // Nonzero while the rank takes a message from the host MPI only to look at it.
  std::atomic<uint32_t> looking;
  // Receives under way of which several land in one place: one descriptor could overwrite another there.
  std::atomic<uint32_t> claimed_receives;

  alignas(64) int32_t world_rank;
  pid_t pid;
  FdSocketAddress box;

  // By device, as this rank counts them: whoever wants to pull from that device proves with them first that
  // mapped memory really shows the owner's bytes.
  PeerProbe probes[devices_per_rank];

  // Allocations that were exported and exist no more; importers close their mappings. The k-th one lies
  // at [k % revocations_kept]; who falls behind drops everything of this owner.
  std::atomic<uint64_t> revocations;
  struct {
    uint64_t base, id;
  } revoked[revocations_kept];

  // Pinned host memory this rank stages through, in the memory of the node; no bytes until first used.
  uint64_t arena_offset;
  std::atomic<uint64_t> arena_bytes;

  Rendezvous rendezvous[rendezvous_per_rank];
};

// About memory of one device of one rank, and another rank: `peer` when some device of that rank reaches it.
struct PathDecision {
  std::atomic<Path> path;
  std::atomic<Reason> reason;
};

struct SegmentHeader {
  Nonce nonce;
  int32_t ranks;
  std::atomic<uint32_t> rts_sent;  // set before the first one is
  std::atomic<uint64_t> memory_end;        // of the file in which this segment lies (node_memory.h)
};

}  // namespace fairlead::node
