// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/accesses.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/interception.h"
#include "mpi/network/network.h"
#include "mpi/rma/accumulate_op.h"
#include "rma/dead_owner.h"

namespace fairlead::mpi {

using device::Error;
using rma::Outcome;
using rma::Request;

// ---- Buffers of the program ----------------------------------------------------------------------------

bool OriginBuffer::open(const void* address, MPI_Count count, MPI_Datatype datatype, bool written) {
  layout_ = layout_of(count, datatype);
  if (layout_.bytes == 0) return true;
  void* user = const_cast<void*>(address);
  const void* first = first_data_byte(address, layout_);
  const device::Allocation memory =
      device::certainly_host(first) ? device::Allocation{} : device::classify(first);
  const bool on_device = memory.kind == device::MemoryKind::device;
  buffer_.device = on_device ? memory.device : -1;
  check_streams(buffer_.device, address, layout_, written ? BufferUse::received : BufferUse::sent);
  if (layout_.contiguous) {
    buffer_.view = {user, bytes()};
    return true;
  }
  if (layout_.plan) {
    buffer_.view = layout_.view(address);
    buffer_.by_blocks = on_device && !kernel_view(address, layout_, memory);
    return true;
  }
  packed_ = HostBuffer(bytes());
  if (!packed_.data()) return false;
  bool packed = true;
  if (written) {
    unpacked_ = {user, count, datatype};
    kept_.emplace(datatype, layout_);
  } else if (on_device) {
    packed = pack_from_device(address, count, datatype, layout_, memory.device, &packed_);
  } else {
    packed = pack_host(address, count, datatype, packed_.data(), layout_.bytes);
  }
  buffer_ = rma::host_buffer(packed_.data(), bytes());
  return packed;
}

bool OriginBuffer::finish() {
  if (!kept_) return true;
  const int device = device::device_at(first_data_byte(unpacked_.address, layout_));
  const bool done = device >= 0 ? unpack_to_device(packed_.data(), layout_.bytes, unpacked_.address,
                                                   unpacked_.count, kept_->get(), layout_, device)
                                : unpack_host(packed_.data(), layout_.bytes, unpacked_.address,
                                              unpacked_.count, kept_->get(), layout_);
  kept_.reset();
  return done;
}

// ---- One access --------------------------------------------------------------------------------------

namespace {

// Computes where the buffer begins, in bytes. False on overflow.
bool displace(MPI_Aint disp, int64_t unit, const Layout& layout, int64_t* at) {
  int64_t low, high;
  return !__builtin_mul_overflow(int64_t{disp}, unit, at) &&
         !__builtin_add_overflow(*at, layout.first, &low) && !__builtin_add_overflow(low, layout.span, &high);
}

// Waits for the accumulate lock. False if its owner is dead.
bool take_accumulate_lock(rma::AccumulateLock& accumulate_lock) {
  const uint64_t me = rma::DeadOwnerDetector::own_id();
  rma::DeadOwnerDetector detector;
  for (Backoff backoff; !accumulate_lock.take(me); backoff.pause()) {
    if (detector.owner_died(accumulate_lock)) return false;
    engine().progress();
  }
  return true;
}

}  // namespace

int Access::make(const AccessCall& call, const Targets& targets, std::shared_ptr<Access>* made) {
  auto access = std::make_shared<Access>();
  access->record_.begin();
  access->kind_ = call.kind;
  access->target_ = call.target_rank;
  access->in_request_ = call.request != nullptr;
  access->layout_ = layout_of(call.target_count, call.target_datatype);
  const Layout& layout = access->layout_;
  access->bytes_ = static_cast<uint64_t>(layout.bytes);
  if (!layout.contiguous && !layout.plan) {
    log_line(LogLevel::error, "the layout of the target's datatype has too many blocks, or is not known");
    return MPI_ERR_TYPE;
  }
  const Target& target = targets[call.target_rank];
  const int64_t unit = targets.dynamic() ? 1 : target.disp_unit;
  const bool somewhere = displace(call.target_disp, unit, layout, &access->at_target_);
  if (access->bytes_ > 0 &&
      (!somewhere || (!targets.dynamic() && (access->low() < 0 || access->high() > target.size))))
    return MPI_ERR_RMA_RANGE;
  if (call.reads() && !access->origin_.open(call.origin_addr, call.origin_count, call.origin_datatype, false))
    return MPI_ERR_OTHER;
  if (call.writes() && !access->result_.open(call.result_addr, call.result_count, call.result_datatype, true))
    return MPI_ERR_OTHER;
  if ((call.reads() && access->origin_.bytes() != access->bytes_) ||
      (call.writes() && access->result_.bytes() != access->bytes_))
    return MPI_ERR_TYPE;
  if (call.kind >= AccessKind::accumulate && access->bytes_ > 0) {
    const MPI_Datatype element = element_of(call.target_datatype);
    const MPI_Op op = call.kind == AccessKind::compare_and_swap ? MPI_REPLACE : call.op;
    if (!combination_of(op, element, &access->combination_)) return MPI_ERR_OP;
    access->op_ = number_of_op(op);
    access->type_ = number_of_type(element);
  }
  if (call.kind == AccessKind::compare_and_swap &&
      !access->compare_.open(call.compare_addr, 1, call.target_datatype, false))
    return MPI_ERR_OTHER;
  if (access->bytes_ == 0) access->end();
  *made = std::move(access);
  return MPI_SUCCESS;
}

packing::View Access::layout_from(char* window) const {
  void* buffer =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(window) + static_cast<uintptr_t>(at_target_));
  return layout_.contiguous ? packing::View(buffer, bytes_) : layout_.view(buffer);
}

