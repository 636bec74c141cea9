// SPDX-License-Identifier: Apache-2.0
//
// The host memory that the host MPI reads or writes in place of a device buffer.
//
// Predefined elements without gaps are the same there. Other buffers are packed, and the host MPI gets their
// bytes, which are what a file in the native representation holds. Only the host MPI can convert elements to
// another representation: it then gets an image of the buffer, with the gaps.
//
// The status does not always tell how much was read (quirk read_counts_all). The host memory of a read that
// may end early therefore holds the bytes of the buffer, so that those that are not read stay what they were.
//
// If there is no memory, or the buffer cannot be read, the host MPI is called with no bytes, because other
// ranks may depend on the call, and the call returns an error.

#pragma once

#include "device/pinned_buffer.h"
#include "mpi/abi/large_count_fallback.h"
#include "mpi/datatype/elements.h"
#include "mpi/file/file_access.h"
#include "mpi/p2p/kept_type.h"
#include "packing/move.h"

namespace fairlead::mpi {

// The view of a file, as far as staging depends on it.
struct FileView {
  explicit FileView(MPI_File file);
  bool native = true;                         // the file holds the bytes of memory
  MPI_Count etype_bytes = 0, etype_span = 0;  // without and with its gaps; 0: unknown
};

class FileBuffer {
 public:
  // Until when the buffer is needed: the program may free the datatype when its call has returned.
  enum class Needed { in_call, later };
  FileBuffer(const FileCall& call, Needed needed);

  const Elements& elements() const { return elements_; }
  const FileCall& call() const { return call_; }
  const FileView& view() { return view_ ? *view_ : view_.emplace(call_.file); }
  // May the file end before this read does? As it is at the first call.
  bool may_end_early() { return ends_early_ ? *ends_early_ : ends_early_.emplace(compare_lengths()); }
  // Copies the device buffer to host memory if the call writes to the file, and calls the host MPI.
  template <class Result>
  int call_host(const FileHost<Result>& host, Result* result) {
    PointerTurn turn(call_.file, call_.offset);
    load();
    if (!loaded_) return host(0, nullptr, 0, MPI_BYTE, result);
    return host(0, address(), host_elements_.count(), host_elements_.datatype(), result);
  }
  // The host MPI has read this many bytes: copies them to the device buffer, and no others. Like Move.
  device::Error start_store(MPI_Count bytes);
  device::Error poll_store() { return move_.poll(); }
  void* address() const { return image_ ? image_->address() : memory_.data(); }
  // After the host MPI's part has succeeded: raises what went wrong in copies. Returns the result of the
  // call.
  int result(device::Error stored) const;
  // Stores, waits and returns that result.
  int store(MPI_Count bytes);

 private:
  UserBuffer to_keep(Needed needed);
  bool compare_lengths();
  void load();

  const FileCall call_;
  std::optional<FileView> view_;
  std::optional<bool> ends_early_;
  const bool as_bytes_;  // the host MPI gets MPI_BYTE
  std::optional<KeptType> kept_type_;
  const Elements elements_;
  const bool as_image_;
  FallbackElements host_elements_;
  bool loaded_ = false;
  device::PinnedBuffer memory_;  // the packed bytes
  std::optional<HostElements> image_;
  packing::Move move_;
};

// "a write of 4096 bytes to a file"
std::string description(const FileCall& call, const Elements& elements);
// Logs why a device buffer could not be copied, raises the error on the file and returns it.
int raise_copy_error(const FileCall& call, const Elements& elements);

namespace file {
// Call first for each staged call; anything but MPI_SUCCESS is its result.
int begin_staging(const FileCall& call);
}  // namespace file

}  // namespace fairlead::mpi
