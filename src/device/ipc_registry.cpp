// SPDX-License-Identifier: Apache-2.0

#include "device/ipc_registry.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <map>
#include <mutex>

#include "base/options.h"
#include "base/rate_limit.h"

namespace fairlead::device {

class Mapping {
 public:
  int owner, device;
  uint64_t base, size, id;
  void* address;
  int users = 0;
  bool forgotten = false;  // close as soon as nobody uses it
};

namespace {

struct Export {
  uint64_t size, id;
  uint64_t known_as;  // the id that importers know the memory by
  IpcHandle handle;
  bool by_file;
  bool refused;  // remembered, since to ask again for each message costs as much
};

struct File {
  int owner;
  uint64_t base, id;
  int descriptor;
};

constexpr unsigned imports_between_trims = 64;

std::mutex mutex;
// Never destroyed: the driver may be gone before static destructors run.
auto& exports = *new std::map<uint64_t, Export>;
// Most recently used last.
auto& mappings = *new std::list<Mapping>;
auto& files = *new std::vector<File>;

// Mappings that nobody may use any more. Drivers close one only when its device has done all its work, so
// that waits for a good moment: a kernel of the program may not end before this rank goes on.
auto& closing = *new std::list<Mapping>;
std::atomic<bool> any_closing = false;
RateLimit look_again;  // whether the devices idle

void close(std::list<Mapping>::iterator entry) {
  closing.splice(closing.end(), mappings, entry);
  any_closing = true;
}

// Or everywhere, after waiting.
void close_where_idle(bool wait) {
  std::map<int, bool> idle;
  std::erase_if(closing, [&](const Mapping& mapping) {
    auto [entry, unknown] = idle.try_emplace(mapping.device, wait);
    if (unknown && !wait) entry->second = runtime()->query_device(mapping.device) == Error::none;
    if (entry->second) runtime()->ipc_close(mapping.device, mapping.address);
    return entry->second;
  });
  any_closing = !closing.empty();
}

// What is mapped here stays allocated at its owner, who has freed it and may want it for something else.
bool holds_too_much() {
  constexpr uint64_t bytes_at_most = uint64_t{1} << 30;
  uint64_t bytes = 0;
  for (const Mapping& mapping : closing) bytes += mapping.size;
  return bytes > bytes_at_most || closing.size() > static_cast<size_t>(options().ipc_cache);
}

template <class Matches>
void close_files(Matches matches) {
  std::erase_if(files, [&](const File& file) {
    if (!matches(file)) return false;
    ::close(file.descriptor);
    return true;
  });
}

// Forgets what `matches`; closes at once what nobody uses.
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
  auto limit = static_cast<std::ptrdiff_t>(options().ipc_cache);
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

// Maps what another process exported, with its file descriptor where it needs one.
Error import_once(int owner, int device, const RemoteMemory& remote, void** address) {
  if (!remote.by_file) return runtime()->ipc_import(device, remote.handle, -1, address);
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

// CUDA hands out small allocations as parts of larger blocks. While such a block lives, memory that is freed
// and allocated again has the same handle, and what others mapped of it shows the new bytes.
bool is_same_memory(const Export& old, const Export& fresh) {
  if (old.refused || fresh.refused) return false;
  return runtime()->ipc_handles_tell_memory() && !fresh.by_file && old.size == fresh.size &&
         std::memcmp(&old.handle, &fresh.handle, sizeof fresh.handle) == 0;
}

// Importers know of what was exported only.
void report_gone(const std::pair<const uint64_t, Export>& entry, std::vector<GoneExport>* gone) {
  if (!entry.second.refused) gone->push_back({entry.first, entry.second.known_as});
}

// A new allocation often means that old ones were freed; that is the place to notice.
void find_gone(std::vector<GoneExport>* gone) {
  for (auto entry = exports.begin(); entry != exports.end();) {
    if (exists(entry->first, entry->second.id)) {
      ++entry;
    } else {
      report_gone(*entry, gone);
      entry = exports.erase(entry);
    }
  }
}

}  // namespace

Error export_memory(const Allocation& allocation, const void* address, uint64_t bytes, RemoteMemory* remote,
                    std::vector<GoneExport>* gone) {
  uint64_t offset = reinterpret_cast<uintptr_t>(address) - allocation.base;
  if (!allocation.exportable || offset + bytes > allocation.size) return Error::not_supported;
  std::lock_guard lock(mutex);
  auto found = exports.find(allocation.base);
  if (found == exports.end() || found->second.id != allocation.id || found->second.size != allocation.size) {
    Export fresh{allocation.size, allocation.id, allocation.id, {}, false, false};
    int file = -1;
    Error error = runtime()->ipc_export(reinterpret_cast<const void*>(allocation.base), &fresh.handle, &file);
    // Anything else may pass.
    fresh.refused = error == Error::not_supported || error == Error::invalid_value;
    if (error != Error::none && !fresh.refused) return error;
    fresh.by_file = file >= 0;
    if (fresh.by_file) ::close(file);
    if (found != exports.end() && is_same_memory(found->second, fresh)) {
      found->second.id = fresh.id;
    } else {
      if (found != exports.end()) {
        report_gone(*found, gone);
        exports.erase(found);
      }
      find_gone(gone);
      found = exports.emplace(allocation.base, fresh).first;
    }
  }
  if (found->second.refused) return Error::not_supported;
  *remote = {found->second.handle,   allocation.base, allocation.size,
             found->second.known_as, offset,          found->second.by_file};
  return Error::none;
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
  std::lock_guard lock(mutex);
  auto current = [&](const Mapping& m) {
    return m.owner == owner && m.base == remote.base && m.id == remote.id && m.size == remote.size;
  };
  auto wanted = [&](const Mapping& m) { return current(m) && m.device == device; };
  auto found = std::find_if(mappings.begin(), mappings.end(), wanted);
  bool known = found != mappings.end();
  if (!known) {
    // It may have been forgotten too soon: an id that the owner revoked never comes again.
    auto kept = std::find_if(closing.begin(), closing.end(), wanted);
    if (kept != closing.end()) {
      mappings.splice(mappings.end(), closing, kept);
      found = kept;
    }
  }
  if (found == mappings.end()) {
    // Whatever else is mapped from that address range of the owner is stale.
    auto stale = [&](const Mapping& m) {
      bool overlaps = m.owner == owner && m.base < remote.base + remote.size && remote.base < m.base + m.size;
      return overlaps && !current(m);
    };
    forget_if(stale);
    // Programs that only test never wait, and mapping takes much longer than asking whether the device idles.
    if (any_closing && look_again.due()) close_where_idle(false);
    Mapping fresh{owner, device, remote.base, remote.size, remote.id, nullptr, 0, false};
    Error error = import_once(owner, device, remote, &fresh.address);
    if (error == Error::already_mapped || error == Error::out_of_memory) {
      // A stale mapping may stand in the way, or too many of them.
      forget_if([&](const Mapping& m) { return m.users == 0; });
      close_where_idle(false);
      error = import_once(owner, device, remote, &fresh.address);
    }
    if (remote.by_file) close_files([&](const File& f) { return f.owner == owner && f.base == remote.base; });
    if (error != Error::none) return error;
    mappings.push_back(fresh);
    found = std::prev(mappings.end());
  } else {
    mappings.splice(mappings.end(), mappings, found);
  }
  found->forgotten = false;
  ++found->users;
  mapped->mapping_ = &*found;
  mapped->address_ = static_cast<char*>(found->address) + remote.offset;
  // Of many that are in use at once, some are too many later.
  static unsigned imports = 0;
  if (!known || ++imports % imports_between_trims == 0) trim_unused();
  return Error::none;
}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(address_, other.address_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (!mapping_) return;
  std::lock_guard lock(mutex);
  if (--mapping_->users == 0 && mapping_->forgotten)
    close(std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& m) { return &m == mapping_; }));
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

RegistryCounts registry_counts() {
  std::lock_guard lock(mutex);
  size_t in_use =
      std::count_if(mappings.begin(), mappings.end(), [](const Mapping& m) { return m.users > 0; });
  size_t exported =
      std::count_if(exports.begin(), exports.end(), [](const auto& entry) { return !entry.second.refused; });
  return {mappings.size() + closing.size(), in_use, exported};
}

}  // namespace fairlead::device
