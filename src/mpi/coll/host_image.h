// SPDX-License-Identifier: Apache-2.0
//
// A copy in host memory of the device buffer of a collective, with the same layout. The host MPI gets the
// copy in place of the buffer, with unchanged counts, displacements and datatypes.

#pragma once

#include "base/host_buffer.h"
#include "mpi/coll/collective_call.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {

class HostImage {
 public:
  HostImage() = default;
  // Host memory and empty regions need no image: address() is the buffer's own address.
  explicit HostImage(const Region& region);

  // False if the memory for the image cannot be allocated.
  bool valid() const { return !device_memory_ || memory_.data(); }
  void* address() const { return address_; }
  bool stands_for_device() const { return device_memory_; }
  // Copies the region's bytes in (load) or back (store); writes no other bytes. False if a copy fails.
  bool load(const Region& region);
  bool store(const Region& region) const;

 private:
  bool device_memory_ = false;
  void* address_ = nullptr;
  HostBuffer memory_;
};

// The images of both buffers of a call.
class StagedBuffers {
 public:
  StagedBuffers() = default;
  explicit StagedBuffers(const Regions& regions);

  // False if the memory cannot be allocated; logs the error.
  bool valid() const;
  // Fills the images. False if that fails; logs the error.
  bool load(const Regions& regions);
  // Writes back the results of the host MPI. False if that fails; logs the error.
  bool store(const Regions& regions) const;
  // The buffer arguments for the host MPI.
  const void* send_argument(const CollectiveCall& call) const;
  void* receive_argument(const CollectiveCall& call) const;
  void* read() const { return read_.address(); }
  void* written() const { return written_.address(); }

 private:
  HostImage read_, written_;
  bool both_empty_ = false;
};

}  // namespace fairlead::mpi
