// SPDX-License-Identifier: Apache-2.0

#include "mpi/datatype/layout.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <deque>
#include <vector>

#include "base/options.h"
#include "device/classify.h"
#include "device/copies/copy.h"
#include "mpi/abi/comm_self.h"
#include "mpi/abi/real.h"
#include "mpi/datatype/type_origin.h"
#include "packing/move.h"

namespace fairlead::mpi {
namespace {

// A predefined type without gaps.
bool is_dense_and_named(MPI_Datatype datatype) {
  if (combiner_of(datatype) != MPI_COMBINER_NAMED) return false;
  MPI_Count lower = 0, extent = 0, size = 0;
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  PMPI_Type_size_x(datatype, &size);
  return lower == 0 && extent == size;
}

// Returns the buffer address to pass to the host MPI so that the buffer's first byte is the start of `span`.
// Uses no pointer arithmetic: a layout of absolute addresses begins at one of those.
void* origin_of(const HostBuffer& span, const Layout& layout) {
  return at_offset(span.data(), -layout.first);
}

// Copies the marked bytes, run by run. The bytes between them belong to the program, and kernels may be
// writing them.
bool write_touched(char* to, const HostBuffer& span, const HostBuffer& touched, size_t length, int device) {
  constexpr size_t together = 256;
  const unsigned char* mark = touched.data();
  bool copied = true;
  for (size_t at = 0; at < length && copied;) {
    std::deque<device::Copy> runs;
    while (at < length && runs.size() < together) {
      size_t from = static_cast<size_t>(std::find(mark + at, mark + length, 0xff) - mark);
      at = static_cast<size_t>(std::find(mark + from, mark + length, 0) - mark);
      if (at > from) runs.emplace_back().start(device, to + from, span.data() + from, at - from);
    }
    for (device::Copy& run : runs) copied &= run.wait() == device::Error::none;
  }
  return copied;
}

// Is all of the buffer in one allocation, so that one copy can move it?
bool in_one_allocation(const device::Allocation& memory, const char* first, const Layout& layout) {
  auto begin = reinterpret_cast<uintptr_t>(first);
  return begin >= memory.base && begin + static_cast<uintptr_t>(layout.span) <= memory.base + memory.size;
}

// If kernels cannot move the data: is it faster to copy rows of blocks than the whole span?
bool is_worth_copies(const packing::View& view, const Layout& layout) {
  constexpr uint64_t bytes_per_copy = 20000;  // moved in the time that the driver needs for one copy
  return options().datatype != "host" && view.copies() < static_cast<uint64_t>(layout.span) / bytes_per_copy;
}

const void* first_device_byte(const packing::View& view, const void* first) {
  constexpr int looked_at = 1000;
  constexpr uintptr_t page_bytes = 4096;  // a page holds one kind of memory
  uintptr_t asked = 0;
  uint64_t at = 0;
  for (int k = 0; k < looked_at && at < view.bytes(); ++k) {
    const packing::View::Rows rows = view.rows_at(at);
    const void* block = at_offset(view.address(), rows.offset);
    const void* last = at_offset(block, static_cast<int64_t>((rows.rows - 1) * rows.pitch));
    for (const void* row : {block, last}) {
      const uintptr_t page = reinterpret_cast<uintptr_t>(row) / page_bytes;
      if (page != asked && device::is_device_memory(row)) return row;
      asked = page;
    }
    at += rows.width * rows.rows;
  }
  return first;
}

}  // namespace

const void* first_data_byte(const void* buffer, const Layout& layout, MPI_Aint offset) {
  const void* block = at_offset(buffer, offset);
  const void* first = at_offset(block, layout.first);
  return buffer || !layout.plan || layout.contiguous ? first : first_device_byte(layout.view(block), first);
}

const void* first_data_byte(const void* buffer, const packing::Plan& plan, MPI_Aint offset) {
  void* element = at_offset(buffer, offset);
  const void* first = at_offset(element, plan.low(1));
  return buffer || plan.contiguous() ? first : first_device_byte(plan.view(element, 1), first);
}

MPI_Count packed_bytes(MPI_Count count, MPI_Datatype datatype) {
  MPI_Count size = plain_size(datatype);
  if (size == 0) PMPI_Type_size_x(datatype, &size);
  return size * count;
}

MPI_Aint extent_of(MPI_Datatype datatype) {
  if (int size = plain_size(datatype)) return size;
  MPI_Count lower = 0, extent = 0;
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  return static_cast<MPI_Aint>(extent);
}

int plain_size(MPI_Datatype datatype) {
  // MPI never reuses the handle of a predefined type.
  thread_local MPI_Datatype plain = MPI_DATATYPE_NULL;
  thread_local int size = 0;
  if (datatype == plain) return size;
  if (!is_dense_and_named(datatype)) return 0;
  plain = datatype;
  PMPI_Type_size(datatype, &size);
  return size;
}

Layout layout_of(MPI_Count count, MPI_Datatype datatype) {
  Layout layout;
  layout.bytes = packed_bytes(count, datatype);
  layout.count = count;
  if (layout.bytes > 0 && !is_plain(datatype)) layout.plan = plan_of(datatype);
  if (layout.bytes == 0 || is_plain(datatype) || (layout.plan && layout.plan->contiguous())) {
    layout.contiguous = true;
    layout.span = layout.bytes;
    return layout;
  }
  if (layout.plan) {
    layout.first = layout.plan->low(static_cast<uint64_t>(count));
    layout.span = layout.plan->high(static_cast<uint64_t>(count)) - layout.first;
    return layout;
  }
  MPI_Count true_lower = 0, true_extent = 0;
  PMPI_Type_get_true_extent_x(datatype, &true_lower, &true_extent);
  MPI_Count walk = extent_of(datatype) * (count - 1);
  layout.first = true_lower + (walk < 0 ? walk : 0);
  layout.span = true_extent + (walk < 0 ? -walk : walk);
  return layout;
}

std::optional<packing::View> kernel_view(const void* buffer, const Layout& layout,
                                         const device::Allocation& memory) {
  if (!layout.plan || options().datatype == "host") return std::nullopt;
  if (!in_one_allocation(memory, static_cast<const char*>(buffer) + layout.first, layout) ||
      !packing::Move::possible(memory.device))
    return std::nullopt;
  return layout.view(buffer);
}

PackArgument::PackArgument(const void* buffer, MPI_Datatype datatype)
    : address_(const_cast<void*>(buffer)), datatype_(datatype) {
  if (buffer != MPI_BOTTOM) return;
  constexpr MPI_Aint away = 4096;
  const MPI_Aint back = -away;
  made_ = PMPI_Type_create_hindexed_block(1, 1, &back, datatype, &datatype_) == MPI_SUCCESS &&
          PMPI_Type_commit(&datatype_) == MPI_SUCCESS;
  address_ = at_offset(buffer, away);
}

PackArgument::~PackArgument() {
  if (made_) PMPI_Type_free(&datatype_);
}

bool pack_host(const void* buffer, MPI_Count count, MPI_Datatype datatype, void* packed, MPI_Count bytes,
               const Layout& layout) {
  if (layout.plan) {
    uint64_t length = static_cast<uint64_t>(bytes);
    packing::move_on_host({packed, length}, 0, layout.view(buffer), 0, length);
    return true;
  }
  const PackArgument from(buffer, datatype);
  if (count <= INT_MAX && bytes <= INT_MAX) {
    int position = 0;
    return real.Pack(from.address(), static_cast<int>(count), from.datatype(), packed,
                     static_cast<int>(bytes), &position, comm_self()) == MPI_SUCCESS;
  }
  MPI_Count position = 0;
  return real.Pack_c(from.address(), count, from.datatype(), packed, bytes, &position, comm_self()) ==
         MPI_SUCCESS;
}

bool unpack_host(const void* packed, MPI_Count bytes, void* buffer, MPI_Count count, MPI_Datatype datatype,
                 const Layout& layout) {
  if (layout.plan) {
    uint64_t length = static_cast<uint64_t>(bytes);
    packing::move_on_host(layout.view(buffer), 0, {const_cast<void*>(packed), length}, 0, length);
    return true;
  }
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  MPI_Count whole = size ? std::min(count, bytes / size) : 0;
  const PackArgument to(buffer, datatype);
  if (whole <= INT_MAX && bytes <= INT_MAX) {
    int position = 0;
    if (real.Unpack(packed, static_cast<int>(bytes), &position, to.address(), static_cast<int>(whole),
                    to.datatype(), comm_self()) != MPI_SUCCESS)
      return false;
  } else {
    MPI_Count position = 0;
    if (real.Unpack_c(packed, bytes, &position, to.address(), whole, to.datatype(), comm_self()) !=
        MPI_SUCCESS)
      return false;
  }
  MPI_Count tail = bytes - whole * size;
  if (tail == 0 || whole == count) return true;
  // A message may end inside an element: complete the packed element with what the buffer holds.
  void* last = at_offset(buffer, static_cast<MPI_Aint>(whole) * extent_of(datatype));
  std::vector<char> element(static_cast<size_t>(size));
  if (!pack_host(last, 1, datatype, element.data(), size)) return false;
  std::copy_n(static_cast<const char*>(packed) + whole * size, tail, element.data());
  return unpack_host(element.data(), size, last, 1, datatype);
}

bool pack_from_device(const void* buffer, MPI_Count count, MPI_Datatype datatype, const Layout& layout,
                      int device, HostBuffer* packed) {
  const char* from = static_cast<const char*>(buffer) + layout.first;
  uint64_t bytes = static_cast<uint64_t>(layout.bytes);
  *packed = HostBuffer(bytes);
  if (!packed->data()) return false;
  device::Allocation memory = device::classify(from);
  if (auto view = kernel_view(buffer, layout, memory))
    return packing::copy_out(device, packed->data(), *view, 0, bytes) == device::Error::none;
  if (layout.plan &&
      (!in_one_allocation(memory, from, layout) || is_worth_copies(layout.view(buffer), layout)))
    return packing::copy_out_by_blocks(device, packed->data(), layout.view(buffer), 0, bytes) ==
           device::Error::none;
  HostBuffer span(static_cast<size_t>(layout.span));
  if (!span.data() ||
      device::copy_now(device, span.data(), from, static_cast<size_t>(layout.span)) != device::Error::none)
    return false;
  return pack_host(origin_of(span, layout), count, datatype, packed->data(), layout.bytes, layout);
}

bool unpack_to_device(const void* packed, MPI_Count bytes, void* buffer, MPI_Count count,
                      MPI_Datatype datatype, const Layout& layout, int device) {
  char* to = static_cast<char*>(buffer) + layout.first;
  if (layout.plan) {
    uint64_t length = static_cast<uint64_t>(bytes);
    if (auto view = kernel_view(buffer, layout, device::classify(to)))
      return packing::copy_in(device, *view, 0, packed, length) == device::Error::none;
    return packing::copy_in_by_blocks(device, layout.view(buffer), 0, packed, length) == device::Error::none;
  }
  size_t length = static_cast<size_t>(layout.span), whole = static_cast<size_t>(layout.bytes);
  HostBuffer span(length), touched(length), ones(whole);
  if (!span.data() || !touched.data() || !ones.data()) return false;
  std::memset(touched.data(), 0, length);
  std::memset(ones.data(), 0xff, whole);
  if (!unpack_host(packed, bytes, origin_of(span, layout), count, datatype) ||
      !unpack_host(ones.data(), bytes, origin_of(touched, layout), count, datatype))
    return false;
  return write_touched(to, span, touched, length, device);
}

}  // namespace fairlead::mpi
