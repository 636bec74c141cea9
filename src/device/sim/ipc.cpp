// SPDX-License-Identifier: Apache-2.0
//
// The memory objects behind simulated device memory, and how other processes map them. A handle names the
// exporter's file descriptor, which the importer opens through /proc. Virtual memory has no such name; the
// exporter must send its descriptor, except to another node of an NVLink domain. A page behind the block's
// bytes holds a seal. Freeing the block invalidates the seal, so that a stale handle is refused even if the
// descriptor number, the process ID or the address has been reused. Small allocations at one address have one
// object, as allocations at one place of CUDA's blocks do: a handle is valid again when its memory is
// allocated and exported again.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>

#include "base/memory/memory_file.h"
#include "base/memory/page_size.h"
#include "base/options.h"
#include "base/system/namespaces.h"
#include "device/sim/error.h"
#include "device/sim/memory.h"

namespace fairlead::device::sim {
namespace {

// Blocks up to this size are poisoned completely; to touch all of a larger one would make allocation slow.
constexpr size_t poisoned_whole = size_t{128} << 10;

constexpr uint64_t seal_magic = 0x6661697273696d31;  // "fairsim1"

struct Seal {
  uint64_t magic, nonce, bytes;  // of the object, without the page of the seal
  bool operator==(const Seal&) const = default;
};

struct Handle {
  Seal seal;
  int32_t pid, fd;  // fd: -1 if the exporter sends the descriptor
  uint32_t pid_namespace;
  int32_t device;
  uint64_t offset, size;  // of the shared memory: one piece, or the whole block
  uint64_t domain;        // of a handle for other nodes; else 0
};
static_assert(std::has_unique_object_representations_v<Handle>);  // handles are compared
static_assert(sizeof(Handle) <= sizeof(IpcHandle) && std::is_trivially_copyable_v<Handle>);

Seal seal_of(const Block& block) {
  return {seal_magic, block.nonce, block.mapped};
}

bool write_seal(const Block& block, const Seal& seal) {
  return pwrite(block.fd, &seal, sizeof seal, static_cast<off_t>(block.mapped)) == sizeof seal;
}

}  // namespace

Error create_object(Block* block) {
  block->fd = make_memory_file("fairlead-sim", block->mapped + page_size());
  if (block->fd < 0 || getrandom(&block->nonce, sizeof block->nonce, 0) != sizeof block->nonce)
    return fail(Error::out_of_memory, "cannot make a memory object of %zu bytes: %s%s", block->size,
                strerror(errno),
                errno == EMFILE ? "; each simulated allocation keeps a descriptor, raise `ulimit -n`" : "");
  return map_alias(block);
}

Error map_alias(Block* block) {
  // One page without access follows, so that a kernel that runs beyond the end of its block crashes.
  void* range = mmap(nullptr, block->mapped + page_size(), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    return fail(Error::out_of_memory, "cannot map %zu bytes: %s", block->size, strerror(errno));
  block->alias = static_cast<char*>(range);
  // Without a descriptor: private memory of the right size, for imports that are to show wrong bytes
  // deliberately.
  int flags = block->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  if (mmap(range, block->mapped, PROT_READ | PROT_WRITE, flags | MAP_FIXED, block->fd,
           static_cast<off_t>(block->offset)) == MAP_FAILED)
    return fail(Error::out_of_memory, "cannot map %zu bytes: %s", block->size, strerror(errno));
  return Error::none;
}

void poison(const Block& block, unsigned char byte) {
  constexpr size_t edge = size_t{64} << 10, step = size_t{1} << 20;
  if (block.mapped <= poisoned_whole) {
    memset(block.alias, byte, block.mapped);
    return;
  }
  memset(block.alias, byte, edge);
  memset(block.alias + block.mapped - edge, byte, edge);
  for (size_t at = step; at < block.mapped; at += step) memset(block.alias + at, byte, sizeof(uint64_t));
}

void destroy_contents(const Block& block) {
  write_seal(block, {});
  if (block.mapped > poisoned_whole)
    fallocate(block.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(block.mapped));
  poison(block, 0xDB);
}

Error Memory::ipc_export(const void* base, uint64_t domain, IpcHandle* handle, int* file) {
  BlockRef block = find(base);
  Allocation shared;
  if (domain && block && block->origin != Origin::pieces)
    return fail(Error::invalid_value, "%p is no virtual memory, so other nodes cannot map it", base);
  if (block) shared = block->describe(base);
  if (!shared.exportable || shared.base != reinterpret_cast<uintptr_t>(base))
    return fail(Error::invalid_value, "%p is not the start of device memory that can be exported", base);
  if (!write_seal(*block, seal_of(*block)))
    return fail(Error::failed, "cannot seal the memory object: %s", strerror(errno));
  bool passed_on = block->origin == Origin::pieces && !domain;
  int passed = passed_on ? fcntl(block->fd, F_DUPFD_CLOEXEC, 0) : -1;
  if (passed_on && passed < 0) return fail(Error::failed, "no file descriptor: %s", strerror(errno));
  Handle exported{seal_of(*block), getpid(),        passed_on ? -1 : block->fd,
                  pid_namespace(), block->location, shared.base - block->base,
                  shared.size,     domain};
  *handle = {};
  memcpy(handle->bytes, &exported, sizeof exported);
  *file = passed;
  return Error::none;
}

// FAIRLEAD_SIM_NO_PEER lists pairs, for example "0-1,2-3".
bool connected(int device, int peer) {
  if (device == peer || peer < 0) return true;
  const char* pairs = options().sim_no_peer.c_str();
  for (int one, other, length = 0; sscanf(pairs, "%d-%d%n", &one, &other, &length) == 2;) {
    if ((one == device && other == peer) || (one == peer && other == device)) return false;
    pairs += length + (pairs[length] == ',');
  }
  return !options().sim_faults("no_peers");
}

Error Memory::ipc_import(int device, const IpcHandle& handle, uint64_t domain, int file, void** base) {
  Handle offered;
  memcpy(&offered, handle.bytes, sizeof offered);
  if (offered.seal.magic != seal_magic) return fail(Error::invalid_value, "not a handle of a simulated GPU");
  if (offered.domain != domain)
    return fail(Error::not_supported, "the handle is of another NVLink domain, or for the node alone");
  const bool in_one_namespace = offered.pid_namespace == pid_namespace();
  if (offered.pid == getpid() && in_one_namespace && !domain)
    return fail(Error::invalid_value, "the handle was exported by this process itself");
  if (file < 0 && !in_one_namespace)
    return fail(Error::failed, "the handle is of a process in another PID namespace");
  if ((offered.fd < 0) != (file >= 0))
    return fail(Error::invalid_value, "the handle goes %s a file descriptor", file < 0 ? "with" : "without");
  const auto owner = static_cast<int>(offered.device);
  if (!domain && !connected(device, owner))
    return fail(Error::peer_unavailable, "device %d cannot reach device %d, where the memory is", device,
                owner);

  const Options::numbers& faults = options().sim_faults;
  const bool corrupt = faults("corrupt") || (faults("corrupt_peers") && owner != device);
  auto block = std::make_shared<Block>();
  block->kind = MemoryKind::device;
  block->device = device;
  block->imported = true;
  block->size = offered.size;
  block->offset = offered.offset;
  block->mapped = whole_pages(block->size);
  block->nonce = offered.seal.nonce;

  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", offered.pid, offered.fd);
  block->fd = file >= 0 ? fcntl(file, F_DUPFD_CLOEXEC, 0) : open(path, O_RDWR | O_CLOEXEC);
  if (block->fd < 0 && errno != ENOENT)
    return fail(Error::failed, "cannot open %s: %s; both processes must run as the same user", path,
                strerror(errno));
  struct stat status;
  Seal seal{};
  uint64_t end = offered.seal.bytes;
  if (block->fd < 0 || fstat(block->fd, &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != end + page_size() ||
      pread(block->fd, &seal, sizeof seal, static_cast<off_t>(end)) != sizeof seal || seal != offered.seal ||
      block->offset % page_size() || block->mapped > end || block->offset > end - block->mapped)
    return fail(Error::invalid_value, "stale handle: process %d has freed this memory", offered.pid);
  if (corrupt) {
    close(block->fd);
    block->fd = -1;
  }
  if (Error error = map_alias(block.get()); error != Error::none) return error;
  if (corrupt) poison(*block, 0x5C);

  return place(block, base);
}

}  // namespace fairlead::device::sim
