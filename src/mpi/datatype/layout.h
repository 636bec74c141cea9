// SPDX-License-Identifier: Apache-2.0
//
// What a (count, datatype) pair means in bytes, and how non-contiguous device data moves to and from host
// memory. Kernels move it if the layout is known. Otherwise the host MPI's MPI_Pack and MPI_Unpack do, which
// is correct for every type and slow: a send copies the whole span to the host, a receive copies one piece
// after the other back.

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include <optional>

#include "base/memory/host_buffer.h"
#include "device/runtime.h"
#include "mpi/datatype/type_layout.h"

namespace fairlead::mpi {

// Uses no pointer arithmetic: from MPI_BOTTOM and in derived types, the two addresses need not lie in one
// object.
inline void* at_offset(const void* address, MPI_Aint offset) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(offset));
}

struct Layout {
  MPI_Count bytes = 0;      // bytes of the message
  bool contiguous = false;  // they are in order, without gaps, from the buffer's address on
  MPI_Count first = 0;      // start of the span that they occupy, from the buffer's address
  MPI_Count span = 0;       // length of that span
  MPI_Count count = 0;      // number of elements
  PlanOfType plan;          // if there are gaps, or a derived type; null if only the host MPI has the layout

  // The bytes of a buffer at this address. Requires a plan.
  packing::View view(const void* buffer) const {
    return plan->view(const_cast<void*>(buffer), static_cast<uint64_t>(count));
  }
};

// Returns the address that decides in which memory a buffer is: its first byte. From MPI_BOTTOM, which is
// null, a datatype of absolute addresses may begin in host memory and continue in device memory; then it is
// the first byte found in device memory, within the first thousand rows of blocks. `offset` is that of a
// block in a collective's buffer.
const void* first_data_byte(const void* buffer, const Layout& layout, MPI_Aint offset = 0);
const void* first_data_byte(const void* buffer, const packing::Plan& plan,
                            MPI_Aint offset = 0);  // of one element

// Returns the size in bytes of a predefined datatype without gaps, 0 for any other. Fast for the datatype
// that this thread passed last.
int plain_size(MPI_Datatype datatype);
inline bool is_plain(MPI_Datatype datatype) {
  return plain_size(datatype) > 0;
}
Layout layout_of(MPI_Count count, MPI_Datatype datatype);
MPI_Count packed_bytes(MPI_Count count, MPI_Datatype datatype);
MPI_Aint extent_of(MPI_Datatype datatype);

// Returns the bytes of a buffer with gaps for kernels of its device; empty if kernels cannot move them,
// because the layout is unknown, options forbid it, or the buffer spans several allocations.
std::optional<packing::View> kernel_view(const void* buffer, const Layout& layout,
                                         const device::Allocation& memory);

// A buffer as an argument of the host MPI's pack functions. In place of MPI_BOTTOM (quirk pack_from_bottom)
// they get another address, and a type whose elements begin the same distance before that address.
class PackArgument {
 public:
  PackArgument(const void* buffer, MPI_Datatype datatype);
  ~PackArgument();
  PackArgument(const PackArgument&) = delete;
  PackArgument& operator=(const PackArgument&) = delete;
  void* address() const { return address_; }
  MPI_Datatype datatype() const { return datatype_; }

 private:
  void* address_;
  MPI_Datatype datatype_;
  bool made_ = false;
};

// Packs device data into host memory. Returns false on failure; data() of `packed` is then null if there was
// no memory for it.
bool pack_from_device(const void* buffer, MPI_Count count, MPI_Datatype datatype, const Layout& layout,
                      int device, HostBuffer* packed);
// Unpacks `bytes` bytes, which may be fewer than the layout holds. Writes only bytes of the layout.
bool unpack_to_device(const void* packed, MPI_Count bytes, void* buffer, MPI_Count count,
                      MPI_Datatype datatype, const Layout& layout, int device);
// The same within host memory. Without a plan the host MPI packs and unpacks.
bool pack_host(const void* buffer, MPI_Count count, MPI_Datatype datatype, void* packed, MPI_Count bytes,
               const Layout& layout = {});
bool unpack_host(const void* packed, MPI_Count bytes, void* buffer, MPI_Count count, MPI_Datatype datatype,
                 const Layout& layout = {});

}  // namespace fairlead::mpi
