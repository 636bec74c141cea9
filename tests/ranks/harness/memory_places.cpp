// SPDX-License-Identifier: Apache-2.0
//
// The harness' buffers: memory of every kind through fairlead/device.h, filled with patterns and compared.
// With TEST_MEMORY=host all of it is host memory, and no device is touched; with TEST_MEMORY=system device
// memory is memory of malloc() that kernels reach.

#include <fairlead/device.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/runtime.h"
#include "harness/harness.h"

namespace ranks {

namespace {

constexpr size_t guard_bytes = 64;
constexpr size_t block_bytes = 64 << 10;
constexpr int copy_attempts = 4;  // the simulated GPU can be told to fail copies, ours as well

// Memory is filled and compared through these, for tests that take memory away (TEST_LACKS=space).
thread_local struct { unsigned char wanted[block_bytes], found[block_bytes]; } block;

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void device_must(int result, const char* what, size_t bytes) {
  if (result != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot %s %zu bytes: %s", what, bytes, fairlead_device_error_text());
}

// What Place::device and Place::other_device are made of.
fairlead_device_memory kind_of_device_memory() {
  const char* wanted = getenv("TEST_MEMORY");
  if (wanted != nullptr && strcmp(wanted, "pool") == 0) return FAIRLEAD_MEMORY_POOL;
  if (wanted != nullptr && strcmp(wanted, "virtual") == 0) return FAIRLEAD_MEMORY_VIRTUAL;
  if (wanted != nullptr && strcmp(wanted, "managed") == 0) return FAIRLEAD_MEMORY_MANAGED;
  return FAIRLEAD_MEMORY_DEVICE;
}

fairlead_device_memory kind_of(Place place) {
  static const fairlead_device_memory device = kind_of_device_memory();
  switch (place) {
    case Place::pinned:
      return FAIRLEAD_MEMORY_PINNED;
    case Place::managed:
      return FAIRLEAD_MEMORY_MANAGED;
    case Place::pool:
      return FAIRLEAD_MEMORY_POOL;
    case Place::virtual_memory:
    case Place::far_virtual:
    case Place::host_virtual:
      return FAIRLEAD_MEMORY_VIRTUAL;
    default:
      return device;
  }
}

bool device_is_system_memory() {
  const char* wanted = getenv("TEST_MEMORY");
  if (wanted == nullptr || strcmp(wanted, "system") != 0) return false;
  if (!fairlead::device::whole_runtime()->kernels_reach_host(0))
    give_up("kernels of this GPU do not reach memory of malloc()");
  return true;
}

bool is_plain(Place place) {
  static const bool system = device_is_system_memory();
  return place == Place::host || host_oracle ||
         (system && (place == Place::device || place == Place::other_device));
}

// HIP has no virtual memory of the host.
bool allocate_elsewhere(Place place, size_t bytes, void** address) {
  fairlead::device::Runtime* gpu = fairlead::device::whole_runtime();
  int current = 0;
  fairlead_device_get(&current);
  const int next = (current + 1) % fairlead_device_count();
  const int location = place == Place::far_virtual ? next : -1;
  return (place == Place::far_virtual || place == Place::host_virtual) && gpu &&
         gpu->allocate_virtual_in(location, current, bytes, address) == fairlead::device::Error::none;
}

}  // namespace

const char* to_string(Place place) {
  switch (place) {
    case Place::host:
      return "host";
    case Place::pinned:
      return "pinned";
    case Place::managed:
      return "managed";
    case Place::device:
      return "device";
    case Place::other_device:
      return "other device";
    case Place::pool:
      return "stream-ordered device";
    case Place::virtual_memory:
      return "virtual device";
    case Place::far_virtual:
      return "virtual memory of another device";
    case Place::host_virtual:
      return "virtual memory of the host";
  }
  return "?";
}

uint64_t key_of(uint64_t a, uint64_t b, uint64_t c) {
  return mix(mix(mix(a) + b) + c);
}

void write_pattern(uint64_t key, void* to, size_t bytes) {
  char* out = static_cast<char*>(to);
  size_t done = 0;
  for (; done + 8 <= bytes; done += 8) {
    const uint64_t word = mix(key + done);
    memcpy(out + done, &word, 8);
  }
  const uint64_t word = mix(key + done);
  memcpy(out + done, &word, bytes - done);
}

void* allocate(Place place, size_t bytes) {
  void* address = nullptr;
  if (is_plain(place)) {
    address = malloc(bytes);
    if (address == nullptr) give_up("cannot allocate %zu bytes of host memory", bytes);
    return address;
  }
  if (allocate_elsewhere(place, bytes, &address)) return address;
  int current = 0;
  if (place == Place::other_device) {
    fairlead_device_get(&current);
    device_must(fairlead_device_set((current + 1) % fairlead_device_count()), "change device for", bytes);
  }
  device_must(fairlead_device_allocate(&address, bytes, kind_of(place)), "allocate", bytes);
  if (place == Place::other_device) fairlead_device_set(current);
  return address;
}

void deallocate(Place place, void* address) {
  if (is_plain(place))
    free(address);
  else if (place == Place::pinned)
    device_must(fairlead_device_free_host(address), "free pinned", 0);
  else
    device_must(fairlead_device_free(address), "free device", 0);
}

void copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (host_oracle) {
    memcpy(to, from, bytes);
    return;
  }
  int result = fairlead_device_copy(to, from, bytes);
  for (int attempt = 1; result != FAIRLEAD_DEVICE_SUCCESS && attempt < copy_attempts; ++attempt)
    result = fairlead_device_copy(to, from, bytes);
  device_must(result, "copy", bytes);
}

Memory::Memory(Place place, size_t bytes, size_t offset) : place_(place), bytes_(bytes), offset_(offset) {
  base_ = allocate(place, offset + bytes + guard_bytes);
  clear();
}

Memory::Memory(Memory&& other) noexcept
    : place_(other.place_), base_(other.base_), bytes_(other.bytes_), offset_(other.offset_) {
  other.base_ = nullptr;
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this != &other) {
    release();
    place_ = other.place_;
    base_ = other.base_;
    bytes_ = other.bytes_;
    offset_ = other.offset_;
    other.base_ = nullptr;
  }
  return *this;
}

