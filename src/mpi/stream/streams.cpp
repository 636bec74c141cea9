// SPDX-License-Identifier: Apache-2.0

#include "mpi/stream/streams.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/system/imported_symbols.h"
#include "kernels/reduce.h"
#include "mpi/abi/host_support.h"
#include "mpi/abi/mutex.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/coll/entry/collective.h"
#include "mpi/core/engine.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/requests/poll.h"
#include "mpi/core/requests/request.h"

namespace fairlead::mpi {
namespace {

// What a request of MPIX_Isend_enqueue() stands for, or a persistent one that was started on a stream.
struct EnqueuedRequest {
  MPI_Comm comm = MPI_COMM_NULL;
  std::shared_ptr<GpuStream> stream;
  std::shared_ptr<Enqueued> operation;
  bool persistent = false;
  AddWait add = nullptr;  // in place of the operation
};

struct Registry {
  Mutex mutex;
  std::map<MPI_Comm, std::shared_ptr<StreamCommunicator>> communicators;
  // By the communicator that they were created with; it may be freed before.
  std::map<MPI_Win, std::weak_ptr<StreamCommunicator>> windows;
  std::map<MPI_Request, EnqueuedRequest> requests;
  std::vector<MPI_Request> unused_handles;
  int keyval = MPI_KEYVAL_INVALID;
};
auto& registry = *new Registry;
std::atomic<bool> any = false;  // communicators in the registry

// Operations start and end in one thread at a time, and not inside each other.
void advance_streams() {
  static std::atomic<bool> taken = false;
  if (!any.load(std::memory_order_relaxed) || taken.exchange(true)) return;
  static auto& streams = *new std::vector<std::shared_ptr<GpuStream>>;
  {
    std::lock_guard lock(registry.mutex);
    for (const auto& [comm, one] : registry.communicators) {
      streams.push_back(one->stream);
      if (one->collective) one->collective->permit_waiting_calls();
    }
  }
  bool happened = false;
  for (const auto& stream : streams) happened |= stream->advance();
  streams.clear();
  taken = false;
  if (happened) progress_thread().wake();
}

// The host MPI may hold its lock here, so this waits for nothing.
int forget(MPI_Comm comm, int, void*, void*) {
  std::shared_ptr<StreamCommunicator> forgotten;
  std::lock_guard lock(registry.mutex);
  auto found = registry.communicators.find(comm);
  if (found == registry.communicators.end()) return MPI_SUCCESS;
  forgotten = std::move(found->second);
  registry.communicators.erase(found);
  any = !registry.communicators.empty();
  return MPI_SUCCESS;
}

bool is_last_of_its_stream(const StreamCommunicator& communicator) {
  std::lock_guard lock(registry.mutex);
  return std::none_of(registry.communicators.begin(), registry.communicators.end(), [&](const auto& entry) {
    return entry.second.get() != &communicator && entry.second->stream == communicator.stream;
  });
}

// Waits until the stream of no rank uses the memory of the collectives.
void leave(StreamCollective& collective, const GpuStream& stream, MPI_Comm comm) {
  for (Backoff backoff; !collective.ended(); backoff.pause()) {
    // Nobody knows when a stream that is being captured has done what was enqueued.
    if (collective.in_graphs() && stream.is_captured()) collective.keep_memory();
    engine().progress();
  }
  await_turn(comm);
  poll_host("the end of a communicator with a GPU stream", comm,
            [&](MPI_Request* request) { return real.Ibarrier(comm, request); });
}

// Waits for what is enqueued on the communicator.
int end_enqueued_on(MPI_Comm comm) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!mine) return MPI_SUCCESS;
  auto wait = [&] {
    for (Backoff backoff; mine->errors->outstanding > 0 || mine->stream->may_wait_alone(); backoff.pause())
      engine().progress();
  };
  wait();
  std::shared_ptr<StreamCollective> collective;
  {
    std::lock_guard lock(registry.mutex);
    collective.swap(mine->collective);
  }
  const bool last = is_last_of_its_stream(*mine);
  if ((last && mine->stream->is_in_graphs()) || (collective && collective->in_graphs())) {
    for (Backoff backoff; !mine->stream->is_idle() && !mine->stream->is_captured(); backoff.pause())
      engine().progress();
    wait();
  }
  // What is left are graphs that nobody may launch; one may still run in a stream that MPI does not know.
  if (last)
    mine->stream->abandon(mine->stream->is_idle() &&
                          device::runtime()->query_device(mine->stream->device()) == device::Error::none);
  if (collective) leave(*collective, *mine->stream, comm);
  const int error = take_error(*mine);
  return error == MPI_SUCCESS ? error : raise_error(comm, error, "an operation that was enqueued earlier");
}

