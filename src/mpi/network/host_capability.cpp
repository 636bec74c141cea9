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
#include "mpi/failures/failures.h"
#include "mpi/network/host_trial.h"
#include "mpi/network/network.h"

namespace fairlead::mpi::network {

namespace {

constinit std::atomic<uint32_t> own_path = 0;
// The engine's lock guards these.
auto& trial = *new std::unique_ptr<HostTrial>;
bool under_way = false;
// MPI_Init sets it.
auto& claim = *new Claim;
ReportTimer waiting;

}  // namespace

constinit std::atomic<std::atomic<uint32_t>*> detail::host_path = &own_path;
constinit std::atomic<bool> detail::awaits_device = false;

namespace {

void decide(HostPath path) {
  detail::host_path.load()->store(static_cast<uint32_t>(path));
}

// One rank of the job reports what went wrong, for all; the others say at level info what they found.
void conclude() {
  using Result = HostTrial::Result;
  under_way = false;
  const Result result = trial->result();
  decide(result == Result::right ? HostPath::proved : HostPath::staged);
  const char* words = claim.words.c_str();
  const std::string& wrong = trial->wrong();
  if (result == Result::right && trial->first())
    log_line(LogLevel::info,
             "device messages between nodes are passed to the host MPI: %s, and known bytes in device memory "
             "of %d nodes arrived right",
             words, trial->nodes());
  if ((result == Result::left || result == Result::missing) && trial->first())
    log_line(
        LogLevel::info,
        "device messages between nodes are staged through host memory: a rank called MPI_Finalize, or its "
        "GPU was reset, before the host MPI had been tried");
  if (result == Result::wrong && (trial->first() || !wrong.empty()))
    log_line(trial->first() ? LogLevel::warn : LogLevel::info,
             "the host MPI claims that it handles device memory (%s), but %s; device messages between nodes "
             "are staged through host memory; FAIRLEAD_NETWORK=staged skips the trial",
             words, wrong.empty() ? "messages of other nodes arrived with wrong bytes" : wrong.c_str());
}

// A hook of the engine, whose lock is held.
void advance() {
  if (!under_way) return;
  trial->advance();
  if (trial->over()) conclude();
}

[[maybe_unused]] const bool hooked = add_hooks({.advance = advance, .lend_device = lend_device});

// The caller holds the engine's lock.
void join(int device) {
  detail::awaits_device = false;
  if (!trial || trial->joined()) return;
  trial->join(device);
  under_way = true;
}

// What any rank of the job wants or lacks.
struct Wishes {
  int staged, native, automatic, no_claim;
};

Wishes agree_on_wishes() {
  const std::string& wanted = options().network;
  const device::PromptRuntime* gpu = device::runtime();
  claim = gpu && wanted == "auto" ? claim_of_host(*gpu) : Claim{};
  Wishes own = {wanted == "staged", wanted == "native", wanted == "auto",
                wanted == "auto" && gpu && !claim.yes},
         any = {};
  real.Allreduce(&own, &any, sizeof own / sizeof(int), MPI_INT, MPI_MAX, communicator());
  return any;
}

// Of the first rank with a GPU of each node; MPI_COMM_NULL on all others.
MPI_Comm first_with_gpu_of_each_node(int world_rank) {
  const node::Node* node = engine().node();
  const bool has_gpu = device::runtime() != nullptr;
  MPI_Comm of_node = MPI_COMM_NULL, firsts = MPI_COMM_NULL;
  const int color = !has_gpu ? MPI_UNDEFINED : node ? node->world_rank(0) : world_rank;
  adopt(real.Comm_split(communicator(), color, 0, &of_node), &of_node);
  int rank = -1;
  if (has_gpu) {
    PMPI_Comm_rank(of_node, &rank);
    free_own(&of_node);
  }
  adopt(real.Comm_split(communicator(), rank == 0 ? 0 : MPI_UNDEFINED, 0, &firsts), &firsts);
  return firsts;
}

// The ranks of the trial learn in MPI_Init whether it can take place there.
void begin_in_init() {
  const int device = device::device_in_use();
  int mine = device >= 0, all = 0;
  real.Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, trial->ranks());
  if (!all) {
    if (trial->first())
      log_line(LogLevel::info,
               "the host MPI says that it handles device memory (%s); the first device messages will test "
               "it, because not every node uses a GPU in MPI_Init",
               claim.words.c_str());
    detail::awaits_device = true;
    return;
  }
  {
    std::lock_guard lock(engine().mutex());
    join(device);
  }
  waiting.restart();
  for (Backoff backoff; !capability_is_decided(); backoff.pause()) {
    std::lock_guard lock(engine().mutex());
    advance();
  }
}

}  // namespace

void open_capability() {
  if (engine().node()) detail::host_path = &engine().node()->host_path();
  if (!exists()) return;
  const Wishes any = agree_on_wishes();
  int rank = 0;
  PMPI_Comm_rank(communicator(), &rank);
  if (any.native && (any.staged || any.automatic) && rank == 0)
    log_line(LogLevel::warn,
             "FAIRLEAD_NETWORK is native on some ranks only, so %s; set the same value on all ranks",
             any.staged ? "device messages between nodes are staged" : "the host MPI is tried as with auto");
  if (any.staged) return;
  if (!any.automatic) return decide(HostPath::asserted);
  if (any.no_claim) {
    if (rank == 0)
      log_line(LogLevel::info,
               "device messages between nodes are staged through host memory: the host MPI is not "
               "known to handle device memory (%s)",
               claim.yes || claim.words.empty() ? "on another rank" : claim.words.c_str());
    return;
  }
  MPI_Comm ranks = first_with_gpu_of_each_node(rank);
  int nodes = 0;
  if (ranks != MPI_COMM_NULL) PMPI_Comm_size(ranks, &nodes);
  if (nodes > 1) {
    auto made = std::make_unique<HostTrial>(ranks);
    {
      std::lock_guard lock(engine().mutex());
      trial = std::move(made);
      decide(HostPath::tried);
    }
    begin_in_init();
  } else if (nodes == 1) {
    free_own(&ranks);
  }
  real.Barrier(communicator());
}

void detail::begin_trial(int device) {
  std::lock_guard lock(engine().mutex());
  if (device >= 0 && awaits_device) join(device);
}

// Not only once the decision is made: messages may begin right after it, in the same round of progress.
void lend_device() {
  static thread_local bool has_device = false;
  if (has_device || host_path() == HostPath::staged) return;
  const int device = device::device_in_use();
  has_device = device >= 0 && device::runtime()->set_current_device(device) == device::Error::none;
}

void end_capability() {
  std::lock_guard lock(engine().mutex());
  waiting.restart();
  if (under_way) trial->leave_device();
  join(-1);
}

bool capability_is_decided() {
  std::lock_guard lock(engine().mutex());
  if (const int seconds = under_way && trial->tried() ? waiting.due() : 0)
    log_line(
        LogLevel::warn,
        "messages by which Fairlead tries whether the host MPI moves device memory (%s) have not arrived "
        "for %d s; if the job hangs, set FAIRLEAD_NETWORK=staged",
        claim.words.c_str(), seconds);
  return !under_way;
}

void close_capability() {
  std::unique_ptr<HostTrial> ended;  // its end communicates, without the lock
  {
    std::lock_guard lock(engine().mutex());
    under_way = false;
    ended = std::move(trial);
  }
  detail::host_path = &own_path;
  own_path = 0;
}

}  // namespace fairlead::mpi::network
