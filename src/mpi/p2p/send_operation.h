// SPDX-License-Identifier: Apache-2.0
//
// A send from device memory, from the call to its completion.

#pragma once

#include <memory>
#include <string>

#include "mpi/core/operation.h"
#include "mpi/network/pipelined_send.h"
#include "mpi/p2p/kept_type.h"
#include "p2p/rendezvous_send.h"

namespace fairlead::mpi {

enum class SendMode { standard, synchronous, ready, buffered };

// Calls the host MPI's nonblocking send of this mode, with a large count if `count` exceeds int.
int start_host_send(SendMode mode, const void* address, MPI_Count count, MPI_Datatype datatype, int dest,
                    int tag, MPI_Comm comm, MPI_Request* request);

// A send from device memory.
class Send : public Operation {
 public:
  Send(SendMode mode, const UserBuffer& buffer, int dest, int tag, MPI_Comm comm);

  int start() override;
  bool worth_a_round() const override {
    return rendezvous_ && rendezvous_->puts() && engine().program_computed();
  }
  bool needs_help() const override { return !rendezvous_ || !rendezvous_->left_to_others(); }
  void advance() override;
  uint64_t bytes() const override { return static_cast<uint64_t>(layout_.bytes); }
  void quiesce() override;
  bool quiesced() const override;
  void end_if_failed(Failures& failures) override;
  // A send that completed early keeps its rendezvous or its pipelined transfer, whose receiver may still need
  // an answer.
  bool rests() const override { return complete() && !rendezvous_ && !pipeline_; }
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::unique_ptr<p2p::RendezvousSend> take_unfinished_rendezvous() override;
  std::string description() const override;

  // Copies the bytes out of the user's buffer before start() returns (MPI_Sendrecv_replace).
  void buffer_at_once() { buffer_at_once_ = true; }

 private:
  int start_counted(const p2p::MessageKey& key, int receiver);
  Fallback why_host_message(int receiver, bool packable) const;
  bool rendezvous(int receiver, const packing::View& view, const device::Allocation& allocation,
                  const p2p::MessageKey& key);
  int start_pipeline(int receiver, const packing::View& view, const device::Allocation& memory);
  void send_rts(p2p::RtsHeader rts);
  int post_rts();
  int send_as_host_message(const device::Allocation& allocation, Fallback why);
  int post(const void* address, MPI_Count count, MPI_Datatype datatype);
  void flush_if_late();
  bool complete_eagerly();
  bool receive_has_started();

  SendMode mode_;
  Layout layout_;
  KeptType datatype_;
  UserBuffer buffer_;
  int dest_, tag_;
  bool buffer_at_once_ = false;
  bool lost_ = false;  // the receiver cannot get the bytes
  HostBuffer staged_;  // a message staged through host memory
  MPI_Count staged_bytes_ = 0;
  p2p::RtsMessage rts_;
  std::unique_ptr<p2p::RendezvousSend> rendezvous_;
  p2p::RendezvousSend::Stage seen_{};
  std::unique_ptr<PipelinedSend> pipeline_;
  network::Time matched_since_ = never;  // of a synchronous pipelined message
};

}  // namespace fairlead::mpi
