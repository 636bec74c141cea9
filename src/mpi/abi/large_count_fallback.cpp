// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/large_count_fallback.h"

#include <algorithm>
#include <climits>

namespace fairlead::mpi {

FallbackElements::FallbackElements(MPI_Count count, MPI_Datatype datatype) : datatype_(datatype) {
  if (count <= INT_MAX) {
    count_ = static_cast<int>(std::max<MPI_Count>(count, -1));
    return;
  }
  constexpr MPI_Count block = 1 << 30;
  MPI_Count lower = 0, extent = 0;
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  std::vector<int> lengths;
  std::vector<MPI_Aint> places;
  for (MPI_Count at = 0; at < count; at += block) {
    lengths.push_back(static_cast<int>(std::min(block, count - at)));
    places.push_back(static_cast<MPI_Aint>(at * extent));
  }
  if (PMPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), datatype,
                                &made_) != MPI_SUCCESS ||
      PMPI_Type_commit(&made_) != MPI_SUCCESS)
    throw TooLarge();
  datatype_ = made_;
}

FallbackElements::~FallbackElements() {
  if (made_ != MPI_DATATYPE_NULL) PMPI_Type_free(&made_);
}

namespace {

// MPI_Buffer_detach waits for all buffered messages.
int flush_buffer() {
  void* buffer = nullptr;
  int bytes = 0;
  int result = real.Buffer_detach(&buffer, &bytes);
  return result == MPI_SUCCESS ? real.Buffer_attach(buffer, bytes) : result;
}

}  // namespace

void* made_of_older(Function function) {
  return function == Function::Buffer_flush ? reinterpret_cast<void*>(&flush_buffer) : nullptr;
}

}  // namespace fairlead::mpi
