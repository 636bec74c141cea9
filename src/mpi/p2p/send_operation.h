// SPDX-License-Identifier: Apache-2.0
//
// A send from device memory, from the call to its completion.

#pragma once

#include <memory>
#include <string>

#include "mpi/core/operation.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/p2p/network_send.h"
#include "p2p/rendezvous_send.h"

namespace fairlead::mpi {

enum class SendMode { standard, synchronous, ready, buffered };

// The host MPI's nonblocking send of this mode, with a large count where it needs one.
int start_host_send(SendMode mode, const void* address, MPI_Count count, MPI_Datatype datatype, int dest,
                    int tag, MPI_Comm comm, MPI_Request* request);

// A send from device memory.
class Send : public Operation {
 public:
  Send(SendMode mode, const UserBuffer& buffer, int dest, int tag, MPI_Comm comm);

  int start() override;
  void advance() override;
  void settle() override;
  bool settled() const override;
  // The receiver of a buffered send may still need an answer.
  bool rests() const override { return complete() && !offer_ && !stream_; }
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::unique_ptr<p2p::SendOffer> take_unfinished_offer() override;
  std::string in_words() const override;

  // Takes the bytes away from the user's buffer before start() returns (Sendrecv_replace).
  void buffer_at_once() { buffer_at_once_ = true; }

 private:
  Fallback why_plain(int receiver, bool packable) const;
  bool offer(int receiver, const datatype::View& view, const device::Allocation& allocation);
  int stream(int receiver, const datatype::View& view, int device);
  void describe_by(p2p::Descriptor descriptor);
  int post_descriptor();
  int send_plain(const device::Allocation& allocation, Fallback why);
  int post(const void* address, MPI_Count count, MPI_Datatype datatype);
  void hurry();
  bool let_go();

  SendMode mode_;
  Layout layout_;
  KeptType datatype_;
  UserBuffer buffer_;
  int dest_, tag_;
  bool buffer_at_once_ = false;
  bool lost_ = false;  // the receiver cannot get the bytes
  HostBuffer staged_;  // a plain message
  MPI_Count staged_bytes_ = 0;
  p2p::DescriptorMessage descriptor_;
  std::unique_ptr<p2p::SendOffer> offer_;
  std::unique_ptr<NetworkSend> stream_;
};

}  // namespace fairlead::mpi
