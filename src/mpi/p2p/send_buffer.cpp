// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/send_buffer.h"

#include <cstdlib>
#include <mutex>

#include "mpi/core/interception.h"
#include "mpi/core/record.h"

namespace fairlead::mpi {
namespace {

// MPI_Buffer_attach allows one buffer at a time.
std::mutex mutex;
void* given = nullptr;
void* lent = nullptr;

template <auto host, class Count>
int attach(void* buffer, Count bytes) {
  CallRecord record(function_of<host>);
  if (!intercepting() || !is_device(buffer)) return (real.*host)(buffer, bytes);
  void* instead = std::malloc(static_cast<size_t>(bytes));
  if (!instead) return MPI_ERR_NO_MEM;
  int result = (real.*host)(instead, bytes);
  if (result != MPI_SUCCESS) {
    std::free(instead);
    return result;
  }
  std::lock_guard lock(mutex);
  std::free(lent);  // not null if a detach call was not intercepted
  given = buffer;
  lent = instead;
  return result;
}

}  // namespace

void give_back_send_buffer(void* place) {
  std::lock_guard lock(mutex);
  if (!lent) return;
  if (auto* address = static_cast<void**>(place)) {
    if (*address != lent) return;
    *address = given;
  }
  std::free(lent);
  given = lent = nullptr;
}

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Buffer_attach, (void* buffer, int size)) {
  return attach<&Real::Buffer_attach>(buffer, size);
}

FAIRLEAD_MPI(Buffer_attach_c, (void* buffer, MPI_Count size)) {
  return attach<&Real::Buffer_attach_c>(buffer, size);
}
