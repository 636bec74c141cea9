// SPDX-License-Identifier: Apache-2.0

#include "device/ipc_registry.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <list>
#include <map>
#include <mutex>

#include "base/options.h"
#include "base/rate_limit.h"
#include "device/blocking_driver_calls.h"
#include "device/context.h"

namespace fairlead::device {

class Mapping {
 public:
  int owner, device;
  uint64_t base, size, id;
  IpcHandle handle;
  void* address;
  Context context;
  int users = 0;
  bool forgotten = false;  // close as soon as `users` is 0
};

namespace {

struct Export {
  uint64_t size, id;
  uint64_t known_as;  // the id under which importers cache the memory
  IpcHandle handle;
  SharedBy shared_by;
  bool refused;  // cached, because the refused driver call costs as much as a successful one
};

struct File {
  int owner;
  uint64_t base, id;
  int descriptor;
};

constexpr unsigned imports_between_trims = 64;

std::mutex mutex;
// Never destroyed: the driver may be unloaded before static destructors run.
struct Exports {
  std::map<uint64_t, Export> known;  // by base
  uint64_t next = 0;                 // find_gone() goes on here
  std::vector<GoneExport> gone;      // that the importers must be told of
};
auto& exports_to_node = *new Exports;
auto& exports_to_other_nodes = *new Exports;
// The most recently used mapping is last.
auto& mappings = *new std::list<Mapping>;
auto& files = *new std::vector<File>;

// Mappings that are no longer usable. A driver closes a mapping only after its device has completed all work.
// To close one at once could deadlock: a kernel of the program may depend on progress of this rank.
auto& closing = *new std::list<Mapping>;
std::atomic<bool> any_closing = false;
RateLimit look_again;  // limits how often the registry queries whether devices are idle

void close(std::list<Mapping>::iterator entry) {
  closing.splice(closing.end(), mappings, entry);
  any_closing = true;
}

// Closes the mappings whose device is idle; with `wait`, waits for each device, if that has an end, and
// closes all of them.
void close_where_idle(bool wait) {
  const BlockingDriverCalls calls;
  if (!calls) return;
  wait = wait && calls.may_wait();
  std::map<int, bool> idle;
  std::erase_if(closing, [&](const Mapping& mapping) {
    if (mapping.context.is_gone()) return true;
    auto [entry, unknown] = idle.try_emplace(mapping.device, wait);
    if (unknown && !wait) entry->second = runtime()->query_device(mapping.device) == Error::none;
    if (entry->second) calls->ipc_close(mapping.device, mapping.address);
    return entry->second;
  });
  any_closing = !closing.empty();
}

// The exporter has freed this memory, but it stays allocated, and unavailable to the exporter, until this
// process closes the mapping.
bool holds_too_much() {
  constexpr uint64_t bytes_at_most = uint64_t{1} << 30;
  uint64_t bytes = 0;
  for (const Mapping& mapping : closing) bytes += mapping.size;
  return bytes > bytes_at_most || closing.size() > static_cast<size_t>(options().pools("mappings"));
}

template <class Matches>
void close_files(Matches matches) {
  std::erase_if(files, [&](const File& file) {
    if (!matches(file)) return false;
    ::close(file.descriptor);
    return true;
  });
}

// CUDA places small allocations inside larger blocks. While such a block exists, a mapping of an allocation
// shows what is allocated at its place later, too, and as long as it is open the driver maps there no memory
// of another length. The handles of two allocations at one place differ in the word of their length only.
// Those of two contexts are never at one place, whatever the handles are.
template <class One, class Other>
bool is_same_place(const One& one, const Other& other) {
  if (!runtime()->ipc_handles_tell_memory() || one.id >> context_bit != other.id >> context_bit) return false;
  constexpr size_t words = sizeof(IpcHandle) / sizeof(uint64_t);
  const auto a = std::bit_cast<std::array<uint64_t, words>>(one.handle);
  const auto b = std::bit_cast<std::array<uint64_t, words>>(other.handle);
  size_t lengths = 0;
  for (size_t i = 0; i < words; ++i) {
    if (a[i] == b[i]) continue;
    if (a[i] != one.size || b[i] != other.size || ++lengths > 1) return false;
  }
  return true;
}

// Finds a mapping, also one that is about to be closed, and makes it the most recently used one.
template <class Wanted>
std::list<Mapping>::iterator take(Wanted wanted) {
  for (auto* list : {&mappings, &closing}) {
    auto found = std::find_if(list->begin(), list->end(), wanted);
    if (found == list->end()) continue;
    mappings.splice(mappings.end(), *list, found);
    return found;
  }
  return mappings.end();
}

// Marks the matching mappings as forgotten, and closes those that are not in use.
template <class Matches>
void forget_if(Matches matches) {
  for (auto entry = mappings.begin(); entry != mappings.end();) {
    auto next = std::next(entry);
    if (matches(*entry)) {
      entry->forgotten = true;
      if (entry->users == 0) close(entry);
    }
    entry = next;
  }
}

void trim_unused() {
  auto limit = static_cast<std::ptrdiff_t>(options().pools("mappings"));
  auto unused =
      std::count_if(mappings.begin(), mappings.end(), [](const Mapping& m) { return m.users == 0; });
  for (auto entry = mappings.begin(); unused > limit && entry != mappings.end();) {
    auto next = std::next(entry);
    if (entry->users == 0) {
      close(entry);
      --unused;
    }
    entry = next;
  }
}

// Imports another process's allocation, with its file descriptor where it requires one.
Error import_once(int owner, int device, const RemoteMemory& remote, void** address) {
  if (remote.shared_by == SharedBy::fabric)
    return runtime()->fabric_import(device, remote.handle, remote.size, address);
  if (remote.shared_by == SharedBy::handle) return runtime()->ipc_import(device, remote.handle, -1, address);
  auto file = std::find_if(files.begin(), files.end(), [&](const File& f) {
    return f.owner == owner && f.base == remote.base && f.id == remote.id;
  });
  if (file == files.end()) return Error::not_found;
  return runtime()->ipc_import(device, remote.handle, file->descriptor, address);
}

bool exists(uint64_t base, uint64_t id) {
  Allocation now;
  runtime()->query(reinterpret_cast<const void*>(base), &now);
  return now.kind == MemoryKind::device && now.base == base && now.id == id;
}

// Existing mappings in other processes show the new contents.
bool is_same_memory(const Export& old, const Export& fresh) {
  return !old.refused && !fresh.refused && fresh.shared_by == SharedBy::handle && old.size == fresh.size &&
         is_same_place(old, fresh);
}

// Importers need a notice only for memory that was exported.
auto erase_gone(Exports& exports, std::map<uint64_t, Export>::iterator entry) {
  if (!entry->second.refused) exports.gone.push_back({entry->first, entry->second.known_as});
  return exports.known.erase(entry);
}

// A new allocation often follows the release of old ones, so this is the point to detect them. Each export
// asks about some of the others in turn, and goes on while it finds memory that is gone, which often is that
// of many exports: the time of an export does not grow with the number of those that exist.
void find_gone(Exports& exports) {
  constexpr size_t asked_about = 16;
  auto& known = exports.known;
  auto entry = known.lower_bound(exports.next);
  for (size_t here = 0; here < std::min(asked_about, known.size());) {
    if (entry == known.end()) entry = known.begin();
    if (exists(entry->first, entry->second.id)) {
      ++entry, ++here;
    } else {
      here = 0;
      entry = erase_gone(exports, entry);
    }
  }
  exports.next = entry == known.end() ? 0 : entry->first;
}

void take_gone(Exports& exports, std::vector<GoneExport>* gone) {
  gone->insert(gone->end(), exports.gone.begin(), exports.gone.end());
  exports.gone.clear();
}

Error export_once(const void* base, bool to_other_nodes, Export* made) {
  if (to_other_nodes) {
    made->shared_by = SharedBy::fabric;
    return runtime()->fabric_export(base, &made->handle);
  }
  int file = -1;
  Error error = runtime()->ipc_export(base, &made->handle, &file);
  made->shared_by = file >= 0 ? SharedBy::file : SharedBy::handle;
  if (file >= 0) ::close(file);
  return error;
}

}  // namespace

Error export_memory(const Allocation& allocation, const void* address, uint64_t bytes, RemoteMemory* remote,
                    std::vector<GoneExport>* gone, bool to_other_nodes) {
  uint64_t offset = reinterpret_cast<uintptr_t>(address) - allocation.base;
  const bool may_work = to_other_nodes ? allocation.for_other_nodes : allocation.exportable;
  if (!may_work || offset + bytes > allocation.size) return Error::not_supported;
  std::lock_guard lock(mutex);
  Exports& exports = to_other_nodes ? exports_to_other_nodes : exports_to_node;
  auto& known = exports.known;
  auto found = known.find(allocation.base);
  if (found == known.end() || found->second.id != allocation.id || found->second.size != allocation.size) {
    Export fresh{allocation.size, allocation.id, allocation.id, {}, SharedBy::handle, false};
    Error error = export_once(reinterpret_cast<const void*>(allocation.base), to_other_nodes, &fresh);
    // Any other error may be transient. What other nodes cannot map is staged, as any other message to them.
    fresh.refused = error == Error::not_supported || error == Error::invalid_value ||
                    (to_other_nodes && error != Error::none);
    if (error != Error::none && !fresh.refused) return error;
    if (found != known.end() && is_same_memory(found->second, fresh)) {
      found->second.id = fresh.id;
    } else {
      if (found != known.end()) erase_gone(exports, found);
      find_gone(exports_to_node);
      find_gone(exports_to_other_nodes);
      found = known.emplace(allocation.base, fresh).first;
    }
  }
  take_gone(exports, gone);
  if (found->second.refused) return Error::not_supported;
  *remote = {found->second.handle,   allocation.base, allocation.size,
             found->second.known_as, offset,          found->second.shared_by};
  return Error::none;
}

void take_gone_of_other_nodes(std::vector<GoneExport>* gone) {
  std::lock_guard lock(mutex);
  take_gone(exports_to_other_nodes, gone);
}

int export_file(const RemoteMemory& remote) {
  IpcHandle handle;
  int file = -1;
  runtime()->ipc_export(reinterpret_cast<const void*>(remote.base), &handle, &file);
  return file;
}

void take_file(int owner, uint64_t base, uint64_t id, int file) {
  std::lock_guard lock(mutex);
  close_files([&](const File& f) { return f.owner == owner && f.base == base; });
  files.push_back({owner, base, id, file});
}

Error import_memory(int owner, int device, const RemoteMemory& remote, MappedMemory* mapped) {
  *mapped = MappedMemory();
  if (remote.size > INT64_MAX || remote.offset > remote.size) return Error::invalid_value;
  std::lock_guard lock(mutex);
  // The mapping of this allocation may have been forgotten too early. To reuse it is safe: the exporter never
  // reuses an id that it revoked. The mapping of an earlier allocation may show this one.
  auto shows = [&](const Mapping& m) {
    if (m.owner != owner || m.base != remote.base) return false;
    if (m.id == remote.id && m.size == remote.size) return true;
    return remote.shared_by == SharedBy::handle && m.size >= remote.size && is_same_place(m, remote);
  };
  auto found = take([&](const Mapping& m) { return m.device == device && shows(m) && !m.context.is_gone(); });
  const bool known = found != mappings.end();
  if (known) {
    found->id = remote.id;
  } else {
    // Any other mapping that overlaps this address range of the exporter is stale, and so are those that
    // ended with the context of their device.
    auto stale = [&](const Mapping& m) {
      bool overlaps = m.owner == owner && m.base < remote.base + remote.size && remote.base < m.base + m.size;
      return m.context.is_gone() || (overlaps && !shows(m));
    };
    forget_if(stale);
    // A program that only calls MPI_Test never waits, so idle devices are detected here as well: a query is
    // much cheaper than the import below.
    if (any_closing && look_again.due()) close_where_idle(false);
    Mapping fresh{owner,         device,  remote.base,     remote.size, remote.id,
                  remote.handle, nullptr, Context(device), 0,           false};
    Error error = import_once(owner, device, remote, &fresh.address);
    if (error == Error::already_mapped || error == Error::out_of_memory) {
      // The cause may be a stale mapping, or too many mappings.
      forget_if([&](const Mapping& m) { return m.users == 0; });
      close_where_idle(false);
      error = import_once(owner, device, remote, &fresh.address);
    }
    if (remote.shared_by == SharedBy::file)
      close_files([&](const File& f) { return f.owner == owner && f.base == remote.base; });
    if (error != Error::none) return error;
    found = mappings.insert(mappings.end(), fresh);
  }
  found->forgotten = false;
  ++found->users;
  mapped->mapping_ = &*found;
  mapped->address_ = static_cast<char*>(found->address) + remote.offset;
  mapped->bytes_ = remote.size - remote.offset;
  // When many mappings are in use at once, some exceed the cache limit once they are released.
  static unsigned imports = 0;
  if (!known || ++imports % imports_between_trims == 0) trim_unused();
  return Error::none;
}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (!mapping_) return;
  std::lock_guard lock(mutex);
  if (--mapping_->users == 0 && mapping_->forgotten)
    close(std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& m) { return &m == mapping_; }));
}

