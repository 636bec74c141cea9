// SPDX-License-Identifier: Apache-2.0
//
// The format of a request from an origin to an active-message target: a header, the blocks of an irregular
// layout, and the bytes. A large access consists of several requests, each of which is complete in itself.

#pragma once

#include <vector>

#include "base/memory/host_buffer.h"
#include "packing/plan.h"

namespace fairlead::rma {

enum class Request : uint32_t { put, get, accumulate, fetch, compare_and_swap, lock, unlock, answer };

enum class Outcome : uint32_t { done, out_of_range, failed };

struct Header {
  Request kind = Request::put;
  Outcome outcome = Outcome::done;  // in answers
  uint64_t id = 0;                  // chosen by the origin; the answer repeats it
  uint64_t bytes = 0;               // length of the range
  // Where the layout begins, and the bytes that it touches, relative to the beginning of the target's window.
  int64_t first = 0, low = 0, high = 0;
  uint64_t at = 0;  // where the range begins in the layout
  kernels::StridedShape shape{};
  uint32_t blocks = 0;       // how many follow, for a layout without a shape
  int32_t op = 0, type = 0;  // Fortran handles
  uint32_t exclusive = 0;    // in lock and unlock requests
};

// A message, as it is sent and received. The bytes follow the header and the blocks.
struct Message {
  Message() = default;
  explicit Message(size_t size) : memory(size), size(size) {}
  Header& header() const { return *reinterpret_cast<Header*>(memory.data()); }
  kernels::ListedBlock* blocks() const {
    return reinterpret_cast<kernels::ListedBlock*>(memory.data() + sizeof(Header));
  }
  unsigned char* payload() const {
    return memory.data() + sizeof(Header) + header().blocks * sizeof(kernels::ListedBlock);
  }

  // Only for a message that is_sound() accepts.
  uint64_t payload_bytes() const { return size - static_cast<size_t>(payload() - memory.data()); }

  HostBuffer memory;
  size_t size = 0;
};

// Makes a request for `bytes` bytes from offset `at` of a layout that begins at `first`, with room for
// `payload` bytes. The memory of the message is null if the allocation failed.
Message make_request(const Header& header, const packing::View& layout, uint64_t at, uint64_t bytes,
                     uint64_t payload);
// Checks that the message is complete and that its layout touches no byte outside [low, high).
bool is_sound(const Message& message);
// The layout of the range at the target. The range begins at header.at.
packing::View layout_at(char* window, const Message& message);

}  // namespace fairlead::rma
