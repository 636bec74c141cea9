// SPDX-License-Identifier: Apache-2.0
//
// What an origin asks of a target that serves it, as it travels: a header, the blocks of an irregular layout,
// and the bytes. A large access travels as several requests, each of which stands for itself.

#pragma once

#include <vector>

#include "base/host_buffer.h"
#include "datatype/plan.h"

namespace fairlead::rma {

enum class Request : uint32_t { put, get, accumulate, fetch, compare_and_swap, lock, unlock, answer };

enum class Outcome : uint32_t { done, out_of_range, failed };

struct Header {
  Request kind = Request::put;
  Outcome outcome = Outcome::done;  // of an answer
  uint64_t id = 0;                  // the origin's, and in the answer
  uint64_t bytes = 0;               // of the range
  // Where the layout begins, and the bytes that it touches, from the beginning of the target's window.
  int64_t first = 0, low = 0, high = 0;
  uint64_t at = 0;  // the range begins there in the layout
  kernels::Shape shape{};
  uint32_t blocks = 0;       // that follow, of a layout without a shape
  int32_t op = 0, type = 0;  // as Fortran numbers them
  uint32_t exclusive = 0;    // of a lock
};

// A message on its way. Its bytes lie behind the header and the blocks.
struct Message {
  Message() = default;
  explicit Message(size_t size) : memory(size), size(size) {}
  Header& header() const { return *reinterpret_cast<Header*>(memory.data()); }
  kernels::Block* blocks() const { return reinterpret_cast<kernels::Block*>(memory.data() + sizeof(Header)); }
  unsigned char* payload() const {
    return memory.data() + sizeof(Header) + header().blocks * sizeof(kernels::Block);
  }

  // Of one that is sound.
  uint64_t payload_bytes() const { return size - static_cast<size_t>(payload() - memory.data()); }

  HostBuffer memory;
  size_t size = 0;
};

// A request for `bytes` bytes from `at` on of a layout that begins at `first`, with room for `payload` bytes;
// its memory is null when there is none.
Message make_request(const Header& header, const datatype::View& layout, uint64_t at, uint64_t bytes,
                     uint64_t payload);
// Is a message of this length a whole one, whose layout touches no byte outside of [low, high)?
bool is_sound(const Message& message);
// The layout of the range at the target; the range begins at header.at.
datatype::View layout_at(char* window, const Message& message);

}  // namespace fairlead::rma