// The handle of a window that was freed may be that of a new one.
void note_window(MPI_Comm comm, MPI_Win win) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  std::lock_guard lock(registry.mutex);
  if (mine)
    registry.windows[win] = mine;
  else
    registry.windows.erase(win);
}

[[maybe_unused]] const bool hooked =
    add_hooks({.end_operations_on = end_enqueued_on, .poll = advance_streams, .made_window = note_window});

}  // namespace

std::shared_ptr<StreamCommunicator> stream_communicator(MPI_Comm comm) {
  if (!any) return nullptr;
  std::lock_guard lock(registry.mutex);
  auto found = registry.communicators.find(comm);
  return found == registry.communicators.end() ? nullptr : found->second;
}

void set_stream(MPI_Comm comm, std::shared_ptr<GpuStream> stream, StreamHandle handle,
                std::shared_ptr<StreamCollective> collective) {
  {
    static Mutex making_keyval;
    std::lock_guard lock(making_keyval);
    if (registry.keyval == MPI_KEYVAL_INVALID)
      PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &registry.keyval, nullptr);
  }
  auto made = std::make_shared<StreamCommunicator>(comm);
  made->stream = std::move(stream);
  made->handle = handle;
  made->collective = std::move(collective);
  PMPI_Comm_set_attr(comm, registry.keyval, nullptr);
  const int device = made->stream->device();
  std::lock_guard lock(registry.mutex);
  registry.communicators[comm] = std::move(made);
  any = true;
  std::set<const GpuStream*> streams;
  for (const auto& [one, its] : registry.communicators)
    if (its->stream->device() == device) streams.insert(its->stream.get());
  static bool told = false;
  if (const char* setting = device::runtime()->setting_of_early_kernels();
      setting && !std::exchange(told, true))
    log_line(
        LogLevel::warn,
        "the driver loads each kernel at its first launch, which does not end behind an enqueued receive; "
        "set %s before the program starts, or launch each kernel once before",
        setting);
  static bool warned = false;
  const int most = device::runtime()->most_waiting_streams(device);
  if (static_cast<int>(streams.size()) <= most || std::exchange(warned, true)) return;
  log_line(LogLevel::warn,
           "%zu GPU streams have communicators, but while %d wait for messages the GPU runs no work of other "
           "streams, which may end in a deadlock; set %s before the program starts",
           streams.size(), most + 1, device::runtime()->setting_of_waiting_streams());
}

// A handle of the program's for an operation: a request of the host MPI that is never started.
static int take_handle(MPI_Request* handle) {
  {
    std::lock_guard lock(registry.mutex);
    if (!registry.unused_handles.empty()) {
      *handle = registry.unused_handles.back();
      registry.unused_handles.pop_back();
      return MPI_SUCCESS;
    }
  }
  return make_token(handle);
}

static void give_back_handle(MPI_Request* handle) {
  std::lock_guard lock(registry.mutex);
  registry.unused_handles.push_back(std::exchange(*handle, MPI_REQUEST_NULL));
}

static std::shared_ptr<Enqueued> operation_of(const StreamCommunicator& mine, EnqueuedWork work) {
  auto operation = std::make_shared<Enqueued>();
  operation->site = current_site;
  operation->start = std::move(work.start);
  operation->start_early = std::move(work.start_early);
  operation->is_message = work.is_message;
  operation->errors = mine.errors;
  if (!work.is_nothing) return operation;
  set_empty(&operation->result);
  operation->result.MPI_SOURCE = MPI_PROC_NULL;
  operation->ended = true;
  return operation;
}

// `raise` is raise_error() or raise_window_error().
template <class Handle>
static int enqueue_on(const StreamCommunicator& mine, Handle handle,
                      int (*raise)(Handle, int, const std::string&), GpuStream::Waits waits,
                      GpuStream::Operations operations, PartOfCall part = PartOfCall::first) {
  if (part == PartOfCall::first) {
    const int error = take_error(mine);
    if (error != MPI_SUCCESS) return raise(handle, error, "an operation that was enqueued earlier");
  }
  // Loading a kernel waits for all streams, one of which the program may hold until this call has returned.
  // It must be seen that none has work, and this operation not be enqueued yet.
  if (kernels::has_missed_code() && device::runtime()->queries_all_streams() && !mine.stream->is_captured())
    kernels::load_missed_code();
  std::erase_if(operations, [](const auto& operation) { return operation->ended; });
  if (operations.empty()) return MPI_SUCCESS;
  device::prepare_copies_of_seen();
  const int count = static_cast<int>(operations.size());
  mine.errors->outstanding += count;
  for (int i = 0; i < count; ++i) progress_thread().begin_enqueued();
  int mpi_error = MPI_SUCCESS;
  const device::Error error = mine.stream->enqueue(operations, waits, &mpi_error);
  // What is captured counts where it starts.
  if (error != device::Error::none || operations.front()->capture) mine.errors->outstanding -= count;
  if (error == device::Error::none) return mpi_error;
  for (int i = 0; i < count; ++i) progress_thread().end_enqueued(false);
  log_line(LogLevel::error, "an operation cannot be enqueued: %s %s", device::to_string(error),
           device::runtime()->error_text());
  return raise(handle, MPI_ERR_OTHER, "an enqueued operation");
}

