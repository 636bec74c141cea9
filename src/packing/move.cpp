// SPDX-License-Identifier: Apache-2.0

#include "packing/move.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/options.h"
#include "base/system/processor.h"
#include "device/classify.h"
#include "device/copies/small_copy.h"
#include "device/pinned_buffer.h"

namespace fairlead::packing {

using device::Error;

namespace {

constexpr uint64_t pinned_piece = uint64_t{2} << 20;

void* address_at(const View& view, uint64_t at) {
  return static_cast<char*>(view.address()) + at;
}

bool in_ordinary_memory(const View& view) {
  return view.contiguous() && (device::certainly_host(view.address()) ||
                               device::classify(view.address()).kind == device::MemoryKind::host);
}

// Calls start(move, pinned, at, bytes), then end(pinned, at, bytes), for one piece after the other; two
// pieces are in progress at once. not_supported: there is no page-locked memory.
template <class Start, class End>
Error through_pinned(uint64_t bytes, const Start& start, const End& end) {
  struct Piece {
    explicit Piece(uint64_t size) : buffer(size) {}
    device::PinnedBuffer buffer;
    Move move;
  };
  const uint64_t longest = std::min(bytes, pinned_piece);
  std::deque<Piece> pieces;
  for (size_t k = 0; k < (bytes > longest ? 2 : 1); ++k)
    if (!pieces.emplace_back(longest).buffer.pinned()) return Error::not_supported;
  Error error = Error::none;
  pass_in_pieces(
      pieces, bytes, longest,
      [&](Piece& piece, uint64_t at, uint64_t length) {
        error = start(piece.move, piece.buffer.data(), at, length);
        return error == Error::none;
      },
      [&](Piece& piece, uint64_t at, uint64_t length) {
        error = piece.move.wait();
        if (error == Error::none) end(piece.buffer.data(), at, length);
        return error == Error::none;
      });
  return error;
}

void* at_offset(const View& view, int64_t offset) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(view.address()) +
                                 static_cast<uintptr_t>(offset));
}

// A copy must stay within one allocation. The rows of a rectangle may be in several allocations, and so may a
// block: bytes that are adjacent in memory are one block, even if a second allocation begins among them.
class AllocationBounds {
 public:
  // The part of these rows that one copy may transfer.
  View::Rows clip(const void* first, View::Rows rows) {
    const auto at = reinterpret_cast<uintptr_t>(first);
    if (at - memory_.base >= memory_.size) memory_ = device::classify(first);
    const uint64_t left = memory_.base + memory_.size - at;
    const bool whole =
        memory_.kind == device::MemoryKind::device && (rows.rows - 1) * rows.pitch + rows.width <= left;
    if (whole) return rows;
    rows.rows = 1;
    // The driver reports no bounds of ordinary host memory.
    if (memory_.size > 0) rows.width = std::min(rows.width, left);
    return rows;
  }

 private:
  device::Allocation memory_;  // that contains the last block
};

// Calls start(copy, address of blocks, their rows, offset in the range) for all blocks of the range.
template <class Start>
Error by_blocks(const View& view, uint64_t at, uint64_t bytes, const Start& start) {
  constexpr size_t together = 256;
  AllocationBounds bounds;
  for (uint64_t done = 0; done < bytes;) {
    std::deque<device::Copy> copies;
    while (done < bytes && copies.size() < together) {
      View::Rows rows = view.rows_at(at + done);
      rows = bounds.clip(at_offset(view, rows.offset), rows);
      rows.width = std::min(rows.width, bytes - done);
      rows.rows = std::min(rows.rows, (bytes - done) / rows.width);
      if (Error error = start(copies.emplace_back(), at_offset(view, rows.offset), rows, done);
          error != Error::none)
        return error;
      done += rows.width * rows.rows;
    }
    for (device::Copy& copy : copies)
      if (Error error = copy.wait(); error != Error::none) return error;
  }
  return Error::none;
}

// A range of both sides as rows of one length. No rows: the range has no such form.
struct Rectangle {
  uint64_t width = 0, rows = 0;
  View::Rows to, from;
};

View::Rows rows_of(const View& view, uint64_t at, uint64_t width) {
  if (view.contiguous()) return {static_cast<int64_t>(at), width, UINT64_MAX, width};
  return view.rows_at(at);
}

Rectangle rectangle_of(const View& to, uint64_t to_at, const View& from, uint64_t from_at, uint64_t bytes) {
  const uint64_t width = (to.contiguous() ? from : to).block_bytes();
  Rectangle made{width, bytes / width, rows_of(to, to_at, width), rows_of(from, from_at, width)};
  const bool whole = bytes % width == 0 && made.to.width == width && made.from.width == width &&
                     made.to.rows >= made.rows && made.from.rows >= made.rows;
  if (!whole) made.rows = 0;
  return made;
}

}  // namespace

bool Move::possible(int device) {
  return kernels::moves_run_on(device);
}