Memory::~Memory() {
  release();
}

void Memory::release() {
  if (base_ != nullptr) deallocate(place_, base_);
  base_ = nullptr;
}

Memory& Memory::clear() {
  memset(block.wanted, guard_byte, sizeof(block.wanted));
  const size_t all = offset_ + bytes_ + guard_bytes;
  for (size_t at = 0; at < all; at += block_bytes)
    copy(static_cast<char*>(base_) + at, block.wanted, std::min(block_bytes, all - at));
  return *this;
}

Memory& Memory::fill(uint64_t key) {
  for (size_t at = 0; at < bytes_; at += block_bytes) {
    const size_t count = std::min(block_bytes, bytes_ - at);
    write_pattern(key + at, block.wanted, count);
    write(block.wanted, count, at);
  }
  return *this;
}

void Memory::write(const void* from, size_t bytes, size_t offset) {
  copy(data() + offset, from, bytes);
}

void Memory::read(void* to, size_t bytes, size_t offset) const {
  copy(to, data() + offset, bytes);
}

bool Memory::holds(uint64_t key, size_t bytes, std::string* why) const {
  const auto pattern = [&](size_t at, size_t count) { write_pattern(key + at, block.wanted, count); };
  return equals(pattern, bytes, bytes_, why);
}

bool Memory::holds(const std::vector<char>& content, std::string* why, size_t undefined_from) const {
  const auto part = [&](size_t at, size_t count) { memcpy(block.wanted, content.data() + at, count); };
  return equals(part, content.size(), undefined_from, why);
}

// The memory with all its guard bytes, of which `written` bytes are a message's: of those, want(at, count)
// puts what is wanted into the block.
template <typename Want>
bool Memory::equals(const Want& want, size_t written, size_t undefined_from, std::string* why) const {
  const size_t all = offset_ + bytes_ + guard_bytes, end = offset_ + written;
  for (size_t at = 0, count; at < all; at += count) {
    const bool inside = at >= offset_ && at < end;
    count = std::min(block_bytes, (at < offset_ ? offset_ : inside ? end : all) - at);
    if (inside)
      want(at - offset_, count);
    else
      memset(block.wanted, guard_byte, count);
    copy(block.found, static_cast<const char*>(base_) + at, count);
    const size_t from = std::max(at, offset_ + std::min(undefined_from, bytes_));
    const size_t to = std::min(at + count, offset_ + bytes_);
    if (from < to) memcpy(block.found + (from - at), block.wanted + (from - at), to - from);
    if (memcmp(block.found, block.wanted, count) == 0) continue;
    const auto [bad, good] = std::mismatch(block.found, block.found + count, block.wanted);
    char text[200];
    snprintf(text, sizeof(text), "byte %ld is %02x, not %02x: %s a message of %zu bytes in %s memory",
             static_cast<long>(at) + (bad - block.found) - static_cast<long>(offset_), *bad, *good,
             inside ? "wrong in" : "changed beyond", written, to_string(place_));
    *why = text;
    return false;
  }
  return true;
}

KernelInFlight::KernelInFlight(unsigned blocks, unsigned threads)
    : KernelInFlight("run_until", nullptr, blocks, threads) {}

KernelInFlight::KernelInFlight(const char* kernel, void* memory, unsigned blocks, unsigned threads)
    : over_(Place::pinned, sizeof(int)) {
  if (host_oracle) return;
  *reinterpret_cast<volatile int*>(over_.data()) = 0;
  void* over = over_.data();
  void* arguments[] = {&over, &memory};
  if (fairlead_device_launch(kernel, blocks, threads, arguments) != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot launch %s: %s", kernel, fairlead_device_error_text());
}

KernelInFlight::~KernelInFlight() {
  if (host_oracle) return;
  end();
  if (fairlead_device_synchronize() != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot synchronize: %s", fairlead_device_error_text());
}

void KernelInFlight::end() {
  *reinterpret_cast<volatile int*>(over_.data()) = 1;
}

}  // namespace ranks
