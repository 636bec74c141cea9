// SPDX-License-Identifier: Apache-2.0

#include "coll/collective_slot.h"

#include <algorithm>
#include <new>

#include "base/memory/page_size.h"
#include "device/blocking_driver_calls.h"
#include "device/registered_memory.h"

namespace fairlead::coll {
namespace {

constexpr size_t address_space = size_t{1} << 30;  // of a slot pool; a page takes memory once it is touched

size_t slot_bytes(int ranks) {
  size_t members = static_cast<size_t>(std::min(ranks, max_members));
  return whole_pages(sizeof(SlotHeader) + members * sizeof(MemberArea));
}

int64_t slots_per_rank(int ranks) {
  auto fit = static_cast<int64_t>(address_space / (slot_bytes(ranks) * static_cast<size_t>(ranks)));
  return std::clamp<int64_t>(fit, 16, 1024);
}

size_t slot_pool_bytes(int ranks) {
  return slot_bytes(ranks) * static_cast<size_t>(slots_per_rank(ranks) * ranks);
}

// A word of a slot holds number * range + value, which is at least `least`. Sets the value for this number
// unless the word has one already; returns the value that it has then.
uint64_t set_once(std::atomic<uint64_t>& word, uint64_t range, uint64_t least, uint64_t number,
                  uint64_t value) {
  uint64_t seen = word.load(std::memory_order_acquire);
  while (seen / range != number || seen % range < least)
    if (word.compare_exchange_weak(seen, number * range + value)) return value;
  return seen % range;
}

constexpr uint64_t range_of_workers = 256, least_workers = 64;
Workers to_workers(uint64_t value) {
  return {static_cast<Workers::Are>(value / 64), static_cast<int>(value % 64)};
}
uint64_t to_value(Workers workers) {
  return static_cast<uint64_t>(workers.are) * 64 + static_cast<uint64_t>(workers.member);
}

}  // namespace

node::SharedMemory SlotPool::create(int ranks) {
  return node::SharedMemory::create(slot_pool_bytes(ranks));
}

node::SharedMemory SlotPool::open(int ranks, int file) {
  return node::SharedMemory::adopt(file, slot_pool_bytes(ranks));
}

SlotPool::SlotPool(node::SharedMemory memory, int ranks, int my_rank)
    : memory_(std::move(memory)), ranks_(ranks), my_rank_(my_rank) {}

SlotHeader* SlotPool::slot(int64_t number) const {
  return reinterpret_cast<SlotHeader*>(memory_.data() + slot_bytes(ranks_) * static_cast<size_t>(number));
}

// The first free one: a slot that was never used takes memory once it is touched, and is registered.
int64_t SlotPool::take(int members, DuplicateKey key) {
  std::lock_guard lock(taking_);
  int64_t count = slots_per_rank(ranks_);
  for (int64_t number = my_rank_ * count; number < (my_rank_ + 1) * count; ++number) {
    SlotHeader* header = slot(number);
    if (header->members && header->left.load(std::memory_order_acquire) < header->members) continue;
    size_t used = sizeof(SlotHeader) + static_cast<size_t>(members) * sizeof(MemberArea);
    uint64_t times_taken = header->times_taken + 1;
    header->duplicate_of.store(0, std::memory_order_seq_cst);
    std::fill_n(reinterpret_cast<unsigned char*>(header), used, static_cast<unsigned char>(0));
    header->members = static_cast<uint32_t>(members);
    header->times_taken = times_taken;
    header->duplicate_number.store(key.number, std::memory_order_release);
    header->duplicate_of.store(key.parent, std::memory_order_release);
    return number;
  }
  return -1;
}

int64_t SlotPool::find(int rank, DuplicateKey key) const {
  int64_t count = slots_per_rank(ranks_);
  for (int64_t number = rank * count; number < (rank + 1) * count; ++number) {
    const SlotHeader* header = slot(number);
    // The owner may be reassigning the slot. It clears duplicate_of first and sets it last, so that two equal
    // loads of duplicate_of prove that duplicate_number belongs to it.
    if (header->duplicate_of.load(std::memory_order_acquire) == key.parent &&
        header->duplicate_number.load(std::memory_order_acquire) == key.number &&
        header->duplicate_of.load(std::memory_order_acquire) == key.parent)
      return number;
  }
  return -1;
}

uint64_t SlotPool::name(int64_t slot_number) const {
  return static_cast<uint64_t>(slot_number + 1) << 40 | slot(slot_number)->times_taken;
}

size_t SlotPool::taken_by_me() const {
  int64_t count = slots_per_rank(ranks_);
  size_t taken = 0;
  for (int64_t i = 0; i < count; ++i) {
    const SlotHeader* header = slot(my_rank_ * count + i);
    taken += header->members && header->left.load(std::memory_order_acquire) < header->members;
  }
  return taken;
}

Capability CollectiveSlot::capability(int member, uint64_t number) const {
  const MemberArea& its = area(member);
  auto own_word = [&] {
    const uint64_t word = its.arrivals[number % arrivals_kept].load(std::memory_order_acquire);
    if (word / 8 < number) return Capability::none;
    const bool possible =
        word / 8 == number && word % 8 > 0 && word % 8 <= static_cast<uint64_t>(Capability::meets);
    return possible ? static_cast<Capability>(word % 8)
                    : Capability::host;  // damaged words: the same for all
  };
  Capability capability = own_word();
  if (capability != Capability::none || number > its.ahead.load(std::memory_order_acquire)) return capability;
  // Between the two loads the member may have arrived here and later gone ahead: load its word again.
  capability = own_word();
  return capability == Capability::none ? Capability::host : capability;
}

Decision CollectiveSlot::decide(uint64_t number, Decision outcome) {
  std::atomic<uint64_t>& word = slot_->decisions[number % arrivals_kept];
  return static_cast<Decision>(set_once(word, 4, 1, number, static_cast<uint64_t>(outcome)));
}

Decision CollectiveSlot::outcome(uint64_t number, Capabilities capabilities) {
  auto decide = [&](Decision outcome) {
    return capabilities == Capabilities::stand ? outcome : this->decide(number, outcome);
  };
  if (capabilities == Capabilities::may_be_withdrawn) {
    uint64_t seen = slot_->decisions[number % arrivals_kept].load(std::memory_order_acquire);
    if (seen / 4 == number && seen % 4 != 0) return static_cast<Decision>(seen % 4);
  }
  bool all_here = true, device = false, nccl = true, meet = true;
  for (int member = 0; member < members_; ++member) {
    Capability its = capability(member, number);
    if (its == Capability::host || its == Capability::staged) return decide(Decision::staged);
    all_here &= its != Capability::none;
    device |= its != Capability::none && its != Capability::nothing;
    nccl &= its == Capability::nccl;
    meet &= its == Capability::meets;
  }
  if (!all_here) return Decision::undecided;
  if (nccl) return decide(Decision::nccl);
  if (meet && capabilities == Capabilities::stand) return Decision::met;
  return decide(device ? Decision::gpu : Decision::staged);
}

Workers CollectiveSlot::workers(uint64_t number) const {
  const uint64_t seen = slot_->workers[number % records_kept].load(std::memory_order_acquire);
  return seen / range_of_workers == number ? to_workers(seen % range_of_workers) : Workers{};
}

Workers CollectiveSlot::propose(uint64_t number, Workers workers) {
  std::atomic<uint64_t>& word = slot_->workers[number % records_kept];
  return to_workers(set_once(word, range_of_workers, least_workers, number, to_value(workers)));
}

void CollectiveSlot::announce(uint64_t number, Workers workers) {
  slot_->workers[number % records_kept].store(number * range_of_workers + to_value(workers),
                                              std::memory_order_release);
}

bool CollectiveSlot::is_set(uint64_t& word, uint64_t number) {
  return std::atomic_ref(word).load(std::memory_order_acquire) == number;
}

bool CollectiveSlot::is_damaged(uint64_t number) const {
  const MemberArea& own = area(me_);
  const uint64_t index = number % records_kept, arrived = arrived_[number % arrivals_kept];
  const uint64_t passed = passed_.load(std::memory_order_acquire);
  if (own.passed.load(std::memory_order_relaxed) < passed ||
      (arrived / 8 == number &&
       own.arrivals[number % arrivals_kept].load(std::memory_order_relaxed) != arrived))
    return true;
  auto beyond = [&](uint64_t& word) {
    return std::atomic_ref(word).load(std::memory_order_relaxed) > number;
  };
  for (int member = 0; member < members_; ++member) {
    const Record& record = area(member).records[index];
    if (!members_may_fail_ && area(member).passed.load(std::memory_order_acquire) >= number &&
        capability(member, number) == Capability::none)
      return true;
    if (beyond(slot_->done[index][member]) || record.exported.load(std::memory_order_relaxed) / 2 > number ||
        record.ready.load(std::memory_order_relaxed) / 2 > number)
      return true;
  }
  return beyond(slot_->ended[index]) || workers(number).member >= members_;
}

void CollectiveSlot::set_done(uint64_t number) {
  std::atomic_ref(slot_->done[number % records_kept][me_]).store(number, std::memory_order_release);
}

void CollectiveSlot::register_words() {
  if (members_ > 1 && !device::BlockingDriverCalls::in_thread_of_library)
    (void)device::register_memory(slot_, whole_pages(sizeof(SlotHeader)));
}

kernels::EndWord CollectiveSlot::for_kernels(uint64_t* word, int device) const {
  void* there = device::registered_for_kernels(device, slot_);
  if (!there) return {};
  const auto at = reinterpret_cast<char*>(word) - reinterpret_cast<char*>(slot_);
  return {word, reinterpret_cast<uint64_t*>(static_cast<char*>(there) + at)};
}

kernels::EndWord CollectiveSlot::word_of_end(uint64_t number, int device) const {
  return for_kernels(&slot_->ended[number % records_kept], device);
}

kernels::EndWord CollectiveSlot::word_of_part(uint64_t number, int device) const {
  return for_kernels(&slot_->done[number % records_kept][me_], device);
}

bool CollectiveSlot::any_other_passed(uint64_t number) {
  if (members_may_fail_) return false;
  for (int member = 0; member < members_; ++member)
    if (member != me_ && area(member).passed.load(std::memory_order_acquire) >= number &&
        !gave_up(member, number))
      return true;
  return false;
}

bool CollectiveSlot::is_out(int member, uint64_t number) {
  const Capability its = capability(member, number);
  if (its == Capability::none || its == Capability::host || its == Capability::staged) return true;
  const Workers chosen = workers(number);
  if (chosen.member == member &&
      (chosen.are == Workers::Are::one || chosen.are == Workers::Are::one_that_has_started) &&
      !has_ended(number))
    return record(member, number).failed.load(std::memory_order_acquire) == number;
  return is_done(member, number) || gave_up(member, number) || has_ended(number);
}

std::vector<int> CollectiveSlot::missing(uint64_t number) {
  std::vector<int> absent;
  for (int member = 0; member < members_; ++member)
    if (capability(member, number) == Capability::none) absent.push_back(member);
  return absent;
}

bool CollectiveSlot::everybody_passed(uint64_t number, uint64_t kept) {
  if (number <= all_passed_ + kept) return true;
  all_passed_ = UINT64_MAX;
  for (int member = 0; member < members_; ++member)
    all_passed_ = std::min(all_passed_, area(member).passed.load(std::memory_order_acquire));
  return number <= all_passed_ + kept;
}

}  // namespace fairlead::coll
