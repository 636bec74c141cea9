// SPDX-License-Identifier: Apache-2.0

#include "mpi/job/leaks.h"

#include <array>

#include "base/log.h"
#include "base/options.h"
#include "device/buffer_pool.h"
#include "device/ipc_registry.h"
#include "device/registered_memory.h"
#include "mpi/abi/real.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/engine.h"
#include "mpi/network/network.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/probed_messages.h"
#include "mpi/stream/cells.h"
#include "p2p/rendezvous_send.h"
#include "transport/arena.h"
#include "transport/peer.h"

namespace fairlead::mpi {
namespace {

struct Count {
  const char* what;
  size_t count;
};

auto unfinished() {
  const Engine::Counts engine_counts = engine().counts();
  return std::array{Count{"operations", engine_counts.operations},
                    Count{"requests", engine_counts.requests},
                    Count{"buffered sends", engine_counts.buffered},
                    Count{"probed messages", probed_messages()},
                    Count{"control messages", network::control_messages_in_flight()},
                    Count{"rendezvous", static_cast<size_t>(p2p::rendezvous_in_use())},
                    Count{"staged chunks", transport::staged_chunks_in_use()},
                    Count{"pool bytes", device::pool_bytes_in_use()},
                    Count{"mappings in use", device::registry_counts().in_use}};
}

auto unreleased() {
  return std::array{Count{"mappings", device::registry_counts().mappings},
                    Count{"registered bytes", device::registered_bytes()},
                    Count{"collective slots", slots_taken()}};
}

// What is no leak, but may not grow either.
auto remembered() {
  return std::array{Count{"exports", device::registry_counts().exports},
                    Count{"memory shared with receivers", transport::shared_with_receivers()},
                    Count{"sequences of messages", counted_sequences()},
                    Count{"cells of streams", cells_in_use()}};
}

}  // namespace

// Counting reads every collective slot of this rank, which takes memory for each (up to 4 MiB).
LeakCheck::LeakCheck() : wanted_(options().check.contains("leaks")) {}

template <class Counts>
void LeakCheck::add(const Counts& counts) {
  for (const auto& [what, count] : counts)
    if (count > 0) found_ += (found_.empty() ? "" : ", ") + std::to_string(count) + " " + what;
}

void LeakCheck::count_unfinished() {
  if (!wanted_) return;
  calls_ = engine().unfinished_calls();
  // The rest would be what these calls hold.
  if (calls_.empty()) add(unfinished());
}

void LeakCheck::count_unreleased() {
  if (wanted_) add(unreleased());
}

void LeakCheck::print() const {
  if (!wanted_) return;
  constexpr size_t named = 16;
  for (size_t i = 0; i < calls_.size() && i < named; ++i)
    log_line(LogLevel::warn, "leaks: %s", calls_[i].c_str());
  if (calls_.size() > named)
    log_line(LogLevel::warn, "leaks: %zu more calls were never completed", calls_.size() - named);
  if (!found_.empty())
    log_line(LogLevel::warn, "leaks: %s", found_.c_str());
  else if (calls_.empty())
    log_line(LogLevel::info, "leaks: none");
}

}  // namespace fairlead::mpi

// For the rank test theme `soak`: all counts of this rank.
extern "C" FAIRLEAD_EXPORT void fairlead_kept(void (*take)(void* to, const char* what, size_t count),
                                              void* to) {
  auto each = [&](const auto& counts) {
    for (const auto& [what, count] : counts) take(to, what, count);
  };
  each(fairlead::mpi::unfinished());
  each(fairlead::mpi::unreleased());
  each(fairlead::mpi::remembered());
}
