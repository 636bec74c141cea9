// SPDX-License-Identifier: Apache-2.0

#include "p2p/rendezvous_send.h"

#include <array>
#include <atomic>
#include <bitset>
#include <utility>

#include "base/log.h"
#include "base/options.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "observe/statistics.h"
#include "p2p/describe.h"
#include "packing/move.h"
#include "transport/arena.h"
#include "transport/peer.h"

namespace fairlead::p2p {
namespace {

using node::Path;
using node::Reason;
using node::RendezvousState;

std::bitset<node::rendezvous_per_rank> taken;
std::array<const RendezvousSend*, node::rendezvous_per_rank> sends;  // by the rendezvous that they have
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
    case Reason::abandoned:
    case Reason::not_exportable:
      return Fallback::not_exportable;
  }
  return Fallback::not_exportable;
}

bool in_turns(node::Node& node, int device, int receiver, uint64_t bytes) {
  return bytes <= transport::longest_in_turns && receiver != node.rank() &&
         node.decision(node.rank(), device, receiver).in_turns && transport::host_arena(node);
}

// If peer copies work for the pair, but not from this memory, the bytes are staged through device memory.
transport::Medium medium_to(node::Node& node, int device, int receiver, uint64_t bytes) {
  const bool probed = node.decision(node.rank(), device, receiver).path == Path::peer;
  return probed && !in_turns(node, device, receiver, bytes) ? transport::Medium::device
                                                            : transport::Medium::host;
}

}  // namespace

// Copies the bytes of a late send to a piece of the pool. The copy reads the user's buffer: its end is waited
// for, whatever becomes of the message.
struct RendezvousSend::MoveToPool {
  explicit MoveToPool(void* memory) : piece(memory) { ++unfinished; }
  ~MoveToPool() {
    move.wait();
    if (piece) device::pool_free(piece);
    --unfinished;
  }
  void* piece;
  packing::Move move;
  static inline std::atomic<int> unfinished = 0;
};

std::unique_ptr<RendezvousSend> RendezvousSend::open(node::Node& node, int receiver, const Source& source,
                                                     const device::Allocation& allocation, Bytes bytes,
                                                     const MessageKey& key) {
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

  const bool by_host = bytes == Bytes::present && in_turns(node, device, receiver, source.bytes);
  if (key && bytes == Bytes::present && source.view.contiguous() && !by_host)
    if (auto put = RendezvousPut::start(node, receiver, key, source.view.address(), source.bytes, device)) {
      slot.posted = put->index();
      return std::unique_ptr<RendezvousSend>(
          new RendezvousSend(node, index, receiver, source, device, bytes, std::nullopt, std::move(put)));
    }

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
    else if (by_host)
      unreachable = Fallback::in_turns;
    else if (!can_be_fetched(source.view))
      unreachable = Fallback::packed;
    else if (decision.path == Path::peer)
      unreachable =
          describe_if_worth(node, receiver, allocation, source.span, source.span_bytes, &slot.source);
    else if (!transport::export_to(node, {&receiver, 1}, allocation, source.span, source.span_bytes,
                                   &slot.source))
      unreachable = Fallback::not_exportable;
  }
  // Without memory for staging here, the caller leaves the message to the host MPI.
  if (unreachable &&
      (bytes == Bytes::to_come ||
       !transport::may_stage(node, device, source.bytes, medium_to(node, device, receiver, source.bytes)))) {
    taken[index] = false;
    return nullptr;
  }
  return std::unique_ptr<RendezvousSend>(
      new RendezvousSend(node, index, receiver, source, device, bytes, unreachable, nullptr));
}

RendezvousSend::RendezvousSend(node::Node& node, int index, int receiver, const Source& source, int device,
                               Bytes bytes, std::optional<Fallback> unreachable,
                               std::unique_ptr<RendezvousPut> put)
    : node_(node),
      index_(index),
      receiver_(receiver),
      slot_(&node.mine().rendezvous[index]),
      source_(slot_->source),
      view_(source.view),
      bytes_(source.bytes),
      device_(device),
      exportable_(!unreachable),
      offered_(bytes == Bytes::present),
      puts_(put != nullptr),
      put_(std::move(put)),
      failures_seen_(node.block(receiver).failed_receives.load()),
      rts_{node.nonce(),
           rts_version,
           node.rank(),
           static_cast<uint32_t>(index),
           RtsKind::rendezvous,
           source.bytes,
           0} {
  sends[static_cast<size_t>(index)] = this;
  if (puts_) {
    path_ = Traffic::put;
    slot_->state.store(RendezvousState::put, std::memory_order_release);
  } else if (exportable_) {
    slot_->state.store(bytes == Bytes::present ? RendezvousState::offered : RendezvousState::announced,
                       std::memory_order_release);
  } else {
    count(*unreachable);
    stage_data();
  }
}

