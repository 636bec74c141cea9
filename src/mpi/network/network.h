// SPDX-License-Identifier: Apache-2.0
//
// What device messages between nodes share: the communicator of their chunks, the tags that distinguish
// pipelined transfers, the permission to send RTS headers, and the host messages that continue after the
// user's send is complete.
//
// The caller holds the engine's lock, except in MPI_Init and MPI_Finalize, and except for the functions that
// only read options and what open() has set: reaches(), exists(), chunk_bytes(), smallest_chunk() and
// rts_limits(). may_pipeline(), ask_early(), note_looking(), note_looked(), keeps_messages() and those for
// MPI_Finalize take the lock themselves.

#pragma once

#include <chrono>
#include <memory>

#include "base/memory/host_buffer.h"
#include "device/ipc_registry.h"
#include "device/pinned_buffer.h"
#include "mpi/abi/host_mpi.h"
#include "p2p/rts_check.h"
#include "packing/move.h"

namespace fairlead::mpi {

class PipelinedSend;

namespace network {

using Time = std::chrono::steady_clock::time_point;

// Collective over MPI_COMM_WORLD.
void open();
void close();
// Forgets the messages that are complete for the user (keep()) and that no receive has taken.
void forget_kept();

// True if device messages to and from this rank of MPI_COMM_WORLD use this transport, which all ranks outside
// the node do. False for -1 (unknown).
bool reaches(int world_rank);
// True if there is a rank outside the node.
bool exists();
p2p::RtsLimits rts_limits();
// Messages up to this size are sent as one host message.
uint64_t chunk_bytes();
// The same for what any rank of the job sends.
uint64_t smallest_chunk();

// A rank sends RTS headers to a rank of another node only with that rank's permission, because the receiver
// must know that they may come (mpi/core/forwarded_receives.h). Asks for it. A rank answers when it makes
// progress, and when a forwarded receive of a long message is complete.
// For messages that are not pipelined themselves.
void ask_early(int receiver);
// Has this receiver permitted it? If not, asks, and waits for the answer once, no longer than the message
// would take to be staged through host memory.
bool may_pipeline(int receiver, uint64_t bytes);

// A probe that reads an RTS header receives it from the host MPI, which completes its synchronous send. So
// the receiver announces to the sender that it looks into a message, before it reads the message, and then
// what it was. The announcement is on its way before anything that completes the send.
// Only a sender with permission can have sent an RTS header. For any other, and for -1 (unknown), this
// announces nothing and returns false, and note_looked() must not follow.
bool note_looking(int sender);
void note_looked(int sender, const p2p::RtsHeader* rts);  // null: no RTS header of a pipelined transfer
// For the sender of a pipelined transfer: has a probe, and no receive, taken its RTS header, as far as the
// announcements that have arrived tell?
bool is_only_probed(int receiver, uint32_t number);

MPI_Comm communicator();

// What ranks of different nodes tell each other beside messages; the second line is about memory that the
// receiver of a transfer may map (fabric.h).
enum class Control : uint32_t {
  asks,
  permits,
  looks,
  looked,
  looked_at_rts,
  claims,
  grants,
  fetched,
  declines,
  cannot_map,
  cannot_reach,
  freed
};
struct ControlContent {
  Control kind;
  uint32_t number = 0;  // of the RTS header
  device::RemoteMemory memory{};
};
void send_control(int receiver, const ControlContent& content);

// One host message of a pipelined transfer.
struct Chunk {
  explicit Chunk(size_t bytes) : buffer(bytes) {}
  device::PinnedBuffer buffer;  // empty if the bytes are received in place
  packing::Move copy;           // out of or into device memory
  MPI_Request message = MPI_REQUEST_NULL;
};

// A tag that no other pipelined transfer to this rank uses until it is given back.
int take_tag(int receiver);
void give_back_tag(int receiver, int tag);

enum class Direction { sending, receiving };

// Call when a pipelined transfer to or from this rank has made progress: the timeout of all transfers between
// the two ranks in this direction starts again.
void note_progress(Direction direction, int peer);
// How long a pipelined send that the program waits for leaves its bytes in device memory while the receiver
// takes none.
std::chrono::microseconds timeout();
bool timed_out(Direction direction, int peer, Time waiting_since);
// How long a message of this size takes about, if it is staged through host memory.
std::chrono::microseconds staging_time(uint64_t bytes);

// Pipelined transfers between two ranks take turns in the order of their start: many at once would share the
// pinned memory, and each would be slow. A few run at the same time. A transfer does not wait for those
// before it if they make no progress until the timeout.
class Turn {
 public:
  Turn(Direction direction, int peer);
  ~Turn() { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool has_come() const;
  // Lets the next transfer run.
  void end();

 private:
  Direction direction_;
  int peer_;
  Time since_;
  bool ended_ = false;
};

// For a send that is complete for the user while its host messages are not.
void keep(std::unique_ptr<PipelinedSend> stream);
void keep(HostBuffer bytes, MPI_Request message, MPI_Comm comm);
// True while a message that was kept is in flight.
bool keeps_messages();

// For MPI_Finalize: from here on nobody needs an answer, and this rank gives none.
void stop_answering();
// For MPI_Finalize: true if all chunks, questions, answers and announcements of this rank have been received.
// After stop_answering(), it stays true.
bool all_received();
// For leak checks.
size_t control_messages_in_flight();
// A buffer for chunks that are discarded, large enough for a chunk of any rank.
unsigned char* nowhere();
// Receives and discards chunks that no receive requested, because their messages were truncated or never
// received. Call it only when this rank receives no more messages.
void discard_unclaimed();

}  // namespace network
}  // namespace fairlead::mpi
