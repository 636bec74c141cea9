// SPDX-License-Identifier: Apache-2.0
//
// What a (count, datatype) pair means in bytes, and moving non-contiguous device data to and from host
// memory: by kernels where the layout is known, else through the host MPI's own MPI_Pack and MPI_Unpack,
// which is correct for every type and slow (a send moves the whole span to the host, a receive one piece
// after the other back).

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include <optional>

#include "base/host_buffer.h"
#include "device/runtime.h"
#include "mpi/datatype/type_layout.h"

namespace fairlead::mpi {

// Not by pointer arithmetic: from MPI_BOTTOM and in derived types, both need not lie in one object.
inline void* at_offset(const void* address, MPI_Aint offset) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(offset));
}

struct Layout {
  MPI_Count bytes = 0;      // that travel
  bool contiguous = false;  // they lie in order, without gaps, from the buffer's address on
  MPI_Count first = 0;      // of the span they touch, from the buffer's address
  MPI_Count span = 0;       // its length
  MPI_Count count = 0;      // of elements
  PlanOfType plan;          // of what has gaps, or a derived type; null where only the host MPI knows

  // The bytes of a buffer at this address. Only with a plan.
  datatype::View view(const void* buffer) const {
    return plan->view(const_cast<void*>(buffer), static_cast<uint64_t>(count));
  }
};

// Where a buffer lies is told by its first byte; but from MPI_BOTTOM, which is null, a datatype of absolute
// addresses may begin in host memory and go on in device memory: then by the first byte of that, as far as
// the first thousand rows of blocks tell. `offset` is that of a block of a collective's buffer.
const void* first_data_byte(const void* buffer, const Layout& layout, MPI_Aint offset = 0);
const void* first_data_byte(const void* buffer, const datatype::Plan& plan,
                         MPI_Aint offset = 0);  // of one element

// The bytes of a predefined datatype without gaps, 0 of any other. Quick for the one that this thread asked
// about last.
int plain_size(MPI_Datatype datatype);
inline bool is_plain(MPI_Datatype datatype) {
  return plain_size(datatype) > 0;
}
Layout layout_of(MPI_Count count, MPI_Datatype datatype);
MPI_Count packed_bytes(MPI_Count count, MPI_Datatype datatype);
MPI_Aint extent_of(MPI_Datatype datatype);

// The bytes of a buffer with gaps for kernels of its device; none where they cannot move it, because the
// layout is not known, options say so, or it lies in several allocations.
std::optional<datatype::View> kernel_view(const void* buffer, const Layout& layout,
                                          const device::Allocation& memory);

// A buffer as the host MPI's functions that pack take it. MPICH refuses MPI_BOTTOM there (4.0.2): it gets
// another address, and a type whose elements lie as far before it.
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

// Packs device data into host memory; null data() in `packed` when that is impossible.
bool pack_from_device(const void* buffer, MPI_Count count, MPI_Datatype datatype, const Layout& layout,
                      int device, HostBuffer* packed);
// Unpacks `bytes` bytes, which may be fewer than the layout takes. Only bytes of the layout are written.
bool unpack_to_device(const void* packed, MPI_Count bytes, void* buffer, MPI_Count count,
                      MPI_Datatype datatype, const Layout& layout, int device);
// The same between two places in host memory; by the host MPI where there is no plan.
bool pack_host(const void* buffer, MPI_Count count, MPI_Datatype datatype, void* packed, MPI_Count bytes,
               const Layout& layout = {});
bool unpack_host(const void* packed, MPI_Count bytes, void* buffer, MPI_Count count, MPI_Datatype datatype,
                 const Layout& layout = {});

}  // namespace fairlead::mpi
