// SPDX-License-Identifier: Apache-2.0
//
// Messages that a probe had to look into. A probe must report the length of the user's message (M2), but a
// message of a descriptor's length tells it only by its content; so it is taken from the host MPI, together
// with all earlier messages of the same source on that communicator, which keeps their order (M1). Every
// later probe or receive looks here first. Empty in programs that do not probe device messages.

#pragma once

#include <memory>

#include "mpi/abi/host_mpi.h"
#include "p2p/rts_header.h"

namespace fairlead::mpi {

struct ProbedMessage {
  MPI_Comm comm;
  MPI_Status status;  // source, tag and the user's byte count
  // Messages that were in the way are still the host MPI's; the one looked into lies in `bytes`.
  MPI_Message message = MPI_MESSAGE_NULL;
  unsigned char bytes[p2p::rts_bytes];
  bool looked_into() const { return message == MPI_MESSAGE_NULL; }
};

// Held while a receive, or a matching probe, looks here and then asks the host MPI: in between, no other
// thread may bring messages here, which would be missed or overtaken. Costs nothing without threads.
class LookThenAsk {
 public:
  LookThenAsk();
  ~LookThenAsk();
  LookThenAsk(const LookThenAsk&) = delete;
  LookThenAsk& operator=(const LookThenAsk&) = delete;
};

// Messages taken from the host MPI that no receive has asked for.
size_t probed_messages();

// Takes the first message that matches out of the stash; null when there is none.
std::unique_ptr<ProbedMessage> take_probed(int source, int tag, MPI_Comm comm);
// Its status, without taking it.
bool peek_probed(int source, int tag, MPI_Comm comm, MPI_Status* status);

// `status` is what the host MPI's probe said: if the message may be a descriptor, stashes it (and what came
// before it) and returns true.
bool queue_if_unclear(const MPI_Status& status, MPI_Comm comm);

// Reads a message of a descriptor's length and notes the true length in its status. The sender of a
// descriptor is told that this is no receive, so that a synchronous send goes on waiting (M4); a genuine
// synchronous message of exactly this length completes when it is probed.
std::unique_ptr<ProbedMessage> look_into(MPI_Message message, const MPI_Status& status, MPI_Comm comm);

// A receive takes the message now.
void note_received(const ProbedMessage& probed);

// Gives a matched message that was looked into a real MPI_Message handle.
int make_handle(std::unique_ptr<ProbedMessage> probed, MPI_Message* message);
// A handle of the host's own, of which only the communicator must be known.
void note_handle(MPI_Message message, MPI_Comm comm);
// What the handle stands for, once; null when it was not given out here. If the message was looked into,
// *message has become null, else it is still to be received.
std::unique_ptr<ProbedMessage> take_handle(MPI_Message* message);

}  // namespace fairlead::mpi