void Access::note(Error error) {
  if (error == Error::none || error_ != MPI_SUCCESS) return;
  log_line(LogLevel::error, "a one-sided access failed: %s (%s)", device::to_string(error),
           device::runtime() ? device::runtime()->error_text() : "");
  error_ = MPI_ERR_OTHER;
}

void Access::end() {
  if (error_ == MPI_SUCCESS && !result_.finish()) error_ = MPI_ERR_OTHER;
  if (bytes_ > 0) {
    const Traffic path = by_messages_ ? Traffic::rma_by_messages : Traffic::rma_mapped;
    count(path, bytes_);
    record_.set_path(path, bytes_);
  }
  record_.end();
  over_.store(true, std::memory_order_release);
}

void Access::start(const rma::Buffer& target, bool alone) {
  const rma::Buffer& to = kind_ == AccessKind::put ? target : result_.buffer();
  const rma::Buffer& from = kind_ == AccessKind::put ? origin_.buffer() : target;
  const Error error = alone ? transfer_.start(to, 0, from, 0, bytes_) : transfer_.enqueue(to, from, bytes_);
  note(error);
  if (error != Error::none) end();
}

void Access::advance() {
  if (by_messages_ || over()) return;
  const Error error = transfer_.poll();
  if (error == Error::not_ready) return;
  note(error);
  end();
}

void Access::accumulate(const rma::Buffer& target, rma::AccumulateLock& accumulate_lock) {
  if (!take_accumulate_lock(accumulate_lock)) {
    error_ = MPI_ERR_OTHER;
    return over_.store(true, std::memory_order_release);
  }
  if (kind_ == AccessKind::compare_and_swap) {
    note(rma::compare_and_swap(target, compare_.buffer(), origin_.buffer(), result_.buffer()));
  } else {
    const bool fetches = kind_ == AccessKind::fetch;
    note(rma::accumulate(combination_, target, 0, origin_.buffer(), 0, fetches ? &result_.buffer() : nullptr,
                         0, bytes_));
  }
  accumulate_lock.give_back();
  end();
}

// ---- Active-message targets --------------------------------------------------------------------------

rma::Header Access::header() const {
  rma::Header header;
  header.kind = static_cast<Request>(kind_);
  header.first = static_cast<int64_t>(reinterpret_cast<uintptr_t>(layout_from(nullptr).address()));
  header.low = low();
  header.high = high();
  header.op = op_;
  header.type = type_;
  return header;
}

bool Access::ask(ActiveMessages& messages, const std::shared_ptr<Access>& self) {
  uint64_t piece = network::chunk_bytes();
  if (accumulates())
    piece = std::max(piece / combination_.element_bytes, uint64_t{1}) * combination_.element_bytes;
  while (asked_ < bytes_ && messages.may_ask(target_)) {
    const uint64_t at = asked_, length = std::min(piece, bytes_ - asked_);
    const bool reads = origin_.bytes() > 0;
    const uint64_t payload = (reads ? length : 0) + compare_.bytes();
    rma::Message request = rma::make_request(header(), layout_from(nullptr), at, length, payload);
    Error error = request.memory.data() ? Error::none : Error::out_of_memory;
    if (error == Error::none && reads)
      error = rma::transfer_now(rma::host_buffer(request.payload(), length), 0, origin_.buffer(), at, length);
    if (error == Error::none && compare_.bytes() > 0)
      error = rma::transfer_now(rma::host_buffer(request.payload() + length, compare_.bytes()), 0,
                                compare_.buffer(), 0, compare_.bytes());
    asked_ += length;
    note(error);
    if (error != Error::none) {
      answered_ += length;
      continue;
    }
    messages.ask(target_, std::move(request),
                 [self, at, length](const rma::Message& answer) { self->take_answer(answer, at, length); });
  }
  if (asked_ == bytes_ && answered_ == bytes_ && !over()) end();
  return asked_ == bytes_;
}

