// SPDX-License-Identifier: Apache-2.0
//
// MPI_Init and MPI_Finalize. MPI_Init finds out whether any rank of the job has a GPU, and which ranks share
// a node. The ranks agree on everything here, with the host MPI's own collectives, so that nothing later
// needs a collective that the program did not call.

#include "mpi/job/job.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/launched_job.h"
#include "base/log.h"
#include "base/options.h"
#include "base/system/namespaces.h"
#include "coll/nccl_collective.h"
#include "device/blocking_driver_calls.h"
#include "device/context.h"
#include "kernels/kernel_run.h"
#include "mpi/abi/host_version.h"
#include "mpi/check/stream_check.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/coll/entry/comparison.h"
#include "mpi/core/communicator.h"
#include "mpi/core/engine.h"
#include "mpi/core/interception.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/requests/poll.h"
#include "mpi/core/requests/request.h"
#include "mpi/failures/failures.h"
#include "mpi/info/memory_kinds.h"
#include "mpi/job/flight_recorder.h"
#include "mpi/job/gpu_queries.h"
#include "mpi/job/leaks.h"
#include "mpi/job/observation.h"
#include "mpi/job/release.h"
#include "mpi/job/sessions.h"
#include "mpi/network/host_capability.h"
#include "mpi/network/network.h"
#include "mpi/stream/streams.h"
#include "p2p/partition_channel.h"

#pragma weak PMPI_Get_library_version  // as in host_mpi.h

namespace fairlead::mpi {
namespace {

// The ABI of the MPI that this process has loaded; "" if it is not known. MPIs that derive from MPICH (Intel
// MPI, MVAPICH, Cray MPICH) have MPICH's ABI.
std::string loaded_abi() {
  if (!available(Function::Init) || !PMPI_Get_library_version) return {};
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&PMPI_Get_library_version), &library) && library.dli_fname &&
      std::strstr(library.dli_fname, "mpi_abi.so"))
    return "abi";
  const std::string first_line = host_version();
  if (first_line.find("Open MPI") != std::string::npos) return "openmpi";
  for (const char* name : {"MPICH", "Intel(R) MPI", "MVAPICH"})
    if (first_line.find(name) != std::string::npos) return "mpich";
  return {};
}

}  // namespace

// Handles of another ABI are invalid in this MPI: even MPI_Abort would crash, so the process exits directly.
void require_own_abi() {
  std::string loaded = loaded_abi();
  if (loaded.empty() || loaded == own_abi) return;
  // Launchers end all ranks when one ends, so the other ranks give rank 0 time to print the error.
  if (auto job = job_from_environment(); job && job->rank > 0)
    usleep(300'000);
  else
    log_line(
        LogLevel::error,
        "this program's MPI is %s, but libfairlead-%s.so is loaded; preload libfairlead-%s.so, or start the "
        "program with fairlead run or fairlead exec",
        loaded.c_str(), own_abi, loaded.c_str());
  _exit(2);
}

node::Nonce new_nonce() {
  node::Nonce nonce{};
  if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) nonce = {{static_cast<uint64_t>(getpid()), 0}};
  return nonce;
}

namespace {

// The progress thread still runs.
void release_nccl() {
  for (bool over = false; !over; sched_yield()) {
    std::lock_guard lock(engine().mutex());
    over = coll::release_nccl(survives_failures() && Failures().any());
  }
}

}  // namespace

// Frees the memory that other ranks may have mapped only after the barrier, when none of them uses it.
void release_all(MPI_Comm node) {
  end_stream_check();
  device::notice_resets();
  close_communicator_states();
  release_nccl();
  progress_thread().stop();
  p2p::free_unused_channels(p2p::AskDevices::at_end);
  LeakCheck leaks;
  leaks.count_unfinished();
  engine().release_imports();
  if (node != MPI_COMM_NULL) barrier_of_living(node);
  // A program that continues with sessions may have datatypes that use block tables.
  if (!has_sessions()) packing::release_block_tables();
  kernels::release_kernel_runs();
  engine().release_exports();
  leaks.count_unreleased();
  release_info_env();
  // What sessions still use is no leak; the last session to end reports.
  if (!has_sessions()) leaks.print();
}

