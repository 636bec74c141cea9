// SPDX-License-Identifier: Apache-2.0

#include "p2p/posted_buffer.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/memory/page_size.h"
#include "base/mix.h"
#include "base/options.h"
#include "device/registered_memory.h"
#include "p2p/describe.h"
#include "p2p/rts_check.h"
#include "p2p/shared_area.h"
#include "transport/peer.h"

namespace fairlead::p2p {
namespace {

using device::Error;
using node::posted_per_rank;

constexpr int few = 4;
constexpr uint64_t claimed = 1;

// The words of a rank's posted buffers: whole pages, since a GPU stores to them.
size_t words_bytes() {
  return whole_pages(sizeof(uint32_t) * posted_per_rank);
}

// What each buffer of this rank is offered for.
struct Offer {
  int sender = -1;  // -1: it is not
  MessageKey key;
};
std::array<Offer, posted_per_rank> offers;
std::array<uint32_t, posted_per_rank> turns;
// Drivers of ROCm store only values below 2^31.
constexpr uint32_t last_turn = INT32_MAX;

// An even number that is not 0.
uint64_t name_of(const MessageKey& key) {
  const uint64_t name = mixed(key.sequence, key.number) & ~claimed;
  return name != 0 ? name : 2;
}

size_t set_of(uint64_t name) {
  return (name >> 32) % node::posted_sets;
}

uint32_t value_of(const uint32_t* word) {
  return std::atomic_ref(*const_cast<uint32_t*>(word)).load(std::memory_order_acquire);
}

uint32_t* words_of(node::Node& node, int rank) {
  return reinterpret_cast<uint32_t*>(
      shared_area(node, rank, &node::RankBlock::posted_words_offset, words_bytes()));
}

bool stores_words(int device) {
  static auto& known = *new std::map<int, bool>;
  const auto found = known.find(device);
  if (found != known.end()) return found->second;
  return known[device] = device::runtime()->has_word_operations(device);
}

// Of one sender: the receives in progress; the most at once since there was none, and before that.
struct InProgress {
  int now = 0, most = 0, most_before = 0;
};
InProgress& in_progress_from(int sender) {
  static auto& counts = *new std::vector<InProgress>;
  if (static_cast<size_t>(sender) >= counts.size()) counts.resize(static_cast<size_t>(sender) + 1);
  return counts[static_cast<size_t>(sender)];
}

}  // namespace

ReceiveInProgress::ReceiveInProgress(int sender) : sender_(sender) {
  InProgress& counts = in_progress_from(sender);
  if (counts.now++ == 0) counts.most_before = std::exchange(counts.most, 0);
  counts.most = std::max(counts.most, counts.now);
}

ReceiveInProgress& ReceiveInProgress::operator=(ReceiveInProgress&& other) noexcept {
  end();
  sender_ = std::exchange(other.sender_, -1);
  return *this;
}

void ReceiveInProgress::end() {
  if (sender_ >= 0) --in_progress_from(sender_).now;
  sender_ = -1;
}

bool ReceiveInProgress::one_of_few() const {
  const InProgress& counts = in_progress_from(sender_);
  return std::max(counts.most, counts.most_before) <= few;
}

std::unique_ptr<PostedBuffer> PostedBuffer::post(node::Node& node, int sender, const MessageKey& key,
                                                 const device::Allocation& allocation, void* address,
                                                 uint64_t bytes) {
  if (!options().ipc || !allocation.ordinary || !allocation.exportable || allocation.device < 0 ||
      allocation.device >= node::devices_per_rank)
    return nullptr;
  const uint64_t name = name_of(key);
  const auto set = std::span(offers).subspan(set_of(name) * node::posted_per_set, node::posted_per_set);
  const auto place = std::ranges::find(set, -1, &Offer::sender);
  const uint32_t* const words = words_of(node, node.rank());
  if (place == set.end() || !words) return nullptr;
  const auto index = static_cast<uint32_t>(&*place - offers.data());
  node::RankBlock& mine = node.mine();
  node::PostedBuffer& posted = mine.posted[index];
  // The sender may be the first to look whether it can reach this device.
  if (!transport::export_probe(node, allocation.device) ||
      describe_if_worth(node, sender, allocation, address, bytes, &posted.memory))
    return nullptr;
  posted.bytes = bytes;
  posted.device = allocation.device;
  const uint32_t turn = posted.turn = turns[index] = (turns[index] + 1) & last_turn;
  *place = {sender, key};
  // Of two ranks that both offer a buffer and then look for one, at least one sees the other's.
  offer_at(mine, index).store(name, std::memory_order_seq_cst);
  return std::unique_ptr<PostedBuffer>(new PostedBuffer(node, index, name, words + index, turn));
}

bool PostedBuffer::withdraw() {
  uint64_t seen = name_;
  return offer_.compare_exchange_strong(seen, 0) || seen != (name_ | claimed);
}

bool PostedBuffer::withdraw_from(node::Node& node, const MessageKey& first) {
  bool all = true;
  for (uint32_t i = 0; i < offers.size(); ++i) {
    const auto& [sender, key] = offers[i];
    if (sender < 0 || key.sequence != first.sequence || key.number < first.number) continue;
    const uint64_t name = name_of(key);
    uint64_t seen = name;
    if (!offer_at(node.mine(), i).compare_exchange_strong(seen, 0)) all &= seen != (name | claimed);
  }
  return all;
}

PostedBuffer::~PostedBuffer() {
  if (!withdraw() && state() != Error::none && !given_up_) return;
  offer_.store(0, std::memory_order_release);
  offers[index_] = {};
}

// Before, the word holds an earlier turn.
Error PostedBuffer::state() const {
  const uint32_t seen = value_of(word_), behind = (turn_ - seen) & last_turn;
  if (seen == turn_) return Error::none;
  return seen <= last_turn && behind <= last_turn / 2 ? Error::not_ready : Error::failed;
}

std::unique_ptr<RendezvousPut> RendezvousPut::start(node::Node& node, int receiver, const MessageKey& key,
                                                    const void* from, uint64_t bytes, int device) {
  static bool has_failed = false;
  node::RankBlock& block = node.block(receiver);
  if (!options().ipc || has_failed || block.polls.load(std::memory_order_relaxed)) return nullptr;
  const uint64_t name = name_of(key);
  auto& set = block.posted_for[set_of(name)];
  const auto found = std::ranges::find(set, name, [](auto& offer) { return offer.load(); });
  if (found == std::end(set) || !stores_words(device)) return nullptr;
  if (uint64_t seen = name; !found->compare_exchange_strong(seen, name | claimed)) return nullptr;

  const auto index = static_cast<uint32_t>(set_of(name) * node::posted_per_set + (found - set));
  const node::PostedBuffer posted = node::read_once(block.posted[index]);
  auto put = std::make_unique<RendezvousPut>();
  put->index_ = index;
  put->turn_ = posted.turn;
  const auto started = [&] {
    kernels::StridedShape shape;
    shape.piece = bytes;
    if (posted.bytes < bytes || posted.turn > last_turn || !is_sound(posted.memory, shape, 0, bytes))
      return false;
    uint32_t* const words = words_of(node, receiver);
    if (!words || !device::register_memory(words, words_bytes()) ||
        !transport::reach_from(node, receiver, posted.device, device, posted.memory, &put->mapped_) ||
        !transport::copies_may_write(node, receiver, posted.device, device))
      return false;
    put->word_ = words + index;
    has_failed = put->copy_.start_and_tell(device, put->mapped_.address(), from, bytes, put->word_,
                                           put->turn_) != Error::none;
    if (has_failed)
      log_line(LogLevel::info, "messages are no longer written to posted buffers: %s",
               device::runtime()->error_text());
    return !has_failed;
  };
  if (started()) return put;
  found->store(name, std::memory_order_release);
  return nullptr;
}

bool RendezvousPut::told() const {
  return value_of(word_) == turn_;
}

void RendezvousPut::signal() {
  std::atomic_ref(*word_).store(turn_, std::memory_order_release);
}

// The word is there sooner than the driver's answer to a query.
Error RendezvousPut::poll() {
  if (!told()) return copy_.poll();
  copy_.forget();
  return Error::none;
}

}  // namespace fairlead::p2p
