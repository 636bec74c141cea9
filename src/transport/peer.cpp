// SPDX-License-Identifier: Apache-2.0

#include "transport/peer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/options.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "device/context.h"
#include "device/copies/copy.h"

namespace fairlead::transport {
namespace {

using device::Error;
using node::Path;
using node::PathDecision;
using node::RankBlock;

// The content that a peer-access probe expects. It depends on the job, the rank and its device, so that no
// other memory contains the same.
std::array<uint64_t, device::pool_read_bytes / 8> probe_content(const Node& node, int owner, int device) {
  std::array<uint64_t, device::pool_read_bytes / 8> words;
  uint64_t number = static_cast<uint64_t>(owner) * node::devices_per_rank + static_cast<uint64_t>(device);
  uint64_t state = node.nonce().words[0] ^ (node.nonce().words[1] + number);
  for (uint64_t& word : words) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    word = state;
  }
  return words;
}

std::array<uint8_t, 16> uuid_of(int device) {
  device::DeviceInfo info{};
  (void)device::runtime()->device_info(device, &info);
  return std::to_array(info.uuid);
}

// Maps what is probed: so many bytes.
Reason map_probe(Node& node, int owner, int owner_device, int device, uint64_t bytes,
                 device::MappedMemory* mapped) {
  const RemoteMemory memory = node::read_once(node.block(owner).probes[owner_device].memory);
  if (device::import_memory(owner, device, memory, mapped) != Error::none) return Reason::import_failed;
  return mapped->bytes() < bytes ? Reason::damaged : Reason::none;
}

Reason probe_pair(Node& node, int owner, int owner_device, int device) {
  if (!node.block(owner).probes[owner_device].ready.load(std::memory_order_acquire))
    return Reason::not_exportable;
  auto expected = probe_content(node, owner, owner_device), seen = expected;
  seen.fill(0);
  device::MappedMemory mapped;
  if (const Reason why_not = map_probe(node, owner, owner_device, device, sizeof seen, &mapped);
      why_not != Reason::none)
    return why_not;
  if (device::copy_now(device, seen.data(), mapped.address(), sizeof seen) != Error::none)
    return Reason::copy_failed;
  return seen == expected ? Reason::none : Reason::wrong_bytes;
}

// What is known of memory of this rank and a receiver, by base, id and receiver, until the memory is revoked.
struct Shared {
  bool current;  // the receiver has a mapping of it, or the file to make one
  int refusals;  // since the receiver last copied from there
};
auto& shared = *new std::map<std::tuple<uint64_t, uint64_t, int>, Shared>;
constexpr int refusals_allowed = 3;

// Receives the files that other ranks sent to this rank's socket.
void take_files(Node& node) {
  node::FileLabel label;
  int file = -1;
  while (node.files().take(&label, &file)) device::take_file(label.sender, label.base, label.id, file);
}

// Results of the peer-access probes that this rank's devices have made, by owner and device of the memory.
struct Decided {
  int device;
  Reason reason;
  std::optional<bool> copies_may_write = {};
};
auto& decided = *new std::map<std::pair<int, int>, std::vector<Decided>>;

// Does a copy there end, be it with an error? Empty: it is not known yet. Several ranks may write there at
// once, so nobody compares the bytes.
std::optional<bool> probe_writes(Node& node, int owner, int owner_device, int device) {
  device::MappedMemory mapped;
  void* const mine = device::pool_slab(device);
  // The owner may have reset its device, and other memory may be there now.
  if (!mine || probe_pair(node, owner, owner_device, device) != Reason::none ||
      map_probe(node, owner, owner_device, device, device::pool_probe_bytes, &mapped) != Reason::none)
    return {};
  if (!device::runtime()->copies_may_write(mapped.address())) return false;
  const std::optional<Error> outcome =
      device::try_copy(device, static_cast<char*>(mapped.address()) + device::pool_read_bytes,
                       static_cast<char*>(mine) + device::pool_read_bytes, device::pool_written_bytes);
  if (outcome == Error::not_ready)
    log_line(LogLevel::warn,
             "a copy from device %d to memory of rank %d does not end: messages to it are copied by their "
             "receiver; calls that wait for the whole device may not return",
             device, node.world_rank(owner));
  return outcome ? std::optional(*outcome != Error::not_ready) : std::nullopt;
}

Error map_for(Node& node, int owner, int device, const RemoteMemory& remote, device::MappedMemory* mapped) {
  Error error = device::import_memory(owner, device, remote, mapped);
  if (error != Error::not_found || remote.shared_by != device::SharedBy::file) return error;
  take_files(node);
  return device::import_memory(owner, device, remote, mapped);
}

// Announces what export_memory() of the device found freed.
void revoke(Node& node, const std::vector<device::GoneExport>& gone) {
  RankBlock& mine = node.mine();
  for (const auto& entry : gone) {
    shared.erase(shared.lower_bound({entry.base, entry.id, 0}),
                 shared.upper_bound({entry.base, entry.id, INT_MAX}));
    uint64_t number = mine.revocations.load(std::memory_order_relaxed);
    mine.revoked[number % node::revocations_kept] = {entry.base, entry.id};
    mine.revocations.store(number + 1, std::memory_order_release);
  }
}

}  // namespace

