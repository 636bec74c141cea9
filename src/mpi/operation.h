// SPDX-License-Identifier: Apache-2.0
//
// A send or receive that Fairlead has a part in, from the user's call to its completion. Each has exactly one
// host message with the user's communicator, peer and tag, posted before the user's call returns (M1): the
// host MPI does the matching. (A SendReceive has two.) An operation that the user holds a request of is bound
// to a real host request: the host message itself, a generalised request, or, when persistent, one that is
// never started.
//
// start() and finish() are called without the engine's lock, the rest with it.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <memory>
#include <optional>
#include <string>

#include "device/small_copy.h"
#include "mpi/engine.h"
#include "mpi/first_bytes.h"
#include "mpi/kept_handles.h"
#include "mpi/landing_place.h"
#include "mpi/layout.h"
#include "mpi/network_receive.h"
#include "mpi/network_send.h"
#include "mpi/real.h"
#include "mpi/record.h"
#include "p2p/pull.h"
#include "p2p/send_offer.h"

namespace fairlead::mpi {

// The same as a derived datatype, and made of it: the program may free its own while the message is on its
// way. Making one of many blocks takes long, so that there is none where `layout` tells all.
class KeptType {
 public:
  explicit KeptType(MPI_Datatype datatype, const Layout& layout = {});
  ~KeptType();
  KeptType(const KeptType&) = delete;
  KeptType& operator=(const KeptType&) = delete;
  MPI_Datatype get() const { return datatype_; }
  // The same buffer with the copy; or, where there is none, with the bytes that travel.
  UserBuffer kept(const UserBuffer& buffer) const;

 private:
  MPI_Datatype datatype_;
  MPI_Count bytes_ = 0;
  bool own_ = false;
};

class Operation {
 public:
  explicit Operation(MPI_Comm comm) : comm_(comm) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Posts the host message. An MPI error code is the call's result, and nothing was started.
  virtual int start() = 0;
  virtual void advance() = 0;
  // Set while nothing but a message of this key can bring the operation on.
  virtual const MatchKey* awaits() const { return nullptr; }
  // It is complete, and advance() has nothing more to do.
  virtual bool rests() const { return complete(); }
  // Before this rank stops polling: ends what it can alone and makes its peers independent of it.
  virtual void settle() = 0;
  // False while it may still need a call of the host MPI that only this rank can make: others, who have come
  // to the same operation, bring it on in a moment.
  virtual bool settled() const { return true; }
  // After complete(): frees the host message, fills `status`, raises errors through the communicator's
  // handler and returns the code.
  virtual int finish(MPI_Status* status) = 0;
  // What finish() would say, without ending anything.
  virtual void describe(MPI_Status* status) = 0;
  virtual void cancel() {}
  // For errors: "a send of 4096 bytes to rank 1 with tag 5".
  virtual std::string in_words() const = 0;
  // The host request that stands for this operation itself, or MPI_REQUEST_NULL.
  virtual MPI_Request own_handle() const { return MPI_REQUEST_NULL; }
  virtual std::unique_ptr<p2p::SendOffer> take_unfinished_offer() { return nullptr; }

  bool complete() const { return complete_.load(std::memory_order_acquire); }
  void start_waiting() {
    if (waiting_since_.load(std::memory_order_relaxed) == never)
      waiting_since_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  }

  // Of a persistent one: the program may free the communicator before it starts it.
  void keep_communicator() { kept_comm_.emplace(comm_); }

  // Of the request the user holds.
  bool persistent = false;
  bool active = true;  // persistent: started and not completed
  MPI_Request handle = MPI_REQUEST_NULL;

  // Of the engine.
  Scheduled<Operation> scheduled;
  bool adopted = false;

 protected:
  static constexpr std::chrono::steady_clock::time_point never{};
  int raise(int code);
  void begin();  // for start(): forgets an earlier round of a persistent operation

  MPI_Comm comm_;
  MPI_Request message_ = MPI_REQUEST_NULL;
  std::atomic<bool> complete_{false};
  std::atomic<std::chrono::steady_clock::time_point> waiting_since_ = never;
  MessageRecord record_;

