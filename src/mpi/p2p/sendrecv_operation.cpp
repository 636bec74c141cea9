// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/sendrecv_operation.h"

#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/requests/poll.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/match_order.h"

namespace fairlead::mpi {
namespace {

// Cancels and completes a half after the other half could not be started.
void end(Operation& half) {
  {
    std::lock_guard lock(engine().mutex());
    half.cancel();
  }
  engine().add(&half);
  engine().wait(half);
  engine().remove(&half);
  MPI_Status ignored;
  half.finish(&ignored);
}

}  // namespace

SendReceive::SendReceive(const Half& from, const Half& to, MPI_Comm comm)
    : Operation(comm), from_(from), receiving_(to.buffer, to.peer, to.tag, comm) {}

int SendReceive::start() {
  begin();
  // A send from the buffer cannot be taken back, so MPI_Iprobe checks the arguments of the receive first.
  int found;
  int result = in_place_
                   ? PMPI_Iprobe(receiving_.source(), receiving_.tag(), comm_, &found, MPI_STATUS_IGNORE)
                   : MPI_SUCCESS;
  if (result != MPI_SUCCESS) return result;
  result = in_place_ ? start_sending() : receiving_.start();
  if (result != MPI_SUCCESS) return result;
  result = in_place_ ? receiving_.start() : start_sending();
  if (result == MPI_SUCCESS) return result;
  if (in_place_)
    end_sending();
  else
    end(receiving_);
  return result;
}

int SendReceive::start_sending() {
  if (!is_device(from_.buffer.address, from_.buffer.datatype)) return send_from_host();
  sending_.emplace(SendMode::standard, from_.buffer, from_.peer, from_.tag, comm_);
  if (in_place_) sending_->buffer_at_once();
  return sending_->start();
}

int SendReceive::send_from_host() {
  note_uncounted_send(from_.peer, from_.tag, comm_);
  UserBuffer buffer = from_.buffer;
  if (in_place_ && from_.peer != MPI_PROC_NULL) {
    const Layout layout = layout_of(buffer.count, buffer.datatype);
    packed_ = HostBuffer(static_cast<size_t>(layout.bytes));
    if (!packed_.data() ||
        !pack_host(buffer.address, buffer.count, buffer.datatype, packed_.data(), layout.bytes, layout))
      return raise(MPI_ERR_OTHER);
    buffer = {packed_.data(), layout.bytes, MPI_BYTE};
  }
  return start_host_send(SendMode::standard, buffer.address, buffer.count, buffer.datatype, from_.peer,
                         from_.tag, comm_, &message_);
}

std::string SendReceive::description() const {
  return "a send-receive" + peer_in_words(" to", from_.peer, from_.tag);
}

void SendReceive::end_sending() {
  if (sending_)
    end(*sending_);
  else
    poll_host(&message_);
}

void SendReceive::end_if_failed(Failures& failures) {
  if (sending_ && !sending_->complete()) sending_->end_if_failed(failures);
  if (!receiving_.complete()) receiving_.end_if_failed(failures);
  // MPI_Wait gets the error of a host message.
  if (!sending_) failure_ = failures.of_peer(comm_, from_.peer);
}

bool SendReceive::sent() const {
  if (sending_) return sending_->complete();
  if (failed()) return true;
  int sent = 0;
  PMPI_Request_get_status(message_, &sent, MPI_STATUS_IGNORE);
  return sent != 0;
}

void SendReceive::advance() {
  if (sending_) {
    if (waiting_since_.load(std::memory_order_relaxed) != never) sending_->start_waiting();
    sending_->advance();
  }
  receiving_.advance();
  if (!complete() && receiving_.complete() && sent()) complete_.store(true, std::memory_order_release);
}

void SendReceive::quiesce() {
  if (sending_) sending_->quiesce();
  receiving_.quiesce();
}

bool SendReceive::quiesced() const {
  return !sending_ || sending_->quiesced();
}

int SendReceive::finish(MPI_Status* status) {
  MPI_Status ignored;
  int send_result = sending_ ? sending_->finish(&ignored) : real.Wait(&message_, &ignored);
  packed_ = HostBuffer();
  int result = receiving_.finish(status);
  return result == MPI_SUCCESS ? send_result : result;
}

void SendReceive::describe(MPI_Status* status) {
  receiving_.describe(status);
}

std::unique_ptr<p2p::RendezvousSend> SendReceive::take_unfinished_rendezvous() {
  return sending_ ? sending_->take_unfinished_rendezvous() : nullptr;
}

}  // namespace fairlead::mpi
