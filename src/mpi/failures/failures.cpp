// SPDX-License-Identifier: Apache-2.0

#include "mpi/failures/failures.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <set>

#include "base/log.h"
#include "mpi/abi/mutex.h"
#include "mpi/abi/real.h"

// Declared here, because mpi-ext.h declares them only where the MPI at build time has ULFM. Weak, as in
// host_mpi.h.
#if defined(OPEN_MPI)
extern "C" {
int PMPIX_Comm_is_revoked(MPI_Comm comm, int* flag);
int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failed);
int PMPIX_Comm_failure_ack(MPI_Comm comm);
int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* failed);
int PMPIX_Comm_agree(MPI_Comm comm, int* flag);
int PMPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);
int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* made);
}
#pragma weak PMPIX_Comm_is_revoked
#pragma weak PMPIX_Comm_get_failed
#pragma weak PMPIX_Comm_failure_ack
#pragma weak PMPIX_Comm_failure_get_acked
#pragma weak PMPIX_Comm_agree
#pragma weak PMPIX_Comm_iagree
#pragma weak PMPIX_Comm_shrink
#endif

namespace fairlead::mpi {

constinit bool detail::survives_failures = false;

namespace {

struct OwnCommunicators {
  Mutex mutex;
  std::set<MPI_Comm> all;
};
auto& own = *new OwnCommunicators;

}  // namespace

void close_failures() {
  detail::survives_failures = false;
}

bool is_failure(int code) {
  return survives_failures() && code >= proc_failed && code <= comm_revoked;
}

int adopt(int result, MPI_Comm* made) {
  if (result != MPI_SUCCESS || *made == MPI_COMM_NULL) return result;
  PMPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
  if (!survives_failures()) return result;
  std::lock_guard lock(own.mutex);
  own.all.insert(*made);
  return result;
}

void free_own(MPI_Comm* comm) {
  if (*comm == MPI_COMM_NULL) return;
  if (survives_failures()) {
    std::lock_guard lock(own.mutex);
    own.all.erase(*comm);
  }
  real.Comm_free(comm);
}

bool Failures::contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool Failures::has_failed(int world_rank) const {
  return contains(failed_in_world_, world_rank);
}

#if defined(OPEN_MPI)

namespace {

// The number that Open MPI 5 gives the attribute MPI_FT, which tells whether the launcher was asked for ULFM.
// In Open MPI 4 it is another one's, but that has no such functions.
constexpr int attribute_of_ulfm = 12;

int size_of(MPI_Group group) {
  int size = 0;
  PMPI_Group_size(group, &size);
  return size;
}

// Until a failure is acknowledged, calls for messages from any rank return an error, and make no progress.
void acknowledge_on_own() {
  std::lock_guard lock(own.mutex);
  for (MPI_Comm comm : own.all) PMPIX_Comm_failure_ack(comm);
}

}  // namespace

void open_failures() {
  const int* enabled = nullptr;
  int found = 0;
  if (PMPIX_Comm_get_failed && PMPIX_Comm_iagree)
    PMPI_Comm_get_attr(MPI_COMM_WORLD, attribute_of_ulfm, &enabled, &found);
  detail::survives_failures = found && *enabled;
  if (survives_failures()) log_line(LogLevel::info, "this job survives the failure of its processes (ULFM)");
}

// The agreement completes when all processes that live have called it. Its error tells of the others.
int start_barrier(MPI_Comm comm, MPI_Request* request) {
  static int agreed = 1;
  if (!survives_failures()) return real.Ibarrier(comm, request);
  return PMPIX_Comm_iagree(comm, &agreed, request);
}

int barrier_of_living(MPI_Comm comm) {
  int agreed = 1;
  return survives_failures() ? PMPIX_Comm_agree(comm, &agreed) : real.Barrier(comm);
}

void shrink_to_living(MPI_Comm* comm) {
  if (!survives_failures() || *comm == MPI_COMM_NULL) return;
  MPI_Comm living = MPI_COMM_NULL;
  if (adopt(PMPIX_Comm_shrink(*comm, &living), &living) != MPI_SUCCESS) return;
  free_own(comm);
  *comm = living;
}

bool is_revoked(MPI_Comm comm) {
  int revoked = 0;
  PMPIX_Comm_is_revoked(comm, &revoked);
  return revoked != 0;
}

Failures::Failures() {
  static std::atomic<size_t> seen = 0;
  PMPIX_Comm_get_failed(MPI_COMM_WORLD, &failed_);
  if (size_of(failed_) == 0) return;
  MPI_Group world = MPI_GROUP_NULL;
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  failed_in_world_ = failed_in(world);
  PMPI_Group_free(&world);
  if (seen.exchange(failed_in_world_.size()) != failed_in_world_.size()) acknowledge_on_own();
}

Failures::~Failures() {
  PMPI_Group_free(&failed_);
}

std::vector<int> Failures::failed_in(MPI_Group group) const {
  std::vector<int> all(static_cast<size_t>(size_of(failed_))), ranks(all.size());
  std::iota(all.begin(), all.end(), 0);
  PMPI_Group_translate_ranks(failed_, static_cast<int>(all.size()), all.data(), group, ranks.data());
  std::erase(ranks, MPI_UNDEFINED);
  return ranks;
}

// Nobody can tell whether an inter-communicator has failures that are not acknowledged: quirk
// acknowledged_of_remote_group.
const Failures::Facts& Failures::of(MPI_Comm comm) {
  const auto [entry, is_new] = known_.try_emplace(comm);
  Facts& facts = entry->second;
  if (!is_new) return facts;
  int inter = 0;
  facts.revoked = is_revoked(comm);
  if (!any()) return facts;
  MPI_Group peers = MPI_GROUP_NULL, acknowledged = MPI_GROUP_NULL;
  PMPI_Comm_test_inter(comm, &inter);
  (inter ? PMPI_Comm_remote_group : PMPI_Comm_group)(comm, &peers);
  facts.failed = failed_in(peers);
  PMPI_Group_free(&peers);
  if (inter || facts.failed.empty()) return facts;
  PMPIX_Comm_failure_get_acked(comm, &acknowledged);
  facts.unacknowledged = static_cast<size_t>(size_of(acknowledged)) < facts.failed.size();
  PMPI_Group_free(&acknowledged);
  return facts;
}

#else

void open_failures() {}
int start_barrier(MPI_Comm comm, MPI_Request* request) {
  return real.Ibarrier(comm, request);
}
int barrier_of_living(MPI_Comm comm) {
  return real.Barrier(comm);
}
void shrink_to_living(MPI_Comm*) {}
bool is_revoked(MPI_Comm) {
  return false;
}

Failures::Failures() = default;
Failures::~Failures() = default;
const Failures::Facts& Failures::of(MPI_Comm comm) {
  return known_[comm];
}

#endif

int Failures::of_peer(MPI_Comm comm, int rank) {
  const Facts& facts = of(comm);
  if (facts.revoked) return comm_revoked;
  if (rank == MPI_ANY_SOURCE) return facts.unacknowledged ? proc_failed_pending : MPI_SUCCESS;
  return contains(facts.failed, rank) ? proc_failed : MPI_SUCCESS;
}

int error_of_collective(MPI_Comm comm, int error) {
  if (!survives_failures()) return error;
  const int failure = Failures().of_members(comm);
  return failure == MPI_SUCCESS ? error : failure;
}

int Failures::of_members(MPI_Comm comm) {
  const Facts& facts = of(comm);
  if (facts.revoked) return comm_revoked;
  return facts.failed.empty() ? MPI_SUCCESS : proc_failed;
}

}  // namespace fairlead::mpi
