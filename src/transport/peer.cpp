// SPDX-License-Identifier: Apache-2.0

#include "transport/peer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>

#include "base/log.h"
#include "base/options.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "device/copy.h"

namespace fairlead::transport {
namespace {

using device::Error;
using node::Path;
using node::RankBlock;
using node::Verdict;

// What the proof of a rank reads: tied to the job and the rank, so that no other memory looks like it.
std::array<uint64_t, device::pool_proof_bytes / 8> proof_content(const Node& node, int owner) {
  std::array<uint64_t, device::pool_proof_bytes / 8> words;
  uint64_t state = node.nonce().words[0] ^ (node.nonce().words[1] + static_cast<uint64_t>(owner));
  for (uint64_t& word : words) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    word = state;
  }
  return words;
}

Reason prove(Node& node, int owner, int device) {
  RankBlock& block = node.block(owner);
  if (!block.proof_ready.load(std::memory_order_acquire)) return Reason::not_exportable;
  device::MappedMemory mapped;
  if (device::import_memory(owner, device, block.proof, &mapped) != Error::none) return Reason::import_failed;
  auto expected = proof_content(node, owner), seen = expected;
  seen.fill(0);
  if (device::copy_now(device, seen.data(), mapped.address(), sizeof seen) != Error::none)
    return Reason::copy_failed;
  return seen == expected ? Reason::none : Reason::wrong_bytes;
}

// Memory whose file a receiver was given, by receiver, base and id.
struct HandedOver {
  bool current;  // the receiver has the file, or a mapping made by it
  int refusals;  // since it last fetched from there
};
auto& handed_over = *new std::map<std::tuple<int, uint64_t, uint64_t>, HandedOver>;
constexpr int refusals_allowed = 3;

// Takes over the files that others have put into this rank's box.
void take_files(Node& node) {
  node::FileLabel label;
  pid_t sender = 0;
  int file = -1;
  while (node.files().take(&label, &sender, &file)) {
    bool genuine = label.sender >= 0 && label.sender < node.size() && node.block(label.sender).pid == sender;
    if (genuine)
      device::take_file(label.sender, label.base, label.id, file);
    else
      close(file);
  }
}

}  // namespace

bool offer_proof(Node& node, int device) {
  static int state = 0;  // 0: not tried, 1: offered, -1: cannot
  if (state == 0) {
    state = -1;
    void* slab = device::pool_slab(device);
    auto content = proof_content(node, node.rank());
    std::vector<device::GoneExport> gone;
    RankBlock& mine = node.mine();
    if (slab && device::copy_now(device, slab, content.data(), sizeof content) == Error::none &&
        device::export_memory(device::classify(slab), slab, sizeof content, &mine.proof, &gone) ==
            Error::none) {
      mine.proof_ready.store(1, std::memory_order_release);
      state = 1;
    }
  }
  return state == 1;
}

bool hand_over(Node& node, int receiver, const RemoteMemory& remote) {
  if (!remote.by_file) return true;
  HandedOver& state = handed_over[{receiver, remote.base, remote.id}];
  if (state.current) return true;
  if (state.refusals >= refusals_allowed) return false;
  int file = device::export_file(remote);
  if (file < 0) return false;
  state.current = node.files().put(receiver, {node.rank(), 0, remote.base, remote.id}, file);
  close(file);
  return state.current;
}

bool publish(Node& node, const std::vector<int>& receivers, const device::Allocation& allocation,
             const void* address, uint64_t bytes, RemoteMemory* remote) {
  std::vector<device::GoneExport> gone;
  Error error = device::export_memory(allocation, address, bytes, remote, &gone);
  revoke(node, gone);
  return error == Error::none && std::all_of(receivers.begin(), receivers.end(), [&](int receiver) {
           return receiver == node.rank() || hand_over(node, receiver, *remote);
         });
}

// A receiver that could not map the memory may have closed an old mapping, and need the file once more.
void note_fetched(int receiver, const RemoteMemory& remote, bool fetched) {
  if (!remote.by_file) return;
  HandedOver& state = handed_over[{receiver, remote.base, remote.id}];
  state = {fetched, fetched ? 0 : state.refusals + 1};
}

void revoke(Node& node, const std::vector<device::GoneExport>& gone) {
  RankBlock& mine = node.mine();
  for (const auto& entry : gone) {
    std::erase_if(handed_over, [&](const auto& known) {
      return std::get<1>(known.first) == entry.base && std::get<2>(known.first) == entry.id;
    });
    uint64_t number = mine.revocations.load(std::memory_order_relaxed);
    mine.revoked[number % node::revocations_kept] = {entry.base, entry.id};
    mine.revocations.store(number + 1, std::memory_order_release);
  }
}

void follow_revocations(Node& node, int owner) {
  static auto& followed = *new std::map<int, uint64_t>;
  RankBlock& block = node.block(owner);
  uint64_t& mine = followed[owner];
  uint64_t theirs = block.revocations.load(std::memory_order_acquire);
  if (theirs == mine) return;
  take_files(node);  // they were put before the owner revoked anything of them
  // Half the ring as margin: the owner may be writing the oldest entries right now.
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

Reason judge(Node& node, int owner, int device) {
  if (node.verdict(owner, node.rank()).path != Path::unknown) return node.verdict(owner, node.rank()).reason;
  Reason reason = prove(node, owner, device);
  node.decide(owner, node.rank(), reason == Reason::none ? Path::peer : Path::staged, reason,
              device::runtime()->error_text());
  return reason;
}

Reason reach(Node& node, int owner, int device, const RemoteMemory& remote, device::MappedMemory* mapped) {
  Verdict& verdict = node.verdict(owner, node.rank());
  if (verdict.path == Path::staged) return verdict.reason;
  follow_revocations(node, owner);
  if (Reason reason = judge(node, owner, device); reason != Reason::none) return reason;
  Error error = device::import_memory(owner, device, remote, mapped);
  if (error == Error::not_found && remote.by_file) {
    take_files(node);
    error = device::import_memory(owner, device, remote, mapped);
  }
  if (error == Error::none) return Reason::none;
  log_line(LogLevel::debug, "memory of rank %d cannot be mapped: %s", node.world_rank(owner),
           device::runtime()->error_text());
  return Reason::import_failed;
}

}  // namespace fairlead::transport