const RendezvousSend* RendezvousSend::of_this_rank(uint32_t number) {
  return number < sends.size() ? sends[number] : nullptr;
}

void RendezvousSend::make_available() {
  if (finished_ || abandoned_) return;  // the slot may be another message's by now
  offered_ = true;
  slot_->state.store(RendezvousState::offered, std::memory_order_release);
}

RendezvousSend::~RendezvousSend() {
  if (!finished_) close();
}

void RendezvousSend::stage_data() {
  moving_.reset();
  const bool copies_fail = slot_->reason.load(std::memory_order_relaxed) == Reason::copy_failed;
  stream_ = std::make_unique<transport::StagedSender>(
      node_, *slot_, receiver_, device_, view_, bytes_,
      copies_fail ? transport::Medium::host : medium_to(node_, device_, receiver_, bytes_));
  path_ = stream_->through_device() ? Traffic::device_staged : Traffic::staged;
}

// Can advance() find the rendezvous in this state, unless another process has damaged it?
bool RendezvousSend::is_possible(RendezvousState state) const {
  using enum RendezvousState;
  if (!offered_ && !abandoned_) return state == announced;
  if (state == done) return true;
  if (puts_) return state == put;
  if (stream_ || abandoned_) return state == pipelined;
  return state == (pooled_ ? buffered : offered) || state == claimed || state == refused;
}

void RendezvousSend::advance() {
  if (finished_) return;
  if (put_) {
    const device::Error error = put_->poll();
    if (error == device::Error::not_ready) return;
    if (error == device::Error::none) {
      // The GPU stores no word behind another copy that has failed.
      if (!put_->told() && slot_->state.load(std::memory_order_acquire) == RendezvousState::put)
        put_->signal();
    } else {
      slot_->reason.store(Reason::copy_failed, std::memory_order_relaxed);
      count(Fallback::copy_failed);
      puts_ = false;
      stage_data();
    }
    put_.reset();
  }
  if (moving_) {
    moving_->move.start_now();  // the round in which it became late has ended: it waits for no other copies
    if (const device::Error error = moving_->move.poll(); error != device::Error::not_ready)
      end_move(error, Need::wanted);
  }
  RendezvousState state = slot_->state.load(std::memory_order_acquire);
  if (!is_possible(state)) return lose();
  switch (state) {
    case RendezvousState::refused:
      // The receiver may claim it again at the same time (RendezvousGet::insist() in get.cpp).
      if (!slot_->begin_to_move(state)) break;
      if (slot_->reason.load(std::memory_order_relaxed) == Reason::import_failed)
        transport::note_fetched(receiver_, source_, false);
      count(fallback_of(slot_->reason.load(std::memory_order_relaxed)));
      stage_data();
      break;
    case RendezvousState::pipelined:
      if (stream_) stream_->advance();
      break;
    case RendezvousState::done:
      if (moving_) break;  // it reads the user's buffer
      if (slot_->fetched.load(std::memory_order_relaxed) && receiver_ != node_.rank())
        transport::note_fetched(receiver_, source_, true);
      close();
      break;
    default:
      break;
  }
}

void RendezvousSend::close() {
  release_memory();
  slot_->state.store(RendezvousState::free, std::memory_order_relaxed);
  taken[static_cast<size_t>(index_)] = false;
}

// Another process has damaged the rendezvous, which is not used again: the receiver may still write to it.
void RendezvousSend::lose() {
  log_line(LogLevel::error, "a device message of %llu bytes to rank %d is lost: %s",
           static_cast<unsigned long long>(bytes_), node_.world_rank(receiver_), to_string(Reason::damaged));
  lost_ = true;
  release_memory();
  slot_->reason.store(Reason::damaged, std::memory_order_relaxed);
  slot_->state.store(RendezvousState::done, std::memory_order_release);
}

void RendezvousSend::release_memory() {
  if (stream_) stream_->finish();
  put_.reset();
  moving_.reset();
  if (pooled_) device::pool_free(pooled_);
  pooled_ = nullptr;
  sends[static_cast<size_t>(index_)] = nullptr;
  finished_ = true;
}

bool RendezvousSend::buffer_free() const {
  return finished_ || abandoned_ || (puts_ && !put_) || pooled_ || (stream_ && stream_->read_out());
}

bool RendezvousSend::matched_by_probe() const {
  return node_.block(receiver_).looking.load() != 0 || slot_->looked_at.load(std::memory_order_acquire) != 0;
}

bool RendezvousSend::probed() const {
  if (receiver_ == node_.rank()) return true;
  // The peer-access probe used memory of the same pool.
  if (pooled_) return node_.decision(node_.rank(), device_, receiver_).path == Path::peer;
  // A receiver that cannot read a layout with gaps needs the sender's help.
  return exportable_ && view_.contiguous() && transport::has_mapped(receiver_, source_);
}