Error Move::start(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                  uint64_t bytes) {
  if (to.contiguous() && from.contiguous())
    return copy_.start(device, address_at(to, to_at), address_at(from, from_at), bytes);
  if (in_ordinary_memory(to)) return copy_out(device, address_at(to, to_at), from, from_at, bytes);
  if (in_ordinary_memory(from)) return copy_in(device, to, to_at, address_at(from, from_at), bytes);
  if (options().datatype == "copy")
    if (Rectangle both = rectangle_of(to, to_at, from, from_at, bytes); both.rows > 0)
      return copy_.start_rows(device, at_offset(to, both.to.offset), both.to.pitch,
                              at_offset(from, both.from.offset), both.from.pitch, both.width, both.rows);
  return launch(device, to, to_at, from, from_at, bytes);
}

Error Move::start_by_kernel(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                            uint64_t bytes) {
  if (possible(device)) return launch(device, to, to_at, from, from_at, bytes);
  return by_pieces(bytes, longest_piece, [&](uint64_t at, void* piece, uint64_t length) {
    const Error error = copy_out(device, piece, from, from_at + at, length);
    return error == Error::none ? copy_in(device, to, to_at + at, piece, length) : error;
  });
}

Error Move::launch(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
                   uint64_t bytes) {
  to_ = to;
  from_ = from;
  to_at_ = to_at;
  from_at_ = from_at;
  bytes_ = bytes;
  device_ = device;
  return launch();
}

Error Move::enqueue(int device, const View& to, const View& from, uint64_t bytes) {
  if (to.contiguous() && from.contiguous()) return copy_.enqueue(device, to.address(), from.address(), bytes);
  return start(device, to, 0, from, 0, bytes);
}

Error Move::launch() {
  kernels::LaidOutBuffer to, from;
  Attempt attempt = to_.side_on(device_, &to);
  if (attempt == Attempt::made) attempt = from_.side_on(device_, &from);
  lacks_table_ = attempt != Attempt::made;
  if (!lacks_table_) attempt = run_.move(device_, to, to_at_, from, from_at_, bytes_);
  waits_ = attempt == Attempt::later;  // poll() tries again
  return attempt == Attempt::never ? Error::failed : Error::none;
}

Error Move::poll() {
  if (waits_) {
    if (Error error = launch(); error != Error::none) return error;
    if (waits_) return lacks_table_ && shortage_.lasts() ? Error::failed : Error::not_ready;
  }
  Error error = run_.poll();
  return error == Error::none ? copy_.poll() : error;
}

Error Move::wait() {
  Error error;
  while ((error = waits_ ? poll() : run_.poll()) == Error::not_ready) {
    // Its memory may come by progress that the caller holds up.
    if (waits_ && lacks_table_) return Error::not_supported;
    relax();
  }
  return error == Error::none ? copy_.wait() : error;
}

Error move_now(int device, const View& to, uint64_t to_at, const View& from, uint64_t from_at,
               uint64_t bytes) {
  Move move;
  Error error = move.start(device, to, to_at, from, from_at, bytes);
  return error == Error::none ? move.wait() : error;
}

Error copy_out(int device, void* to, const View& from, uint64_t from_at, uint64_t bytes) {
  if (from.contiguous()) return device::copy_to_host(device, to, address_at(from, from_at), bytes);
  auto pack = [&](Move& move, void* pinned, uint64_t at, uint64_t length) {
    return move.start(device, View(pinned, length), 0, from, from_at + at, length);
  };
  auto bring = [&](const void* pinned, uint64_t at, uint64_t length) {
    std::memcpy(static_cast<char*>(to) + at, pinned, length);
  };
  if (bytes > 0 && Move::possible(device))
    if (Error error = through_pinned(bytes, pack, bring); error != Error::not_supported) return error;
  return copy_out_by_blocks(device, to, from, from_at, bytes);
}

Error copy_in(int device, const View& to, uint64_t to_at, const void* from, uint64_t bytes) {
  if (to.contiguous()) return device::copy_now(device, address_at(to, to_at), from, bytes);
  auto unpack = [&](Move& move, void* pinned, uint64_t at, uint64_t length) {
    std::memcpy(pinned, static_cast<const char*>(from) + at, length);
    return move.start(device, to, to_at + at, View(pinned, length), 0, length);
  };
  if (bytes > 0 && Move::possible(device))
    if (Error error = through_pinned(bytes, unpack, [](const void*, uint64_t, uint64_t) {});
        error != Error::not_supported)
      return error;
  return copy_in_by_blocks(device, to, to_at, from, bytes);
}

Error copy_out_by_blocks(int device, void* to, const View& from, uint64_t from_at, uint64_t bytes) {
  return by_blocks(from, from_at, bytes,
                   [&](device::Copy& copy, void* block, const View::Rows& rows, uint64_t at) {
                     return copy.start_rows(device, static_cast<char*>(to) + at, rows.width, block,
                                            rows.pitch, rows.width, rows.rows);
                   });
}

Error copy_in_by_blocks(int device, const View& to, uint64_t to_at, const void* from, uint64_t bytes) {
  return by_blocks(to, to_at, bytes,
                   [&](device::Copy& copy, void* block, const View::Rows& rows, uint64_t at) {
                     return copy.start_rows(device, block, rows.pitch, static_cast<const char*>(from) + at,
                                            rows.width, rows.width, rows.rows);
                   });
}

}  // namespace fairlead::packing
