// SPDX-License-Identifier: Apache-2.0
//
// A copy in host memory of the device buffer of a collective, laid out alike, so that the host MPI can be
// handed it in place of the buffer with counts, displacements and datatypes as they are.

#pragma once

#include "base/host_buffer.h"
#include "mpi/coll/collective_call.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {

class HostImage {
 public:
  HostImage() = default;
  // Of host memory, or of nothing, there is no image: address() is the buffer's own.
  explicit HostImage(const Region& region);

  // False when there is no memory for it.
  bool valid() const { return !device_memory_ || memory_.data(); }
  void* address() const { return address_; }
  bool stands_for_device() const { return device_memory_; }
  // Copies the region's bytes in, or back; only these are written. False when a copy fails.
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

  // False, with a line in the log, when there is no memory for them.
  bool valid() const;
  // Fills them; false, with a line in the log, when that is impossible.
  bool load(const Regions& regions);
  // Writes back what the host MPI has done; false, with a line in the log, when that is impossible.
  bool store(const Regions& regions) const;
  // What the host MPI is handed.
  const void* send_argument(const CollectiveCall& call) const;
  void* receive_argument(const CollectiveCall& call) const;
  void* read() const { return read_.address(); }
  void* written() const { return written_.address(); }

 private:
  HostImage read_, written_;
  bool both_empty_ = false;
};

}  // namespace fairlead::mpi