namespace {

MPI_Comm node_comm = MPI_COMM_NULL;
MPI_Comm self_comm = MPI_COMM_NULL, silent_comm = MPI_COMM_NULL;
bool job_is_open = false;
int world_rank = 0, world_size = 1;

// The first exchange of a job, which never changes, because ranks of two releases would misread the next one.
void end_job_of_two_releases() {
  const int mine[] = {release_number(), -release_number()};
  int greatest[2];
  real.Allreduce(mine, greatest, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  const int newest = greatest[0], oldest = -greatest[1];
  if (newest == oldest) return;
  if (release_number() != newest) {
    log_line(
        LogLevel::error,
        "this rank has loaded Fairlead %s, and another rank Fairlead %s; load the same release on all ranks",
        release(), release_of(newest).c_str());
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }
  real.Barrier(MPI_COMM_WORLD);  // until a rank of another release has ended the job
}

// True also if a rank uses sessions, because sessions are served whether or not there is a GPU.
bool any_rank_has_gpu() {
  struct {
    int has_gpu;
    HandledMemory handled;
  } mine{
      options().enabled && (device::runtime() || has_sessions() || options().check.contains("collectives")),
      handled_here()},
      any{};
  real.Allreduce(&mine, &any, sizeof mine / sizeof(int), MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  set_handled_in_job(any.handled);
  return any.has_gpu != 0;
}

node::Nonce agree_on_nonce() {
  node::Nonce nonce = new_nonce();
  real.Bcast(&nonce, sizeof nonce, MPI_BYTE, 0, MPI_COMM_WORLD);
  return nonce;
}

// If FAIRLEAD_NODES splits the node, the ranks of this rank's simulated node.
MPI_Comm part_of_node(MPI_Comm whole) {
  if (options().nodes <= 1) return whole;
  MPI_Comm part = MPI_COMM_NULL;
  int rank = 0, size = 1;
  PMPI_Comm_rank(whole, &rank);
  PMPI_Comm_size(whole, &size);
  adopt(real.Comm_split(whole, static_cast<int>(rank * options().nodes / size), world_rank, &part), &part);
  free_own(&whole);
  return part;
}

// Of ranks that cannot inspect each other's processes, by the first folder that all of them see. Null if
// there is none, or one PID and user namespace.
std::unique_ptr<node::Introduction> introduce(int size) {
  const uint64_t own = uint64_t{pid_namespace()} << 32 | user_namespace();
  uint64_t first = own;
  real.Bcast(&first, 1, MPI_UINT64_T, 0, node_comm);
  int differs = first != own, any_differs = 0;
  real.Allreduce(&differs, &any_differs, 1, MPI_INT, MPI_MAX, node_comm);
  if (!any_differs) return nullptr;
  for (int folder = 0; folder < node::Introduction::folders; ++folder) {
    auto own = std::make_unique<node::Introduction>(folder);
    std::vector<node::Introduction::Path> paths(static_cast<size_t>(size));
    constexpr int bytes = sizeof(node::Introduction::Path);
    real.Allgather(own->path().data(), bytes, MPI_BYTE, paths.data(), bytes, MPI_BYTE, node_comm);
    int met = own->meet(paths), all_met = 0;
    real.Allreduce(&met, &all_met, 1, MPI_INT, MPI_MIN, node_comm);
    own->end_name();
    if (all_met) return own;
  }
  return nullptr;
}

// Memory that rank 0 of the node makes with `create` and the other ranks open with `open(file)`. If one rank
// cannot, it is empty on all of them.
template <class Create, class Open>
node::SharedMemory share_on_node(const node::Introduction* met, Create create, Open open) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(node_comm, &rank);
  PMPI_Comm_size(node_comm, &size);
  node::SharedMemory memory;
  struct {
    int pid, fd;
  } where = {getpid(), -1};
  if (rank == 0) {
    memory = create();
    where.fd = memory.fd();
    for (int other = 1; met && memory && other < size; ++other) (void)met->give(other, where.fd);
  }
  real.Bcast(&where, sizeof where, MPI_BYTE, 0, node_comm);
  if (rank != 0 && where.fd >= 0) memory = open(met ? met->take() : node::open_file_of(where.pid, where.fd));
  int mine = static_cast<bool>(memory), all = 0;
  real.Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, node_comm);
  if (!mine)
    log_line(
        LogLevel::warn,
        "the ranks of this node cannot share memory (through /proc/%d/fd), so device messages go through "
        "the host MPI; give the ranks of a node one user, and one PID namespace or one /dev/shm",
        where.pid);
  return all ? std::move(memory) : node::SharedMemory();
}

// Null if the ranks cannot share memory. `pool` becomes the slot pool of their collectives.
std::unique_ptr<node::Node> open_node(MPI_Comm whole, const node::Nonce& nonce,
                                      std::unique_ptr<coll::SlotPool>* pool) {
  node_comm = part_of_node(whole);
  int rank = 0, size = 1;
  PMPI_Comm_rank(node_comm, &rank);
  PMPI_Comm_size(node_comm, &size);
  std::vector<int> world_ranks(size);
  real.Allgather(&world_rank, 1, MPI_INT, world_ranks.data(), 1, MPI_INT, node_comm);

  const std::unique_ptr<node::Introduction> met = introduce(size);
  node::SharedMemory segment = share_on_node(
      met.get(), [&] { return node::Node::create_segment(nonce, size); },
      [&](int file) { return node::Node::open_segment(nonce, size, file); });
  if (!segment) return nullptr;
  node::SharedMemory slot_pool_memory = share_on_node(
      met.get(), [&] { return coll::SlotPool::create(size); },
      [&](int file) { return coll::SlotPool::open(size, file); });
  if (slot_pool_memory) *pool = std::make_unique<coll::SlotPool>(std::move(slot_pool_memory), size, rank);
  return std::make_unique<node::Node>(std::move(segment), nonce, std::move(world_ranks), rank, met.get());
}

void close_job();

int end_job(MPI_Comm = MPI_COMM_NULL, int = 0, void* = nullptr, void* = nullptr) {
  close_job();
  stop_observing();
  close_failures();
  return MPI_SUCCESS;
}

// MPI_Finalize deletes the attributes of MPI_COMM_SELF before anything else, in the reverse order in which
// they were set, and the program's delete functions may communicate (MPI 4.1, 11.2.4). MPI_Init sets
// Fairlead's attribute, so its delete function runs after all of the program's.
void end_job_with_self() {
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_job, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  PMPI_Comm_free_keyval(&keyval);
}

// What the environment tells of the launcher, before the host MPI changes it: quirk rank_in_job_of_one.
std::optional<Job> launched;
std::string remedy_for_one_rank;

const char* launcher_of_own_abi() {
  const std::string_view abi = own_abi;
  return abi == "openmpi" ? " (Open MPI: mpirun)" : abi == "mpich" ? " (MPICH: mpiexec)" : "";
}

void note_launcher() {
  if (options().enabled) launched = job_from_environment();
  if (!launched) return;
  const Pmi* pmi = find_pmi(launched->launcher, own_abi);
  const std::string own_launcher = std::string("the launcher of this MPI") + launcher_of_own_abi();
  remedy_for_one_rank =
      !pmi ? "start them with " + own_launcher
      : pmi->offered()
          ? "this MPI does not support the PMI that it offers; try another one, or " + own_launcher
          : std::string("start them with ") + pmi->command;
}

// An MPI that does not find the other processes of its launcher believes to be the whole job, and its program
// then runs as often as there are processes. One of them warns.
void warn_of_jobs_of_one_rank() {
  if (world_size > 1 || !launched || launched->processes() <= 1 || launched->rank != 0) return;
  log_line(LogLevel::warn, "%s started %d processes, but MPI has 1 rank in each: they are %d jobs; %s",
           launched->launcher, launched->processes(), launched->processes(), remedy_for_one_rank.c_str());
}

void open_job() {
  PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
  set_log_rank(world_rank, world_size);
  warn_of_jobs_of_one_rank();
  end_job_with_self();
  end_job_of_two_releases();
  open_failures();
  const node::Nonce nonce = agree_on_nonce();
  MPI_Comm node_of_rank = MPI_COMM_NULL;
  adopt(real.Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &node_of_rank),
        &node_of_rank);
  start_observing(node_of_rank, nonce.words[0]);
  open_flight_recorder(node_of_rank, nonce.words[0]);
  if (!any_rank_has_gpu()) {
    free_own(&node_of_rank);
    return leave_sessions_unserved();
  }
  const kernels::EarlyLoading loads_kernels_until_the_end_of_this_call;
  hand_sessions_to_job();
  std::unique_ptr<coll::SlotPool> pool;
  std::unique_ptr<node::Node> node = open_node(node_of_rank, nonce, &pool);
  adopt(real.Comm_dup(MPI_COMM_SELF, &self_comm), &self_comm);
  adopt(real.Comm_dup(MPI_COMM_WORLD, &silent_comm), &silent_comm);
  open_communicators(MPI_COMM_WORLD);
  open_datatypes();
  network::open();
  int threads = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&threads);
  progress_thread().allow_host_calls(threads == MPI_THREAD_MULTIPLE);
  engine().open(std::move(node), nonce, self_comm, silent_comm, threads == MPI_THREAD_MULTIPLE);
  network::open_capability();
  agree_on_collectives(world_rank);
  open_communicator_states(std::move(pool));
  agree_on_slot(MPI_COMM_WORLD);
  job_is_open = detail::intercepting = true;
  if (world_rank == 0)
    log_line(LogLevel::info, "device memory is handled; this rank's GPUs: %s",
             device::runtime() ? device::runtime()->name() : "none");
}