 private:
  std::optional<KeptCommunicator> kept_comm_;
};

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

struct Stashed;

// A receive into device memory, or into host memory: its sender may have used device memory.
class Receive : public Operation {
 public:
  Receive(const UserBuffer& buffer, int source, int tag, MPI_Comm comm);
  ~Receive() override;

  // A persistent receive into host memory runs on a persistent host request of its own.
  template <class Init>
  int make_persistent(Init init) {
    Landing place;
    if (int result = choose_landing(&place); result != MPI_SUCCESS) return result;
    return init(place.address, place.count, place.datatype, &own_request_);
  }
  // The message a matched probe gave.
  void take_matched(MPI_Message message) { matched_ = message; }
  void take_stashed(std::unique_ptr<Stashed> stashed);

  int start() override;
  void advance() override;
  const MatchKey* awaits() const override {
    return step_ == Step::matching && matched_ == MPI_MESSAGE_NULL ? &key_ : nullptr;
  }
  void settle() override;
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
  struct Landing {
    void* address;
    MPI_Count count;
    MPI_Datatype datatype;
  };
  int choose_landing(Landing* landing);
  bool lands_in_bounce() const;
  int post();
  void arrived(const unsigned char* bytes, MPI_Count length);
  void deliver(const unsigned char* bytes, MPI_Count length);
  void end_transfer(device::Error error, Traffic way, uint64_t bytes, bool truncated);
  void end_copy(device::Error error);
  void over();
  void end_arrow();

  Layout layout_;
  KeptType datatype_;
  UserBuffer buffer_;
  MatchKey key_;
  uint64_t arrow_ = 0;   // of the trace: the descriptor's
  int from_world_ = -1;  // its sender, while something is traced and it is known
  int device_ = -1;
  std::optional<datatype::View> view_;          // of device memory that kernels or copies can fill
  MPI_Request own_request_ = MPI_REQUEST_NULL;  // persistent
  bool native_ = false;                         // the host MPI writes to device memory itself
  MPI_Message matched_ = MPI_MESSAGE_NULL;
  std::unique_ptr<Stashed> stashed_;
  bool no_place_for_descriptors_;  // in the user's buffer
  HostBuffer bounce_;              // where the host message lands, when that is not the user's buffer
  bool in_bounce_ = false;
  LandingPlace place_;  // the user's buffer
  FirstBytes before_;   // of the user's buffer, when the host message lands there
  bool apart_ = false;  // a pull or a stream does not land in the user's buffer, but in packed_
  HostBuffer packed_;

  enum class Step { matching, pulling, streaming, copying, over } step_ = Step::matching;
  std::optional<p2p::Pull> pull_;
  std::optional<NetworkReceive> stream_;
  device::Slot slot_;  // before copy_: a copy ends before its slot goes
  device::Copy copy_;
  MPI_Status status_;              // of the host message
  MPI_Count override_bytes_ = -1;  // the true length, when the status of the host message tells another
  MPI_Count came_bytes_ = -1;      // of a message that is too long, where that is known
  bool descriptor_came_ = false;
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
inline bool has_room_for_descriptor(int room) {
  return room >= static_cast<int>(p2p::descriptor_bytes);
}
// So is it where a descriptor might end inside a basic element, as of structs of a char and a double: a
// receive may not see such a message (MPICH 4.0 takes it for a truncated one).
bool descriptors_end_with_elements_of(MPI_Datatype datatype);

// A place for messages of up to a descriptor's length, this thread's own.
unsigned char* short_landing();

// A blocking receive into host memory has returned with `status`. The message is in the user's buffer; if it
// is a descriptor, puts back what was there `before`, fetches what it stands for and corrects the status.
int complete_host_receive(const UserBuffer& buffer, const FirstBytes& before, MPI_Comm comm,
                          MPI_Status* status);
// The same after a receive into short_landing() for a buffer of `room` bytes; also brings plain bytes there.
int complete_short_receive(const UserBuffer& buffer, int room, MPI_Comm comm, MPI_Status* status);

// What an inactive or null request gives.
void set_empty(MPI_Status* status);
MPI_Count byte_count(const MPI_Status& status);
void set_byte_count(MPI_Status* status, MPI_Count bytes);

}  // namespace fairlead::mpi
