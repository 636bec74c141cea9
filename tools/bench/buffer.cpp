// SPDX-License-Identifier: Apache-2.0

#include "bench/buffer.h"

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/memory/page_size.h"
#include "bench/machine.h"
#include "common/failure.h"
#include "common/words.h"
#include "device/runtime.h"

namespace fairlead::tools {
namespace {

constexpr size_t chunk = 4 << 20;

bool on_host(Place place) {
  return place == Place::aligned || place == Place::plain;
}

void require(int error, const char* doing) {
  if (error != FAIRLEAD_DEVICE_SUCCESS)
    throw cannot_run(fmt::format("{}: {}", doing, fairlead_device_error_text()));
}

// Neighbouring words and neighbouring seeds differ in about half of their bits.
uint64_t pattern_word(uint64_t seed, uint64_t index) {
  uint64_t word = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;
  word ^= word >> 29;
  return word * 0xbf58476d1ce4e5b9u;
}

void make_pattern(std::vector<uint64_t>& words, size_t first, uint64_t seed) {
  for (size_t i = 0; i < words.size(); ++i) words[i] = pattern_word(seed, first + i);
}

// Calls `step(done, length)` over pieces that fit the scratch memory.
template <class Step>
void by_chunks(size_t bytes, Step step) {
  for (size_t done = 0; done < bytes; done += chunk) step(done, std::min(chunk, bytes - done));
}

}  // namespace

Place place_of(char letter) {
  return letter == 'D' ? Place::device : letter == 'M' ? Place::managed : Place::aligned;
}

std::string describe(Place place) {
  switch (place) {
    case Place::device:
      return "device";
    case Place::managed:
      return "managed";
    case Place::pinned:
      return "pinned host";
    default:
      return "host";
  }
}

std::string shortage(Place place, uint64_t bytes, int sharers) {
  uint64_t needed = bytes * static_cast<uint64_t>(std::max(sharers, 1));
  uint64_t there = available_memory_bytes();
  if (place == Place::device) {
    size_t free_bytes = 0, total_bytes = 0;
    int current = 0;
    fairlead_device_get(&current);
    device::Runtime* runtime = device::whole_runtime();
    if (!runtime || runtime->memory_info(current, &free_bytes, &total_bytes) != device::Error::none)
      return {};
    if (bytes > free_bytes)
      return fmt::format("{} of device memory are needed per rank, {} are free", size_in_words(bytes),
                         size_in_words(free_bytes));
    // A simulated GPU's memory is the host's.
    if (std::strcmp(runtime->name(), "sim") != 0) return {};
  }
  if (needed <= there) return {};
  return fmt::format("{} of host memory are needed on this node, {} are available", size_in_words(needed),
                     size_in_words(there));
}

Buffer::Buffer(Place place, size_t bytes) : place_(place) {
  bytes = std::max<size_t>(bytes, 1);
  int refused = 0;
  switch (place) {
    case Place::device:
      refused = fairlead_device_malloc(&address_, bytes);
      break;
    case Place::managed:
      refused = fairlead_device_malloc_managed(&address_, bytes);
      break;
    case Place::pinned:
      refused = fairlead_device_malloc_host(&address_, bytes);
      break;
    case Place::aligned:
      refused = posix_memalign(&address_, page_size(), bytes);
      break;
    case Place::plain:
      address_ = std::malloc(bytes);
      refused = address_ == nullptr;
      break;
  }
  if (refused)
    throw usage(fmt::format("cannot allocate {} bytes of {} memory{}{}", bytes, describe(place),
                            on_host(place) ? "" : ": ", on_host(place) ? "" : fairlead_device_error_text()));
}

Buffer::~Buffer() {
  if (!owned_) return;
  if (place_ == Place::pinned)
    fairlead_device_free_host(address_);
  else if (on_host(place_))
    std::free(address_);
  else
    fairlead_device_free(address_);
}

void Buffer::write(size_t offset, const void* data, size_t bytes) {
  char* to = static_cast<char*>(address_) + offset;
  if (on_host(place_))
    std::memcpy(to, data, bytes);
  else if (bytes > 0)
    require(fairlead_device_copy(to, data, bytes), "cannot write the message buffer");
}

void Buffer::read(size_t offset, void* data, size_t bytes) const {
  const char* from = static_cast<const char*>(address_) + offset;
  if (on_host(place_))
    std::memcpy(data, from, bytes);
  else if (bytes > 0)
    require(fairlead_device_copy(data, from, bytes), "cannot read the message buffer");
}

void Buffer::write_pattern(size_t offset, size_t bytes, uint64_t seed) {
  std::vector<uint64_t> scratch((std::min(chunk, bytes) + 7) / 8);
  by_chunks(bytes, [&](size_t done, size_t length) {
    make_pattern(scratch, done / 8, seed);
    write(offset + done, scratch.data(), length);
  });
}

void Buffer::clear(size_t offset, size_t bytes) {
  char* to = static_cast<char*>(address_) + offset;
  if (on_host(place_))
    std::memset(to, 0, bytes);
  else if (bytes > 0)
    require(fairlead_device_fill(to, 0, bytes), "cannot clear the message buffer");
}

bool Buffer::holds(size_t offset, const void* data, size_t bytes) const {
  std::vector<char> found(std::min(chunk, bytes));
  bool same = true;
  by_chunks(bytes, [&](size_t done, size_t length) {
    if (!same) return;
    read(offset + done, found.data(), length);
    same = std::memcmp(found.data(), static_cast<const char*>(data) + done, length) == 0;
  });
  return same;
}

std::optional<size_t> Buffer::first_wrong(size_t offset, size_t bytes, uint64_t seed) const {
  std::vector<uint64_t> expected((std::min(chunk, bytes) + 7) / 8), found(expected.size());
  std::optional<size_t> wrong;
  by_chunks(bytes, [&](size_t done, size_t length) {
    if (wrong) return;
    make_pattern(expected, done / 8, seed);
    read(offset + done, found.data(), length);
    if (std::memcmp(found.data(), expected.data(), length) == 0) return;
    auto as_bytes = [](const std::vector<uint64_t>& words) {
      return reinterpret_cast<const char*>(words.data());
    };
    auto at = std::mismatch(as_bytes(found), as_bytes(found) + length, as_bytes(expected)).first;
    wrong = offset + done + static_cast<size_t>(at - as_bytes(found));
  });
  return wrong;
}

}  // namespace fairlead::tools