static int refuse_without_stream(MPI_Comm comm) {
  return raise_error(
      comm, MPI_ERR_COMM,
      "the call on a communicator without a GPU stream (MPIX_Stream_comm_create() makes one that "
      "has a stream)");
}

int enqueue(MPI_Comm comm, std::span<EnqueuedWork> works, MPI_Status* status, PartOfCall part) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!mine) return refuse_without_stream(comm);
  GpuStream::Operations operations;
  for (EnqueuedWork& work : works) operations.push_back(operation_of(*mine, std::move(work)));
  Enqueued& first = *operations.front();
  first.status = status;
  if (first.ended && status != MPI_STATUS_IGNORE) *status = first.result;
  return enqueue_on(*mine, comm, raise_error, GpuStream::Waits::always, std::move(operations), part);
}

int enqueue(MPI_Comm comm, EnqueuedWork work, MPI_Request* request) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!mine) return refuse_without_stream(comm);
  auto operation = operation_of(*mine, std::move(work));
  const bool persistent = *request != MPI_REQUEST_NULL;
  if (!persistent)
    if (int result = take_handle(request); result != MPI_SUCCESS) return result;
  if (int result = enqueue_on(*mine, comm, raise_error, GpuStream::Waits::never, {operation});
      result != MPI_SUCCESS) {
    if (!persistent) give_back_handle(request);
    return result;
  }
  std::lock_guard lock(registry.mutex);
  registry.requests[*request] = {comm, mine->stream, std::move(operation), persistent};
  return MPI_SUCCESS;
}

// In a graph the CPU must have seen each launch before the next one.
int enqueue_unwaited(MPI_Comm comm, StartOperation start) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!mine) return refuse_without_stream(comm);
  return enqueue_on(*mine, comm, raise_error, GpuStream::Waits::in_graphs,
                    {operation_of(*mine, {std::move(start)})});
}

void wait_for_request_by(MPI_Request request, MPI_Comm comm, AddWait add) {
  std::lock_guard lock(registry.mutex);
  registry.requests[request] = {comm, nullptr, nullptr, true, std::move(add)};
}

int enqueue_on_window(MPI_Win win, bool waits, StartOperation start) {
  std::shared_ptr<StreamCommunicator> mine;
  {
    std::lock_guard lock(registry.mutex);
    if (auto found = registry.windows.find(win); found != registry.windows.end()) mine = found->second.lock();
  }
  if (!mine)
    return raise_window_error(
        win, MPI_ERR_WIN, "the call on a window whose communicator has no GPU stream, or has been freed,");
  // In a graph the CPU must have seen each launch before the next one.
  return enqueue_on(*mine, win, raise_window_error,
                    waits ? GpuStream::Waits::always : GpuStream::Waits::in_graphs,
                    {operation_of(*mine, {std::move(start)})});
}

static std::optional<int> enqueue_in_stream(const StreamCommunicator& mine, StreamCollective* collective,
                                            const CollectiveCall& call) {
  if (!collective || !intercepting()) return std::nullopt;
  const int earlier = take_error(mine);
  if (earlier != MPI_SUCCESS)
    return raise_error(call.comm, earlier, "an operation that was enqueued earlier");
  return collective->enqueue(call, [&](std::vector<EnqueuedWork> works) {
    return enqueue(call.comm, works, MPI_STATUS_IGNORE, PartOfCall::second);
  });
}

int enqueue_collective(Function function, const CollectiveCall& call,
                       const std::function<StartOperation()>& by_cpu) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(call.comm);
  if (!mine) return refuse_without_stream(call.comm);
  const std::shared_ptr<StreamCollective> collective = mine->collective;
  std::optional<int> error = enqueue_in_stream(*mine, collective.get(), call);
  const bool in_stream = error.has_value();
  bool captured = in_stream && collective->in_graphs();
  if (!in_stream) {
    const auto operation = operation_of(*mine, {by_cpu()});
    error = enqueue_on(*mine, call.comm, raise_error, GpuStream::Waits::always, {operation});
    captured = operation->capture != 0;
  }
  if (*error == MPI_SUCCESS) mine->record.add(function, recorded::arguments_of(call), in_stream, captured);
  return *error;
}

