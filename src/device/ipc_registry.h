// SPDX-License-Identifier: Apache-2.0
//
// Device memory of other processes, mapped into this process and cached (invariant M12).
//
// Export: the registry creates a handle once per allocation. The handle is valid while the driver's id of the
// allocation at that base stays the same. Every use checks the id, so freed and reallocated memory gets a new
// handle. If the new handle equals the old one and the driver's handles identify the memory, importers need
// no notice. The registry also caches that a driver refuses to export an allocation.
//
// Import: a mapping belongs to the device for which it was created, because drivers map memory into one
// context. Its key is (owner, base, device), and it is valid for one (size, id); a new id first invalidates
// the old mappings, unless the handles say that they show the new memory, too. The registry never closes a
// mapping in use. It forgets unused mappings, least recently used first, when there are more than
// FAIRLEAD_POOLS, and when their owner reports that the memory is gone. It closes a forgotten mapping
// when its device is idle, because the driver's close call waits for that, and the program's kernels may in
// turn wait for this process.
//
// Memory that is shared by file descriptor (virtual memory) is mapped once for each descriptor that its owner
// sends. An open descriptor keeps the memory alive, so the registry closes each one as early as possible.
// Thread-safe.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "device/runtime.h"

namespace fairlead::device {

// How another process maps memory: by a handle alone, with a file descriptor as well, or by a fabric handle,
// from any node of the NVLink domain.
enum class SharedBy : uint64_t { handle, file, fabric };

// Identifies bytes in the device memory of another process. Sent by value.
struct RemoteMemory {
  IpcHandle handle;
  uint64_t base;    // in the owner's address space
  uint64_t size;    // of the allocation
  uint64_t id;      // distinguishes new memory at a reused address
  uint64_t offset;  // of the bytes, relative to base
  SharedBy shared_by;
};

// ---- Exporting -------------------------------------------------------------------------------------

// Fills `remote` for `bytes` bytes at `address` inside `allocation`, which classify() has just returned.
// Fails if the bytes extend beyond the allocation. Appends to `gone` the base and id of exports whose memory
// no longer exists. One call may not find all; repeated exports find the rest. Exports to the node and those
// to other nodes have their own handles and importers, but each looks for memory of both that is gone.
struct GoneExport {
  uint64_t base, id;
};
Error export_memory(const Allocation& allocation, const void* address, uint64_t bytes, RemoteMemory* remote,
                    std::vector<GoneExport>* gone, bool to_other_nodes = false);
// Appends the exports to other nodes whose memory exports to the node have found gone.
void take_gone_of_other_nodes(std::vector<GoneExport>* gone);
// Returns a file descriptor for memory that is shared by file, to be sent to the importer; the caller
// closes it. Returns -1 on failure.
int export_file(const RemoteMemory& remote);

// ---- Importing -------------------------------------------------------------------------------------

class Mapping;

// Keeps a mapping open during its lifetime.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept { *this = std::move(other); }
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();
  void* address() const { return address_; }
  bool is_gone() const;  // with the context of its device
  // To the end of the allocation, whose length its owner has said.
  uint64_t bytes() const { return bytes_; }

 private:
  friend Error import_memory(int, int, const RemoteMemory&, MappedMemory*);
  Mapping* mapping_ = nullptr;
  void* address_ = nullptr;
  uint64_t bytes_ = 0;
};

// Stores a file descriptor that `owner` sent for its memory, for the next import. Takes ownership of it.
void take_file(int owner, uint64_t base, uint64_t id, int file);
// `owner` is any number that identifies the exporting process. `device` is the device for which the memory is
// mapped and that may use it in copies. Returns not_found if take_file() has not yet stored the file
// descriptor, and invalid_value if the bytes lie outside the allocation.
Error import_memory(int owner, int device, const RemoteMemory& remote, MappedMemory* mapped);
// Forgets the mappings of memory that its owner reports as gone.
void forget_import(int owner, uint64_t base, uint64_t id);
// Forgets all mappings of this owner, or of all owners (-1). Mappings in use are closed when they are
// released.
void forget_imports(int owner);

// Closes mappings that are forgotten and not in use. Without `wait`, closes only those whose device is idle,
// unless all of them together hold more than 1 GiB or FAIRLEAD_POOLS allocations.
void close_forgotten(bool wait);
void close_forgotten_if_idle();

struct RegistryCounts {
  size_t mappings, in_use, exports;
};
RegistryCounts registry_counts();

}  // namespace fairlead::device