void close_job() {
  if (!job_is_open) return;
  device::notice_resets();
  // A rank that is here gets no more messages, and once all ranks are, no rank needs what this one has
  // buffered. Each rank joins the barrier when all chunks that it sent have been received, even if only to be
  // discarded.
  network::stop_answering();
  network::end_capability();
  MPI_Request barrier = MPI_REQUEST_NULL;
  await_ranks("MPI_Finalize", silent_comm, [&] {
    if (engine().idle()) network::discard_unclaimed();
    if (comparing()) return false;
    if (barrier == MPI_REQUEST_NULL) {
      if (!network::all_received() || !network::capability_is_decided()) return false;
      start_barrier(silent_comm, &barrier);
    }
    int all_here = 0;
    real.Test(&barrier, &all_here, MPI_STATUS_IGNORE);
    return all_here != 0;
  });
  // A receiver may have finished a rendezvous since, of which this rank still copies the bytes.
  do {
    engine().progress();
  } while (p2p::RendezvousSend::unfinished_moves() > 0);
  close_streams();
  release_all(node_comm);
  if (const node::Node* node = engine().node(); node && node->rank() == 0 && log_enabled(LogLevel::info)) {
    std::string paths = node->describe_paths();
    log_line(LogLevel::info, "transports: %s",
             paths.empty() ? "no device messages inside this node" : paths.c_str());
  }
  job_is_open = detail::intercepting = false;
  set_handled_in_job({});
  close_communicators();
  close_datatypes();
  network::close();
  if (!has_sessions()) network::forget_kept();
  for (MPI_Comm* comm : {&self_comm, &silent_comm, &node_comm}) free_own(comm);
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Init, (int* argc, char*** argv)) {
  require_own_abi();
  note_launcher();
  int provided = MPI_THREAD_SINGLE;
  int result = ProgressThread::wants_threads() ? real.Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided)
                                               : real.Init(argc, argv);
  if (result == MPI_SUCCESS) open_job();
  return result;
}

FAIRLEAD_MPI(Init_thread, (int* argc, char*** argv, int required, int* provided)) {
  require_own_abi();
  note_launcher();
  fairlead::device::BlockingDriverCalls::program_has_threads = required == MPI_THREAD_MULTIPLE;
  if (ProgressThread::wants_threads()) required = MPI_THREAD_MULTIPLE;
  int result = real.Init_thread(argc, argv, required, provided);
  if (result == MPI_SUCCESS) open_job();
  return result;
}

FAIRLEAD_MPI(Finalize, (void)) {
  const CallRecord record(Function::Finalize, together(MPI_COMM_WORLD));
  progress_thread().end_host_calls();
  int result = real.Finalize();
  // With the quirk attributes_of_self_stay, end_job() has not run.
  if (result == MPI_SUCCESS && has_sessions()) end_job();
  if (result == MPI_SUCCESS) close_flight_recorder();
  if (result == MPI_SUCCESS) take_sessions_from_job();
  return result;
}
