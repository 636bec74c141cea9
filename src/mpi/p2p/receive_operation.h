// SPDX-License-Identifier: Apache-2.0
//
// A receive into device memory, or into host memory from a sender that may use device memory, from the call
// to its completion; and what a blocking receive into host memory does after the host MPI has returned.

#pragma once

#include <algorithm>
#include <climits>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "device/copies/small_copy.h"
#include "mpi/core/operation.h"
#include "mpi/datatype/first_bytes.h"
#include "mpi/network/pipelined_receive.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/p2p/receive_claim.h"
#include "p2p/get.h"

namespace fairlead::mpi {

struct ProbedMessage;
struct ReceiveSequence;

// A receive into device memory, or into host memory, because its sender may have used device memory.
class Receive : public Operation {
 public:
  Receive(const UserBuffer& buffer, int source, int tag, MPI_Comm comm);
  ~Receive() override;

  // A persistent receive into host memory has a persistent host request, which `init` makes.
  template <class Init>
  int make_persistent(Init init) {
    HostDestination destination;
    if (int result = choose_host_buffer(&destination); result != MPI_SUCCESS) return result;
    return init(destination.address, destination.count, destination.datatype, &own_request_);
  }
  // In place of start(): the host MPI has this receive already, into the user's buffer. The message is no RTS
  // header if it has arrived.
  void watch(MPI_Request posted);
  // Receives the message of a matched probe.
  void take_matched(MPI_Message message) {
    matched_ = message;
    by_probe_ = true;
  }
  void take_probed(std::unique_ptr<ProbedMessage> probed);

  // Another rank may write to the buffer before this one calls MPI again (p2p/posted_buffer.h).
  void let_sender_put() { may_be_put_ = true; }

  int start() override;
  bool worth_a_round() const override { return posted_ && engine().program_computed(); }
  bool needs_help() const override {
    const auto* get = std::get_if<p2p::RendezvousGet>(&transfer_);
    return !get || !get->left_to_others();
  }
  void advance() override;
  uint64_t bytes() const override { return static_cast<uint64_t>(layout_.bytes); }
  // One that was started early was posted before others of its key, but is looked at later.
  const MatchKey* awaits() const override {
    return is_matching() && matched_ == MPI_MESSAGE_NULL && !early() ? &key_ : nullptr;
  }
  void quiesce() override;
  void end_if_failed(Failures& failures) override;
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  void cancel() override;
  std::string description() const override;

  // Only a receive into host memory has one.
  MPI_Request own_handle() const override {
    if (own_request_ != MPI_REQUEST_NULL) return own_request_;
    return into_device() ? MPI_REQUEST_NULL : message_;
  }
  // Does the program complete a request of the host MPI?
  bool programs_own() const { return handle != MPI_REQUEST_NULL && handle == own_handle(); }
  bool into_device() const { return device_ >= 0; }
  int source() const { return key_.source; }
  int tag() const { return key_.tag; }

 private:
  bool is_matching() const { return std::holds_alternative<Matching>(transfer_); }
  // The buffer that the host MPI receives into.
  struct HostDestination {
    void* address;
    MPI_Count count;
    MPI_Datatype datatype;
  };
  int choose_host_buffer(HostDestination* destination);
  bool uses_bounce_buffer() const;
  int post();
  void post_for_put(const device::Allocation& memory, int sender);
  bool host_is_done();
  void take_host_message();
  void arrived(const unsigned char* bytes, MPI_Count length);
  void arrived_in_device(MPI_Count length);
  bool is_native(const device::Allocation& memory) const;
  void deliver(const unsigned char* bytes, MPI_Count length);
  template <class Transfer>
  void advance(Transfer& transfer);
  void end_transfer(device::Error error, Traffic path, uint64_t bytes, bool truncated);
  void end_copy(device::Error error);
  void end_host_request(int failure);
  void fail(int failure);
  void over();
  void end_flow();

