// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/send_operation.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "base/log.h"
#include "base/options.h"
#include "device/classify.h"
#include "device/copies/small_copy.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/communicator.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/datatype/type_origin.h"
#include "mpi/network/host_capability.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/receive_claim.h"
#include "observe/statistics.h"

namespace fairlead::mpi {

// KeptType does not use MPI_Type_dup, which would call the program's attribute copy functions.
Send::Send(SendMode mode, const UserBuffer& buffer, int dest, int tag, MPI_Comm comm)
    : Operation(comm),
      mode_(mode),
      layout_(layout_of(buffer.count, buffer.datatype)),
      datatype_(buffer.datatype, layout_),
      buffer_(datatype_.kept(buffer)),
      dest_(dest),
      tag_(tag) {}

// Every message is counted, or marked as one that is not (match_order.h).
int Send::start() {
  // Its bytes may be buffered, and the call then succeed, before the next look at the communicator.
  if (survives_failures() && is_revoked(comm_)) return raise(comm_revoked);
  const int receiver = rank_in_world(comm_, dest_);
  std::optional<CountedSend> counted;
  if (early())
    note_uncounted_send(dest_, tag_, comm_);
  else
    counted.emplace(dest_, tag_, comm_, receiver);
  const int result = start_counted(counted ? counted->key() : p2p::MessageKey(),
                                   mode_ == SendMode::buffered ? -1 : receiver);
  if (result != MPI_SUCCESS) note_uncounted_send(dest_, tag_, comm_);
  return result;
}

int Send::start_counted(const p2p::MessageKey& key, int receiver) {
  begin();
  lost_ = false;
  matched_since_ = never;
  seen_ = {};
  // Before the bytes are there, only paths on which they follow the matching message are possible.
  if (early() && (dest_ == MPI_PROC_NULL || layout_.bytes == 0 || !options().gpu_support))
    return cannot_be_early;
  // A message to MPI_PROC_NULL moves no bytes, but the host MPI must get an address that it can access.
  if (dest_ == MPI_PROC_NULL) return post(this, 0, buffer_.datatype);
  const Layout& layout = layout_;
  if (layout.bytes == 0) return post(this, buffer_.count, buffer_.datatype);
  device::Allocation allocation = buffer_.take_memory(layout);

  if (!options().gpu_support) return refuse_device_memory(comm_);
  if (!early())
    check_streams(allocation.device, buffer_.address, layout, BufferUse::sent,
                  buffer_at_once_ ? nullptr : &checked_);

  uint64_t bytes = static_cast<uint64_t>(layout.bytes);
  network::note_device(allocation.device);
  if (layout.contiguous && network::native(allocation, bytes) && network::reaches(receiver) &&
      !buffer_at_once_ && !early()) {
    log_line(LogLevel::trace, "send of %llu bytes to %d with tag %d is left to the host MPI",
             static_cast<unsigned long long>(bytes), dest_, tag_);
    count(Traffic::native, bytes);
    record_.set_path(Traffic::native, bytes);
    begin_flow(buffer_.count, buffer_.datatype, dest_, tag_, comm_);
    return post(buffer_.address, buffer_.count, buffer_.datatype);
  }
  std::optional<packing::View> view;
  if (layout.contiguous)
    view.emplace(buffer_.address, bytes);
  else
    view = kernel_view(buffer_.address, layout, allocation);
  Fallback why = why_host_message(receiver, view.has_value());
  if (receiver < 0 || !view) return send_as_host_message(allocation, why);
  if (network::reaches(receiver)) {
    if (bytes > network::chunk_bytes()) {
      if (network::may_pipeline(receiver, bytes)) return start_pipeline(receiver, *view, allocation);
      why = Fallback::not_permitted;
    } else if (bytes > options().eager_limit) {
      network::ask_early(receiver);
    }
  } else if (engine().node()) {
    int node_rank = engine().node()->node_rank_of_world(receiver);
    if (!may_send_rts(node_rank)) return send_as_host_message(allocation, Fallback::crowded);
    if (rendezvous(node_rank, *view, allocation, key)) {
      const int result = post_rts();
      if (!rendezvous_ || !rendezvous_->puts()) engine().node()->ring_of_message(node_rank);
      return result;
    }
  }
  return send_as_host_message(allocation, why);
}

Fallback Send::why_host_message(int receiver, bool packable) const {
  if (mode_ == SendMode::buffered) return Fallback::buffered_mode;
  if (receiver < 0) return Fallback::unknown_peer;
  if (!packable) return Fallback::gaps;
  return network::reaches(receiver) ? Fallback::other_node : Fallback::no_rendezvous;
}

// Returns false if no rendezvous is possible; the message is then staged through host memory.
bool Send::rendezvous(int receiver, const packing::View& view, const device::Allocation& allocation,
                      const p2p::MessageKey& key) {
  std::lock_guard lock(engine().mutex());
  uint64_t bytes = static_cast<uint64_t>(layout_.bytes);
  using Bytes = p2p::RendezvousSend::Bytes;
  rendezvous_ = p2p::RendezvousSend::open(
      *engine().node(), receiver,
      {view, bytes, static_cast<char*>(buffer_.address) + layout_.first, static_cast<uint64_t>(layout_.span)},
      allocation, early() ? Bytes::to_come : Bytes::present, buffer_at_once_ ? p2p::MessageKey() : key);
  if (!rendezvous_) return false;
  if (buffer_at_once_) {
    rendezvous_->buffer(p2p::Need::required);
    if (!rendezvous_->buffer_free()) rendezvous_->flush();
    if (!rendezvous_->buffer_free()) rendezvous_.reset();  // no memory to buffer the bytes
    if (!rendezvous_) return false;
  }
  send_rts(rendezvous_->rts());
  log_line(LogLevel::trace, "send of %llu bytes to %d with tag %d is rendezvous %u",
           static_cast<unsigned long long>(bytes), dest_, tag_, rendezvous_->rts().number);
  return true;
}

int Send::start_pipeline(int receiver, const packing::View& view, const device::Allocation& memory) {
  {
    std::lock_guard lock(engine().mutex());
    uint64_t bytes = static_cast<uint64_t>(layout_.bytes);
    pipeline_ =
        std::make_unique<PipelinedSend>(receiver, view, bytes, memory, early(), !early() && !buffer_at_once_);
    record_.set_path(Traffic::network, bytes);
    send_rts(pipeline_->rts());
    log_line(LogLevel::trace, "send of %llu bytes to %d with tag %d is stream %u",
             static_cast<unsigned long long>(bytes), dest_, tag_, pipeline_->rts().number);
  }
  int result = post_rts();
  if (result != MPI_SUCCESS || early()) return result;
  for (Backoff backoff;; backoff.pause()) {
    {
      std::lock_guard lock(engine().mutex());
      pipeline_->advance();
      if (!buffer_at_once_) return result;
      pipeline_->flush_to_host();
      if (pipeline_->read_out()) return result;
    }
    engine().progress();
  }
}

void Send::send_rts(p2p::RtsHeader rts) {
  rts.flow_event = observe::next_flow();
  observe::trace_sent(rts.flow_event);
  rts_ = p2p::RtsMessage(rts);
}

int Send::post_rts() {
  int result = post(rts_.bytes, p2p::rts_bytes, MPI_BYTE);
  if (result != MPI_SUCCESS) {
    std::lock_guard lock(engine().mutex());
    rendezvous_.reset();
    pipeline_.reset();
  }
  return result;
}

int Send::send_as_host_message(const device::Allocation& allocation, Fallback why) {
  if (early()) return cannot_be_early;
  const Layout& layout = layout_;
  log_line(LogLevel::trace, "send of %lld bytes to %d with tag %d is a host message",
           static_cast<long long>(layout.bytes), dest_, tag_);
  count(why);
  count(Traffic::host_message_sent, static_cast<uint64_t>(layout.bytes));
  record_.set_path(Traffic::host_message_sent, static_cast<uint64_t>(layout.bytes));
  begin_flow(layout.bytes, MPI_BYTE, dest_, tag_, comm_);
  staged_bytes_ = layout.bytes;
  bool copied;
  if (layout.contiguous) {
    staged_ = HostBuffer(static_cast<size_t>(layout.bytes));
    copied = staged_.data() && device::copy_to_host(allocation.device, staged_.data(), buffer_.address,
                                                    static_cast<size_t>(layout.bytes)) == device::Error::none;
  } else {
    copied = pack_from_device(buffer_.address, buffer_.count, buffer_.datatype, layout, allocation.device,
                              &staged_);
  }
  if (!copied) {
    log_line(LogLevel::error, "a device buffer cannot be read: %s", device::runtime()->error_text());
    return raise(MPI_ERR_OTHER);
  }
  if (layout.contiguous) return post(staged_.data(), buffer_.count, buffer_.datatype);
  return post(staged_.data(), layout.bytes, MPI_BYTE);
}

int Send::post(const void* address, MPI_Count count, MPI_Datatype datatype) {
  return start_host_send(mode_, address, count, datatype, dest_, tag_, comm_, &message_);
}

int start_host_send(SendMode mode, const void* address, MPI_Count count, MPI_Datatype datatype, int dest,
                    int tag, MPI_Comm comm, MPI_Request* request) {
  bool fits = count <= INT_MAX;
  int small = static_cast<int>(count);
  switch (mode) {
    case SendMode::standard:
      return fits ? real.Isend(address, small, datatype, dest, tag, comm, request)
                  : real.Isend_c(address, count, datatype, dest, tag, comm, request);
    case SendMode::synchronous:
      return fits ? real.Issend(address, small, datatype, dest, tag, comm, request)
                  : real.Issend_c(address, count, datatype, dest, tag, comm, request);
    case SendMode::ready:
      return fits ? real.Irsend(address, small, datatype, dest, tag, comm, request)
                  : real.Irsend_c(address, count, datatype, dest, tag, comm, request);
    case SendMode::buffered:
      return fits ? real.Ibsend(address, small, datatype, dest, tag, comm, request)
                  : real.Ibsend_c(address, count, datatype, dest, tag, comm, request);
  }
  return MPI_ERR_OTHER;
}

void Send::advance() {
  if (early()) {
    if (held()) return;
    gate_ = {};
    if (rendezvous_) rendezvous_->make_available();
  }
  if (rendezvous_) {
    rendezvous_->advance();
    if (const auto stage = rendezvous_->stage(); stage > seen_) {
      seen_ = stage;
      engine().note_progress_of(rendezvous_->receiver());
    }
    flush_if_late();
    if (!rendezvous_->buffer_free() && !rendezvous_->failed()) return;
  }
  if (pipeline_) {
    pipeline_->advance();
    if (auto since = waiting_since_.load(std::memory_order_relaxed); since != never)
      pipeline_->flush_if_late(since);
    lost_ = pipeline_->failed();
    if (!pipeline_->read_out()) return;
    if (!complete() && mode_ == SendMode::synchronous && !receive_has_started()) return;
    if (pipeline_->finished()) {
      record_.set_path(pipeline_->path(), pipeline_->rts().bytes);
      pipeline_.reset();
    }
  }
  if (complete()) return;
  int sent = 0;
  MPI_Status status;
  status.MPI_ERROR = MPI_SUCCESS;
  PMPI_Request_get_status(message_, &sent, &status);
  if (sent && is_failure(status.MPI_ERROR)) failure_ = status.MPI_ERROR;
  if (mode_ == SendMode::synchronous && rendezvous_ && !rendezvous_->finished() &&
      rendezvous_->matched_by_probe())
    return;
  if (sent || complete_eagerly()) complete_.store(true, std::memory_order_release);
}

// For a synchronous pipelined message (M4). The receiver takes the first chunk as soon as a receive has the
// RTS header, unless it is blocked in the host MPI. It may stay there until this send completes (M5). Then
// the host MPI's answer to the RTS header must do, but a probe causes the same answer, so the sender waits
// until the timeout for the receiver to tell (M4).
bool Send::receive_has_started() {
  if (pipeline_->taken()) return true;
  int matched = 0;
  PMPI_Request_get_status(message_, &matched, MPI_STATUS_IGNORE);
  if (!matched) return false;
  const auto now = std::chrono::steady_clock::now();
  if (matched_since_ == never) matched_since_ = now;
  constexpr std::chrono::microseconds shortest{2000};
  if (now - matched_since_ < std::max(shortest, network::timeout())) return false;
  return !network::is_only_probed(pipeline_->receiver(), pipeline_->rts().number);
}

// Completes a small message staged through host memory when its receiver is late: the bytes are in memory of
// Fairlead's, which network::keep() holds until the host MPI has sent them.
bool Send::complete_eagerly() {
  auto since = waiting_since_.load(std::memory_order_relaxed);
  bool standard = mode_ == SendMode::standard || mode_ == SendMode::ready;
  if (!standard || !staged_.data() || since == never ||
      staged_bytes_ > static_cast<MPI_Count>(options().eager_limit) ||
      std::chrono::steady_clock::now() - since < std::chrono::microseconds(options().eager_timeout_us))
    return false;
  network::keep(std::move(staged_), std::exchange(message_, MPI_REQUEST_NULL), comm_);
  return true;
}

// Buffers the message when the receiver cannot get it (it is blocked in the host MPI, or a receive failed),
// or when the receiver of a small message has timed out: the send must not wait for it.
void Send::flush_if_late() {
  if (rendezvous_->buffer_free()) return;
  auto since = waiting_since_.load(std::memory_order_relaxed);
  bool late = since != never && rendezvous_->bytes() <= options().eager_limit &&
              engine().timed_out(rendezvous_->receiver(), since);
  bool alone = rendezvous_->receiver_blocked() || rendezvous_->receiver_failed();
  if (late || alone) rendezvous_->buffer(alone ? p2p::Need::required : p2p::Need::wanted);
}

// The host MPI carries what a receiver that lives may still take: it drops the rest.
void Send::end_if_failed(Failures& failures) {
  const int failure = failures.of_peer(comm_, dest_);
  if (failure == MPI_SUCCESS) return;
  if (rendezvous_ && !rendezvous_->abandon(!failures.has_failed(comm_, dest_))) return;
  if (pipeline_) {
    if (failures.has_failed(comm_, dest_)) pipeline_->note_receiver_failed();
    pipeline_->flush_to_host();
    if (!pipeline_->read_out()) return;
  }
  failure_ = failure;
  complete_.store(true, std::memory_order_release);
}

bool Send::quiesced() const {
  return !(rendezvous_ && rendezvous_->short_of_memory()) && (!pipeline_ || pipeline_->flushed());
}

void Send::quiesce() {
  if (early()) advance();
  if (early()) return;  // the progress thread goes on when the stream has come to it
  if (rendezvous_) rendezvous_->flush();
  if (pipeline_) pipeline_->flush_to_host();
}

int Send::finish(MPI_Status* status) {
  record_.end();
  int result = message_ == MPI_REQUEST_NULL ? MPI_SUCCESS : real.Wait(&message_, status);
  staged_ = HostBuffer();
  if (result != MPI_SUCCESS || (!lost_ && !failed())) return result;
  return raise(failed() ? failure_ : MPI_ERR_OTHER);
}

std::string Send::description() const {
  return "a send of " + bytes_in_words(layout_.bytes) + peer_in_words(" to", dest_, tag_) +
         overrun(buffer_.address, layout_);
}

void Send::describe(MPI_Status* status) {
  int sent;
  PMPI_Request_get_status(message_, &sent, status);
}

std::unique_ptr<p2p::RendezvousSend> Send::take_unfinished_rendezvous() {
  lost_ |= rendezvous_ && rendezvous_->failed();
  if (pipeline_) network::keep(std::move(pipeline_));
  if (rendezvous_) record_.set_path(rendezvous_->path(), rendezvous_->bytes());
  if (rendezvous_ && rendezvous_->finished()) rendezvous_.reset();
  return std::move(rendezvous_);
}

}  // namespace fairlead::mpi