// A request of the host MPI's own streams.
static int wait_in_host(MPI_Request* request, MPI_Status* status) {
  if (void* function = next_function("MPIX_Wait_enqueue"))
    return reinterpret_cast<int (*)(MPI_Request*, MPI_Status*)>(function)(request, status);
  return raise_error(comm_of_no_object(), MPI_ERR_REQUEST,
                     "the wait for a request that no function has enqueued on a GPU stream");
}

// Waits for operations of one stream that follow each other in one step.
int wait_enqueued(int count, MPI_Request* requests, const std::function<MPI_Status*(int)>& status_of) {
  std::vector<EnqueuedRequest> handed;
  int first = MPI_SUCCESS;
  auto note = [&first](int error) {
    if (first == MPI_SUCCESS) first = error;
  };
  auto wait = [&] {
    if (handed.empty()) return;
    std::vector<std::shared_ptr<Enqueued>> operations;
    operations.reserve(handed.size());
    for (const EnqueuedRequest& one : handed) operations.push_back(one.operation);
    const MPI_Comm comm = handed.front().comm;
    if (handed.front().stream->wait(operations) != device::Error::none)
      note(raise_error(stream_communicator(comm) ? comm : comm_of_no_object(), MPI_ERR_OTHER, "the wait"));
    handed.clear();
  };
  WaitAlone alone;
  auto flush = [&] {
    wait();
    if (alone.mine) note(wait_alone(alone));
    alone = {};
  };
  for (int i = 0; i < count; ++i) {
    MPI_Status* const status = status_of(i);
    if (requests[i] == MPI_REQUEST_NULL) {
      if (status != MPI_STATUS_IGNORE) set_empty(status);
      continue;
    }
    decltype(registry.requests)::node_type found;
    {
      std::lock_guard lock(registry.mutex);
      found = registry.requests.extract(requests[i]);
    }
    if (!found) {
      flush();
      note(wait_in_host(&requests[i], status));
      continue;
    }
    EnqueuedRequest& one = found.mapped();
    if (one.add) {
      if (alone.comm != one.comm) flush();
      alone.comm = one.comm;
      note(one.add(status, &alone));
      continue;
    }
    if (status != MPI_STATUS_IGNORE) one.stream->store_status(*one.operation, status);
    if (!one.persistent) give_back_handle(&requests[i]);
    if (!handed.empty() && handed.front().stream != one.stream) wait();
    handed.push_back(std::move(one));
  }
  flush();
  return first;
}

namespace {

// For programs that are compiled with MPICH's header.
[[gnu::constructor]] void prepare_importing_program() {
  bool found = false;
  LoadedObject(reinterpret_cast<const void*>(getauxval(AT_ENTRY)))
      .for_each_import(LoadedObject::Access::read, [&](const ImportedSymbol& symbol) {
        found = found || std::strcmp(symbol.name, "MPIX_Stream_comm_create") == 0;
      });
  if (!found) return;
  fairlead_prepare_streams();
  ProgressThread::expect_enqueued_by_imports();
}

}  // namespace

void close_streams() {
  decltype(registry.communicators) communicators;
  decltype(registry.unused_handles) handles;
  int keyval = MPI_KEYVAL_INVALID;
  {
    std::lock_guard lock(registry.mutex);
    communicators.swap(registry.communicators);
    handles.swap(registry.unused_handles);
    keyval = std::exchange(registry.keyval, MPI_KEYVAL_INVALID);
    any = false;
  }
  for (const auto& [comm, one] : communicators) {
    one->stream->abandon(false);
    if (one->collective) one->collective->abandon();
  }
  communicators.clear();
  for (MPI_Request& handle : handles) real.Request_free(&handle);
  if (keyval != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&keyval);
}

}  // namespace fairlead::mpi

// fairlead/stream.h calls it before main(): the program may initialise the driver before MPI. Reads no
// options, which the program may set until MPI_Init.
extern "C" void fairlead_prepare_streams() {
  fairlead::device::prepare_drivers();
}

extern "C" void fairlead_request_threads() {
  fairlead::mpi::ProgressThread::expect_enqueued();
}

extern "C" void fairlead_keep_thread_level() {
  fairlead::mpi::ProgressThread::disregard_imports();
}
