// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/receive_operation.h"

#include <climits>

#include "base/log.h"
#include "base/options.h"
#include "device/classify.h"
#include "device/copies/small_copy.h"
#include "mpi/abi/comm_self.h"
#include "mpi/abi/mutex.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/communicator.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/requests/request.h"
#include "mpi/network/host_capability.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/probed_messages.h"
#include "observe/per_thread.h"
#include "observe/statistics.h"
#include "p2p/rts_check.h"

namespace fairlead::mpi {

using device::Error;

namespace {

constexpr MPI_Count rts_length = p2p::rts_bytes;

// While it lives, the host MPI returns errors of this communicator's requests instead of raising them. It
// changes MPI_COMM_WORLD as well: quirk error_raised_on_world. A mutex admits one thread at a time, so that
// no thread saves another one's handlers as the program's. Use it only for a receive that has failed: for any
// other, the communicator may already be freed.
class QuietErrors {
 public:
  explicit QuietErrors(MPI_Comm comm)
      : lock_(mutex()), comms_{comm, has_world() ? MPI_COMM_WORLD : comm_self()} {
    for (int i = 0; i < 2; ++i) {
      PMPI_Comm_get_errhandler(comms_[i], &handlers_[i]);
      PMPI_Comm_set_errhandler(comms_[i], MPI_ERRORS_RETURN);
    }
  }
  ~QuietErrors() {
    for (int i = 1; i >= 0; --i) {
      PMPI_Comm_set_errhandler(comms_[i], handlers_[i]);
      PMPI_Errhandler_free(&handlers_[i]);
    }
  }

