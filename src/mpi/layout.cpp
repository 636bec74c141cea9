// SPDX-License-Identifier: Apache-2.0

#include "mpi/layout.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <deque>
#include <vector>

#include "device/copy.h"
#include "mpi/real.h"
#include "mpi/type_origin.h"

namespace fairlead::mpi {
namespace {

// Do the bytes of one element lie in order without gaps? Only types that obviously do count: a type that is
// judged wrongly as scattered is packed, which is slow but right.
bool is_dense(MPI_Datatype datatype) {
  MPI_Count lower = 0, extent = 0, size = 0;
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  PMPI_Type_size_x(datatype, &size);
  if (lower != 0 || extent != size) return false;
  const int combiner = combiner_of(datatype);
  if (combiner == MPI_COMBINER_NAMED) return true;
  if (combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS && combiner != MPI_COMBINER_RESIZED)
    return false;
  return is_dense(OriginalType(datatype));
}

// Where the host MPI must think the buffer is for its first byte to lie at the start of `span`. Not by
// pointer arithmetic: a layout of absolute addresses begins at one of those.
void* origin_of(const HostBuffer& span, const Layout& layout) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(span.data()) -
                                 static_cast<uintptr_t>(layout.first));
}

// Copies the bytes that are marked, run by run. What lies between is the program's: kernels may be writing
// it.
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

}  // namespace

MPI_Count packed_bytes(MPI_Count count, MPI_Datatype datatype) {
  MPI_Count size = plain_size(datatype);
  if (size == 0) PMPI_Type_size_x(datatype, &size);
  return size * count;
}

int plain_size(MPI_Datatype datatype) {
  // Handles of predefined types are never given to others.
  thread_local MPI_Datatype plain = MPI_DATATYPE_NULL;
  thread_local int size = 0;
  if (datatype == plain) return size;
  if (combiner_of(datatype) != MPI_COMBINER_NAMED || !is_dense(datatype)) return 0;
  plain = datatype;
  PMPI_Type_size(datatype, &size);
  return size;
}

Layout layout_of(MPI_Count count, MPI_Datatype datatype) {
  Layout layout;
  layout.bytes = packed_bytes(count, datatype);
  if (layout.bytes == 0 || is_plain(datatype) || is_dense(datatype)) {
    layout.contiguous = true;
    layout.span = layout.bytes;
    return layout;
  }
  MPI_Count lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  PMPI_Type_get_true_extent_x(datatype, &true_lower, &true_extent);
  MPI_Count walk = extent * (count - 1);
  layout.first = true_lower + (walk < 0 ? walk : 0);
  layout.span = true_extent + (walk < 0 ? -walk : walk);
  return layout;
}

bool pack_host(const void* buffer, MPI_Count count, MPI_Datatype datatype, void* packed, MPI_Count bytes) {
  if (count <= INT_MAX && bytes <= INT_MAX) {
    int position = 0;
    return real.Pack(buffer, static_cast<int>(count), datatype, packed, static_cast<int>(bytes), &position,
                     MPI_COMM_SELF) == MPI_SUCCESS;
  }
  MPI_Count position = 0;
  return real.Pack_c(buffer, count, datatype, packed, bytes, &position, MPI_COMM_SELF) == MPI_SUCCESS;
}

bool unpack_host(const void* packed, MPI_Count bytes, void* buffer, MPI_Count count, MPI_Datatype datatype) {
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  MPI_Count whole = size ? std::min(count, bytes / size) : 0;
  if (whole <= INT_MAX && bytes <= INT_MAX) {
    int position = 0;
    if (real.Unpack(packed, static_cast<int>(bytes), &position, buffer, static_cast<int>(whole), datatype,
                    MPI_COMM_SELF) != MPI_SUCCESS)
      return false;
  } else {
    MPI_Count position = 0;
    if (real.Unpack_c(packed, bytes, &position, buffer, whole, datatype, MPI_COMM_SELF) != MPI_SUCCESS)
      return false;
  }
  MPI_Count tail = bytes - whole * size;
  if (tail == 0 || whole == count) return true;
  // A message may end inside an element: complete the packed element from what the buffer holds.
  MPI_Count lower = 0, extent = 0;
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  char* last = static_cast<char*>(buffer) + whole * extent;
  std::vector<char> element(static_cast<size_t>(size));
  if (!pack_host(last, 1, datatype, element.data(), size)) return false;
  std::copy_n(static_cast<const char*>(packed) + whole * size, tail, element.data());
  return unpack_host(element.data(), size, last, 1, datatype);
}

bool pack_from_device(const void* buffer, MPI_Count count, MPI_Datatype datatype, const Layout& layout,
                      int device, HostBuffer* packed) {
  HostBuffer span(static_cast<size_t>(layout.span));
  *packed = HostBuffer(static_cast<size_t>(layout.bytes));
  if (!span.data() || !packed->data()) return false;
  const char* from = static_cast<const char*>(buffer) + layout.first;
  return device::copy_now(device, span.data(), from, static_cast<size_t>(layout.span)) ==
             device::Error::none &&
         pack_host(origin_of(span, layout), count, datatype, packed->data(), layout.bytes);
}

bool unpack_to_device(const void* packed, MPI_Count bytes, void* buffer, MPI_Count count,
                      MPI_Datatype datatype, const Layout& layout, int device) {
  size_t length = static_cast<size_t>(layout.span), whole = static_cast<size_t>(layout.bytes);
  HostBuffer span(length), touched(length), ones(whole);
  if (!span.data() || !touched.data() || !ones.data()) return false;
  std::memset(touched.data(), 0, length);
  std::memset(ones.data(), 0xff, whole);
  if (!unpack_host(packed, bytes, origin_of(span, layout), count, datatype) ||
      !unpack_host(ones.data(), bytes, origin_of(touched, layout), count, datatype))
    return false;
  return write_touched(static_cast<char*>(buffer) + layout.first, span, touched, length, device);
}

}  // namespace fairlead::mpi
