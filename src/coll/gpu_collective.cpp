// SPDX-License-Identifier: Apache-2.0

#include "coll/gpu_collective.h"

#include <algorithm>
#include <span>

#include "base/log.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "transport/peer.h"

namespace fairlead::coll {

using device::Error;
using node::Path;

GpuCollective::GpuCollective(node::Node& node, CollectiveSlot& slot, const std::vector<int>& members,
                             uint64_t number, CollectiveWork work)
    : node_(node),
      slot_(slot),
      members_(members),
      number_(number),
      work_(std::move(work)),
      sources_(members.size()),
      targets_(members.size()) {}

GpuCollective::~GpuCollective() {
  kernels_.clear();
  moves_.clear();
  copying_.clear();
  for (void* memory : pooled_) device::pool_free(memory);
}

bool GpuCollective::expose(bool possible) {
  bool exported = possible && export_memory();
  mine().exported.store(number_ * 2 + exported, std::memory_order_release);
  return exported;
}

bool GpuCollective::export_memory() {
  Record& record = mine();
  record.source = record.target = {};
  record.source_bytes = work_.source.bytes;
  record.target_bytes = work_.target.bytes;
  record.signature = 0;
  std::copy(std::begin(work_.offsets), std::end(work_.offsets), record.offsets);
  std::copy(std::begin(work_.first_export), std::end(work_.first_export), record.first_export);
  if (work_.device < 0) return true;
  record.device = work_.device;
  if (!transport::may_be_reached(node_, members_, work_.device)) return false;
  if (!export_to(work_.source, &record.source) || !export_to(work_.target, &record.target)) return false;
  const bool lacks_target = record.target_bytes != work_.target.bytes;
  offers_part_ = work_.of_all && pooled_.empty() && !lacks_target && export_result();
  if (offers_part_) record.signature = work_.of_all->signature;
  return true;
}

// Memory that cannot be exported itself is replaced by memory from the buffer pool, or, if it is a target
// that the pieces make superfluous, not exported.
bool GpuCollective::export_to(const Exposed& memory, RemoteMemory* remote) {
  if (memory.bytes == 0) return true;
  bool is_target = &memory == &work_.target;
  if (!memory.by_copy && memory.parts.empty() && export_at(memory.address, memory, remote)) return true;
  if (is_target && may_fetch_instead()) {
    mine().target_bytes = 0;
    return true;
  }
  void* pool = device::pool_allocate(work_.device, memory.bytes);
  if (!pool) return false;
  pooled_.push_back(pool);
  if (is_target) target_copy_ = pool;
  // The copy need not be complete before this rank announces that it is ready.
  return (is_target || copy(memory, pool, false)) && export_at(pool, memory, remote);
}

// The memory itself, or what replaces it.
bool GpuCollective::export_at(void* address, const Exposed& memory, RemoteMemory* remote) {
  (remote == &mine().target ? own_target_ : own_source_) = address;
  if (memory.own || slot_.members() == 1) return true;
  return transport::export_to(node_, members_, device::classify(address, memory.found), address, memory.bytes,
                              remote);
}

// Only who does the work of all needs this; it is no failure if it cannot be exported.
bool GpuCollective::export_result() {
  const Exposed& result = work_.of_all->result;
  return result.bytes == 0 || export_at(result.address, result, &mine().target);
}

// Copies between this rank's memory and the pool memory that is exported in its place.
bool GpuCollective::copy(const Exposed& memory, void* pool, bool back) {
  if (memory.only) {
    const packing::View pooled = memory.only->moved(memory.address, pool);
    return copying_.emplace_back().start(work_.device, back ? *memory.only : pooled, 0,
                                         back ? pooled : *memory.only, 0, pooled.bytes()) == Error::none;
  }
  std::vector<packing::View> parts = memory.parts;
  if (parts.empty()) parts.emplace_back(memory.address, memory.bytes);
  uint64_t at = 0;
  for (const packing::View& part : parts) {
    packing::View pooled(static_cast<char*>(pool) + at, part.bytes());
    if (copying_.emplace_back().start(work_.device, back ? part : pooled, 0, back ? pooled : part, 0,
                                      part.bytes()) != Error::none)
      return false;
    at += part.bytes();
  }
  return true;
}

Error GpuCollective::state_of_copies() {
  Error state = Error::none;
  for (packing::Move& copy : copying_) {
    Error one = copy.poll();
    if (one == Error::not_ready) return one;
    if (one != Error::none) state = one;
  }
  return state;
}

bool GpuCollective::reach(int member, const RemoteMemory& remote, void* own, Reached* reached) {
  if (reached->address) return true;
  int rank = members_[static_cast<size_t>(member)];
  if (rank == node_.rank()) {
    *reached = {static_cast<char*>(own), UINT64_MAX};
    return true;
  }
  const int owner_device = node::read_once(slot_.record(member, number_).device);
  mapped_.emplace_back();
  if (!transport::reach_from(node_, rank, owner_device, work_.device, node::read_once(remote),
                             &mapped_.back()))
    return false;
  *reached = {static_cast<char*>(mapped_.back().address()), mapped_.back().bytes()};
  return true;
}

bool GpuCollective::map_others() {
  if (work_.device < 0) return true;
  for (const Piece& piece : work_.pieces)
    if (!map_source(piece.member)) return false;
  return !work_.reduction || map_for(*work_.reduction);
}

bool GpuCollective::map_source(int member) {
  return reach(member, slot_.record(member, number_).source, own_source_,
               &sources_[static_cast<size_t>(member)]);
}

bool GpuCollective::map_target(int member) {
  return reach(member, slot_.record(member, number_).target, own_target_,
               &targets_[static_cast<size_t>(member)]);
}

// Members that pass less than this one, which is an error of the program, must not lose what lies behind. The
// last element may lack its padding.
bool GpuCollective::map_for(const Reduction& part) {
  const uint64_t size = kernels::element_bytes(part.element);
  const uint64_t last_read = (part.first + part.count - 1) * size;
  const uint64_t last_written = (part.target_first + part.count - 1) * size;
  for (int member = part.sources_begin; member < part.sources_end; ++member)
    if (last_read >= slot_.record(member, number_).source_bytes || !map_source(member) ||
        last_read >= sources_[static_cast<size_t>(member)].bytes)
      return false;
  for (int member = part.targets_begin; member < part.targets_end; ++member)
    if (member != part.spared &&
        (last_written >= slot_.record(member, number_).target_bytes || !map_target(member) ||
         last_written >= targets_[static_cast<size_t>(member)].bytes))
      return false;
  return true;
}

// Looks for damage now and then, as long as it waits.
Progress GpuCollective::advance() {
  if (abandoned_) return Progress::waiting;
  const Progress progress = step();
  if (progress != Progress::waiting || !rare_look_.due()) return progress;
  const bool all_are_there = slot_.any_other_passed(number_);
  if (slot_.is_damaged(number_) || !own_words_are_there()) return damaged();
  if (!all_are_there || !awaits_members()) return progress;
  const Progress in_the_end = step();
  return in_the_end == Progress::waiting && awaits_members() ? damaged() : in_the_end;
}

// Nobody else stores them.
bool GpuCollective::own_words_are_there() {
  const bool readied = step_ >= Step::readying && step_ < Step::single_worker;
  return mine().exported.load(std::memory_order_relaxed) / 2 == number_ &&
         (!readied || mine().ready.load(std::memory_order_relaxed) / 2 == number_) &&
         (step_ != Step::joining || slot_.is_done(slot_.me(), number_));
}

bool GpuCollective::awaits_members() const {
  return step_ == Step::slot || step_ == Step::choosing || step_ == Step::readying ||
         step_ == Step::joining || (step_ == Step::single_worker && one_ != slot_.me());
}

// Tells the members that still wait for this one.
Progress GpuCollective::damaged() {
  damaged_ = failed_ = true;
  tell_of_failure();
  mine().ready.store(number_ * 2 + 1, std::memory_order_release);
  slot_.set_done(number_);
  node_.ring(members_);
  step_ = Step::over;
  return Progress::failed;
}

Progress GpuCollective::step() {
  switch (step_) {
    case Step::slot:
      for (int member = 0; member < slot_.members(); ++member) {
        uint64_t exported = slot_.record(member, number_).exported.load(std::memory_order_acquire);
        if (exported / 2 != number_) return Progress::waiting;
        if (exported % 2 == 0) return Progress::refused;
      }
      if (may_fetch_instead()) reduce_or_fetch();
      step_ = Step::choosing;
      [[fallthrough]];
    case Step::choosing:
      if (!choose_workers()) return damaged();
      if (step_ == Step::choosing) return Progress::waiting;
      if (step_ == Step::single_worker) return wait_for_one();
      reached_ = map_others();
      [[fallthrough]];
    case Step::mapping: {
      Error state = state_of_copies();
      if (state == Error::not_ready) return Progress::waiting;
      mine().ready.store(number_ * 2 + (reached_ && state == Error::none), std::memory_order_release);
      node_.ring(members_);
      copying_.clear();
      step_ = Step::readying;
      [[fallthrough]];
    }
    case Step::readying: {
      bool all_mapped = true;
      for (int member = 0; member < slot_.members(); ++member) {
        uint64_t ready = slot_.record(member, number_).ready.load(std::memory_order_acquire);
        if (ready / 2 != number_) return Progress::waiting;
        all_mapped &= ready % 2 != 0;
      }
      if (!all_mapped) {
        mapped_.clear();
        slot_.give_up(number_);  // one that abandons the collective waits for this
        return Progress::refused;
      }
      if (work_.reduction && distributes_by_copies()) copy_to_all();
      step_ = Step::launching;
      [[fallthrough]];
    }
    case Step::launching: {
      if (work_.reduction) {
        const Attempt started = start_reduction(add_kernel(), *work_.reduction);
        if (started == Attempt::later) {
          kernels_.pop_back();
          return Progress::waiting;
        }
        failed_ |= started == Attempt::never;
      }
      start_pieces();
      step_ = Step::running;
      [[fallthrough]];
    }
    case Step::running:
      if (!run()) return Progress::waiting;
      if (failed_) tell_of_failure();
      if (!slot_.is_done(slot_.me(), number_)) slot_.set_done(number_);
      step_ = Step::joining;
      [[fallthrough]];
    case Step::joining:
      for (int member = 0; member < slot_.members(); ++member) {
        if (!slot_.is_done(member, number_)) return Progress::waiting;
        failed_ |= slot_.record(member, number_).failed.load(std::memory_order_relaxed) == number_;
      }
      if (target_copy_ && !failed_) failed_ = !copy(work_.target, target_copy_, true);
      step_ = Step::bringing_back;
      [[fallthrough]];
    case Step::bringing_back: {
      Error state = state_of_copies();
      if (state == Error::not_ready) return Progress::waiting;
      failed_ |= state != Error::none;
      mapped_.clear();
      step_ = Step::over;
      [[fallthrough]];
    }
    case Step::over:
      return failed_ ? Progress::failed : Progress::over;
    case Step::single_worker:
      return wait_for_one();
  }
  return Progress::failed;
}

// Whoever launches kernels has arrived, and reads afterwards whether a member is not ready: so it sees that
// this one is not, or this one sees that it has arrived.
bool GpuCollective::abandon(const std::vector<bool>& lives) {
  if (step_ == Step::over) return true;
  // What this rank's GPU does ends by itself.
  if (step_ == Step::running || step_ == Step::bringing_back || one_ == slot_.me()) return false;
  if (step_ != Step::joining) {
    abandoned_ = true;
    slot_.give_up(number_);
  }
  for (int member = 0; member < slot_.members(); ++member)
    if (member != slot_.me() && lives[static_cast<size_t>(member)] && !slot_.is_out(member, number_))
      return false;
  return true;
}

// All members see the same records.
void GpuCollective::reduce_or_fetch() {
  bool reduce = true;
  for (int member = 0; member < slot_.members(); ++member)
    reduce &= slot_.record(member, number_).target_bytes > 0;
  if (reduce) return work_.pieces.clear();
  work_.reduction.reset();
  work_.target = {};
}

void GpuCollective::tell_of_failure() {
  log_line(LogLevel::error, "a collective on the GPU failed: %s",
           damaged_ ? "another process has damaged its records" : device::runtime()->error_text());
  mine().failed.store(number_, std::memory_order_release);
}

// ---- One member does the work of all -------------------------------------------------------------------

// False: another process has damaged the word.
bool GpuCollective::choose_workers() {
  using enum Workers::Are;
  Workers workers = offers_part_ ? slot_.workers(number_) : Workers{each};
  if (workers.are == undecided) {
    const Workers wanted = all_may_be_done_by_one() ? Workers{one, slot_.me()} : Workers{each};
    workers = slot_.propose(number_, wanted);
    if (workers.are == one && workers == wanted) {
      if (!any_gave_up() && start_work_of_all()) {
        workers.are = one_that_has_started;
      } else {
        workers = {each};
        mapped_.clear();
        std::ranges::fill(sources_, Reached{});
        std::ranges::fill(targets_, Reached{});
      }
      slot_.announce(number_, workers);
    }
    // The others rely on this rank.
    if (workers.are == each) node_.ring(members_);
  }
  // Nobody else says that this rank has started.
  const bool is_mine = workers.are != each && workers.member == slot_.me();
  if (workers.member >= slot_.members() || (is_mine && kernels_.empty())) return false;
  if (workers.are == each) step_ = Step::mapping;
  if (workers.are != one_that_has_started) return true;
  one_ = workers.member;
  step_ = Step::single_worker;
  return true;
}

bool GpuCollective::any_gave_up() {
  for (int member = 0; member < slot_.members(); ++member)
    if (slot_.gave_up(member, number_)) return true;
  return false;
}

bool GpuCollective::all_may_be_done_by_one() {
  for (int member = 0; member < slot_.members(); ++member)
    if (slot_.record(member, number_).signature != work_.of_all->signature || !knows_way_to(member))
      return false;
  return bool(slot_.word_of_end(number_, work_.device));
}

// A pair of GPUs without peer access stages all collectives of its ranks. So memory is mapped here only where
// this pair was tried before, in one direction at least.
bool GpuCollective::knows_way_to(int member) {
  const int rank = members_[static_cast<size_t>(member)];
  if (rank == node_.rank()) return true;
  const int device = node::read_once(slot_.record(member, number_).device);
  if (device < 0 || device >= node::devices_per_rank) return false;
  return node_.decision(rank, device, node_.rank()).path == Path::peer ||
         node_.decision(node_.rank(), work_.device, rank).path == Path::peer;
}

// False: nothing has started.
bool GpuCollective::start_work_of_all() {
  const WorkOfAll& all = *work_.of_all;
  std::vector<device::CopyItem> items;
  uint64_t bytes = 0;
  for (const auto& [from, from_at, to, to_at, length] : all.transfers) {
    if (!map_source(from) || !map_target(to)) return false;
    const Reached &source = sources_[static_cast<size_t>(from)], &target = targets_[static_cast<size_t>(to)];
    if (from_at + length > source.bytes || to_at + length > target.bytes) return false;
    items.push_back({target.address + to_at, source.address + from_at, length});
    bytes += length;
  }
  if (all.reduction && !map_for(*all.reduction)) return false;
  kernels::KernelRun& kernel = kernels_.emplace_back();
  kernel.signal(slot_.word_of_end(number_, work_.device), number_);
  const Attempt started = all.reduction ? start_reduction(kernel, *all.reduction)
                                        : kernel.copy(work_.device, items.data(), items.size(), bytes);
  if (started != Attempt::made) kernels_.clear();
  return started == Attempt::made;
}

Progress GpuCollective::wait_for_one() {
  const bool mine_to_do = one_ == slot_.me();
  if (mine_to_do) {
    if (!note(kernels_.back().poll())) return Progress::waiting;
    if (failed_) tell_of_failure();
    mapped_.clear();
  } else {
    failed_ = slot_.record(one_, number_).failed.load(std::memory_order_acquire) == number_;
    if (!failed_ && !slot_.has_ended(number_)) return Progress::waiting;
    // Their files may have arrived, which nobody else would take.
    for (int rank : members_)
      if (rank != node_.rank()) transport::follow_revocations(node_, rank);
  }
  step_ = Step::over;
  return failed_ ? Progress::failed : Progress::over;
}

// ---- Each member does its part -------------------------------------------------------------------------

// This member's whole part, which is a reduction or pieces, never both: so the kernel tells all members of
// the end itself, and they need not wait for the CPU of this one.
kernels::KernelRun& GpuCollective::add_kernel() {
  kernels::KernelRun& kernel = kernels_.emplace_back();
  const kernels::EndWord word = slot_.word_of_part(number_, work_.device);
  kernel.signal(word, number_);
  tells_itself_ = bool(word);
  return kernel;
}

// True when everything is done.
bool GpuCollective::run() {
  bool over = true;
  for (packing::Move& move : moves_) over &= note(move.poll());
  for (kernels::KernelRun& kernel : kernels_) over &= note(kernel.poll());
  return over;
}

// Records a failure; true when the operation is over.
bool GpuCollective::note(Error state) {
  failed_ |= state != Error::none && state != Error::not_ready;
  return state != Error::not_ready;
}

Attempt GpuCollective::start_reduction(kernels::KernelRun& kernel, const Reduction& part) {
  uint64_t size = kernels::element_bytes(part.element);
  const void* from[max_members];
  void* to[max_members];
  int sources = 0;
  for (int member = part.sources_begin; member < part.sources_end; ++member)
    from[sources++] = sources_[static_cast<size_t>(member)].address + part.first * size;
  const int targets = targets_of(part, to);
  if (part.targets_begin == slot_.me() && part.targets_end == slot_.me() + 1 && work_.receives_in_own_memory)
    kernel.writes_own_memory();
  return kernel.reduce(work_.device, part.op, part.element, from, sources, to, targets, part.count);
}

// The addresses to which the first element goes; how many there are.
int GpuCollective::targets_of(const Reduction& part, void** to) const {
  int targets = 0;
  for (int member = part.targets_begin; member < part.targets_end; ++member)
    if (member != part.spared)
      to[targets++] = targets_[static_cast<size_t>(member)].address +
                      part.target_first * kernels::element_bytes(part.element);
  return targets;
}

// One kernel reads every byte once and writes it to all, but only fast if vectors are aligned in all buffers.
bool GpuCollective::distributes_by_copies() const {
  const Reduction& part = *work_.reduction;
  if (part.op != kernels::ReduceOp::replace) return false;
  const auto from =
      reinterpret_cast<uintptr_t>(sources_[static_cast<size_t>(part.sources_begin)].address) + part.first;
  void* to[max_members];
  const bool aligned = std::all_of(to, to + targets_of(part, to), [from](void* target) {
    return (reinterpret_cast<uintptr_t>(target) - from) % kernels::vector_alignment == 0;
  });
  return !aligned || !kernels::reductions_run_on(work_.device, part.op, part.element);
}

// Pieces in place of the reduction: one for each target but the source itself.
void GpuCollective::copy_to_all() {
  const Reduction part = *work_.reduction;
  pushes_by_kernel_ = !copies_may_write_to_all(part);
  work_.reduction.reset();
  const void* const from = sources_[static_cast<size_t>(part.sources_begin)].address + part.first;
  void* to[max_members];
  for (void* target : std::span(to, static_cast<size_t>(targets_of(part, to))))
    if (target != from)
      work_.pieces.push_back({.member = part.sources_begin,
                              .from = part.first,
                              .to = {target, part.count},
                              .bytes = part.count});
  work_.by_kernel = true;
}

bool GpuCollective::copies_may_write_to_all(const Reduction& part) {
  for (int member = part.targets_begin; member < part.targets_end; ++member) {
    const int rank = members_[static_cast<size_t>(member)];
    if (member != part.spared && rank != node_.rank() &&
        !transport::copies_may_write(node_, rank, slot_.record(member, number_).device, work_.device))
      return false;
  }
  return true;
}

void GpuCollective::start_pieces() {
  if (fetch_by_kernel()) return;
  for (const Piece& piece : work_.pieces) {
    const packing::View from(const_cast<char*>(address_of(piece)), piece.bytes);
    if (!from.address()) {
      damaged_ = failed_ = true;
      continue;
    }
    packing::Move& move = moves_.emplace_back();
    failed_ |= (pushes_by_kernel_ ? move.start_by_kernel(work_.device, piece.to, 0, from, 0, piece.bytes)
                                  : move.enqueue(work_.device, piece.to, from, piece.bytes)) != Error::none;
  }
}

// A single piece is left to a copy engine, which is faster than a kernel.
bool GpuCollective::fetch_by_kernel() {
  if (!work_.by_kernel || work_.pieces.size() < 2 || work_.pieces.size() > kernels::max_copies ||
      !kernels::copies_run_on(work_.device))
    return false;
  std::vector<device::CopyItem> items;
  uint64_t bytes = 0;
  for (const Piece& piece : work_.pieces) {
    const char* const from = address_of(piece);
    if (!piece.to.contiguous() || !from) return false;
    items.push_back({piece.to.address(), from, piece.bytes});
    bytes += piece.bytes;
  }
  kernels::KernelRun& kernel = add_kernel();
  // Only the pieces of copy_to_all() go to others.
  if (work_.receives_in_own_memory && work_.target.bytes == 0) kernel.writes_own_memory();
  if (kernel.copy(work_.device, items.data(), items.size(), bytes) == Attempt::made) return true;
  kernels_.pop_back();
  tells_itself_ = false;
  return false;
}

// Null if the piece is not within what its member exports, as only damaged records say.
const char* GpuCollective::address_of(const Piece& piece) {
  const Record& record = slot_.record(piece.member, number_);
  const Reached& source = sources_[static_cast<size_t>(piece.member)];
  const bool own = piece.member == slot_.me();
  const int me = slot_.me(),
            part = (own ? work_.first_export[me] : node::read_once(record.first_export[me])) + piece.part;
  if (part >= max_exports) return nullptr;
  const uint64_t offset = own ? work_.offsets[part] : node::read_once(record.offsets[part]),
                 room = source.bytes - std::min(offset, source.bytes);
  if (piece.from > room || piece.bytes > room - piece.from) return nullptr;
  return source.address + offset + piece.from;
}

}  // namespace fairlead::coll
