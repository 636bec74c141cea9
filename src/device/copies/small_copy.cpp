// SPDX-License-Identifier: Apache-2.0

#include "device/copies/small_copy.h"

#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "device/copies/bar.h"
#include "device/pinned_buffer.h"

namespace fairlead::device {
namespace {

constexpr size_t slots = 128;
constexpr uint32_t untouched = 0xa7c3195d;  // any value works; this one is rare in data

std::mutex mutex;
bool tried = false;
auto& slab = *new PinnedBuffer;  // all slots
auto& idle = *new std::vector<unsigned char*>;

// Returns whether no word holds the pattern any more. If the data itself contains the pattern, the caller
// detects completion by the stream.
bool all_touched(const unsigned char* data, size_t bytes) {
  auto* words = reinterpret_cast<const volatile uint32_t*>(data);
  for (size_t i = (bytes + 3) / 4; i-- > 0;)
    if (words[i] == untouched) return false;
  return true;
}

// The caller holds the lock.
void make_slots() {
  const Attempt made = PinnedBuffer::make(slots * small_copy_bytes, &slab);
  tried = made != Attempt::later;
  if (made == Attempt::made)
    for (size_t i = 0; i < slots; ++i) idle.push_back(slab.data() + i * small_copy_bytes);
}

}  // namespace

Slot Slot::take() {
  Slot slot;
  std::lock_guard lock(mutex);
  if (slab.context().is_gone_for_any()) {
    idle.clear();
    tried = false;
  }
  if (!tried) make_slots();
  if (idle.empty()) return slot;
  slot.data_ = idle.back();
  slot.context_ = slab.context();
  idle.pop_back();
  return slot;
}

Slot::~Slot() {
  if (!data_ || context_.is_gone()) return;
  std::lock_guard lock(mutex);
  idle.push_back(data_);
}

namespace {

Error engine_to_host(int device, void* to, const void* from, size_t bytes) {
  Slot slot = Slot::take();
  if (!slot.data()) return copy_now(device, to, from, bytes);
  // If the source is not aligned to 4 bytes, a word may arrive in two parts.
  bool aligned = reinterpret_cast<uintptr_t>(from) % 4 == 0;
  bool watch = aligned && bytes <= watched_bytes && runtime()->writes_whole_words();
  if (watch)
    for (size_t i = 0; i < bytes; i += 4) std::memcpy(slot.data() + i, &untouched, 4);
  Copy copy;
  Error state = copy.start(device, slot.data(), from, bytes);
  if (state == Error::none) state = Error::not_ready;
  // The loop queries the stream only once in a while: a query costs more than to read the slot.
  for (unsigned round = 1; state == Error::not_ready; ++round) {
    if (watch && all_touched(slot.data(), bytes)) {
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      copy.forget();
      state = Error::none;
    } else if (!watch || round % 256 == 0) {
      state = copy.poll();
    }
  }
  if (state == Error::none) std::memcpy(to, slot.data(), bytes);
  return state;
}

Error engine_to_device(int device, void* to, const void* from, size_t bytes) {
  Slot slot = Slot::take();
  if (!slot.data()) return copy_now(device, to, from, bytes);
  std::memcpy(slot.data(), from, bytes);
  return copy_now(device, to, slot.data(), bytes);
}

constexpr SmallCopies engine{engine_to_host, engine_to_device};

}  // namespace

Error copy_to_host(int device, void* to, const void* from, size_t bytes) {
  if (bytes > small_copy_bytes) return copy_now(device, to, from, bytes);
  return bar_read(device, to, from, bytes, engine) ? Error::none : engine_to_host(device, to, from, bytes);
}

bool store_small_to_device(int device, void* to, const void* from, size_t bytes) {
  return bar_write(device, to, from, bytes, engine);
}

}  // namespace fairlead::device
