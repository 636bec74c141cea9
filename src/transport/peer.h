// SPDX-License-Identifier: Apache-2.0
//
// Transport `peer`: the receiver maps the sender's device memory and copies from it, one copy in all.
// The first time that a device of the receiver meets a device of the sender, the receiver maps a few bytes of
// known content that the sender keeps there for this purpose and looks at them: a mapping that "works" but
// shows other bytes (seen with some container and isolation set-ups) must not carry a message.
//
// A sender does not know which device will receive. Its memory counts as served peer to peer when one device
// of the receiver reaches it: that one then copies for the others. Thread-safe under the engine's lock.

#pragma once

#include "device/ipc_registry.h"
#include "node/node.h"

namespace fairlead::transport {

using device::RemoteMemory;
using node::Node;
using node::Reason;

// Sender: makes the proof of one of its devices, once; false when its memory cannot be exported at all.
bool export_probe(Node& node, int device);
// Sender: gives `receiver` what it needs to map `remote` besides the handle. False: it will not be able to.
bool send_file_of(Node& node, int receiver, const RemoteMemory& remote);
// Fills `remote` for memory of this rank that all `receivers` (node ranks) may reach; false where one cannot.
bool export_to(Node& node, const std::vector<int>& receivers, const device::Allocation& allocation,
             const void* address, uint64_t bytes, RemoteMemory* remote);
// Sender: the receiver has fetched bytes from there itself, or could not.
void note_fetched(int receiver, const RemoteMemory& remote, bool fetched);
// Sender: publishes what export_memory() found gone.
void revoke(Node& node, const std::vector<device::GoneExport>& gone);

// Receiver: Reason::none when its `device` can copy from `owner_device` of node rank `owner`; proves that once,
// and writes the verdict.
Reason judge(Node& node, int owner, int owner_device, int device);
// Receiver: maps `remote`, memory of `owner_device`, for copies that run on `device`, which changes where only
// another one can. Reason::none on success.
Reason reach(Node& node, int owner, int owner_device, int* device, const RemoteMemory& remote,
             device::MappedMemory* mapped);
// Receiver: closes what owners revoked since the last call.
void follow_revocations(Node& node, int owner);

}  // namespace fairlead::transport
