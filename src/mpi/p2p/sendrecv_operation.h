// SPDX-License-Identifier: Apache-2.0
//
// A send and a receive that complete together: MPI_Sendrecv, MPI_Isendrecv and their replace forms, for any
// combination of host and device memory. Each half has its own host message, so the host MPI's combined calls
// are not needed. The status is that of the receive.
//
// Cancelling has no effect. A send cannot be taken back once it may have been matched, and a cancelled
// receive with a completed send would be neither of the two outcomes that the standard allows.

#pragma once

#include "mpi/p2p/receive_operation.h"
#include "mpi/p2p/send_operation.h"

namespace fairlead::mpi {

// One direction of a send-receive operation.
struct Half {
  UserBuffer buffer;
  int peer;
  int tag;
};

class SendReceive : public Operation {
 public:
  SendReceive(const Half& from, const Half& to, MPI_Comm comm);
  // Both halves use the same buffer: start() moves the bytes out of it before it posts the receive.
  void replace() { in_place_ = true; }

  void let_sender_put() { receiving_.let_sender_put(); }

  int start() override;
  void advance() override;
  uint64_t bytes() const override { return receiving_.bytes() + (sending_ ? sending_->bytes() : 0); }
  bool worth_a_round() const override {
    return receiving_.worth_a_round() || (sending_ && sending_->worth_a_round());
  }
  void quiesce() override;
  void end_if_failed(Failures& failures) override;
  bool quiesced() const override;
  bool rests() const override { return complete() && (!sending_ || sending_->rests()); }
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::unique_ptr<p2p::RendezvousSend> take_unfinished_rendezvous() override;
  std::string description() const override;
  void give_buffers_back() override {
    receiving_.give_buffers_back();
    if (sending_) sending_->give_buffers_back();
  }

 private:
  int start_sending();
  int send_from_host();
  void end_sending();
  bool sent() const;

  Half from_;
  bool in_place_ = false;
  std::optional<Send> sending_;  // the send from device memory; from host memory, message_
  HostBuffer packed_;            // the bytes of a send from host memory in place
  Receive receiving_;
};

}  // namespace fairlead::mpi
