// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/host_capability.h"

#include <memory>
#include <mutex>

#include "base/log.h"
#include "base/options.h"
#include "base/report_timer.h"
#include "device/classify.h"
#include "mpi/abi/real.h"
#include "mpi/core/engine.h"
#include "mpi/core/hooks.h"
#include "mpi/network/host_trial.h"
#include "mpi/network/network.h"

namespace fairlead::mpi::network {

constinit std::atomic<bool> detail::awaits_device = false;

namespace {

constinit std::atomic<uint32_t> own_decision = 0;
// Of the node, where its ranks share memory: one of them takes part in the trial for all.
constinit std::atomic<std::atomic<uint32_t>*> decision = &own_decision;
auto& trial = *new std::unique_ptr<HostTrial>;
auto& claim = *new Claim;
ReportTimer waiting;

// One rank of the job reports what went wrong, for all; the others say at level info what they found.
void conclude() {
  if (!trial->tried()) return;
  decision.load()->store(trial->passed());
  const char* words = claim.words.c_str();
  if (trial->passed() && trial->first())
    log_line(LogLevel::info,
             "device messages between nodes are handed to the host MPI: %s, and known bytes in device memory "
             "of %d nodes arrived right",
             words, trial->nodes());
  if (!trial->passed() && (trial->first() || !trial->wrong().empty()))
    log_line(
        trial->first() ? LogLevel::warn : LogLevel::info,
        "the host MPI claims that it handles device memory (%s), but %s; device messages between nodes "
        "are staged through host memory; FAIRLEAD_NETWORK=staged leaves the trial out",
        words,
        trial->wrong().empty() ? "messages of other nodes did not arrive right" : trial->wrong().c_str());
}

// A hook of the engine, whose lock is held.
void advance() {
  if (!trial || trial->over()) return;
  trial->advance();
  if (trial->over()) conclude();
}

[[maybe_unused]] const bool hooked = add_hooks({.advance = advance});

bool represents_node() {
  return !engine().node() || engine().node()->rank() == 0;
}

void join(int device) {
  detail::awaits_device = false;
  if (trial && !trial->joined()) trial->join(device);
}

// What any rank of the job wants or lacks.
struct Wishes {
  int staged, native, automatic, no_claim, no_device;
};

Wishes agree_on_wishes() {
  const std::string& wanted = options().network;
  const device::Runtime* gpu = device::runtime();
  claim = gpu && wanted == "auto" ? claim_of_host(*gpu) : Claim{};
  Wishes own = {wanted == "staged", wanted == "native", wanted == "auto",
                wanted == "auto" && gpu && !claim.yes,
                represents_node() && gpu && device::device_in_use() < 0},
         any = {};
  real.Allreduce(&own, &any, sizeof own / sizeof(int), MPI_INT, MPI_MAX, communicator());
  return any;
}

}  // namespace

void open_capability() {
  if (engine().node()) decision = &engine().node()->host_moves_device_memory();
  if (!exists()) return;
  const Wishes any = agree_on_wishes();
  int rank = 0;
  PMPI_Comm_rank(communicator(), &rank);
  if (any.native && (any.staged || any.automatic) && rank == 0)
    log_line(LogLevel::warn,
             "FAIRLEAD_NETWORK is native on some ranks only, so %s; set it for all ranks alike",
             any.staged ? "device messages between nodes are staged" : "the host MPI is tried as with auto");
  if (any.staged) return;
  if (!any.automatic) return decision.load()->store(1);
  if (any.no_claim) {
    if (rank == 0)
      log_line(LogLevel::info,
               "device messages between nodes are staged through host memory: the host MPI is not "
               "known to handle device memory (%s)",
               claim.yes || claim.words.empty() ? "on another rank" : claim.words.c_str());
    return;
  }
  const bool takes_part = represents_node() && device::runtime();
  trial = HostTrial::open(communicator(), takes_part);
  if (any.no_device) {
    if (rank == 0)
      log_line(LogLevel::info,
               "the host MPI says that it handles device memory (%s); that is tried at the first "
               "device messages, because not every node uses a GPU in MPI_Init",
               claim.words.c_str());
    detail::awaits_device = trial != nullptr;
    return;
  }
  if (trial) join(device::device_in_use());
  waiting.restart();
  for (Backoff backoff; !capability_is_decided(); backoff.pause()) {
    std::lock_guard lock(engine().mutex());
    advance();
  }
  real.Barrier(communicator());
}

void detail::begin_trial(int device) {
  std::lock_guard lock(engine().mutex());
  if (device >= 0 && awaits_device) join(device);
}

bool native() {
  return decision.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) != 0;
}

void end_capability() {
  std::lock_guard lock(engine().mutex());
  waiting.restart();
  join(-1);
}

bool capability_is_decided() {
  std::lock_guard lock(engine().mutex());
  const bool decided = !trial || trial->over();
  if (!decided && trial->tried() && waiting.is_over())
    log_line(
        LogLevel::warn,
        "messages by which Fairlead tries whether the host MPI moves device memory (%s) have not arrived; "
        "if the job hangs, set FAIRLEAD_NETWORK=staged",
        claim.words.c_str());
  return decided;
}

void close_capability() {
  trial.reset();
  decision = &own_decision;
  own_decision = 0;
}

}  // namespace fairlead::mpi::network
