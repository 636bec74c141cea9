// SPDX-License-Identifier: Apache-2.0
//
// Transport `peer`: the receiver maps the sender's device memory and copies from it, one copy in all. The
// first time that a device of the receiver accesses a device of the sender, the receiver runs a peer-access
// probe: it maps a few bytes of known content, which the sender keeps there for this purpose, and compares
// them. A mapping that succeeds but shows other bytes (seen with some container and isolation set-ups) must
// not carry a message. Before copies write to memory of the other, one of them writes to bytes that are kept
// for this: with ROCm such a copy may never end.
//
// A sender does not know which device will receive. Its memory counts as peer-accessible if one device of the
// receiver can access it: this device then copies for the others. Thread-safe under the engine's lock.

#pragma once

#include <span>

#include "device/ipc_registry.h"
#include "node/node.h"

namespace fairlead::transport {

using device::RemoteMemory;
using node::Node;
using node::Reason;

// Where two ranks take turns on one GPU, copies inside it wait for them, but those to and from host memory do
// not. On an H200, 64 KiB take 21 us through host memory, and 150 us by one copy; from 512 KiB on, several
// messages at once take twice as long through host memory.
constexpr uint64_t longest_in_turns = 256 << 10;

// Sender: exports the probe memory of one of its devices, once; false if its memory cannot be exported at
// all.
bool export_probe(Node& node, int device);
// Sender: may all receivers (node ranks) map memory of this device, as far as is known? Exports the probe
// memory to those that have not tried it.
bool may_be_reached(Node& node, std::span<const int> receivers, int device);
// Fills `remote` for `bytes` bytes at `address` inside this rank's `allocation`, and announces to importers
// what was found freed.
device::Error export_memory(Node& node, const device::Allocation& allocation, const void* address,
                            uint64_t bytes, RemoteMemory* remote);
// Sender: sends `receiver` what it needs besides the handle to map `remote`. False: the receiver cannot map
// it.
bool send_file_of(Node& node, int receiver, const RemoteMemory& remote);
// Fills `remote` for memory of this rank that all `receivers` (node ranks) may map; false if one of them
// cannot.
bool export_to(Node& node, std::span<const int> receivers, const device::Allocation& allocation,
               const void* address, uint64_t bytes, RemoteMemory* remote);
// Memory of the buffer pool of `device`, `zeros` bytes of zeros at its beginning, to which kernels of all
// `peers` (node ranks) may store, and of which `remote` is the description for them. Null, and why not. The
// caller gives it back by device::pool_free().
void* make_scratch(Node& node, std::span<const int> peers, int device, uint64_t bytes, uint64_t zeros,
                   RemoteMemory* remote, const char** why_not = nullptr);
// Sender: notes whether the receiver could copy bytes from there itself.
void note_fetched(int receiver, const RemoteMemory& remote, bool fetched);
// Sender: the receiver has mapped the memory and can copy from it again without this rank's help. False once
// the memory has been freed.
bool has_mapped(int receiver, const RemoteMemory& remote);
// Of how many pairs of receiver and memory this rank remembers such things.
size_t shared_with_receivers();

// Receiver: Reason::none if its `device` can copy from `owner_device` of node rank `owner`. Runs the probe
// once and stores the decision.
Reason decide_pair(Node& node, int owner, int owner_device, int device);
// Receiver: maps `remote`, memory of `owner_device`, for copies that run on `device`. Changes `device` if
// only another one can map it. Reason::none on success.
Reason reach(Node& node, int owner, int owner_device, int* device, const RemoteMemory& remote,
             device::MappedMemory* mapped);
// The same where only `device` will do, as kernels run there.
bool reach_from(Node& node, int owner, int owner_device, int device, const RemoteMemory& remote,
                device::MappedMemory* mapped);
// May copies of device memory that `device` makes write to memory of `owner_device` of node rank `owner`?
// reach() has mapped such memory. Tries it once and stores the answer.
bool copies_may_write(Node& node, int owner, int owner_device, int device);
// Receiver: closes the mappings that `owner` has revoked since the last call.
void follow_revocations(Node& node, int owner);

}  // namespace fairlead::transport
