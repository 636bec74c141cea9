// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/kept_type.h"

#include <climits>

#include "mpi/datatype/type_origin.h"

namespace fairlead::mpi {

KeptType::KeptType(MPI_Datatype datatype, const Layout& layout) : datatype_(datatype) {
  if (datatype == MPI_DATATYPE_NULL || is_plain(datatype)) return;
  // The host MPI needs the datatype for a count that exceeds int.
  if (layout.plan && layout.bytes <= INT_MAX) {
    datatype_ = MPI_BYTE;
    bytes_ = layout.bytes;
    return;
  }
  if (combiner_of(datatype) == MPI_COMBINER_NAMED) return;
  MPI_Datatype made = MPI_DATATYPE_NULL;
  own_ = PMPI_Type_contiguous(1, datatype, &made) == MPI_SUCCESS && PMPI_Type_commit(&made) == MPI_SUCCESS;
  if (own_) datatype_ = made;
}

KeptType::~KeptType() {
  if (own_) PMPI_Type_free(&datatype_);
}

UserBuffer KeptType::kept(const UserBuffer& buffer) const {
  return {buffer.address, bytes_ ? bytes_ : buffer.count, datatype_, buffer.found};
}

}  // namespace fairlead::mpi
