// SPDX-License-Identifier: Apache-2.0

#include "p2p/rendezvous_send.h"

#include <bitset>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "base/options.h"
#include "base/statistics.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "packing/move.h"
#include "transport/peer.h"

namespace fairlead::p2p {
namespace {

using node::Path;
using node::Reason;
using node::RendezvousState;

std::bitset<node::rendezvous_per_rank> taken;
int search_from = 0;

int take_index() {
  for (int tried = 0; tried < node::rendezvous_per_rank; ++tried) {
    int index = (search_from + tried) % node::rendezvous_per_rank;
    if (taken[index]) continue;
    taken[index] = true;
    search_from = index + 1;
    return index;
  }
  return -1;
}

// (receiver, id of RemoteMemory) pairs from which the receiver has copied bytes itself: it has the memory
// mapped and can copy from it again without this rank's help.
auto& fetched = *new std::set<std::pair<int, uint64_t>>;

// Exports `bytes` bytes at `address`: describes them in terms that are valid in other processes.
bool name(node::Node& node, const device::Allocation& allocation, const void* address, uint64_t bytes,
          node::RemoteMemory* remote) {
  std::vector<device::GoneExport> gone;
  device::Error error = device::export_memory(allocation, address, bytes, remote, &gone);
  transport::revoke(node, gone);
  for (const auto& entry : gone)
    std::erase_if(fetched, [&](const auto& known) { return known.second == entry.id; });
  return error == device::Error::none;
}

// The same, if `receiver` can map the memory at all. Sends it the file that it may need for this.
bool describe(node::Node& node, int receiver, const device::Allocation& allocation, const void* address,
              uint64_t bytes, node::RemoteMemory* remote) {
  return name(node, allocation, address, bytes, remote) && transport::send_file_of(node, receiver, *remote);
}

// The messages sent from one device address. The record starts anew with each allocation there.
struct Sent {
  uint64_t allocation = 0;
  int messages = 0;
  uint64_t exported_as = 0;
  int exported_otherwise = 0;  // consecutive allocations that were exported under a new id
  bool lives_on = false;
};

// Mapping another process's memory takes about as long as moving 20 MiB, and new memory incurs this cost
// again. Memory that is freed after one or two messages is therefore better not mapped at all. The exception
// is a driver that takes new allocations from a block that it keeps: the block stays mapped, and its handle
// shows that it is the same. Returns why the memory was not exported.
std::optional<Fallback> describe_if_worth(node::Node& node, int receiver,
                                          const device::Allocation& allocation, const void* address,
                                          uint64_t bytes, node::RemoteMemory* remote) {
  constexpr uint64_t bounce_bytes = uint64_t{4} << 20;
  constexpr size_t remembered = 4096;
  constexpr int tries = 3;
  constexpr std::optional<Fallback> done;
  static auto& by_base = *new std::unordered_map<uint64_t, Sent>;
  if (options().map_after == 0 || bytes > bounce_bytes)
    return describe(node, receiver, allocation, address, bytes, remote) ? done : Fallback::not_exportable;
  if (by_base.size() > remembered) by_base.clear();
  Sent& sent = by_base[allocation.base];
  auto name_it = [&] {
    if (!name(node, allocation, address, bytes, remote)) return false;
    sent.lives_on |= remote->id == sent.exported_as;
    sent.exported_as = remote->id;
    return true;
  };
  if (sent.allocation != allocation.id) {
    bool again = sent.allocation != 0;
    sent.allocation = allocation.id;
    sent.messages = 0;
    sent.lives_on = false;
    if (again && sent.exported_otherwise < tries) {
      // This check sends no file: the file would keep the memory alive.
      if (!name_it()) return Fallback::not_exportable;
      sent.exported_otherwise = sent.lives_on ? 0 : sent.exported_otherwise + 1;
      if (sent.lives_on) return done;
    }
  }
  bool worth = sent.lives_on || sent.messages >= options().map_after || ++sent.messages > options().map_after;
  if (!worth) return Fallback::not_mapped_yet;
  return name_it() && transport::send_file_of(node, receiver, *remote) ? done : Fallback::not_exportable;
}

// Links transfer small blocks slowly: layouts with small blocks are packed first, and the receiver fetches
// the packed bytes.
bool can_be_fetched(const packing::View& view) {
  constexpr uint64_t smallest_block = 64;
  return view.contiguous() || (view.regular() && view.block_bytes() >= smallest_block);
}

Fallback fallback_of(Reason reason) {
  switch (reason) {
    case Reason::switched_off:
      return Fallback::ipc_off;
    case Reason::no_context:
      return Fallback::no_context;
    case Reason::import_failed:
      return Fallback::import_failed;
    case Reason::wrong_bytes:
      return Fallback::wrong_bytes;
    case Reason::copy_failed:
      return Fallback::copy_failed;
    case Reason::no_kernel:
      return Fallback::no_kernel;
    case Reason::none:
    case Reason::no_memory:
    case Reason::damaged:
    case Reason::not_exportable:
      return Fallback::not_exportable;
  }
  return Fallback::not_exportable;
}

// If peer copies work for the pair, but not from this memory, the bytes are staged through device memory.
transport::Medium medium_to(node::Node& node, int device, int receiver) {
  const bool probed = node.decision(node.rank(), device, receiver).path == Path::peer;
  return probed ? transport::Medium::device : transport::Medium::host;
}

}  // namespace

std::unique_ptr<RendezvousSend> RendezvousSend::open(node::Node& node, int receiver, const Source& source,
                                                     const device::Allocation& allocation, Bytes bytes) {
  int device = allocation.device;
  if (device < 0 || device >= node::devices_per_rank) return nullptr;
  int index = take_index();
  if (index < 0) return nullptr;
  node::Rendezvous& slot = node.mine().rendezvous[index];
  slot.receiver = receiver;
  slot.device = device;
  slot.bytes = source.bytes;
  slot.shape = source.view.shape();
  slot.first = static_cast<const char*>(source.view.address()) - static_cast<const char*>(source.span);
  slot.looked_at.store(0, std::memory_order_relaxed);
  slot.reason.store(Reason::none, std::memory_order_relaxed);
  slot.fetched.store(0, std::memory_order_relaxed);

  std::optional<Fallback> unreachable;
  if (receiver == node.rank()) {
    slot.source = {};
    slot.source.base = reinterpret_cast<uintptr_t>(source.span);
    if (!source.view.regular()) unreachable = Fallback::packed;
  } else {
    node::PathDecision& decision = node.decision(node.rank(), device, receiver);
    if (decision.path == Path::unknown && !options().ipc)
      node.decide(node.rank(), device, receiver, Path::staged, Reason::switched_off, "");
    if (decision.path == Path::unknown && !transport::export_probe(node, device))
      node.decide(node.rank(), device, receiver, Path::staged, Reason::not_exportable,
                  device::runtime()->error_text());
    // Only a pair that passed the peer-access probe can stage through device memory instead.
    if (decision.path == Path::staged)
      unreachable = fallback_of(decision.reason);
    else if (!can_be_fetched(source.view))
      unreachable = Fallback::packed;
    else if (decision.path == Path::peer)
      unreachable =
          describe_if_worth(node, receiver, allocation, source.span, source.span_bytes, &slot.source);
    else if (!describe(node, receiver, allocation, source.span, source.span_bytes, &slot.source))
      unreachable = Fallback::not_exportable;
  }
  // Without memory for staging here, the caller leaves the message to the host MPI.
  if (unreachable && (bytes == Bytes::to_come ||
                      !transport::may_stage(node, device, source.bytes, medium_to(node, device, receiver)))) {
    taken[index] = false;
    return nullptr;
  }
  return std::unique_ptr<RendezvousSend>(
      new RendezvousSend(node, index, receiver, source, device, bytes, unreachable));
}

RendezvousSend::RendezvousSend(node::Node& node, int index, int receiver, const Source& source, int device,
                               Bytes bytes, std::optional<Fallback> unreachable)
    : node_(node),
      index_(index),
      receiver_(receiver),
      slot_(&node.mine().rendezvous[index]),
      view_(source.view),
      bytes_(source.bytes),
      device_(device),
      exportable_(!unreachable),
      failures_seen_(node.block(receiver).failed_receives.load()),
      rts_{node.nonce(),
           rts_version,
           node.rank(),
           static_cast<uint32_t>(index),
           RtsKind::rendezvous,
           source.bytes,
           0} {
  if (exportable_) {
    slot_->state.store(bytes == Bytes::present ? RendezvousState::offered : RendezvousState::announced,
                       std::memory_order_release);
  } else {
    count(*unreachable);
    stream();
  }
}

void RendezvousSend::offer() {
  slot_->state.store(RendezvousState::offered, std::memory_order_release);
}

RendezvousSend::~RendezvousSend() {
  if (!finished_) close();
}

void RendezvousSend::stream() {
  const bool copies_fail = slot_->reason.load(std::memory_order_relaxed) == Reason::copy_failed;
  stream_ = std::make_unique<transport::StagedSender>(
      node_, *slot_, device_, view_, bytes_,
      copies_fail ? transport::Medium::host : medium_to(node_, device_, receiver_));
  path_ = slot_->medium == transport::Medium::device ? Traffic::device_staged : Traffic::staged;
}

void RendezvousSend::advance() {
  if (finished_) return;
  RendezvousState state = slot_->state.load(std::memory_order_acquire);
  switch (state) {
    case RendezvousState::refused:
      // The receiver may claim it again at the same time (RendezvousGet::insist() in get.cpp).
      if (!slot_->state.compare_exchange_strong(state, RendezvousState::moving)) break;
      if (slot_->reason.load(std::memory_order_relaxed) == Reason::import_failed)
        transport::note_fetched(receiver_, slot_->source, false);
      count(fallback_of(slot_->reason.load(std::memory_order_relaxed)));
      stream();
      break;
    case RendezvousState::pipelined:
      stream_->advance();
      break;
    case RendezvousState::done:
      if (slot_->fetched.load(std::memory_order_relaxed) && receiver_ != node_.rank()) {
        transport::note_fetched(receiver_, slot_->source, true);
        // Memory that is shared by file can be mapped again only with this rank's help.
        if (!slot_->source.by_file) fetched.insert({receiver_, slot_->source.id});
      }
      close();
      break;
    default:
      break;
  }
}

void RendezvousSend::close() {
  if (stream_) stream_->finish();
  if (pooled_) device::pool_free(pooled_);
  pooled_ = nullptr;
  slot_->state.store(RendezvousState::free, std::memory_order_relaxed);
  taken[index_] = false;
  finished_ = true;
}

bool RendezvousSend::buffer_free() const {
  return finished_ || pooled_ || (stream_ && stream_->read_out());
}

bool RendezvousSend::matched_by_probe() const {
  return node_.block(receiver_).looking.load() != 0 || slot_->looked_at.load(std::memory_order_acquire) != 0;
}

bool RendezvousSend::probed() const {
  if (receiver_ == node_.rank()) return true;
  // The peer-access probe used memory of the same pool.
  if (pooled_) return node_.decision(node_.rank(), device_, receiver_).path == Path::peer;
  // A receiver that cannot read a layout with gaps needs the sender's help.
  return exportable_ && view_.contiguous() && fetched.contains({receiver_, slot_->source.id});
}

void RendezvousSend::buffer(Need need) {
  if (stream_) return stream_->flush_to_host(need);
  RendezvousState expected = RendezvousState::offered;
  if (pooled_ || !slot_->state.compare_exchange_strong(expected, RendezvousState::moving)) return;
  count(Fallback::late_receiver);
  void* pool = exportable_ ? device::pool_allocate(device_, bytes_) : nullptr;
  if (pool && packing::move_now(device_, {pool, bytes_}, 0, view_, 0, bytes_) == device::Error::none) {
    device::Allocation allocation = device::classify(pool);
    node::RemoteMemory source{};
    source.base = reinterpret_cast<uintptr_t>(pool);
    if (receiver_ == node_.rank() || describe(node_, receiver_, allocation, pool, bytes_, &source)) {
      slot_->source = source;
      pooled_ = pool;
      view_ = {pool, bytes_};
      slot_->shape = view_.shape();
      slot_->first = 0;
      slot_->state.store(RendezvousState::buffered, std::memory_order_release);
      count(path_ = Traffic::buffered_device, bytes_);
      return;
    }
  }
  if (pool) device::pool_free(pool);
  count(Fallback::full_pool);
  stream();
  stream_->flush_to_host(need);
  if (stream_->read_out()) count(path_ = Traffic::buffered_host, bytes_);
}

// Stages a message whose bytes are in a device buffer that the receiver may be unable to fetch from.
void RendezvousSend::leave_device() {
  stream();
  if (path_ != Traffic::staged) return;  // the pair has passed the probe meanwhile
  const node::PathDecision& decision = node_.decision(node_.rank(), device_, receiver_);
  count(decision.path == Path::staged ? fallback_of(decision.reason) : Fallback::not_probed);
}

void RendezvousSend::flush() {
  // Repeat until the receiver has claimed the message, or the bytes are where the receiver can fetch them. In
  // each step the receiver may have been faster.
  while (!stream_) {
    advance();
    if (stream_) break;  // refused meanwhile: for this message, earlier success does not count
    RendezvousState state = slot_->state.load(std::memory_order_acquire);
    if (finished_ || probed() || state == RendezvousState::claimed) return;
    if (state == RendezvousState::announced) return;  // a thread of this rank offers it
    if (state == RendezvousState::offered) buffer(Need::required);
    // If the pair has not passed the probe, only host memory is safe.
    state = RendezvousState::buffered;
    if (!probed() && slot_->state.compare_exchange_strong(state, RendezvousState::moving)) leave_device();
  }
  stream_->flush_to_host(Need::required);
}

int rendezvous_in_use() {
  return static_cast<int>(taken.count());
}

}  // namespace fairlead::p2p
