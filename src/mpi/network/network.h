// SPDX-License-Identifier: Apache-2.0
//
// What the device messages between nodes have in common: the communicator their chunks travel on, the tags
// that tell streams apart, and the host messages that go on after the user's send is over.
//
// Only MPI_Init, MPI_Finalize, reaches(), exists() and native() may be used without the engine's lock.

#pragma once

#include <chrono>
#include <memory>

#include "base/host_buffer.h"
#include "datatype/move.h"
#include "device/pinned_buffer.h"
#include "mpi/abi/host_mpi.h"
#include "p2p/rts_check.h"

namespace fairlead::mpi {

class PipelinedSend;

namespace network {

using Time = std::chrono::steady_clock::time_point;

// Collective over MPI_COMM_WORLD.
void open();
void close();
// Of those that are over for the user (keep()), what is still here was never received.
void forget_kept();

// Is this rank of MPI_COMM_WORLD (-1: unknown) served by this transport? True of ranks outside the node.
bool reaches(int world_rank);
// Of any rank?
bool exists();
// Does the host MPI handle device memory itself (FAIRLEAD_NETWORK=native, on all ranks)? Then device pointers
// of messages to and from the ranks this transport reaches are handed to it, and no descriptor is sent there.
bool native();
p2p::RtsLimits rts_limits();
// Messages up to this size travel whole.
uint64_t chunk_bytes();

MPI_Comm communicator();
// One host message of a stream.
struct Chunk {
  explicit Chunk(size_t bytes) : buffer(bytes) {}
  device::PinnedBuffer buffer;  // none where the bytes land in place
  datatype::Move copy;          // out of or into device memory
  MPI_Request message = MPI_REQUEST_NULL;
};

// A tag that no other stream to this rank uses until it is given back.
int take_tag(int receiver);
void give_back_tag(int receiver, int tag);

enum class Direction { sending, receiving };

// Something of a stream to or from this rank has moved: no other stream there is to despair of it.
void note_progress(Direction direction, int peer);
bool timed_out(Direction direction, int peer, Time waiting_since);

// Streams between two ranks take turns, first come first served: many at once would share the pinned memory
// and each crawl. A few go on together. Who finds that those before it do not move need not wait for them.
class Turn {
 public:
  Turn(Direction direction, int peer);
  ~Turn() { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool has_come() const;
  // The next one may go on.
  void end();

 private:
  Direction direction_;
  int peer_;
  Time since_;
  bool ended_ = false;
};

// The send is over for the user, its host messages are not.
void keep(std::unique_ptr<PipelinedSend> stream);
void keep(HostBuffer bytes, MPI_Request message, MPI_Comm comm);
// Is a message that was kept still on its way?
bool keeps_messages();

// For MPI_Finalize. Have all chunks been received?
bool all_received();
// Where bytes that nobody wants may land, of a chunk of any rank.
unsigned char* nowhere();
// Receives and forgets chunks that nobody asked for: of messages that were truncated on the way, or never
// received. Only once this rank receives nothing any more.
void discard_unclaimed();

}  // namespace network
}  // namespace fairlead::mpi
