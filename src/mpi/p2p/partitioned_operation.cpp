// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/partitioned_operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "device/copies/small_copy.h"
#include "device/ipc_registry.h"
#include "kernels/handover/handover_run.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/communicator.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/record.h"

namespace fairlead::mpi {

using device::Error;

namespace {

uint32_t load(uint32_t* word) {
  return std::atomic_ref(*word).load(std::memory_order_acquire);
}
void store(uint32_t* word, uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

// What is left of freed requests, and mappings of freed memory, may keep new memory from being mapped. Once a
// round has begun, none can be closed.
void close_what_is_over(p2p::AskDevices ask) {
  p2p::free_unused_channels(ask);
  device::close_forgotten_if_idle();
}

}  // namespace

// ---- Both sides ----------------------------------------------------------------------------------------

Partitioned::Partitioned(const UserBuffer& buffer, int partitions, int peer, int tag, MPI_Comm comm,
                         Traffic path)
    : Operation(comm),
      path_(path),
      peer_(peer),
      tag_(tag),
      partitions_(partitions),
      datatype_(buffer.datatype),
      buffer_{buffer.address, buffer.count, datatype_.get()},
      layout_(layout_of(buffer.count, buffer.datatype)) {
  stride_ = extent_of(buffer_.datatype) * buffer.count;
  host_ = HostBuffer(static_cast<size_t>(layout_.bytes * partitions));
}

Partitioned::~Partitioned() {
  if (request_ != MPI_REQUEST_NULL) real.Request_free(&request_);
}

bool Partitioned::has_host_memory() const {
  if (!host_.data())
    log_line(LogLevel::error, "no host memory for %d partitions of %lld bytes", partitions_,
             static_cast<long long>(layout_.bytes));
  return host_.data();
}

bool Partitioned::use(std::shared_ptr<PartitionWords> words) {
  {
    std::lock_guard lock(engine().mutex());
    if (!leave_to_cpu()) return false;
    words_ = std::move(words);
  }
  use_on_gpu(true);
  return true;
}

int Partitioned::peer_on_node() const {
  const node::Node* const node = engine().node();
  const int world = rank_in_world(comm_, peer_);
  return node && world >= 0 ? node->node_rank_of_world(world) : -1;
}

bool Partitioned::may_be_direct() const {
  return key_ && layout_.contiguous && layout_.bytes > 0 && stride_ == layout_.bytes && engine().node() &&
         !survives_failures() && why_no_progress_thread().empty();
}

int Partitioned::start() {
  if (on_gpu_) close_what_is_over(p2p::AskDevices::no);
  by_kernels_ = has_words();
  begin();
  arrived_ = false;
  came_ = -1;
  host_error_ = error_ = MPI_SUCCESS;
  device_ = device::device_at(first_data_byte(buffer_.address, layout_));
  {
    std::lock_guard lock(engine().mutex());
    direct_ = on_gpu_ && begin_direct();
    ++rounds_;
  }
  record_.set_path(direct_ ? Traffic::put : path_, bytes_of(partitions_));
  const int result = direct_ ? MPI_SUCCESS : real.Start(&request_);
  if (result == MPI_SUCCESS) {
    if (by_kernels_ || direct_) progress_thread().begin_enqueued();
  } else {
    std::lock_guard lock(engine().mutex());
    --rounds_;
  }
  return result;
}

std::string Partitioned::description() const {
  return "a message of " + std::to_string(partitions_) + " partitions of " + bytes_in_words(layout_.bytes) +
         peer_in_words(path_ == Traffic::host_message_sent ? " to" : " from", peer_, tag_);
}

int Partitioned::finish(MPI_Status* status) {
  record_.end();
  describe(status);
  if (host_error_ != MPI_SUCCESS) return host_error_;
  return error_ == MPI_SUCCESS ? MPI_SUCCESS : raise(error_);
}

bool Partitioned::all_arrived() {
  if (arrived_) return true;
  std::lock_guard lock(asking_);
  MPI_Request request = request_;  // persistent: MPI_Test does not free it
  int done = 0;
  MPI_Status host;
  host.MPI_SOURCE = MPI_UNDEFINED;
  const int result = real.Test(&request, &done, &host);
  if (!done && result == MPI_SUCCESS) return false;
  if (host.MPI_SOURCE == peer_) came_ = byte_count(host);
  host_error_ = result;
  arrived_ = true;
  return true;
}

void Partitioned::end_round() {
  if (by_kernels_ || direct_) progress_thread().end_enqueued(false);
  complete_.store(true, std::memory_order_release);
}

bool Partitioned::copy_runs() {
  do {
    if (!copying_) continue;
    Error state = copy_.poll();
    if (state == Error::none) state = handing_over_.poll();
    if (state == Error::not_ready) return false;
    copying_ = false;
    end_run(state);
  } while (start_next_run());
  return true;
}

bool Partitioned::claim_run() {
  for (first_ = 0; first_ < partitions_; ++first_)
    if (claim(first_)) break;
  if (first_ == partitions_) return false;
  for (end_ = first_ + 1; exists(end_) && claim(end_);) ++end_;
  return true;
}

bool Partitioned::start_next_run() {
  if (!claim_run()) return false;
  if (by_kernels_) progress_thread().wake();
  const size_t bytes = bytes_in(first_, end_ - first_);
  if (!layout_.contiguous || bytes == 0) {
    end_run(copy_partitions(first_, end_ - first_) ? Error::none : Error::failed);
    return true;
  }
  const Error state = start_copy(copy_, first_, bytes);
  copying_ = state == Error::none;
  if (state == Error::not_ready) return false;
  if (!copying_) end_run(state);
  return true;
}

size_t Partitioned::bytes_in(int /*first*/, int partitions) const {
  return static_cast<size_t>(bytes_of(partitions));
}

// ---- Sends ---------------------------------------------------------------------------------------------

PartitionedSend::PartitionedSend(const UserBuffer& buffer, int partitions, int dest, int tag, MPI_Comm comm)
    : Partitioned(buffer, partitions, dest, tag, comm, Traffic::host_message_sent),
      ready_to_write_(static_cast<size_t>(partitions)) {}

int PartitionedSend::start() {
  ready_ = 0;
  opened_ = false;
  for (auto& ready : ready_to_write_) ready = false;
  return Partitioned::start();
}

// In a call of the program's the memory can be mapped more often than in a round of progress.
void PartitionedSend::use_on_gpu(bool may_map) {
  if (may_map) close_what_is_over(p2p::AskDevices::yes);
  std::lock_guard lock(engine().mutex());
  on_gpu_ = true;
  if (may_map) join();
}

void PartitionedSend::join() {
  if (!link_ && may_be_direct())
    link_ = p2p::PartitionLink::join(*engine().node(), peer_on_node(), key_, shape(),
                                     device::device_at(buffer_.address), rounds_);
}

bool PartitionedSend::begin_direct() {
  join();
  opened_ = link_ && link_->by_kernels();
  return link_ && rounds_ + 1 >= link_->first_round();
}

bool PartitionedSend::stream_may_run(int device) {
  std::lock_guard lock(engine().mutex());
  return link_ && link_->by_kernels() && !link_->is_broken() && rounds_ + 1 >= link_->first_round() &&
         is_on(device);
}

void PartitionedSend::advance() {
  if (complete()) return;
  const auto end = [&] {
    if (by_kernels_) words_->close();
    end_round();
  };
  if (direct_ && !opened_) {
    if (load(link_->open()) == 0) return;
    store(link_->open(), 0);
    opened_ = true;
    if (by_kernels_) open_to_kernels();
  }
  for (int i = 0; by_kernels_ && i < partitions_; ++i)
    if (words_->take(i, PartitionWords::stored)) ++ready_;
  if ((by_kernels_ || direct_) && !copy_runs()) return;
  if (direct_ && link_->is_broken()) {
    error_ = MPI_ERR_OTHER;
    return end();
  }
  if (is_handed_over() && ready_ >= partitions_) {
    if (load(link_->sent()) == 0) return;
    store(link_->sent(), 0);
  }
  if (direct_ ? ready_ >= partitions_ : error_ != MPI_SUCCESS || (ready_ >= partitions_ && all_arrived()))
    end();
}

void PartitionedSend::open_to_kernels() {
  const auto for_kernels = [](char* memory) {
    return static_cast<char*>(device::runtime()->memory_for_kernels(memory));
  };
  FairleadPartitionWay way{};
  way.from = for_kernels(in_device(0));
  way.to = for_kernels(link_->at(0));
  way.arrived = link_->arrived_for_kernels();
  way.bytes = static_cast<unsigned long>(layout_.bytes);
  if (way.arrived) words_->open(way);
}

bool PartitionedSend::claim(int partition) {
  return (direct_ && ready_to_write_[static_cast<size_t>(partition)].exchange(false)) ||
         (by_kernels_ && words_->take(partition, PartitionWords::ready));
}

Error PartitionedSend::start_copy(device::Copy& copy, int first, size_t bytes) {
  if (is_handed_over()) {
    const Attempt given = kernels::hand_over(handing_over_, device_, giving(first, end_ - 1));
    for (int i = first; given == Attempt::later && i < end_; ++i)
      ready_to_write_[static_cast<size_t>(i)] = true;
    return given == Attempt::made ? Error::none : given == Attempt::later ? Error::not_ready : Error::failed;
  }
  if (direct_) return copy.start(device_, link_->at(first), in_device(first), bytes);
  count(path_, bytes);
  return copy.start(device_, in_host(first), in_device(first), bytes);
}

bool PartitionedSend::copy_partitions(int first, int partitions) {
  const size_t bytes = bytes_in(first, partitions);
  if (bytes == 0) return true;
  count(path_, bytes);
  if (layout_.contiguous)
    return device::copy_to_host(device_, in_host(first), in_device(first), bytes) == Error::none;
  bool copied = true;
  for (int partition = first; partition < first + partitions && copied; ++partition) copied = pack(partition);
  return copied;
}

// What is ready is in host memory, or has been written to the receiver's buffer.
void PartitionedSend::end_run(Error state) {
  const bool failed = state != Error::none;
  if (failed) {
    log_unreadable();
    error_ = MPI_ERR_OTHER;
  }
  if (is_handed_over()) {
    if (failed) link_->fail();
  } else if (direct_) {
    for (int i = first_; i < end_; ++i)
      store(link_->arrived(i), failed ? p2p::partition_failed : p2p::partition_arrived);
  } else if (!failed) {
    error_ = real.Pready_range(first_, end_ - 1, request_);
  }
  if (!failed || direct_) ready_ += end_ - first_;
}

int PartitionedSend::copy_out(int low, int high) {
  if (!exists(low) || !exists(high) || low > high || layout_.bytes == 0) return MPI_SUCCESS;
  check(low, high);
  if (copy_partitions(low, high - low + 1)) return MPI_SUCCESS;
  log_unreadable();
  return raise(MPI_ERR_OTHER);
}

int PartitionedSend::mark_direct(int low, int high) {
  if (low > high || !exists(low) || !exists(high)) return raise(MPI_ERR_ARG);
  check(low, high);
  for (int i = low; i <= high; ++i) ready_to_write_[static_cast<size_t>(i)] = true;
  engine().progress();
  progress_thread().wake();
  return MPI_SUCCESS;
}

void PartitionedSend::check(int low, int high) {
  if (checks_streams())
    check_streams(device_, in_device(low), layout_of((high - low + 1) * buffer_.count, buffer_.datatype),
                  BufferUse::sent);
}

void PartitionedSend::log_unreadable() {
  log_line(LogLevel::error, "a device buffer cannot be read: %s", device::runtime()->error_text());
}

bool PartitionedSend::pack(int partition) {
  HostBuffer packed;
  if (!pack_from_device(in_device(partition), buffer_.count, buffer_.datatype, layout_, device_, &packed))
    return false;
  std::memcpy(in_host(partition), packed.data(), static_cast<size_t>(layout_.bytes));
  return true;
}

// ---- Receives ------------------------------------------------------------------------------------------

PartitionedReceive::PartitionedReceive(const UserBuffer& buffer, int partitions, int source, int tag,
                                       MPI_Comm comm)
    : Partitioned(buffer, partitions, source, tag, comm, Traffic::host_message_received),
      locations_(static_cast<size_t>(partitions)) {}

int PartitionedReceive::start() {
  for (auto& location : locations_) location = Location::in_host;
  if (has_words()) words_->clear();
  const int result = Partitioned::start();
  if (layout_.bytes > 0 && !by_kernels_ && checks_streams())
    check_streams(device_, in_device(0), layout_of(partitions_ * buffer_.count, buffer_.datatype),
                  BufferUse::received);
  return result;
}

void PartitionedReceive::use_on_gpu(bool may_map) {
  if (may_map) close_what_is_over(p2p::AskDevices::yes);
  std::lock_guard lock(engine().mutex());
  on_gpu_ = true;
  if (may_map && !offer_ && may_be_direct())
    offer_ = p2p::PartitionOffer::post(*engine().node(), peer_on_node(), key_,
                                       device::classify(buffer_.address), buffer_.address, shape(), rounds_);
}

bool PartitionedReceive::begin_direct() {
  if (!offer_ || !offer_->begin_round(rounds_ + 1)) return false;
  to_open_ = true;
  (void)open_buffer();
  return true;
}

// False: not yet.
bool PartitionedReceive::open_buffer() {
  if (!offer_->by_kernels()) {
    store(offer_->open(), 1);
  } else {
    // The kernel of the round before, whose bytes have come.
    if (handing_over_.poll() == Error::not_ready) return false;
    const Attempt opened = kernels::hand_over(handing_over_, device_, offer_->opening());
    if (opened == Attempt::later) return false;
    if (opened == Attempt::never) offer_->fail();
  }
  to_open_ = false;
  return true;
}

bool PartitionedReceive::stream_may_run(int device) {
  std::lock_guard lock(engine().mutex());
  return !has_words() && offer_ && offer_->is_direct(rounds_ + 1) &&
         (!offer_->by_kernels() || (!offer_->is_broken() && is_on(device)));
}

void PartitionedReceive::advance() {
  if (complete()) return;
  if (direct_) {
    if (to_open_ && !open_buffer()) return;
    if (const Error opening = handing_over_.poll(); opening != Error::none && opening != Error::not_ready)
      offer_->fail();
    if (offer_->is_broken()) {
      error_ = MPI_ERR_OTHER;
      return end_round();
    }
    if (!see_arrivals()) return;
    for (int i = 0; i < partitions_; ++i) {
      if (load(offer_->arrived(i)) != p2p::partition_arrived) error_ = MPI_ERR_OTHER;
      store(offer_->arrived(i), 0);
    }
    count(Traffic::put, bytes_of(partitions_));
    return end_round();
  }
  const bool all = all_arrived();
  if ((!all && !by_kernels_) || !copy_runs() || !all) return;
  for (auto& location : locations_)
    if (location.load(std::memory_order_acquire) != Location::in_device) return;  // still in MPI_Parrived
  end_round();
}

// Have all?
bool PartitionedReceive::see_arrivals() {
  bool all = true;
  for (int i = 0; i < partitions_; ++i) {
    if (locations_[static_cast<size_t>(i)] == Location::in_device) continue;
    if (load(offer_->arrived(i)) == 0)
      all = false;
    else
      set_in_device(i);
  }
  return all;
}

void PartitionedReceive::describe(MPI_Status* status) {
  set_empty(status);
  status->MPI_SOURCE = peer_;
  if (peer_ == MPI_PROC_NULL) return;
  status->MPI_TAG = tag_;
  set_byte_count(status, came_ >= 0 ? came_ : layout_.bytes * partitions_);
}

int PartitionedReceive::arrived(int partition, int* flag) {
  if (!exists(partition)) return real.Parrived(request_, partition, flag);
  *flag = 1;
  if (!active || complete()) return MPI_SUCCESS;
  std::atomic<Location>& location = locations_[static_cast<size_t>(partition)];
  if (location.load(std::memory_order_acquire) == Location::in_device) return MPI_SUCCESS;
  if (direct_) {
    *flag = load(offer_->arrived(partition)) != 0;
    if (*flag) set_in_device(partition);
    return MPI_SUCCESS;
  }
  if (int result = ask_host(partition, flag); result != MPI_SUCCESS || !*flag) return result;
  Location expected = Location::in_host;
  if (location.compare_exchange_strong(expected, Location::moving)) {
    // If the copy fails, the receive tries it once more when it completes, and reports an error if that
    // fails too.
    expected = copy_partitions(partition, 1) ? Location::in_device : Location::in_host;
    if (expected == Location::in_device)
      set_in_device(partition);
    else
      location.store(expected, std::memory_order_release);
  }
  *flag = expected == Location::in_device;
  return MPI_SUCCESS;
}

// Asks the host MPI only while its request is active. Later, every partition has arrived.
int PartitionedReceive::ask_host(int partition, int* flag) {
  std::lock_guard lock(asking_);
  return arrived_ ? MPI_SUCCESS : real.Parrived(request_, partition, flag);
}

// Beyond the end of a shorter message, the buffer stays as it is.
size_t PartitionedReceive::bytes_in(int first, int partitions) const {
  const MPI_Count room = layout_.bytes * partitions;
  if (!arrived_ || came_ < 0) return static_cast<size_t>(room);
  return static_cast<size_t>(std::clamp(came_ - layout_.bytes * first, MPI_Count{0}, room));
}

Error PartitionedReceive::start_copy(device::Copy& copy, int first, size_t bytes) {
  count(path_, bytes);
  return copy.start(device_, in_device(first), in_host(first), bytes);
}

bool PartitionedReceive::copy_partitions(int first, int partitions) {
  const size_t bytes = bytes_in(first, partitions);
  if (bytes == 0) return true;
  count(path_, bytes);
  if (layout_.contiguous)
    return device::copy_now(device_, in_device(first), in_host(first), bytes) == Error::none;
  for (int partition = first; partition < first + partitions; ++partition)
    if (const size_t some = bytes_in(partition, 1); some > 0)
      if (!unpack_to_device(in_host(partition), static_cast<MPI_Count>(some), in_device(partition),
                            buffer_.count, buffer_.datatype, layout_, device_))
        return false;
  return true;
}

bool PartitionedReceive::claim(int partition) {
  std::atomic<Location>& location = locations_[static_cast<size_t>(partition)];
  Location expected = location.load(std::memory_order_relaxed);
  int arrived = 1;
  if (expected != Location::in_host || ask_host(partition, &arrived) != MPI_SUCCESS || !arrived) return false;
  return location.compare_exchange_strong(expected, Location::moving);
}

void PartitionedReceive::end_run(Error state) {
  if (state != Error::none) {
    log_line(LogLevel::error, "a received message cannot be written to device memory: %s",
             device::runtime()->error_text());
    error_ = MPI_ERR_OTHER;
  }
  // Also after an error, which the completion of the receive returns: a kernel may wait for these.
  for (int partition = first_; partition < end_; ++partition) set_in_device(partition);
}

void PartitionedReceive::set_in_device(int partition) {
  locations_[static_cast<size_t>(partition)].store(Location::in_device, std::memory_order_release);
  if (by_kernels_) words_->set(partition);
}

}  // namespace fairlead::mpi