Error export_memory(Node& node, const device::Allocation& allocation, const void* address, uint64_t bytes,
                    RemoteMemory* remote) {
  std::vector<device::GoneExport> gone;
  const Error error = device::export_memory(allocation, address, bytes, remote, &gone);
  revoke(node, gone);
  return error;
}

bool export_probe(Node& node, int device) {
  static auto& tried = *new std::array<std::optional<device::Context>, node::devices_per_rank>;
  node::PeerProbe& probe = node.mine().probes[device];
  if (!tried[device] || tried[device]->is_gone()) {
    probe.ready.store(0, std::memory_order_relaxed);
    tried[device].emplace(device);
    void* slab = device::pool_slab(device);
    auto content = probe_content(node, node.rank(), device);
    std::ranges::copy(uuid_of(device), probe.gpu);
    if (slab && device::copy_now(device, slab, content.data(), sizeof content) == Error::none &&
        export_memory(node, device::classify(slab), slab, sizeof content, &probe.memory) == Error::none)
      probe.ready.store(1, std::memory_order_release);
  }
  return probe.ready.load(std::memory_order_relaxed) != 0;
}

bool may_be_reached(Node& node, std::span<const int> receivers, int device) {
  return std::ranges::all_of(receivers, [&](int rank) {
    if (rank == node.rank()) return true;
    const Path path = node.decision(node.rank(), device, rank).path;
    return options().ipc && path != Path::staged && (path != Path::unknown || export_probe(node, device));
  });
}

bool send_file_of(Node& node, int receiver, const RemoteMemory& remote) {
  Shared& state = shared[{remote.base, remote.id, receiver}];
  if (remote.shared_by != device::SharedBy::file || state.current) return true;
  if (state.refusals >= refusals_allowed) return false;
  int file = device::export_file(remote);
  if (file < 0) return false;
  state.current = node.files().put(receiver, {node.rank(), 0, remote.base, remote.id}, file);
  close(file);
  return state.current;
}

bool export_to(Node& node, std::span<const int> receivers, const device::Allocation& allocation,
               const void* address, uint64_t bytes, RemoteMemory* remote) {
  return export_memory(node, allocation, address, bytes, remote) == Error::none &&
         std::all_of(receivers.begin(), receivers.end(), [&](int receiver) {
           return receiver == node.rank() || send_file_of(node, receiver, *remote);
         });
}

void* make_scratch(Node& node, std::span<const int> peers, int device, uint64_t bytes, uint64_t zeros,
                   RemoteMemory* remote, const char** why_not) {
  const char* why = "a GPU cannot access the memory of another one";
  void* scratch = nullptr;
  if (may_be_reached(node, peers, device)) {
    const std::vector<char> content(zeros);
    scratch = device::pool_allocate(device, bytes);
    if (scratch && !device::pool_is_for_peers(device))
      why = "the GPU has no memory that other GPUs may write while it waits for it";
    else if (!scratch || device::copy_now(device, scratch, content.data(), zeros) != Error::none)
      why = "the buffer pool has no memory for it";
    else if (std::ranges::all_of(peers, [&](int peer) { return peer == node.rank(); }) ||
             export_to(node, peers, device::classify(scratch), scratch, bytes, remote))
      return scratch;
    if (scratch) device::pool_free(scratch);
  }
  if (why_not) *why_not = why;
  return nullptr;
}