 private:
  static Mutex& mutex() {
    static auto& only = *new Mutex;
    return only;
  }
  std::lock_guard<Mutex> lock_;
  MPI_Comm comms_[2];
  MPI_Errhandler handlers_[2];
};

}  // namespace

Receive::Receive(const UserBuffer& buffer, int source, int tag, MPI_Comm comm)
    : Operation(comm),
      layout_(layout_of(buffer.count, buffer.datatype)),
      // A receive into host memory may need the datatype until it is complete.
      datatype_(buffer.datatype, buffer.found.memory.kind == device::MemoryKind::device ? layout_ : Layout()),
      buffer_(datatype_.kept(buffer)),
      key_{comm, source, tag},
      no_room_for_rts_(layout_.bytes < rts_length || !rts_ends_with_elements_of(buffer.datatype)) {}

Receive::~Receive() {
  if (own_request_ != MPI_REQUEST_NULL) real.Request_free(&own_request_);
}

void Receive::take_probed(std::unique_ptr<ProbedMessage> probed) {
  if (!probed->looked_into()) {
    matched_ = probed->message;
    return;
  }
  note_received(*probed);
  probed_ = std::move(probed);
}

int Receive::start() {
  begin();
  transfer_.emplace<Matching>();
  override_bytes_ = came_bytes_ = -1;
  rts_came_ = false;
  flow_event_ = 0;
  // Looked up now, because the program may free the communicator before the message arrives.
  from_world_ = observe::tracing() ? rank_in_world(comm_, key_.source) : -1;
  host_error_ = MPI_SUCCESS;
  error_ = MPI_SUCCESS;
  device::Allocation allocation = buffer_.take_memory(layout_);
  device_ = allocation.kind == device::MemoryKind::device ? allocation.device : -1;
  view_.reset();
  if (layout_.contiguous)
    view_.emplace(buffer_.address, static_cast<uint64_t>(layout_.bytes));
  else if (into_device())
    view_ = kernel_view(buffer_.address, layout_, allocation);
  if (key_.source == MPI_PROC_NULL && matched_ == MPI_MESSAGE_NULL) {
    set_empty(&status_);
    status_.MPI_SOURCE = MPI_PROC_NULL;
    over();
    return MPI_SUCCESS;
  }
  if (into_device() && !options().gpu_support) return refuse_device_memory(comm_);
  if (into_device()) network::note_device(device_);
  if (!early()) check_streams(device_, buffer_.address, layout_, BufferUse::received, &checked_);
  int sender = -1;
  std::optional<CountedReceive> counted;
  message_key_ = {};
  sequence_ = nullptr;
  if (matched_ == MPI_MESSAGE_NULL && into_device() && !early()) {
    sender = rank_in_world(comm_, key_.source);
    counted.emplace(key_.source, key_.tag, comm_, sender);
    message_key_ = counted->key();
    sequence_ = counted->sequence();
  } else if (matched_ == MPI_MESSAGE_NULL) {
    note_uncounted_receive(key_.source, key_.tag, comm_);
  }
  ProbeQueueLock together;
  if (!probed_ && matched_ == MPI_MESSAGE_NULL && engine().busy())
    if (auto earlier = fairlead::mpi::take_probed(key_.source, key_.tag, comm_))
      take_probed(std::move(earlier));
  if (probed_) {
    std::lock_guard lock(engine().mutex());
    status_ = probed_->status;
    if (!held()) arrived(probed_->bytes, rts_length);
    return MPI_SUCCESS;
  }
  native_ = is_native(allocation);
  const int result = post();
  if (result != MPI_SUCCESS)
    note_uncounted_receive(key_.source, key_.tag, comm_);
  else if (message_key_ && may_be_put_)
    post_for_put(allocation, sender);
  return result;
}

void Receive::post_for_put(const device::Allocation& memory, int sender) {
  if (!sequence_->program_computes || !layout_.contiguous || native_ || place_.is_anothers() || bytes() == 0)
    return;
  node::Node& node = *engine().node();
  const int node_rank = node.node_rank_of_world(sender);
  if (node_rank == node.rank()) return;
  std::lock_guard lock(engine().mutex());
  in_progress_ = p2p::ReceiveInProgress(node_rank);
  if (in_progress_.one_of_few() && is_still_counted(key_.source, key_.tag, comm_))
    posted_ = p2p::PostedBuffer::post(node, node_rank, message_key_, memory, buffer_.address, bytes());
}

void Receive::watch(MPI_Request posted) {
  begin();
  transfer_.emplace<Matching>();
  message_ = handle = posted;
  // MPI_Request_get_status may have told the program that this receive is complete, and the program may have
  // freed its buffer since.
  if (host_is_done()) return over();
  view_.emplace(buffer_.address, static_cast<uint64_t>(layout_.bytes));
  place_ = ReceiveClaim(buffer_.address, layout_.bytes, ReceiveClaim::Receive::posted);
  before_.read(buffer_, layout_);
}

// A receive from MPI_ANY_SOURCE most often gets an RTS header, from inside the node, so it is not native.
bool Receive::is_native(const device::Allocation& memory) const {
  return into_device() && layout_.contiguous && !no_room_for_rts_ && matched_ == MPI_MESSAGE_NULL &&
         !early() && network::native(memory, static_cast<uint64_t>(layout_.bytes)) &&
         network::reaches(rank_in_world(comm_, key_.source));
}

bool Receive::uses_bounce_buffer() const {
  if (native_) return false;
  return into_device() || early() || place_.rts_may_collide() ||
         (no_room_for_rts_ && matched_ == MPI_MESSAGE_NULL);
}

int Receive::choose_host_buffer(HostDestination* destination) {
  *destination = {buffer_.address, buffer_.count, buffer_.datatype};
  if (!uses_bounce_buffer()) return MPI_SUCCESS;
  bounce_ = HostBuffer(static_cast<size_t>(std::max(layout_.bytes, rts_length)), HostBuffer::For::receive);
  if (!bounce_.data()) {
    log_line(LogLevel::error, "no host memory to receive %lld bytes", static_cast<long long>(layout_.bytes));
    return raise(MPI_ERR_OTHER);
  }
  destination->address = bounce_.data();
  // A truncated message may leave this memory unchanged; an earlier RTS header must not be taken for it.
  std::memset(destination->address, 0, p2p::rts_bytes);
  // The receive always has room for an RTS header; deliver() checks whether a payload fits. If the host MPI
  // has no large counts, only the user's own datatype can describe more bytes than int can count.
  if (!layout_.contiguous || layout_.bytes <= INT_MAX) {
    destination->count = std::max(layout_.bytes, rts_length);
    destination->datatype = MPI_BYTE;
  }
  return MPI_SUCCESS;
}

int Receive::post() {
  log_line(LogLevel::trace, "receive of up to %lld bytes of %s memory from %d with tag %d is posted",
           static_cast<long long>(layout_.bytes), into_device() ? "device" : "host", key_.source, key_.tag);
  place_.give_back();
  // A buffer with gaps is not claimed, because it may share its address with another and none of its bytes. A
  // buffer shorter than an RTS header receives none. A persistent request that was made for a bounce buffer
  // keeps it. RTS headers come into device memory only where the host MPI may get its pointers, but then the
  // copies out of bounce buffers must not overwrite them either.
  if (layout_.contiguous && layout_.bytes >= rts_length &&
      (into_device() ? network::host_path() != network::HostPath::staged : !uses_bounce_buffer()))
    place_ = ReceiveClaim(buffer_.address, layout_.bytes, ReceiveClaim::Receive::to_be_posted);
  native_ = native_ && !place_.rts_may_collide();
  in_bounce_ = uses_bounce_buffer();
  // If a probe has taken the message from the host MPI, it is matched already, and the persistent host
  // request would never receive it.
  if (own_request_ != MPI_REQUEST_NULL && matched_ == MPI_MESSAGE_NULL && !place_.rts_may_collide()) {
    if (in_bounce_)
      std::memset(bounce_.data(), 0, p2p::rts_bytes);
    else
      before_.read(buffer_, layout_);
    message_ = own_request_;
    return real.Start(&message_);
  }
  HostDestination place;
  if (int result = choose_host_buffer(&place); result != MPI_SUCCESS) return result;
  if (!in_bounce_ && !native_ && matched_ == MPI_MESSAGE_NULL) before_.read(buffer_, layout_);
  auto [destination, count, datatype] = place;
  bool fits = count <= INT_MAX;
  int small = static_cast<int>(count);
  if (matched_ != MPI_MESSAGE_NULL)
    return fits ? real.Imrecv(destination, small, datatype, &matched_, &message_)
                : real.Imrecv_c(destination, count, datatype, &matched_, &message_);
  return fits ? real.Irecv(destination, small, datatype, key_.source, key_.tag, comm_, &message_)
              : real.Irecv_c(destination, count, datatype, key_.source, key_.tag, comm_, &message_);
}

// If the host MPI has completed its part, stores its status and error.
bool Receive::host_is_done() {
  int done = 0;
  // Quirk error_seen_once.
  status_.MPI_ERROR = MPI_SUCCESS;
  const int result = PMPI_Request_get_status(message_, &done, &status_);
  if (!done && result == MPI_SUCCESS) return false;
  host_error_ = result != MPI_SUCCESS ? result : status_.MPI_ERROR;
  return true;
}

void Receive::advance() {
  if (is_matching()) {
    if (held()) return;
    if (probed_) return arrived(probed_->bytes, rts_length);
    if (host_is_done()) take_host_message();
  } else if (auto* get = std::get_if<p2p::RendezvousGet>(&transfer_)) {
    advance(*get);
  } else if (auto* pipeline = std::get_if<PipelinedReceive>(&transfer_)) {
    advance(*pipeline);
  } else if (auto* to_device = std::get_if<CopyToDevice>(&transfer_)) {
    if (const Error state = to_device->copy.poll(); state != Error::not_ready) end_copy(state);
  }
}

template <class Transfer>
void Receive::advance(Transfer& transfer) {
  const Error state = transfer.advance();
  if (state != Error::not_ready) end_transfer(state, transfer.path(), transfer.bytes(), transfer.truncated());
}

void Receive::take_host_message() {
  if (host_error_ != MPI_SUCCESS) return over();
  int cancelled = 0;
  PMPI_Test_cancelled(&status_, &cancelled);
  // No message has such a tag: quirk failed_request_unseen.
  if (survives_failures() && (failed() || status_.MPI_TAG < 0) && !programs_own()) {
    QuietErrors quiet(comm_);
    const int result = real.Wait(&message_, &status_);
    if (is_failure(result)) return fail(result);
    if (cancelled && failed()) return fail(failure_);
    failure_ = MPI_SUCCESS;
  }
  if (cancelled) return over();
  MPI_Count length = byte_count(status_);
  if (native_) return arrived_in_device(length);
  bounce_.note_used(static_cast<size_t>(length));
  arrived(in_bounce_ ? bounce_.data() : nullptr, length);
}

// The host MPI has written the message to device memory. The first bytes are read back only if the message is
// as long as an RTS header; if they cannot be read, nobody knows what the message is.
void Receive::arrived_in_device(MPI_Count length) {
  if (length == rts_length) {
    unsigned char bytes[p2p::rts_bytes];
    if (device::copy_to_host(device_, bytes, buffer_.address, sizeof bytes) != device::Error::none) {
      log_line(LogLevel::error, "a received message cannot be read from device memory: %s",
               device::runtime()->error_text());
      error_ = MPI_ERR_OTHER;
      return over();
    }
    if (p2p::is_rts(bytes, sizeof bytes, engine().nonce())) return arrived(bytes, length);
  }
  record_.set_path(Traffic::native, static_cast<uint64_t>(length));
  over();
}

// The host message has arrived: in `bytes`, or in the user's buffer if that is null.
void Receive::arrived(const unsigned char* bytes, MPI_Count length) {
  FirstBytes found;
  const unsigned char* start = bytes;
  if (!bytes && length == rts_length && found.read(buffer_, layout_)) start = found.data();
  if (!start || !p2p::is_rts(start, static_cast<size_t>(length), engine().nonce()))
    return bytes ? deliver(bytes, length) : over();

  p2p::RtsHeader rts = p2p::read_rts(start);
  if (!p2p::is_sound(rts, network::rts_limits())) {
    log_line(LogLevel::error, "a device message from %d with tag %d is lost: its RTS header is damaged",
             key_.source, key_.tag);
    error_ = MPI_ERR_OTHER;
    return over();
  }
  const bool pipelined = rts.kind == p2p::RtsKind::pipelined;
  log_line(LogLevel::trace, "receive from %d with tag %d takes %lld bytes by %s %u of rank %d", key_.source,
           key_.tag, static_cast<long long>(rts.bytes), pipelined ? "pipeline" : "rendezvous", rts.number,
           rts.sender);
  if (!bytes) before_.write(buffer_);
  apart_ = !view_ || place_.is_anothers();
  if (apart_) packed_ = HostBuffer(static_cast<size_t>(layout_.bytes));
  packing::View to = apart_ ? packing::View(packed_.data(), static_cast<uint64_t>(layout_.bytes)) : *view_;
  // Without memory this rank receives nothing, but the sender completes.
  error_ = to.address() || layout_.bytes == 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
  if (error_ != MPI_SUCCESS)
    log_line(LogLevel::error, "there is no host memory to receive %lld bytes",
             static_cast<long long>(layout_.bytes));
  rts_came_ = true;
  flow_event_ = rts.flow_event;
  override_bytes_ = static_cast<MPI_Count>(rts.bytes);
  uint64_t capacity = error_ == MPI_SUCCESS ? static_cast<uint64_t>(layout_.bytes) : 0;
  int device = apart_ ? -1 : device_;
  if (pipelined)
    transfer_.emplace<PipelinedReceive>(rts, to, capacity, device);
  else
    transfer_.emplace<p2p::RendezvousGet>(*engine().node(), rts, to, capacity, device, std::move(posted_));
  advance();
}

void Receive::end_transfer(Error error, Traffic path, uint64_t bytes, bool truncated) {
  if (error == Error::none && !truncated) record_.set_path(path, bytes);
  if (error != Error::none || error_ != MPI_SUCCESS) {
    if (awaits_news()) return;
    error_ = MPI_ERR_OTHER;
  } else if (truncated) {
    error_ = MPI_ERR_TRUNCATE;
    came_bytes_ = static_cast<MPI_Count>(bytes);
    override_bytes_ = layout_.bytes;
  } else if (apart_ && !place_.is_anothers()) {
    MPI_Count length = static_cast<MPI_Count>(bytes);
    bool unpacked = into_device() ? unpack_to_device(packed_.data(), length, buffer_.address, buffer_.count,
                                                     buffer_.datatype, layout_, device_)
                                  : unpack_host(packed_.data(), length, buffer_.address, buffer_.count,
                                                buffer_.datatype, layout_);
    if (!unpacked) error_ = MPI_ERR_OTHER;
  }
  over();
}

// Copies a payload that was received into a bounce buffer, or read by a probe, to the user's buffer.
void Receive::deliver(const unsigned char* bytes, MPI_Count length) {
  if (length > layout_.bytes) {
    // Only a payload no longer than an RTS header comes here; the host MPI reports all others itself.
    error_ = MPI_ERR_TRUNCATE;
    came_bytes_ = length;
    override_bytes_ = layout_.bytes;
    return over();
  }
  // A buffer that belongs to two receives at once holds the bytes of the later message, so this one is
  // dropped.
  if (length == 0 || place_.is_anothers()) return over();
  if (!into_device()) {
    if (!unpack_host(bytes, length, buffer_.address, buffer_.count, buffer_.datatype, layout_))
      error_ = MPI_ERR_OTHER;
    return over();
  }
  count(Traffic::host_message_received, static_cast<uint64_t>(length));
  record_.set_path(Traffic::host_message_received, static_cast<uint64_t>(length));
  if (!layout_.contiguous) {
    if (!unpack_to_device(bytes, length, buffer_.address, buffer_.count, buffer_.datatype, layout_, device_))
      error_ = MPI_ERR_OTHER;
    return over();
  }
  size_t size = static_cast<size_t>(length);
  const bool is_small = size <= device::small_copy_bytes;
  if (is_small && device::store_small_to_device(device_, buffer_.address, bytes, size)) return over();
  auto& [slot, copy] = transfer_.emplace<CopyToDevice>();
  if (is_small) slot = device::Slot::take();
  if (slot.data()) std::memcpy(slot.data(), bytes, size);
  const Error error = slot.data() ? copy.enqueue(device_, buffer_.address, slot.data(), size)
                                  : copy.start(device_, buffer_.address, bytes, size);
  if (error != Error::none) end_copy(error);
}

void Receive::end_copy(Error error) {
  if (error != Error::none) {
    log_line(LogLevel::error, "a received message cannot be written to device memory: %s",
             device::runtime()->error_text());
    error_ = MPI_ERR_OTHER;
  }
  over();
}

void Receive::over() {
  transfer_.emplace<Over>();
  interrupted_ = false;
  if (sequence_ && engine().attended()) sequence_->program_computes = engine().program_computed();
  posted_.reset();
  in_progress_ = {};
  place_.give_back();
  complete_.store(true, std::memory_order_release);
}

void Receive::quiesce() {
  if (auto* get = std::get_if<p2p::RendezvousGet>(&transfer_))
    get->quiesce();
  else if (auto* pipeline = std::get_if<PipelinedReceive>(&transfer_))
    pipeline->quiesce();
  else
    return;
  advance();
}

// A transfer between nodes goes on until its chunks fail.
void Receive::end_if_failed(Failures& failures) {
  const int peer = rts_came_ ? status_.MPI_SOURCE : key_.source;
  int failure = failures.of_peer(comm_, peer);
  // The host MPI knows whether the message still comes.
  if (by_probe_ && is_matching()) failure = failures.any() ? proc_failed : failure;
  if (failure == MPI_SUCCESS) return;
  const bool sender_lives = !failures.has_failed(comm_, peer);
  auto* const pipeline = std::get_if<PipelinedReceive>(&transfer_);
  if (pipeline && !sender_lives) pipeline->note_sender_failed();
  auto* const get = std::get_if<p2p::RendezvousGet>(&transfer_);
  if ((pipeline && awaits_news_since_ != never) || (get && get->abandon(sender_lives))) return fail(failure);
  if (!is_matching() || host_is_done()) return;
  if (probed_) return fail(failure);
  // A sender that has claimed the posted buffer writes to it, although its message will not be matched.
  if (posted_ && !posted_->withdraw() && posted_->state() != device::Error::none) {
    if (sender_lives) return;
    posted_->give_up();
  }
  end_host_request(failure);
}

// The program completes a request of the host MPI itself, and gets its error from there. Any other is
// completed here. A receive from any rank that is not acknowledged stays, unless the call blocks.
void Receive::end_host_request(int failure) {
  if (failure == proc_failed_pending && handle != MPI_REQUEST_NULL) return interrupt();
  if (programs_own()) {
    failure_ = failure;
    return over();
  }
  if (failure == proc_failed_pending) real.Cancel(&message_);
  // Quirk cancelled_at_failure.
  failure_ = failure == proc_failed_pending ? proc_failed : failure;
  int here = 0, result = MPI_SUCCESS;
  {
    QuietErrors quiet(comm_);
    result = real.Test(&message_, &here, &status_);
  }
  if (here) result == MPI_SUCCESS ? take_host_message() : fail(result);
}

void Receive::fail(int failure) {
  set_empty(&status_);
  status_.MPI_SOURCE = key_.source;
  error_ = failure_ = failure;
  if (message_ != MPI_REQUEST_NULL) host_error_ = failure;
  override_bytes_ = -1;
  over();
}

void Receive::cancel() {
  if (message_ == MPI_REQUEST_NULL) return;
  if (message_key_) {
    note_cancelled_receive(key_.source, key_.tag, comm_);
    if (!p2p::PostedBuffer::withdraw_from(*engine().node(), message_key_)) return;
  }
  real.Cancel(&message_);
}

void Receive::describe(MPI_Status* status) {
  int error = status->MPI_ERROR;  // only calls that complete several requests set it
  *status = status_;
  status->MPI_ERROR = error;
  if (override_bytes_ >= 0) set_byte_count(status, override_bytes_);
}

void Receive::end_flow() {
  if (rts_came_) return observe::trace_received(flow_event_);
  int from = comm_ == MPI_COMM_WORLD ? status_.MPI_SOURCE : from_world_;
  mpi::end_flow(from, status_.MPI_TAG, byte_count(status_));
}

int Receive::finish(MPI_Status* status) {
  record_.end();
  if (observe::tracing()) end_flow();
  int result = MPI_SUCCESS;
  if (message_ != MPI_REQUEST_NULL && !rts_came_ && (into_device() || handle == MPI_REQUEST_NULL)) {
    // The user does not see this wait of the host MPI, so only raise() may call the error handler.
    if (host_error_ == MPI_SUCCESS) {
      result = real.Wait(&message_, status);
    } else {
      {
        QuietErrors quiet(comm_);
        result = real.Wait(&message_, status);
      }
      raise(result = host_error_);
    }
  } else if (message_ != MPI_REQUEST_NULL) {
    result = real.Wait(&message_, status);
  }
  message_ = MPI_REQUEST_NULL;  // own_request_ still holds a persistent one
  probed_.reset();
  if (own_request_ == MPI_REQUEST_NULL) bounce_ = HostBuffer();
  packed_ = HostBuffer();
  if (result != MPI_SUCCESS) return noted(result);
  // Uses the status from the time when the message arrived: quirk query_ends_persistent.
  describe(status);
  return error_ == MPI_SUCCESS ? MPI_SUCCESS : raise(error_);
}

namespace {

// `came` is the length of a message that is too long; negative for any other.
std::string words_of_receive(MPI_Count room, int source, int tag, MPI_Count came) {
  return "a receive of " + bytes_in_words(room) + peer_in_words(" from", source, tag) +
         (came < 0 ? "" : ", to which a message of " + bytes_in_words(came) + " came,");
}

}  // namespace

std::string Receive::description() const {
  const bool matched = std::holds_alternative<Over>(transfer_) && key_.source == MPI_ANY_SOURCE;
  return words_of_receive(layout_.bytes, matched ? status_.MPI_SOURCE : key_.source,
                          matched ? status_.MPI_TAG : key_.tag, came_bytes_) +
         overrun(buffer_.address, layout_);
}

namespace {

// Gets the message that this RTS header stands for.
int complete_rendezvous(const unsigned char* rts, const UserBuffer& buffer, MPI_Comm comm,
                        MPI_Status* status) {
  auto probed = std::make_unique<ProbedMessage>();
  probed->comm = comm;
  probed->status = *status;
  std::memcpy(probed->bytes, rts, p2p::rts_bytes);
  Receive receive(buffer, status->MPI_SOURCE, status->MPI_TAG, comm);
  receive.take_probed(std::move(probed));
  return run(receive, status);
}

}  // namespace

bool rts_ends_with_elements_of(MPI_Datatype datatype) {
  if (is_plain(datatype)) return true;
  auto whole_in_a_descriptor = [](MPI_Count bytes) { return bytes > 0 && rts_length % bytes == 0; };
  return whole_in_a_descriptor(packed_bytes(1, datatype)) || whole_in_a_descriptor(basic_bytes_of(datatype));
}

unsigned char* short_bounce_buffer() {
  struct Destination {
    HostBuffer memory{p2p::rts_bytes, HostBuffer::For::receive};
  };
  return observe::PerThread<Destination>::mine().memory.data();
}

int complete_short_receive(const UserBuffer& buffer, int room, MPI_Comm comm, MPI_Status* status) {
  const unsigned char* bounce = short_bounce_buffer();
  int length = 0;
  PMPI_Get_count(status, MPI_BYTE, &length);
  if (p2p::is_rts(bounce, static_cast<size_t>(length), engine().nonce()))
    return complete_rendezvous(bounce, buffer, comm, status);
  if (length > room) {
    set_byte_count(status, room);
    return raise_error(comm, MPI_ERR_TRUNCATE,
                       words_of_receive(room, status->MPI_SOURCE, status->MPI_TAG, length));
  }
  if (length == 0) return MPI_SUCCESS;
  if (is_plain(buffer.datatype)) {
    std::memcpy(buffer.address, bounce, static_cast<size_t>(length));
    return MPI_SUCCESS;
  }
  const Layout layout = layout_of(buffer.count, buffer.datatype);
  return unpack_host(bounce, length, buffer.address, buffer.count, buffer.datatype, layout) ? MPI_SUCCESS
                                                                                            : MPI_ERR_OTHER;
}

int complete_host_receive(const UserBuffer& buffer, const FirstBytes& before, MPI_Comm comm,
                          MPI_Status* status) {
  if (byte_count(*status) != rts_length) return MPI_SUCCESS;
  FirstBytes found;
  if (!found.read(buffer) || !p2p::is_rts(found.data(), p2p::rts_bytes, engine().nonce())) return MPI_SUCCESS;
  before.write(buffer);
  return complete_rendezvous(found.data(), buffer, comm, status);
}

}  // namespace fairlead::mpi
