// SPDX-License-Identifier: Apache-2.0

#include "p2p/describe.h"

#include <unordered_map>

#include "base/options.h"
#include "transport/peer.h"

namespace fairlead::p2p {
namespace {

// The messages sent from one device address. The record starts anew with each allocation there.
struct Sent {
  uint64_t allocation = 0;
  int messages = 0;
  uint64_t exported_as = 0;
  int exported_otherwise = 0;  // consecutive allocations that were exported under a new id
  bool lives_on = false;
};

}  // namespace

std::optional<Fallback> describe_if_worth(node::Node& node, int receiver,
                                          const device::Allocation& allocation, const void* address,
                                          uint64_t bytes, node::RemoteMemory* remote) {
  constexpr uint64_t bounce_bytes = uint64_t{4} << 20;
  constexpr size_t remembered = 4096;
  constexpr int tries = 3;
  constexpr std::optional<Fallback> done;
  static auto& by_base = *new std::unordered_map<uint64_t, Sent>;
  if (options().map_after == 0 || bytes > bounce_bytes)
    return transport::export_to(node, {&receiver, 1}, allocation, address, bytes, remote)
               ? done
               : Fallback::not_exportable;
  if (by_base.size() > remembered) by_base.clear();
  Sent& sent = by_base[allocation.base];
  auto name_it = [&] {
    if (transport::export_memory(node, allocation, address, bytes, remote) != device::Error::none)
      return false;
    sent.lives_on |= remote->id == sent.exported_as;
    sent.exported_as = remote->id;
    return true;
  };
  if (sent.allocation != allocation.id) {
    bool again = sent.allocation != 0;
    sent.allocation = allocation.id;
    sent.messages = 0;
    sent.lives_on = false;
    if (again && sent.exported_otherwise < tries) {
      // This check sends no file: the file would keep the memory alive.
      if (!name_it()) return Fallback::not_exportable;
      sent.exported_otherwise = sent.lives_on ? 0 : sent.exported_otherwise + 1;
      if (sent.lives_on) return done;
    }
  }
  bool worth = sent.lives_on || sent.messages >= options().map_after || ++sent.messages > options().map_after;
  if (!worth) return Fallback::not_mapped_yet;
  return name_it() && transport::send_file_of(node, receiver, *remote) ? done : Fallback::not_exportable;
}

}  // namespace fairlead::p2p
