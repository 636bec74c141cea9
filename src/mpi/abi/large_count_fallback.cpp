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

int get_info_string(MPI_Info info, const char* key, int* buflen, char* value, int* flag) {
  int length = 0;
  int result = real.Info_get_valuelen(info, key, &length, flag);
  if (result != MPI_SUCCESS || !*flag) return result;
  if (*buflen == 1) *value = '\0';  // MPI_Info_get needs room
  if (*buflen > 1) result = real.Info_get(info, key, *buflen - 1, value, flag);
  *buflen = length + 1;
  return result;
}

// A host MPI that cannot tell about the hardware knows nothing about it.
int make_empty_info(MPI_Info* info) {
  return PMPI_Info_create(info);
}

}  // namespace

void* made_of_older(Function function) {
  switch (function) {
    case Function::Buffer_flush:
      return reinterpret_cast<void*>(&flush_buffer);
    case Function::Info_get_string:
      return reinterpret_cast<void*>(&get_info_string);
    case Function::Get_hw_resource_info:
      return reinterpret_cast<void*>(&make_empty_info);
    default:
      return nullptr;
  }
}

}  // namespace fairlead::mpi
