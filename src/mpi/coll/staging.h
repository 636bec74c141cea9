// SPDX-License-Identifier: Apache-2.0
//
// Staging through host memory: the host MPI executes a call with copies of its device buffers in host memory,
// in the same layout, so that counts, displacements and datatypes stay unchanged.

#pragma once

#include "device/pinned_buffer.h"
#include "mpi/coll/collective_call.h"
#include "mpi/coll/scattered_buffer.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {

// The copy of one buffer.
class HostImage {
 public:
  HostImage() = default;
  // Host memory and empty regions need no image: address() is the buffer's own address.
  explicit HostImage(const Region& region);

  // False if the memory for the image cannot be allocated.
  bool valid() const { return !device_memory_ || memory_.data() || scattered_.distance() != 0; }
  void* address() const { return address_; }
  bool stands_for_device() const { return device_memory_; }
  // Copies the region's bytes in (load) or back (store); writes no other bytes. False if a copy fails.
  bool load(const Region& region);
  bool store(const Region& region) const;

 private:
  bool device_memory_ = false;
  void* address_ = nullptr;
  // One of them holds the image.
  device::PinnedBuffer memory_;
  ScatteredBuffer scattered_;
};

// A collective in the host MPI: the one place where the buffers of a blocking, nonblocking or persistent
// collective are staged. Errors of staging are logged here and raised by the caller.
class StagedCall {
 public:
  // Fills the images and returns host(sendbuf, recvbuf), called with the buffer arguments for the host MPI.
  // Returns MPI_ERR_OTHER without that call if there is no memory for the images.
  template <class Host>
  int begin(const CollectiveCall& call, const Regions& regions, const Host& host) {
    return make_images(regions) ? host(send_argument(call), receive_argument(call)) : MPI_ERR_OTHER;
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
