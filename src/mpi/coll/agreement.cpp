// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/agreement.h"

#include <algorithm>
#include <climits>

#include "base/log.h"
#include "base/options.h"
#include "coll/choice.h"
#include "coll/nccl_library.h"
#include "mpi/abi/real.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/engine.h"
#include "mpi/core/interception.h"
#include "mpi/info/memory_kinds.h"

namespace fairlead::mpi {
namespace {

// The counts and offsets of a piece of a message go to the host MPI as int, in bytes.
constexpr int64_t longest_segment = 1 << 30;

NodeLimits limits;

// Why this rank cannot use NCCL; empty if it can.
std::string reason_against_nccl(const coll::NcclLibrary** library) {
  std::string why_not;
  if (engine().threads())
    return "several threads may call MPI; initialise it with less than MPI_THREAD_MULTIPLE";
  *library = coll::open_nccl(&why_not);
  return why_not;
}

// Either all ranks use NCCL or none does, and all know what all can do. The first rank that cannot use it
// logs the reason.
void agree_on_nccl(int world_rank) {
  if (!coll::choice().names_nccl()) return;
  const coll::NcclLibrary* library = nullptr;
  const std::string reason = reason_against_nccl(&library);
  const auto abilities = library ? coll::abilities_of(*library) : coll::NcclAbilities{};
  struct {
    int without, release, shares_gpus;
  } mine{library ? INT_MAX : world_rank, abilities.number, abilities.shared_gpus}, least{};
  real.Allreduce(&mine, &least, sizeof mine / sizeof(int), MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (least.without == INT_MAX) return coll::use_nccl(library, {least.release, least.shares_gpus != 0});
  if (least.without == world_rank)
    log_line(LogLevel::warn, "NCCL is disabled: %s; collectives use other algorithms", reason.c_str());
}

void agree_on_algorithms(int world_rank) {
  std::vector<std::string> wrong;
  coll::Choice wanted = coll::wanted_choice(&wrong);
  if (world_rank == 0)
    for (const std::string& line : wrong) log_line(LogLevel::warn, "%s", line.c_str());
  uint64_t digest = wanted.digest(), mine[] = {digest, ~digest}, most[2] = {};
  real.Allreduce(mine, most, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (most[0] == ~most[1]) {
    coll::set_choice(std::move(wanted));
    if (world_rank == 0 && wrong.empty() && options().tuning != "off")
      log_line(LogLevel::info, "algorithms of collectives are chosen by %s, then by the shipped rules",
               options().tuning.c_str());
    agree_on_nccl(world_rank);
  } else if (world_rank == 0) {
    log_line(LogLevel::warn,
             "FAIRLEAD_COLL, or the file of FAIRLEAD_TUNING, is not the same on all ranks; neither is used");
  }
}

}  // namespace

void agree_on_collectives(int world_rank) {
  agree_on_algorithms(world_rank);
  limits = {options().coll_uniform, static_cast<int64_t>(options().coll_nodes_from),
            std::min(static_cast<int64_t>(options().pieces("collective")), longest_segment),
            options().coll_members, options().check.contains("collectives")};
  real.Bcast(&limits, sizeof limits, MPI_BYTE, 0, MPI_COMM_WORLD);
}

const NodeLimits& node_limits() {
  return limits;
}

coll::MemoryAgreement::Rule rule_for(const KindList& kinds) {
  bool all_device = !kinds.empty(), all_host = !kinds.empty();
  for (const AllocationKind& kind : kinds.kinds()) {
    auto is_all = [&](const char* restrictor) {
      return !kind.restrictors.empty() &&
             std::ranges::all_of(kind.restrictors, [&](const std::string& one) { return one == restrictor; });
    };
    all_device &= is_all("device");
    all_host &= is_all("host") || kind.name == "system";
  }
  using Rule = coll::MemoryAgreement::Rule;
  return all_device ? Rule::at_every_call : all_host ? Rule::never : Rule::as_found;
}

void note_memory_kinds(MPI_Comm comm, MPI_Info info) {
  if (comm == MPI_COMM_NULL) return;
  const std::optional<KindList> asserted = note_assertion(object_id(comm), info);
  std::shared_ptr<CommunicatorState> state = communicator_state_of(comm);
  if (!state->spans_nodes() || state->memory().stopped()) return;
  const auto rule = static_cast<int>(asserted ? rule_for(*asserted) : state->memory().rule());
  // The lowest and the highest rule of any rank.
  int limits_of_rules[] = {rule, -rule};
  BlockingHostCall blocking_call;
  real.Allreduce(MPI_IN_PLACE, limits_of_rules, 2, MPI_INT, MPI_MIN, comm);
  const bool same = limits_of_rules[0] == -limits_of_rules[1];
  using Rule = coll::MemoryAgreement::Rule;
  state->memory().set_rule(same ? static_cast<Rule>(rule) : Rule::as_found);
  if (state->memory().rule() == Rule::at_every_call) state->make_for_messages();
}

}  // namespace fairlead::mpi
