// SPDX-License-Identifier: Apache-2.0
//
// Interception: every interposed MPI function tests intercepting() first. In a job in which no rank has a GPU
// runtime, unless this process has an MPI session, interception is disabled and every call goes straight to
// the host MPI.

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
extern constinit std::atomic<bool> receives_failed;
}  // namespace detail
inline bool intercepting() {
  return detail::intercepting.load(std::memory_order_relaxed);
}

// Must this address be kept from the host MPI? MPI_BOTTOM, MPI_IN_PLACE and null are not device memory.
inline bool is_device(const void* address) {
  return address != MPI_IN_PLACE && device::is_device_memory(address);
}

// Returns the address of the byte that decides whether an element is in device memory. It may differ from the
// buffer's address: from MPI_BOTTOM or null, data may be anywhere, and a derived type may begin far from the
// address.
inline const void* first_data_byte(const void* address, MPI_Datatype datatype, MPI_Aint offset = 0) {
  MPI_Count lower = 0, extent = 0;
  if (datatype != MPI_DATATYPE_NULL && !is_plain(datatype)) {
    // Not by the host MPI: quirk empty_parts_in_extent.
    if (PlanOfType plan = plan_of(datatype)) return first_data_byte(address, *plan, offset);
    PMPI_Type_get_true_extent_x(datatype, &lower, &extent);
  }
  return at_offset(address, offset + static_cast<MPI_Aint>(lower));
}

// The same for a buffer of this type.
inline bool is_device(const void* address, MPI_Datatype datatype) {
  return address != MPI_IN_PLACE && is_device(first_data_byte(address, datatype));
}

// The same; also stores the result for the operation that will use the buffer.
inline bool is_device(UserBuffer* buffer) {
  return buffer->address != MPI_IN_PLACE &&
         device::is_device_memory(first_data_byte(buffer->address, buffer->datatype), &buffer->found);
}

// Refuses a device buffer passed to a function that does not handle it: logs the reason, raises an error
// through the handler of the communicator, window or file, and returns its code. (Not overloads: all handles
// are int in MPICH.)
int refuse_window(Function function, MPI_Win win);
int refuse_file(MPI_File file);
// Refuses device memory in any call, because FAIRLEAD_GPU_SUPPORT is off.
int refuse_device_memory(MPI_Comm comm);
// Passes on the result of a host call that may have received something. If it failed, this rank's block in
// shared memory counts the failure for senders to see: a message that was too long may have been an RTS
// header, whose rendezvous no receiver completes any more (M3).
int note_failed_receive(int result);
inline int noted(int result) {
  return result == MPI_SUCCESS ? result : note_failed_receive(result);
}
// May a receive with this room lose an RTS header? A receive of zero bytes has no room for one; if it
// truncates a device message, the rendezvous is lost. That is an error of the program, and most programs end
// there. If one continues and repeats the error, it loses no further rendezvous: once a receive has failed,
// such receives get a bounce buffer like other short receives.
inline bool may_swallow_rts(int room) {
  return room == 0 && !detail::receives_failed.load(std::memory_order_relaxed);
}
// Errors that noted() has counted in this thread: quirk error_hidden_by_handler.
extern constinit thread_local int errors_noted;

// Lives while this rank is inside a host MPI call that Fairlead cannot poll (M6). The constructor first makes
// this rank's own sends independent of it, then marks the rank as blocked, so that peers do not wait for it.
// Does nothing while no device operation is active. May be nested.
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
