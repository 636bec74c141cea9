// SPDX-License-Identifier: Apache-2.0
//
// The queue of probed messages: messages that a probe had to read. A probe must report the length of the
// user's message (M2), but only the content of a message as long as an RTS header shows that length. So the
// probe takes the message from the host MPI, together with all earlier messages of the same source on that
// communicator, which keeps their order (M1). Every later probe or receive searches this queue first. The
// queue is empty in programs that do not probe messages of that length.

#pragma once

#include <memory>

#include "mpi/abi/host_mpi.h"
#include "p2p/rts_header.h"

namespace fairlead::mpi {

struct ProbedMessage {
  MPI_Comm comm;
  MPI_Status status;  // source, tag and the user's byte count
  // A message that was queued only to keep the order is still in the host MPI, under this handle. A message
  // that was read is in `bytes`.
  MPI_Message message = MPI_MESSAGE_NULL;
  unsigned char bytes[p2p::rts_bytes];
  bool looked_into() const { return message == MPI_MESSAGE_NULL; }
};

// Held while a receive or a matched probe searches the queue and then calls the host MPI. No other thread may
// add messages to the queue in between: this call would miss them or overtake them. Costs nothing unless
// several threads may call MPI.
class ProbeQueueLock {
 public:
  ProbeQueueLock();
  ~ProbeQueueLock();
  ProbeQueueLock(const ProbeQueueLock&) = delete;
  ProbeQueueLock& operator=(const ProbeQueueLock&) = delete;
};

// The number of messages that were taken from the host MPI and not received yet.
size_t probed_messages();

// Removes the first message that matches from the queue; null if there is none.
std::unique_ptr<ProbedMessage> take_probed(int source, int tag, MPI_Comm comm);
// The status of the first message that matches, which stays in the queue. False if there is none.
bool peek_probed(int source, int tag, MPI_Comm comm, MPI_Status* status);

// `status` is the result of a probe of the host MPI. If the message may be an RTS header, moves it and all
// messages before it from the host MPI to the queue, and returns true.
bool queue_if_unclear(const MPI_Status& status, MPI_Comm comm);

// Receives a message as long as an RTS header and stores the true length in its status. If it is an RTS
// header, marks its rendezvous as only looked at, so that a synchronous send goes on waiting for a receive
// (M4). A genuine synchronous message of exactly this length completes when it is probed.
std::unique_ptr<ProbedMessage> look_into(MPI_Message message, const MPI_Status& status, MPI_Comm comm);

// Call when a receive takes the message: removes the mark that look_into() set.
void note_received(const ProbedMessage& probed);

// Makes a real MPI_Message handle for a matched message that was read.
int make_handle(std::unique_ptr<ProbedMessage> probed, MPI_Message* message);
// Registers a handle of the host MPI's own. Later calls need only its communicator.
void note_handle(MPI_Message message, MPI_Comm comm);
// Returns the message behind the handle and forgets the handle; null if the handle was not registered here.
// If the message was read, *message becomes MPI_MESSAGE_NULL; otherwise it is still to be received.
std::unique_ptr<ProbedMessage> take_handle(MPI_Message* message);

}  // namespace fairlead::mpi