  Layout layout_;
  KeptType datatype_;
  UserBuffer buffer_;
  MatchKey key_;
  uint64_t flow_event_ = 0;  // the trace's flow event, from the RTS header
  int from_world_ = -1;      // the sender's rank in MPI_COMM_WORLD, if tracing and known
  int device_ = -1;
  std::optional<packing::View> view_;           // the user's buffer, if kernels or copies can fill it
  MPI_Request own_request_ = MPI_REQUEST_NULL;  // persistent
  bool native_ = false;                         // the host MPI writes to device memory itself
  MPI_Message matched_ = MPI_MESSAGE_NULL;
  bool by_probe_ = false;  // a probe has matched the message: its source is not known here
  std::unique_ptr<ProbedMessage> probed_;
  bool no_room_for_rts_;  // in the user's buffer
  HostBuffer bounce_;     // bounce buffer of the host message, if it does not use the user's buffer
  bool in_bounce_ = false;
  ReceiveClaim place_;  // the claim of the user's buffer
  FirstBytes before_;   // what the user's buffer held, if the host message is received into it
  bool apart_ = false;  // a get or pipelined transfer writes to packed_, not to the user's buffer
  HostBuffer packed_;

  bool may_be_put_ = false;
  p2p::MessageKey message_key_;
  std::shared_ptr<ReceiveSequence> sequence_;  // null unless there is a key; outlives its communicator
  p2p::ReceiveInProgress in_progress_;
  std::unique_ptr<p2p::PostedBuffer> posted_;  // until the message has come
  // What moves the bytes once the host message has come: that of an RTS header by one of the first two, and
  // the bytes of any other by a copy, which ends before its slot is freed.
  struct Matching {};
  struct CopyToDevice {
    device::Slot slot;
    device::Copy copy;
  };
  struct Over {};
  std::variant<Matching, p2p::RendezvousGet, PipelinedReceive, CopyToDevice, Over> transfer_;
  MPI_Status status_;              // of the host message
  MPI_Count override_bytes_ = -1;  // the true length, if it differs from the host message's
  MPI_Count came_bytes_ = -1;      // the length of a message that is too long, if known
  bool rts_came_ = false;
  int host_error_ = MPI_SUCCESS;
  int error_ = MPI_SUCCESS;
};

// The size of the receive buffer in bytes, at most INT_MAX.
inline int room_of(MPI_Count count, MPI_Datatype datatype) {
  int size = plain_size(datatype);
  if (size == 0) PMPI_Type_size(datatype, &size);
  // MPI_UNDEFINED (negative) means a size beyond int.
  return size < 0 ? INT_MAX : static_cast<int>(std::min<MPI_Count>(count * size, INT_MAX));
}
// A device message of any length arrives as an RTS header. If the user's buffer is too short for one, the
// host MPI receives into a bounce buffer, so that only a receive of zero bytes can truncate an RTS header.
inline bool has_room_for_rts(int room) {
  return room >= static_cast<int>(p2p::rts_bytes);
}
// False if an RTS header might end inside a basic element, as in structs of a char and a double. The host MPI
// then receives into a bounce buffer as well: quirk part_of_element.
bool rts_ends_with_elements_of(MPI_Datatype datatype);

// A bounce buffer of this thread for messages up to the length of an RTS header.
unsigned char* short_bounce_buffer();

// Call after a blocking receive into host memory has returned `status`. The message is in the user's buffer.
// If it is an RTS header, writes `before`, which the header has overwritten, back to the buffer, gets the
// message that the header stands for and corrects the status.
int complete_host_receive(const UserBuffer& buffer, const FirstBytes& before, MPI_Comm comm,
                          MPI_Status* status);
// The same after a receive into short_bounce_buffer() for a buffer of `room` bytes. Also copies the bytes of
// a message that is no RTS header to that buffer.
int complete_short_receive(const UserBuffer& buffer, int room, MPI_Comm comm, MPI_Status* status);

}  // namespace fairlead::mpi