// The receiver may claim the bytes where they are until they have been copied. Messages that are late in the
// same round share a batch of copies.
void RendezvousSend::buffer(Need need) {
  if (stream_) return stream_->flush_to_host(need);
  if (pooled_ || slot_->state.load(std::memory_order_acquire) != RendezvousState::offered) return;
  if (!moving_) {
    void* const piece = exportable_ ? device::pool_allocate(device_, bytes_) : nullptr;
    if (!piece) return end_move(device::Error::out_of_memory, need);
    moving_ = std::make_unique<MoveToPool>(piece);
    if (const device::Error error = moving_->move.enqueue(device_, {piece, bytes_}, view_, bytes_);
        error != device::Error::none)
      return end_move(error, need);
  }
  if (need == Need::required) end_move(moving_->move.wait(), need);
}

// The bytes are in the buffer, or must be staged through host memory, unless the receiver was faster.
void RendezvousSend::end_move(device::Error error, Need need) {
  auto moved = std::move(moving_);
  RendezvousState expected = RendezvousState::offered;
  const bool late = slot_->begin_to_move(expected);
  if (late) count(Fallback::late_receiver);
  if (late && error == device::Error::none) {
    device::Allocation allocation = device::classify(moved->piece);
    node::RemoteMemory source{};
    source.base = reinterpret_cast<uintptr_t>(moved->piece);
    if (receiver_ == node_.rank() ||
        transport::export_to(node_, {&receiver_, 1}, allocation, moved->piece, bytes_, &source)) {
      slot_->source = source_ = source;
      pooled_ = std::exchange(moved->piece, nullptr);
      view_ = {pooled_, bytes_};
      slot_->shape = view_.shape();
      slot_->first = 0;
      slot_->state.store(RendezvousState::buffered, std::memory_order_release);
      count(path_ = Traffic::buffered_device, bytes_);
      return;
    }
  }
  moved.reset();  // its piece may serve the stream
  if (!late) return;
  count(Fallback::full_pool);
  stage_data();
  stream_->flush_to_host(need);
  if (stream_->read_out()) count(path_ = Traffic::buffered_host, bytes_);
}

// Stages a message whose bytes are in a device buffer that the receiver may be unable to fetch from.
void RendezvousSend::leave_device() {
  stage_data();
  if (path_ != Traffic::staged) return;  // the pair has passed the probe meanwhile
  const node::PathDecision& decision = node_.decision(node_.rank(), device_, receiver_);
  count(decision.path == Path::staged                 ? fallback_of(decision.reason)
        : in_turns(node_, device_, receiver_, bytes_) ? Fallback::in_turns
                                                      : Fallback::not_probed);
}

// Only one of the two ranks makes the next step: of a receiver that has claimed the bytes, this one waits for
// the end.
bool RendezvousSend::abandon(bool receiver_lives) {
  if (put_) return false;
  if (!finished_ && !receiver_lives) close();
  if (finished_ || abandoned_ || puts_) return true;
  if (stream_) {
    stream_->abandon();
    return abandoned_ = true;
  }
  RendezvousState state = slot_->state.load(std::memory_order_acquire);
  if (state == RendezvousState::claimed || state == RendezvousState::done || !slot_->begin_to_move(state))
    return false;
  moving_.reset();
  transport::StagedSender::refuse(*slot_, bytes_);
  if (pooled_) device::pool_free(std::exchange(pooled_, nullptr));
  return abandoned_ = true;
}

void RendezvousSend::flush() {
  // Only the GPU delays a put.
  while (put_) advance();
  if (puts_ || abandoned_) return;
  // Repeat until the receiver has claimed the message, or the bytes are where the receiver can fetch them. In
  // each step the receiver may have been faster.
  while (!stream_) {
    advance();
    if (stream_) break;  // refused meanwhile: for this message, earlier success does not count
    RendezvousState state = slot_->state.load(std::memory_order_acquire);
    if (finished_ || probed() || state == RendezvousState::claimed || state == RendezvousState::done) return;
    if (state == RendezvousState::announced) return;  // a thread of this rank offers it
    if (state == RendezvousState::offered) buffer(Need::required);
    // If the pair has not passed the probe, only host memory is safe.
    state = RendezvousState::buffered;
    if (!probed() && slot_->begin_to_move(state)) leave_device();
  }
  if (!finished_) stream_->flush_to_host(Need::required);
}

int RendezvousSend::unfinished_moves() {
  return MoveToPool::unfinished;
}

int rendezvous_in_use() {
  return static_cast<int>(taken.count());
}

}  // namespace fairlead::p2p