// A receiver that could not map the memory may have closed an old mapping, and may need the file once more.
// Memory that was revoked meanwhile is not noted: nothing would forget it.
void note_fetched(int receiver, const RemoteMemory& remote, bool fetched) {
  const auto found = shared.find({remote.base, remote.id, receiver});
  if (found != shared.end()) found->second = {fetched, fetched ? 0 : found->second.refusals + 1};
}

// Memory that is shared by file can be mapped again only with this rank's help.
bool has_mapped(int receiver, const RemoteMemory& remote) {
  const auto found = shared.find({remote.base, remote.id, receiver});
  return remote.shared_by == device::SharedBy::handle && found != shared.end() && found->second.current;
}

size_t shared_with_receivers() {
  return shared.size();
}

void follow_revocations(Node& node, int owner) {
  if (node.files().was_full()) take_files(node);
  static auto& followed = *new std::map<int, uint64_t>;
  RankBlock& block = node.block(owner);
  uint64_t& mine = followed[owner];
  uint64_t theirs = block.revocations.load(std::memory_order_acquire);
  if (theirs == mine) return;
  take_files(node);  // the owner sends files before it revokes their memory
  // Half the ring is left as a margin: the owner may be writing the oldest entries right now.
  if (theirs - mine > node::revocations_kept / 2) {
    device::forget_imports(owner);
  } else {
    for (; mine < theirs; ++mine) {
      auto& entry = block.revoked[mine % node::revocations_kept];
      device::forget_import(owner, entry.base, entry.id);
    }
  }
  mine = theirs;
}

Reason decide_pair(Node& node, int owner, int owner_device, int device) {
  PathDecision& decision = node.decision(owner, owner_device, node.rank());
  Reason known = decision.path == Path::staged ? decision.reason.load() : Reason::none;
  if (known == Reason::switched_off || known == Reason::not_exportable) return known;  // decided by the owner
  auto& tried = decided[{owner, owner_device}];
  auto found = std::find_if(tried.begin(), tried.end(), [&](const Decided& j) { return j.device == device; });
  if (found != tried.end()) return found->reason;
  Reason reason = probe_pair(node, owner, owner_device, device);
  tried.push_back({.device = device, .reason = reason});
  if (reason == Reason::none) {
    const std::array<uint8_t, 16> theirs = std::to_array(node.block(owner).probes[owner_device].gpu);
    decision.in_turns = theirs == uuid_of(device) && device::runtime()->processes_take_turns(device);
    node.decide(owner, owner_device, node.rank(), Path::peer, reason, "");
  } else if (decision.path == Path::unknown || known == Reason::no_context)
    node.decide(owner, owner_device, node.rank(), Path::staged, reason, device::runtime()->error_text());
  return reason;
}

bool copies_may_write(Node& node, int owner, int owner_device, int device) {
  for (Decided& pair : decided[{owner, owner_device}]) {
    if (pair.device != device || pair.reason != Reason::none) continue;
    if (!pair.copies_may_write) pair.copies_may_write = probe_writes(node, owner, owner_device, device);
    return pair.copies_may_write.value_or(false);
  }
  return false;
}

Reason reach(Node& node, int owner, int owner_device, int* device, const RemoteMemory& remote,
             device::MappedMemory* mapped) {
  if (owner_device < 0 || owner_device >= node::devices_per_rank) return Reason::damaged;
  follow_revocations(node, owner);
  Reason reason = decide_pair(node, owner, owner_device, *device);
  if (reason == Reason::none) {
    if (map_for(node, owner, *device, remote, mapped) == Error::none) return reason;
    reason = Reason::import_failed;
    log_line(LogLevel::debug, "memory of rank %d cannot be mapped: %s", node.world_rank(owner),
             device::runtime()->error_text());
  }
  for (const Decided& other : decided[{owner, owner_device}]) {
    if (other.device == *device || other.reason != Reason::none) continue;
    if (map_for(node, owner, other.device, remote, mapped) != Error::none) continue;
    *device = other.device;
    return Reason::none;
  }
  return reason;
}

bool reach_from(Node& node, int owner, int owner_device, int device, const RemoteMemory& remote,
                device::MappedMemory* mapped) {
  int mapping = device;
  return reach(node, owner, owner_device, &mapping, remote, mapped) == Reason::none && mapping == device;
}

}  // namespace fairlead::transport
