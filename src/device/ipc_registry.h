// SPDX-License-Identifier: Apache-2.0
//
// Device memory of other processes, mapped into this one and kept mapped (invariant M12).
//
// Exporting: a handle is made once per allocation and is valid while the driver's id of the allocation at
// that base stays the same; it is asked at every use, so that freed and re-allocated memory gets a new
// handle. If that is the same as before, and the driver's handles tell memory, importers need not notice.
// That a driver refuses to share an allocation is remembered likewise.
//
// Importing: a mapping belongs to the device that it was made for, because drivers map memory into one
// context; it is keyed by (owner, base, device) and valid for one (size, id); a new id forgets the old
// mappings first. Mappings in use are never closed; unused ones are forgotten, oldest first, beyond
// FAIRLEAD_IPC_CACHE of them, and when their owner says that the memory is gone. What is forgotten is closed
// when its device idles, because drivers wait for that, and the program's kernels may wait for us.
//
// Memory that is shared by file descriptor (virtual memory) is mapped once for each descriptor that its owner
// passed on: a descriptor would keep the memory alive, so none is kept longer than needed. Thread-safe.

#pragma once

#include <cstdint>
#include <vector>

#include "device/runtime.h"

namespace fairlead::device {

// Where bytes lie in the device memory of another process. Travels by value.
struct RemoteMemory {
  IpcHandle handle;
  uint64_t base;     // in the owner's address space
  uint64_t size;     // of the allocation
  uint64_t id;       // tells new memory at the old address
  uint64_t offset;   // of the bytes, from base
  uint64_t by_file;  // nonzero: importing needs a file descriptor besides
};

// ---- Exporting -------------------------------------------------------------------------------------

// Fills `remote` for `bytes` bytes at `address` inside `allocation` (as classify() just gave it); refuses
// bytes that go on in other memory. Appends to `gone` the exports (base and id of each) that were found to
// exist no more.
struct GoneExport {
  uint64_t base, id;
};
Error export_memory(const Allocation& allocation, const void* address, uint64_t bytes, RemoteMemory* remote,
                    std::vector<GoneExport>* gone);
// A file descriptor to pass on for memory that is exported by_file; the caller closes it. -1 on failure.
int export_file(const RemoteMemory& remote);

// ---- Importing -------------------------------------------------------------------------------------

class Mapping;

// Holds a mapping open while it lives.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept : mapping_(other.mapping_), address_(other.address_) {
    other.mapping_ = nullptr;
  }
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();
  void* address() const { return address_; }

 private:
  friend Error import_memory(int, int, const RemoteMemory&, MappedMemory*);
  Mapping* mapping_ = nullptr;
  void* address_ = nullptr;
};

// A file descriptor that `owner` passed on for its memory: ours from now on, for the next import.
void take_file(int owner, uint64_t base, uint64_t id, int file);
// `owner` is any number that names the exporting process; `device` is where the mapping is made, and whose
// copies may use it. not_found: the file descriptor for it has not been taken.
Error import_memory(int owner, int device, const RemoteMemory& remote, MappedMemory* mapped);
// The owner says this memory is gone.
void forget_import(int owner, uint64_t base, uint64_t id);
// Everything of this owner, or of all owners (-1). Mappings in use close when they are released.
void forget_imports(int owner);

// Closes what is forgotten, and in use no more; if not `wait`, only where that waits for no kernel, unless it
// holds more than 1 GiB of others' memory, or FAIRLEAD_IPC_CACHE allocations.
void close_forgotten(bool wait);

struct RegistryCounts {
  size_t mappings, in_use, exports;
};
RegistryCounts registry_counts();

}  // namespace fairlead::device
