// SPDX-License-Identifier: Apache-2.0
//
// A receive into device memory, or into host memory from a sender that may use device memory, from the call
// to its completion; and what blocking receives into host memory do once the host MPI has returned.

#pragma once

#include <algorithm>
#include <climits>
#include <memory>
#include <optional>
#include <string>

#include "device/small_copy.h"
#include "mpi/core/operation.h"
#include "mpi/datatype/first_bytes.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/network/pipelined_receive.h"
#include "mpi/p2p/receive_claim.h"
#include "p2p/get.h"

namespace fairlead::mpi {

struct ProbedMessage;

// A receive into device memory, or into host memory: its sender may have used device memory.
class Receive : public Operation {
 public:
  Receive(const UserBuffer& buffer, int source, int tag, MPI_Comm comm);
  ~Receive() override;

  // A persistent receive into host memory runs on a persistent host request of its own.
  template <class Init>
  int make_persistent(Init init) {
    HostDestination place;
    if (int result = choose_host_buffer(&place); result != MPI_SUCCESS) return result;
    return init(place.address, place.count, place.datatype, &own_request_);
  }
  // The message a matched probe gave.
  void take_matched(MPI_Message message) { matched_ = message; }
  void take_probed(std::unique_ptr<ProbedMessage> probed);

  int start() override;
  void advance() override;
  const MatchKey* awaits() const override {
    return step_ == Step::matching && matched_ == MPI_MESSAGE_NULL ? &key_ : nullptr;
  }
  void quiesce() override;
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  void cancel() override;
  std::string in_words() const override;

  // Of a receive into host memory only.
  MPI_Request own_handle() const override {
    if (own_request_ != MPI_REQUEST_NULL) return own_request_;
    return into_device() ? MPI_REQUEST_NULL : message_;
  }
  bool into_device() const { return device_ >= 0; }
  int source() const { return key_.source; }
  int tag() const { return key_.tag; }

 private:
  // Where the host message goes.
  struct HostDestination {
    void* address;
    MPI_Count count;
    MPI_Datatype datatype;
  };
  int choose_host_buffer(HostDestination* destination);
  bool lands_in_bounce() const;
  int post();
  void arrived(const unsigned char* bytes, MPI_Count length);
  void deliver(const unsigned char* bytes, MPI_Count length);
  void end_transfer(device::Error error, Traffic path, uint64_t bytes, bool truncated);
  void end_copy(device::Error error);
  void over();
  void end_flow();

  Layout layout_;
  KeptType datatype_;
  UserBuffer buffer_;
  MatchKey key_;
  uint64_t flow_event_ = 0;   // of the trace: the descriptor's
  int from_world_ = -1;  // its sender, while something is traced and it is known
  int device_ = -1;
  std::optional<datatype::View> view_;          // of device memory that kernels or copies can fill
  MPI_Request own_request_ = MPI_REQUEST_NULL;  // persistent
  bool native_ = false;                         // the host MPI writes to device memory itself
  MPI_Message matched_ = MPI_MESSAGE_NULL;
  std::unique_ptr<ProbedMessage> probed_;
  bool no_room_for_rts_;  // in the user's buffer
  HostBuffer bounce_;              // where the host message lands, when that is not the user's buffer
  bool in_bounce_ = false;
  ReceiveClaim place_;  // the user's buffer
  FirstBytes before_;   // of the user's buffer, when the host message lands there
  bool apart_ = false;  // a pull or a stream does not land in the user's buffer, but in packed_
  HostBuffer packed_;

  enum class Step { matching, getting, pipelining, copying, over } step_ = Step::matching;
  std::optional<p2p::RendezvousGet> get_;
  std::optional<PipelinedReceive> pipeline_;
  device::Slot slot_;  // before copy_: a copy ends before its slot goes
  device::Copy copy_;
  MPI_Status status_;              // of the host message
  MPI_Count override_bytes_ = -1;  // the true length, when the status of the host message tells another
  MPI_Count came_bytes_ = -1;      // of a message that is too long, where that is known
  bool rts_came_ = false;
  int host_error_ = MPI_SUCCESS;
  int error_ = MPI_SUCCESS;
};

// Room in bytes, INT_MAX for anything larger.
inline int room_of(MPI_Count count, MPI_Datatype datatype) {
  int size = plain_size(datatype);
  if (size == 0) PMPI_Type_size(datatype, &size);
  // MPI_UNDEFINED (negative) stands for a size beyond int.
  return size < 0 ? INT_MAX : static_cast<int>(std::min<MPI_Count>(count * size, INT_MAX));
}
// A device message of any length arrives as a descriptor. Where the user's buffer is too short for one, the
// host MPI is given another place, so that only a receive of nothing may leave a descriptor truncated.
inline bool has_room_for_rts(int room) {
  return room >= static_cast<int>(p2p::rts_bytes);
}
// So is it where a descriptor might end inside a basic element, as of structs of a char and a double: a
// receive may not see such a message (MPICH 4.0 takes it for a truncated one).
bool rts_ends_with_elements_of(MPI_Datatype datatype);

// A place for messages of up to a descriptor's length, this thread's own.
unsigned char* short_bounce_buffer();

// A blocking receive into host memory has returned with `status`. The message is in the user's buffer; if it
// is a descriptor, puts back what was there `before`, fetches what it stands for and corrects the status.
int complete_host_receive(const UserBuffer& buffer, const FirstBytes& before, MPI_Comm comm,
                          MPI_Status* status);
// The same after a receive into short_bounce_buffer() for a buffer of `room` bytes; also brings plain bytes there.
int complete_short_receive(const UserBuffer& buffer, int room, MPI_Comm comm, MPI_Status* status);

}  // namespace fairlead::mpi