void Access::take_answer(const rma::Message& answer, uint64_t at, uint64_t bytes) {
  answered_ += bytes;
  if (answer.header().outcome == Outcome::out_of_range)
    error_ = MPI_ERR_RMA_RANGE;
  else if (answer.header().outcome == Outcome::failed ||
           (result_.bytes() > 0 && answer.size < sizeof(rma::Header) + bytes))
    error_ = MPI_ERR_OTHER;
  else if (result_.bytes() > 0)
    note(rma::transfer_now(result_.buffer(), at, rma::host_buffer(answer.payload(), bytes), 0, bytes));
  if (answered_ == bytes_) end();
}

// ---- The accesses of a window ------------------------------------------------------------------------

int Accesses::start(const std::shared_ptr<Access>& access) {
  if (access->over()) return MPI_SUCCESS;
  const int target = access->target();
  std::optional<rma::Buffer> memory;  // of a mapped target
  if (!targets_.dynamic()) {
    if (const std::optional<MappedTarget> mapped = targets_.map(target, access->device()))
      memory = access->target_in(*mapped);
    else if (targets_.was_mapped(target))
      return MPI_ERR_OTHER;
  } else if (target == targets_.rank()) {
    // In a dynamic window, displacements are addresses.
    memory = access->target_in({nullptr, -1});
    std::lock_guard lock(engine().mutex());
    if (!targets_.attached().locate(&*memory, 0, memory->bytes(), access->low(), access->high()))
      return MPI_ERR_RMA_RANGE;
  }
  if (memory && access->accumulates()) {
    access->accumulate(*memory, targets_.words(target)->accumulate_lock);
    return access->in_request() ? MPI_SUCCESS : access->error();
  }
  std::unique_lock lock(engine().mutex());
  while (!has_room()) {
    lock.unlock();
    const int error = targets_.poll_until("an end of earlier accesses", -1, [&] { return has_room(); });
    if (error != MPI_SUCCESS) return error;
    lock.lock();
  }
  if (memory) {
    access->start(*memory, pending_.empty());
    if (access->over() && access->error() == MPI_SUCCESS) return MPI_SUCCESS;
  } else {
    access->use_messages();
  }
  pending_.push_back({++started_, access});
  // Start accesses in batches: a program that issues many would otherwise leave the GPU idle until its first
  // wait.
  constexpr size_t together = 8;
  if (!memory || pending_.size() % together == 0) {
    device::start_enqueued();
    advance();
  }
  return MPI_SUCCESS;
}

void Accesses::advance() {
  // Accesses to one target never overtake each other, so that accumulates keep their order.
  std::vector<int> behind;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    Access& access = *entry->access;
    if (access.by_messages()) {
      const bool blocked = std::find(behind.begin(), behind.end(), access.target()) != behind.end();
      if (blocked || !access.ask(messages_, entry->access)) behind.push_back(access.target());
    } else {
      access.advance();
    }
    if (!access.over()) {
      ++entry;
      continue;
    }
    if (access.error() != MPI_SUCCESS && !access.in_request()) error_ = access.error();
    entry = pending_.erase(entry);
  }
  if (targets_.by_messages()) messages_.advance();
}

// Each pending access adds to the cost of every round of progress, so their number is limited.
bool Accesses::has_room() {
  constexpr size_t at_once = 1024;
  if (pending_.size() >= at_once) advance();
  return pending_.size() < at_once;
}

bool Accesses::any_pending(int target, uint64_t up_to) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& one) {
    return one.number <= up_to && (target == all_targets || one.access->target() == target);
  });
}

bool Accesses::are_complete(int target, uint64_t last, int* error) {
  advance();
  if (any_pending(target, last)) return false;
  *error = std::exchange(error_, MPI_SUCCESS);
  return true;
}

int Accesses::complete(int target) {
  int error = MPI_SUCCESS;
  device::start_enqueued();
  // Other threads may start more accesses meanwhile; this call does not wait for those.
  uint64_t last = 0;
  {
    std::lock_guard lock(engine().mutex());
    last = started_;
  }
  const int failure =
      targets_.poll_until("accesses to memory", target, [&] { return are_complete(target, last, &error); });
  return failure == MPI_SUCCESS ? error : failure;
}

}  // namespace fairlead::mpi
