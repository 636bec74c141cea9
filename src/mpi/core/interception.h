// SPDX-License-Identifier: Apache-2.0
//
// The front door: what every interposed MPI function asks first. A job in which no rank has a GPU runtime
// is not watched, and every call goes straight to the host MPI.

#pragma once

#include <atomic>

#include "mpi/abi/host_mpi.h"
//
#include "device/classify.h"
#include "mpi/abi/real.h"
#include "mpi/core/argument_check.h"
#include "mpi/datatype/first_bytes.h"

namespace fairlead::mpi {

namespace detail {
extern std::atomic<bool> intercepting;  // written where the job, or its first session, begins and ends
}
inline bool intercepting() {
  return detail::intercepting.load(std::memory_order_relaxed);
}

// Must the host MPI not see this address? MPI_BOTTOM, MPI_IN_PLACE and null are not device memory.
inline bool is_device(const void* address) {
  return address != MPI_IN_PLACE && device::is_device_memory(address);
}

// The byte of an element that tells where it lies: from MPI_BOTTOM, or null, that may be anywhere, and a
// derived type may begin far from its buffer's address.
inline const void* first_data_byte(const void* address, MPI_Datatype datatype, MPI_Aint offset = 0) {
  MPI_Count lower = 0, extent = 0;
  if (datatype != MPI_DATATYPE_NULL && !is_plain(datatype)) {
    // MPICH counts parts without bytes in the extent.
    if (PlanOfType plan = plan_of(datatype)) return first_data_byte(address, *plan, offset);
    PMPI_Type_get_true_extent_x(datatype, &lower, &extent);
  }
  return at_offset(address, offset + static_cast<MPI_Aint>(lower));
}

// The same for a buffer of this type.
inline bool is_device(const void* address, MPI_Datatype datatype) {
  return address != MPI_IN_PLACE && is_device(first_data_byte(address, datatype));
}

// The same, and keeps what was found for the operation that will use the buffer.
inline bool is_device(UserBuffer* buffer) {
  return buffer->address != MPI_IN_PLACE &&
         device::is_device_memory(first_data_byte(buffer->address, buffer->datatype), &buffer->found);
}

// A device buffer came to a function that does not handle it: says so, raises an error through the handler
// of the communicator, window or file, and returns its code. (Not overloads: all handles are int in MPICH.)
int refuse(Function function, MPI_Comm comm);
int refuse_window(Function function, MPI_Win win);
int refuse_file(Function function, MPI_File file);
// The same for device memory of any kind that came although FAIRLEAD_GPU_SUPPORT is off.
int refuse_device_memory(MPI_Comm comm);
// Passes on the result of a host call that may have received something. When it failed, senders are told: a
// message that was too long may have been a descriptor, whose offer nobody takes up then (M3).
int noted(int result);
// A receive of nothing has no room for a descriptor: one that truncates a device message loses its offer.
// That is a mistake of the program, and most end there; one that goes on and makes it again loses no more
// offers, because once a receive has failed, such receives get a place to land like other short ones.
bool may_swallow_rts(int room);
// Errors that this thread noted: MPICH 5 returns MPI_SUCCESS after a handler of the program has seen one.
extern constinit thread_local int errors_noted;

// Lives while this rank is inside a host MPI call that Fairlead cannot poll. Peers are told not to wait for
// it, and its own sends are made independent of it first. Nothing happens while no device operation is
// active. May be nested.
class BlockingHostCall {
 public:
  BlockingHostCall();
  ~BlockingHostCall();
  BlockingHostCall(const BlockingHostCall&) = delete;
  BlockingHostCall& operator=(const BlockingHostCall&) = delete;

 private:
  bool raised_ = false;
};

}  // namespace fairlead::mpi
