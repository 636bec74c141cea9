// SPDX-License-Identifier: Apache-2.0
//
// Memory of the simulated GPU. Every block is a memfd. The user's address lies in one large region without
// access rights, so that a host that dereferences device memory crashes there. The provider accesses the
// bytes through a second mapping, the alias. Managed and pinned blocks are also mapped at the user's address,
// and on a coherent machine (FAIRLEAD_SIM_BAR) device memory of this process is, too.
//
// Poison makes premature reads and reads after free visible: the simulated GPU fills device and managed
// memory with 0xA5 at allocation. When device memory is freed it loses its contents and is filled with 0xDB,
// also for other processes that still map it. Blocks above 128 KiB, which may be far larger than the
// machine's memory, receive poison in the first and last 64 KiB and one word per MiB; the rest reads as
// zeros.
//
// Thread-safe. The holder of a BlockRef may use the alias even after the block was freed.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <shared_mutex>
#include <tuple>

#include "device/runtime.h"
#include "device/sim/addresses.h"

namespace fairlead::device::sim {

constexpr int max_devices = 64;

// Returns true for one device, and for two that can access each other.
bool connected(int device, int peer);
// Returns whether the CPU accesses device memory, and kernels all host memory.
bool is_coherent();

// The origin of device memory determines whether and how other processes can map it.
enum class Origin : uint8_t { plain, pool, pieces };
// Virtual memory consists of pieces that correspond to a GPU's physical allocations: ten granules each, as in
// cuda_hip/virtual.h.
constexpr size_t granule_bytes = size_t{32} << 10, piece_bytes = 10 * granule_bytes;

struct Block;
using BlockRef = std::shared_ptr<Block>;

struct Block {
  Block() = default;
  Block(const Block&) = delete;
  ~Block();

  MemoryKind kind;
  Origin origin = Origin::plain;
  int device;
  int location = -1;  // of the physical memory, -1: the host's
  bool imported = false;
  bool registered = false;       // the user's own host memory; unmapping is not our task
  bool host_may_access = false;  // it is mapped at the user's address
  uintptr_t base = 0;
  size_t size = 0;     // as requested
  size_t mapped = 0;   // rounded up to whole pages
  uint64_t id = 0;     // of the first piece if there are several
  uint64_t nonce = 0;  // drawn with the object; stored in handles and in the memfd's seal
  char* alias = nullptr;
  int fd = -1;          // open for exports only
  BlockRef object;      // whose alias and fd these are, if not the block's own
  uint64_t offset = 0;  // within that file: an import may be one piece
  std::atomic<bool> live{true};
  std::atomic<bool> synchronous{false};  // Runtime::set_sync_memops()

  size_t pieces() const { return origin == Origin::pieces ? (size + piece_bytes - 1) / piece_bytes : 1; }
  Allocation describe(const void* address) const;
  // Pools and virtual memory give access to one device, and so do imports.
  bool is_of_one_device() const { return imported || origin != Origin::plain; }
  char* at(const void* address) const { return alias + (reinterpret_cast<uintptr_t>(address) - base); }
  void release_object();
  // Replaces the block's object, of equal length, by that of another block.
  void share(const BlockRef& other);
};

class Memory {
 public:
  // `blocks`: small allocations that follow each other at one address share an object, so that mappings in
  // other processes show the later one, as with CUDA.
  Memory(uint64_t bytes_per_device, uint64_t pinned_bytes, bool blocks)
      : capacity_(bytes_per_device), pinned_capacity_(pinned_bytes), shares_small_(blocks) {}

  // Returns null for an address that the simulated driver does not know. For ordinary host memory that takes
  // two comparisons and no lock.
  BlockRef find(const void* address) const;
  // Returns whether the address lies in the simulated GPU's region, that is, is or was device memory.
  bool in_region(const void* address) const;

  // `location`: of virtual memory, to which `device` alone has access.
  Error allocate(MemoryKind kind, Origin origin, int location, int device, size_t bytes, void** address);
  // The caller ensures that no work in flight uses the block.
  Error free(void* address, bool pinned);
  Error register_host(int device, void* address, size_t bytes);
  Error unregister_host(void* address);
  // Ends all memory, registrations and imports of a device. To free one of them later ends the process, since
  // a driver may have something else there.
  void end_all_of(int device);
  uint64_t used(int device) const { return used_[device]; }
  uint64_t capacity() const { return capacity_; }

  // `domain`: number of the NVLink domain whose nodes may import the memory, or 0: this node alone.
  Error ipc_export(const void* base, uint64_t domain, IpcHandle* handle, int* file);
  Error ipc_import(int device, const IpcHandle& handle, uint64_t domain, int file, void** base);
  Error ipc_close(int device, void* base);

 private:
  Error count_pinned(uint64_t bytes);
  Error reserve_region();
  Error place(const BlockRef& block, void** address);
  template <class Wanted>
  BlockRef take_out(void* address, Wanted wanted);
  void refuse_ended(const void* address) const;
  void free_block(const BlockRef& block);
  void release(const BlockRef& block);
  void share_small(const BlockRef& block);

  const uint64_t capacity_, pinned_capacity_;
  const bool shares_small_;
  std::atomic<uint64_t> used_[max_devices] = {}, pinned_used_{0};
  std::atomic<uint64_t> last_id_{0};

  std::atomic<uintptr_t> region_start_{0};
  std::atomic<size_t> region_size_{0};  // 0 until the first allocation
  std::atomic<uintptr_t> registered_low_{UINTPTR_MAX}, registered_high_{0};

  mutable std::shared_mutex mutex_;  // guards the members below
  std::unique_ptr<Addresses> addresses_;
  std::map<uintptr_t, BlockRef> blocks_;
  std::map<uintptr_t, BlockRef> small_;  // the first small block at each address, whose object others share
  std::set<uintptr_t> ended_;            // where blocks began that a reset has ended, and none begins now
  std::set<std::tuple<uint64_t, uint64_t, int>> imported_;  // nonces, offsets, devices
};

// Creates a memfd of block.mapped bytes plus a page for the block's seal; sets fd and alias.
Error create_object(Block* block);
// Maps block.mapped bytes of block.fd at an address that the provider chooses.
Error map_alias(Block* block);
void poison(const Block& block, unsigned char byte);
// Invalidates the handles, and destroys the contents for every process that still maps the memory.
void destroy_contents(const Block& block);

}  // namespace fairlead::device::sim
