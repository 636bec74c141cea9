// SPDX-License-Identifier: Apache-2.0

#include <climits>

#include "base/log.h"
#include "base/options.h"
#include "base/statistics.h"
#include "device/classify.h"
#include "device/small_copy.h"
#include "mpi/communicator.h"
#include "mpi/operation.h"

namespace fairlead::mpi {

KeptType::KeptType(MPI_Datatype datatype) : datatype_(datatype) {
  int integers, addresses, types, combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope(datatype, &integers, &addresses, &types, &combiner);
  own_ = combiner != MPI_COMBINER_NAMED && PMPI_Type_dup(datatype, &datatype_) == MPI_SUCCESS;
}

KeptType::~KeptType() {
  if (own_) PMPI_Type_free(&datatype_);
}

void Operation::begin() {
  complete_ = false;
  active = true;
  waiting_since_ = never;
}

int Operation::raise(int code) {
  PMPI_Comm_call_errhandler(comm_, code);
  return code;
}

MPI_Count byte_count(const MPI_Status& status) {
  MPI_Count bytes = 0;
  PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  return bytes;
}

void set_byte_count(MPI_Status* status, MPI_Count bytes) {
  PMPI_Status_set_elements_x(status, MPI_BYTE, bytes);
}

Send::Send(SendMode mode, const UserBuffer& buffer, int dest, int tag, MPI_Comm comm)
    : Operation(comm),
      mode_(mode),
      datatype_(buffer.datatype),
      buffer_{buffer.address, buffer.count, datatype_.get()},
      dest_(dest),
      tag_(tag) {}

int Send::start() {
  begin();
  lost_ = false;
  // A message to nobody moves no bytes; the host MPI must see a buffer it can touch all the same.
  if (dest_ == MPI_PROC_NULL) return post(this, 0, buffer_.datatype);
  Layout layout = layout_of(buffer_.count, buffer_.datatype);
  if (layout.bytes == 0) return post(this, buffer_.count, buffer_.datatype);
  device::Allocation allocation = device::classify(static_cast<char*>(buffer_.address) + layout.first);

  int receiver = -1;
  if (mode_ != SendMode::buffered && layout.contiguous) receiver = node_rank(comm_, dest_);
  if (receiver < 0) return send_plain(allocation, layout);
  {
    std::lock_guard lock(engine().mutex());
    offer_ = p2p::SendOffer::open(*engine().node(), receiver, buffer_.address,
                                  static_cast<uint64_t>(layout.bytes), allocation);
    if (offer_) descriptor_ = p2p::DescriptorMessage(offer_->descriptor());
    if (offer_ && buffer_at_once_) {
      offer_->buffer();
      if (!offer_->buffer_free()) offer_->flush();
      if (!offer_->buffer_free()) offer_.reset();  // no memory for that: the message travels plain
    }
  }
  if (!offer_) return send_plain(allocation, layout);
  log_line(LogLevel::trace, "send of %lld bytes to %d with tag %d is offer %u",
           static_cast<long long>(layout.bytes), dest_, tag_, offer_->descriptor().offer);
  int result = post(descriptor_.bytes, p2p::descriptor_bytes, MPI_BYTE);
  if (result != MPI_SUCCESS) {
    std::lock_guard lock(engine().mutex());
    offer_.reset();
  }
  return result;
}

int Send::send_plain(const device::Allocation& allocation, const Layout& layout) {
  log_line(LogLevel::trace, "send of %lld bytes to %d with tag %d travels plain",
           static_cast<long long>(layout.bytes), dest_, tag_);
  count(Traffic::plain_sent, static_cast<uint64_t>(layout.bytes));
  bool copied;
  if (layout.contiguous) {
    staged_ = HostBuffer(static_cast<size_t>(layout.bytes));
    auto copy = layout.bytes <= static_cast<MPI_Count>(device::small_copy_bytes) ? device::copy_small_to_host
                                                                                 : device::copy_now;
    copied = staged_.data() && copy(allocation.device, staged_.data(), buffer_.address,
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
  bool fits = count <= INT_MAX;
  int small = static_cast<int>(count);
  switch (mode_) {
    case SendMode::standard:
      return fits ? real.Isend(address, small, datatype, dest_, tag_, comm_, &message_)
                  : real.Isend_c(address, count, datatype, dest_, tag_, comm_, &message_);
    case SendMode::synchronous:
      return fits ? real.Issend(address, small, datatype, dest_, tag_, comm_, &message_)
                  : real.Issend_c(address, count, datatype, dest_, tag_, comm_, &message_);
    case SendMode::ready:
      return fits ? real.Irsend(address, small, datatype, dest_, tag_, comm_, &message_)
                  : real.Irsend_c(address, count, datatype, dest_, tag_, comm_, &message_);
    case SendMode::buffered:
      return fits ? real.Ibsend(address, small, datatype, dest_, tag_, comm_, &message_)
                  : real.Ibsend_c(address, count, datatype, dest_, tag_, comm_, &message_);
  }
  return MPI_ERR_OTHER;
}

void Send::advance() {
  if (offer_) {
    bool was_finished = offer_->finished();
    offer_->advance();
    if (offer_->finished() && !was_finished) engine().note_progress_of(offer_->receiver());
    hurry();
    if (!offer_->buffer_free() && !offer_->failed()) return;
  }
  if (complete()) return;
  int sent = 0;
  PMPI_Request_get_status(message_, &sent, MPI_STATUS_IGNORE);
  if (mode_ == SendMode::synchronous && offer_ && !offer_->finished() && offer_->matched_by_probe()) return;
  if (sent) complete_.store(true, std::memory_order_release);
}

// A receiver that cannot come, or does not come to a small message, must not hold up the send.
void Send::hurry() {
  if (offer_->buffer_free()) return;
  auto since = waiting_since_.load(std::memory_order_relaxed);
  bool late = since != never && offer_->bytes() <= options().eager_limit &&
              engine().out_of_patience(offer_->receiver(), since);
  if (late || offer_->receiver_parked() || offer_->receiver_failed()) offer_->buffer();
}

void Send::settle() {
  if (offer_) offer_->flush();
}

int Send::finish(MPI_Status* status) {
  int result = message_ == MPI_REQUEST_NULL ? MPI_SUCCESS : real.Wait(&message_, status);
  staged_ = HostBuffer();
  return lost_ && result == MPI_SUCCESS ? raise(MPI_ERR_OTHER) : result;
}

void Send::describe(MPI_Status* status) {
  int sent;
  PMPI_Request_get_status(message_, &sent, status);
}

std::unique_ptr<p2p::SendOffer> Send::take_unfinished_offer() {
  lost_ = offer_ && offer_->failed();
  if (offer_ && offer_->finished()) offer_.reset();
  return std::move(offer_);
}

}  // namespace fairlead::mpi
