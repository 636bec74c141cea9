// SPDX-License-Identifier: Apache-2.0

#include "mpi/job/leaks.h"

#include "base/log.h"
#include "base/options.h"
#include "device/buffer_pool.h"
#include "device/ipc_registry.h"
#include "device/registered_memory.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/engine.h"
#include "mpi/network/network.h"
#include "mpi/p2p/probed_messages.h"
#include "p2p/rendezvous_send.h"
#include "transport/arena.h"

namespace fairlead::mpi {

// Counting reads every collective slot of this rank, which takes memory for each (up to 4 MiB).
LeakCheck::LeakCheck() : wanted_(options().check.contains("leaks")) {}

void LeakCheck::add(size_t count, const char* what) {
  if (count > 0) found_ += (found_.empty() ? "" : ", ") + std::to_string(count) + " " + what;
}

void LeakCheck::count_unfinished() {
  if (!wanted_) return;
  Engine::Counts engine_counts = engine().counts();
  add(engine_counts.operations, "operations");
  add(engine_counts.requests, "requests");
  add(engine_counts.buffered, "buffered sends");
  add(probed_messages(), "probed messages");
  add(network::control_messages_in_flight(), "control messages");
  add(static_cast<size_t>(p2p::rendezvous_in_use()), "rendezvous");
  add(transport::staged_chunks_in_use(), "staged chunks");
  add(device::pool_bytes_in_use(), "pool bytes");
  add(device::registry_counts().in_use, "mappings in use");
}

void LeakCheck::count_unreleased() {
  if (!wanted_) return;
  add(device::registry_counts().mappings, "mappings");
  add(device::registered_bytes(), "registered bytes");
  add(slots_taken(), "collective slots");
}

void LeakCheck::print() const {
  if (!wanted_) return;
  if (found_.empty())
    log_line(LogLevel::info, "leaks: none");
  else
    log_line(LogLevel::warn, "leaks: %s", found_.c_str());
}

}  // namespace fairlead::mpi
