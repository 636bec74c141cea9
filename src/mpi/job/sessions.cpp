// SPDX-License-Identifier: Apache-2.0

#include "mpi/job/sessions.h"

#include <atomic>
#include <mutex>

#include "base/log.h"
#include "base/options.h"
#include "device/blocking_driver_calls.h"
#include "mpi/abi/mutex.h"
#include "mpi/abi/real.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/communicator.h"
#include "mpi/core/engine.h"
#include "mpi/core/interception.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/requests/poll.h"
#include "mpi/datatype/type_layout.h"
#include "mpi/failures/failures.h"
#include "mpi/info/memory_kinds.h"
#include "mpi/job/job.h"
#include "mpi/network/network.h"
#include "mpi/stream/streams.h"

namespace fairlead::mpi {
namespace {

enum class Server { none, this_rank, job };

struct Sessions {
  Mutex mutex;
  std::atomic<int> open = 0;
  bool threads = false;  // true if a session may use MPI_THREAD_MULTIPLE
  // A session of Fairlead's own, open while the program has any. `self`, a communicator of this rank alone,
  // is made from it.
  bool has_self = false;
#if MPI_VERSION >= 4 || defined(OPEN_MPI)
  MPI_Session own;
#endif
  MPI_Comm self = MPI_COMM_NULL;
  Server server = Server::none;
  bool unserved = false;
};
auto& sessions = *new Sessions;

thread_local int calls = 0;

bool asks_for_threads(MPI_Info info) {
  int provided = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&provided);
  return provided == MPI_THREAD_MULTIPLE || value_of(info, "thread_level") == "MPI_THREAD_MULTIPLE";
}

#if MPI_VERSION >= 4 || defined(OPEN_MPI)
void tell_log_who_this_is() {
  MPI_Group world = MPI_GROUP_NULL;
  int rank = 0, size = 1;
  if (PMPI_Group_from_session_pset(sessions.own, "mpi://WORLD", &world) != MPI_SUCCESS) return;
  PMPI_Group_rank(world, &rank);
  PMPI_Group_size(world, &size);
  PMPI_Group_free(&world);
  set_log_rank(rank, size);
}

bool make_self() {
  if (real.Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions.own) != MPI_SUCCESS) return false;
  MPI_Group self = MPI_GROUP_NULL;
  bool made =
      PMPI_Group_from_session_pset(sessions.own, "mpi://SELF", &self) == MPI_SUCCESS &&
      adopt(real.Comm_create_from_group(self, "fairlead", MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions.self),
            &sessions.self) == MPI_SUCCESS;
  if (self != MPI_GROUP_NULL) PMPI_Group_free(&self);
  if (!made) real.Session_finalize(&sessions.own);
  return made;
}

void free_self() {
  if (!sessions.has_self) return;
  sessions.has_self = false;
  free_own(&sessions.self);
  real.Session_finalize(&sessions.own);
}
#else
void tell_log_who_this_is() {}
bool make_self() {
  return false;
}
void free_self() {}
#endif

void serve() {
  if (!sessions.has_self) sessions.has_self = make_self();
  if (!sessions.has_self)
    return log_line(LogLevel::error,
                    "device memory is not handled in sessions: this MPI makes no communicator of the "
                    "process set mpi://SELF, or Fairlead was built with headers of an MPI before 4.0; call "
                    "MPI_Init before MPI_Session_init");
  tell_log_who_this_is();
  open_communicators(MPI_COMM_NULL);
  open_datatypes();
  device::BlockingDriverCalls::program_has_threads = sessions.threads;
  progress_thread().allow_host_calls(sessions.threads);
  engine().open(nullptr, new_nonce(), sessions.self, sessions.self, sessions.threads);
  open_communicator_states(nullptr);
  sessions.server = Server::this_rank;
  detail::intercepting = true;
}

// Operations in flight continue: they do not depend on which server handles later ones.
void stop_serving() {
  close_communicator_states();
  close_communicators();
  sessions.server = Server::none;
}

// The host MPI may shut down with the last session, so messages that are complete for the program must have
// been sent by then.
void end_serving() {
  await_ranks("MPI_Session_finalize", MPI_COMM_NULL,
              [] { return engine().idle() && !network::keeps_messages(); });
  progress_thread().end_host_calls();
  close_streams();
  release_all(MPI_COMM_NULL);
  detail::intercepting = false;
  stop_serving();
  close_datatypes();
  network::close();
}

}  // namespace

SessionInit::SessionInit(MPI_Info info) : info_(info) {
  if (calls++ == 0) require_own_abi();
}

SessionInit::~SessionInit() {
  --calls;
}

void SessionInit::succeed() {
  if (calls > 1 || !options().enabled) return;
  std::lock_guard lock(sessions.mutex);
  ++sessions.open;
  if (!sessions.threads && asks_for_threads(info_)) {
    sessions.threads = true;
    if (sessions.server != Server::none) engine().allow_threads();
    if (sessions.server == Server::this_rank) progress_thread().allow_host_calls(true);
  }
  if (sessions.server == Server::none && !sessions.unserved) serve();
  if (intercepting()) request_memory_kinds(info_);
}

SessionFinalize::SessionFinalize() {
  if (calls++ > 0 || !options().enabled) return;
  std::lock_guard lock(sessions.mutex);
  if (sessions.open == 0 || --sessions.open > 0) return;
  if (sessions.server == Server::this_rank) end_serving();
  free_self();
  sessions.threads = false;
}

SessionFinalize::~SessionFinalize() {
  --calls;
}

bool has_sessions() {
  return sessions.open > 0;
}

void hand_sessions_to_job() {
  std::lock_guard lock(sessions.mutex);
  if (sessions.server == Server::this_rank) stop_serving();
  sessions.server = Server::job;
}

void leave_sessions_unserved() {
  std::lock_guard lock(sessions.mutex);
  sessions.unserved = true;
}

void take_sessions_from_job() {
  std::lock_guard lock(sessions.mutex);
  sessions.server = Server::none;
  if (sessions.open > 0 && !sessions.unserved) serve();
}

}  // namespace fairlead::mpi
