// SPDX-License-Identifier: Apache-2.0
//
// Staging through host memory: the host MPI executes a call with copies of its device buffers in host memory,
// in the same layout, so that counts, displacements and datatypes stay unchanged.

#pragma once

#include "base/memory/dummy_memory.h"
#include "device/pinned_buffer.h"
#include "mpi/coll/collective_call.h"
#include "mpi/coll/scattered_buffer.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {

// Ends the job, because the other members of the communicator would wait for this rank for ever. Returns
// MPI_ERR_OTHER if there are none.
int end_for_lack_of_addresses(MPI_Comm comm);

// The copy of one buffer.
class HostImage {
 public:
  HostImage() = default;
  // Host memory and empty regions need no image: address() is the buffer's own address.
  explicit HostImage(const Region& region);

  // False if the memory for the image cannot be allocated. Then stand_in() gives it addresses in its place,
  // from which nothing is read and to which nothing is written; false if there are none.
  bool valid() const { return !device_memory_ || memory_.data() || scattered_.distance() != 0; }
  bool stand_in(DummyFor buffer);
  void* address() const { return address_; }
  bool stands_for_device() const { return device_memory_; }
  // Copies the region's bytes in (load) or back (store); writes no other bytes. False if a copy fails.
  bool load(const Region& region);
  bool store(const Region& region) const;

 private:
  bool device_memory_ = false;
  void* address_ = nullptr;
  MPI_Aint first_ = 0, span_ = 0;
  // One of them holds the image.
  device::PinnedBuffer memory_;
  ScatteredBuffer scattered_;
};

// A collective in the host MPI: the one place where the buffers of a blocking, nonblocking or persistent
// collective are staged. Errors of staging are logged here and raised by the caller.
class StagedCall {
 public:
  // Fills the images and returns host(sendbuf, recvbuf), called with the buffer arguments for the host MPI.
  // The other members wait for this rank: if there is no memory for the images it makes the call all the
  // same, with no data, and end() returns an error. If not even addresses are left, the job ends;
  // MPI_ERR_OTHER where there are no other members.
  template <class Host>
  int begin(const CollectiveCall& call, const Regions& regions, const Host& host) {
    if (!make_images(regions)) return end_for_lack_of_addresses(call.comm);
    return host(send_argument(call), receive_argument(call));
  }
  // Call it when the host MPI has succeeded: stores the results in the buffers.
  int end(const Regions& regions) const;

 private:
  bool make_images(const Regions& regions);
  const void* send_argument(const CollectiveCall& call) const;
  void* receive_argument(const CollectiveCall& call) const;

  HostImage read_, written_;
  bool both_empty_ = false, loaded_ = false;
};

}  // namespace fairlead::mpi