bool MappedMemory::is_gone() const {
  return mapping_ && mapping_->context.is_gone();
}

void forget_import(int owner, uint64_t base, uint64_t id) {
  std::lock_guard lock(mutex);
  auto matches = [&](const auto& m) { return m.owner == owner && m.base == base && m.id == id; };
  forget_if(matches);
  close_files(matches);
}

void forget_imports(int owner) {
  std::lock_guard lock(mutex);
  auto matches = [&](const auto& m) { return owner < 0 || m.owner == owner; };
  forget_if(matches);
  close_files(matches);
}

void close_forgotten(bool wait) {
  if (!any_closing.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex);
  if (wait || look_again.due()) close_where_idle(wait || holds_too_much());
}

void close_forgotten_if_idle() {
  static RateLimit again;
  if (!any_closing.load(std::memory_order_relaxed)) return;
  // Rounds of progress may find that no call is permitted.
  if (BlockingDriverCalls::in_thread_of_library || !again.due()) return;
  std::lock_guard lock(mutex);
  close_where_idle(false);
}

RegistryCounts registry_counts() {
  std::lock_guard lock(mutex);
  size_t in_use =
      std::count_if(mappings.begin(), mappings.end(), [](const Mapping& m) { return m.users > 0; });
  auto exported = [](const Exports& exports) {
    return static_cast<size_t>(std::count_if(exports.known.begin(), exports.known.end(),
                                             [](const auto& entry) { return !entry.second.refused; }));
  };
  return {mappings.size() + closing.size(), in_use,
          exported(exports_to_node) + exported(exports_to_other_nodes)};
}

}  // namespace fairlead::device
