// SPDX-License-Identifier: Apache-2.0

#include "coll/gpu_collective.h"

#include "base/log.h"
#include "base/options.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "transport/peer.h"

namespace fairlead::coll {

using device::Error;
using node::Path;

GpuCollective::GpuCollective(node::Node& node, Meeting& meeting, const std::vector<int>& members,
                             uint64_t number, Work work)
    : node_(node),
      meeting_(meeting),
      members_(members),
      number_(number),
      work_(std::move(work)),
      sources_(members.size()),
      targets_(members.size()) {}

GpuCollective::~GpuCollective() {
  while (kernel_.poll() == Error::not_ready) __builtin_ia32_pause();
  for (device::Copy& copy : copies_) copy.wait();
  for (void* memory : pooled_) device::pool_free(memory);
}

bool GpuCollective::expose() {
  Record& record = mine();
  record.source = record.target = {};
  std::copy(std::begin(work_.offsets), std::end(work_.offsets), record.offsets);
  if (work_.device < 0) return true;
  record.device = work_.device;
  for (int rank : members_) {
    if (rank == node_.rank()) continue;
    Path path = node_.verdict(node_.rank(), work_.device, rank).path;
    if (!options().ipc || path == Path::staged) return false;
    if (path == Path::unknown && !transport::offer_proof(node_, work_.device)) return false;
  }
  return publish(work_.source, &record.source) && publish(work_.target, &record.target);
}

// Memory that cannot be shown itself is replaced by a piece of the pool.
bool GpuCollective::publish(Exposed& memory, RemoteMemory* remote) {
  if (memory.bytes == 0) return true;
  bool is_target = &memory == &work_.target;
  auto show = [&](void* address) {
    remote->base = reinterpret_cast<uintptr_t>(address);  // for this rank's own use
    if (meeting_.members() == 1) return true;
    return transport::publish(node_, members_, device::classify(address), address, memory.bytes, remote);
  };
  if (!memory.by_copy && show(memory.address)) return true;
  void* pool = device::pool_allocate(work_.device, memory.bytes);
  if (!pool) return false;
  pooled_.push_back(pool);
  if (!is_target && device::copy_now(work_.device, pool, memory.address, memory.bytes) != Error::none)
    return false;
  if (is_target) target_copy_ = pool;
  return show(pool);
}

bool GpuCollective::reach(int member, const RemoteMemory& remote, char** address) {
  int rank = members_[static_cast<size_t>(member)];
  if (rank == node_.rank()) {
    *address = reinterpret_cast<char*>(remote.base + remote.offset);
    return true;
  }
  int owner_device = meeting_.record(member, number_).device, device = work_.device;
  mapped_.emplace_back();
  if (transport::reach(node_, rank, owner_device, &device, remote, &mapped_.back()) != node::Reason::none)
    return false;
  *address = static_cast<char*>(mapped_.back().address());
  // Kernels run on this one.
  return device == work_.device;
}

bool GpuCollective::map_others() {
  if (work_.device < 0) return true;
  for (const Piece& piece : work_.pieces)
    if (!sources_[piece.member] &&
        !reach(piece.member, meeting_.record(piece.member, number_).source, &sources_[piece.member]))
      return false;
  if (!work_.reduction || work_.reduction->count == 0) return true;
  for (int member = work_.reduction->sources_begin; member < work_.reduction->sources_end; ++member)
    if (!reach(member, meeting_.record(member, number_).source, &sources_[member])) return false;
  for (int member = work_.reduction->targets_begin; member < work_.reduction->targets_end; ++member)
    if (!reach(member, meeting_.record(member, number_).target, &targets_[member])) return false;
  return true;
}

Progress GpuCollective::advance() {
  switch (step_) {
    case Step::mapping:
      mine().ready.store(number_ * 2 + map_others(), std::memory_order_release);
      step_ = Step::readying;
      [[fallthrough]];
    case Step::readying: {
      bool all_mapped = true;
      for (int member = 0; member < meeting_.members(); ++member) {
        uint64_t ready = meeting_.record(member, number_).ready.load(std::memory_order_acquire);
        if (ready / 2 != number_) return Progress::waiting;
        all_mapped &= ready % 2 != 0;
      }
      if (!all_mapped) {
        mapped_.clear();
        return Progress::refused;
      }
      run();
      step_ = Step::running;
      [[fallthrough]];
    }
    case Step::running: {
      Error state = kernel_.poll();
      for (device::Copy& copy : copies_)
        if (state == Error::none) state = copy.poll();
      if (state == Error::not_ready) return Progress::waiting;
      if (state != Error::none || failed_) {
        log_line(LogLevel::error, "a collective on the GPU failed: %s", device::runtime()->error_text());
        mine().failed.store(number_, std::memory_order_relaxed);
      }
      copies_.clear();
      mine().done.store(number_ * steps_allowed + 1, std::memory_order_release);
      step_ = Step::joining;
      [[fallthrough]];
    }
    case Step::joining:
      for (int member = 0; member < meeting_.members(); ++member) {
        Record& record = meeting_.record(member, number_);
        if (record.done.load(std::memory_order_acquire) < number_ * steps_allowed + 1)
          return Progress::waiting;
        failed_ |= record.failed.load(std::memory_order_relaxed) == number_;
      }
      if (target_copy_ && !failed_)
        copies_.emplace_back().start(work_.device, work_.target.address, target_copy_, work_.target.bytes);
      step_ = Step::bringing_back;
      [[fallthrough]];
    case Step::bringing_back:
      for (device::Copy& copy : copies_) {
        Error state = copy.poll();
        if (state == Error::not_ready) return Progress::waiting;
        failed_ |= state != Error::none;
      }
      mapped_.clear();
      step_ = Step::over;
      [[fallthrough]];
    case Step::over:
      return failed_ ? Progress::failed : Progress::over;
  }
  return Progress::failed;
}

void GpuCollective::run() {
  if (work_.reduction && work_.reduction->count > 0) run_reduction();
  if (!work_.pieces.empty()) run_pieces();
}

void GpuCollective::run_reduction() {
  const Reduction& part = *work_.reduction;
  uint64_t size = kernels::element_bytes(part.element);
  const void* from[max_members];
  void* to[max_members];
  int sources = 0, targets = 0;
  for (int member = part.sources_begin; member < part.sources_end; ++member)
    from[sources++] = sources_[static_cast<size_t>(member)] + part.first * size;
  for (int member = part.targets_begin; member < part.targets_end; ++member)
    to[targets++] = targets_[static_cast<size_t>(member)] + part.target_first * size;
  failed_ |= kernel_.reduce(work_.device, part.op, part.element, from, sources, to, targets, part.count) !=
             Error::none;
}

void GpuCollective::run_pieces() {
  std::vector<device::CopyItem> items;
  uint64_t bytes = 0;
  for (const Piece& piece : work_.pieces) {
    const Record& record = meeting_.record(piece.member, number_);
    const char* from =
        sources_[static_cast<size_t>(piece.member)] + record.offsets[static_cast<size_t>(meeting_.me())];
    items.push_back({piece.to, from, piece.bytes});
    bytes += piece.bytes;
  }
  if (bytes < static_cast<uint64_t>(options().coll_engine_from) && items.size() <= kernels::max_copies &&
      kernels_run_on(work_.device) &&
      kernel_.copy(work_.device, items.data(), items.size(), bytes) == Error::none)
    return;
  for (const device::CopyItem& item : items)
    copies_.emplace_back().enqueue(work_.device, item.to, item.from, item.bytes);
}

}  // namespace fairlead::coll
