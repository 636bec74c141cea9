// SPDX-License-Identifier: Apache-2.0
//
// The MPI functions that make windows and delimit epochs. A call on a window of the host MPI goes to the host
// MPI. If it ends accesses, the staged buffers of those accesses end with it (staged_access.h).

#include <algorithm>
#include <atomic>
#include <climits>

#include "base/log.h"
#include "base/options.h"
#include "device/blocking_driver_calls.h"
#include "device/classify.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/communicator.h"
#include "mpi/core/gather.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/poll.h"
#include "mpi/info/memory_kinds.h"
#include "mpi/rma/staged_access.h"
#include "mpi/rma/window.h"

namespace fairlead::mpi {
namespace {

// The maximum of `mine` over all ranks of `comm`. An error ends the call: quirk win_create_after_failure.
int agree(MPI_Comm comm, int mine, int* all) {
  BlockingHostCall blocking_call;
  return real.Allreduce(&mine, all, 1, MPI_INT, MPI_MAX, comm);
}

bool is_intra(MPI_Comm comm) {
  int inter = 1;
  if (comm != MPI_COMM_NULL) PMPI_Comm_test_inter(comm, &inter);
  return !inter;
}

// False for arguments that the host MPI refuses: it gets those calls, and raises the error.
bool may_be_ours(MPI_Aint size, MPI_Aint disp_unit, MPI_Comm comm, const void* result) {
  return intercepting() && is_intra(comm) && size >= 0 && disp_unit > 0 && result;
}

void prepare(MPI_Comm comm) {
  await_turn(comm);
  gather_before(comm);
}

template <class Host, class Unit>
int create(Host& host, void* base, MPI_Aint size, Unit disp_unit, MPI_Info info, MPI_Comm comm,
           MPI_Win* win) {
  if (!may_be_ours(size, disp_unit, comm, win)) return host(base, size, disp_unit, info, comm, win);
  prepare(comm);
  int on_device = 0;
  if (const int error = agree(comm, size > 0 && is_device(base), &on_device); error != MPI_SUCCESS)
    return error;
  if (on_device) {
    if (!options().gpu_support) return refuse_device_memory(comm);
    return Window::create(base, size, disp_unit, MPI_WIN_FLAVOR_CREATE, false, info, comm, win);
  }
  BlockingHostCall blocking_call;
  return host(base, size, disp_unit, info, comm, win);
}

// Accepted for one release. MPI 4.1 reserves the key, and says that it does not affect what is allocated.
bool requests_by_former_key(MPI_Info info) {
  if (rule_for(KindList::parse(value_of(info, "mpi_memory_alloc_kinds"))) !=
      coll::MemoryAgreement::Rule::at_every_call)
    return false;
  static std::atomic<bool> said = false;
  if (!said.exchange(true))
    log_line(LogLevel::warn,
             "%s: mpi_memory_alloc_kinds will not ask for device memory any more; set the info key "
             "fairlead_win_allocate to device",
             name_of_call());
  return true;
}

bool wants_device_memory(MPI_Info info, int flavor) {
  if (!device::runtime() || !options().gpu_support) return false;
  const std::string wanted = value_of(info, "fairlead_win_allocate");
  if (wanted.empty() && !requests_by_former_key(info))
    return flavor == MPI_WIN_FLAVOR_ALLOCATE && options().win_allocate == "device";
  if (!wanted.empty() && wanted != "device") return false;
  if (flavor == MPI_WIN_FLAVOR_ALLOCATE || value_of(info, "alloc_shared_noncontig") == "true") return true;
  log_line(LogLevel::info, "MPI_Win_allocate_shared gives device memory with alloc_shared_noncontig only");
  return false;
}

bool share_a_node(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  for (int rank = 0; rank < size; ++rank)
    if (!engine().node() || engine().node()->node_rank_of_world(rank_in_world(comm, rank)) < 0) return false;
  return true;
}

template <class Host, class Unit>
int allocate(int flavor, Host& host, MPI_Aint size, Unit disp_unit, MPI_Info info, MPI_Comm comm,
             void* baseptr, MPI_Win* win) {
  if (!may_be_ours(size, disp_unit, comm, win)) return host(size, disp_unit, info, comm, baseptr, win);
  prepare(comm);
  const bool wanted =
      wants_device_memory(info, flavor) && (flavor == MPI_WIN_FLAVOR_ALLOCATE || share_a_node(comm));
  void* memory = nullptr;
  int any_wants = 0, any_fails = 0;
  if (const int error = agree(comm, wanted, &any_wants); error != MPI_SUCCESS) return error;
  if (any_wants) {
    int device = 0;
    device::Error error = device::Error::not_initialized;
    if (device::PromptRuntime* runtime = device::required_runtime();
        runtime && runtime->initialize() == device::Error::none &&
        runtime->current_device(&device) == device::Error::none)
      error = size > 0 ? device::BlockingDriverCalls::of_program()->allocate(
                             device, static_cast<size_t>(size), &memory)
                       : device::Error::none;
    int result = agree(comm, error != device::Error::none, &any_fails);
    if (result == MPI_SUCCESS && !any_fails) {
      result = Window::create(memory, size, disp_unit, flavor, memory, info, comm, win);
      if (result == MPI_SUCCESS) *static_cast<void**>(baseptr) = memory;
      return result;
    }
    if (memory) device::BlockingDriverCalls::of_program()->free(memory);
    if (result != MPI_SUCCESS) return result;
    log_line(LogLevel::warn,
             "not all ranks can allocate the device memory of a window, so it is of host memory");
  }
  BlockingHostCall blocking_call;
  return host(size, disp_unit, info, comm, baseptr, win);
}

// Passes on the result of making a window.
int made(int result, MPI_Win* win, MPI_Info info, MPI_Comm comm) {
  if (result != MPI_SUCCESS || !intercepting()) return result;
  note_assertion(object_id(*win), info);
  for (const Hooks& hooks : all_hooks())
    if (hooks.made_window) hooks.made_window(comm, *win);
  return result;
}

// Calls `ours` if the window is Fairlead's, and raises the error that it returns; otherwise calls the host
// MPI.
template <class Ours, class Host>
int on_window(MPI_Win win, const Ours& ours, const Host& host) {
  if (!intercepting()) return host();
  if (std::shared_ptr<Window> window = find_window(win)) {
    const int result = ours(*window);
    return result == MPI_SUCCESS ? result : window->raise(result);
  }
  return host();
}

// A call with wrong arguments on a window of Fairlead's goes to the host MPI. That refuses it before it looks
// at the window behind the handle, which has no memory.
bool host_refuses(bool wrong, MPI_Win win) {
  return wrong && intercepting() && find_window(win);
}

// Calls `ours` on the epochs of a window of Fairlead's. On a window of the host MPI calls `host`, which may
// block and ends the accesses to the targets `ended`: one rank, all_targets or no_target.
template <class... Parameters, class Host, class... Arguments>
int synchronize(MPI_Win win, int ended, int (Epochs::*ours)(Parameters...), Host& host,
                Arguments... arguments) {
  return on_window(
      win, [&](Window& window) { return (window.epochs().*ours)(arguments...); },
      [&] {
        BlockingHostCall blocking_call;
        const int result = host(arguments..., win);
        return result == MPI_SUCCESS && any_staged() ? finish_staged(win, ended) : result;
      });
}

// Answers the accesses of other ranks to active-message targets meanwhile: origins may make them before
// MPI_Win_complete.
int wait_in_host(MPI_Win win) {
  if (!intercepting() || !detail::gathers()) {
    BlockingHostCall blocking_call;
    return real.Win_wait(win);
  }
  int over = 0, result = MPI_SUCCESS;
  await_ranks("MPI_Win_wait", MPI_COMM_NULL, [&] {
    result = real.Win_test(win, &over);
    return over || result != MPI_SUCCESS;
  });
  return result;
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

// ---- Windows -----------------------------------------------------------------------------------------

FAIRLEAD_MPI(Win_create,
             (void* base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win)) {
  CallRecord record(Function::Win_create, together(comm));
  return made(create(real.Win_create, base, size, disp_unit, info, comm, win), win, info, comm);
}

FAIRLEAD_MPI(Win_create_c,
             (void* base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win)) {
  CallRecord record(Function::Win_create_c, together(comm));
  return made(create(real.Win_create_c, base, size, disp_unit, info, comm, win), win, info, comm);
}

FAIRLEAD_MPI(Win_allocate,
             (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win)) {
  CallRecord record(Function::Win_allocate, together(comm));
  return made(allocate(MPI_WIN_FLAVOR_ALLOCATE, real.Win_allocate, size, disp_unit, info, comm, baseptr, win),
              win, info, comm);
}

FAIRLEAD_MPI(Win_allocate_c,
             (MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win)) {
  CallRecord record(Function::Win_allocate_c, together(comm));
  return made(
      allocate(MPI_WIN_FLAVOR_ALLOCATE, real.Win_allocate_c, size, disp_unit, info, comm, baseptr, win), win,
      info, comm);
}

FAIRLEAD_MPI(Win_allocate_shared,
             (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win)) {
  CallRecord record(Function::Win_allocate_shared, together(comm));
  return made(
      allocate(MPI_WIN_FLAVOR_SHARED, real.Win_allocate_shared, size, disp_unit, info, comm, baseptr, win),
      win, info, comm);
}

FAIRLEAD_MPI(Win_allocate_shared_c,
             (MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win)) {
  CallRecord record(Function::Win_allocate_shared_c, together(comm));
  return made(
      allocate(MPI_WIN_FLAVOR_SHARED, real.Win_allocate_shared_c, size, disp_unit, info, comm, baseptr, win),
      win, info, comm);
}

FAIRLEAD_MPI(Win_shared_query, (MPI_Win win, int rank, MPI_Aint* size, int* disp_unit, void* baseptr)) {
  CallRecord record(Function::Win_shared_query);
  return on_window(
      win,
      [&](Window& window) {
        MPI_Aint unit = 0;
        const int result = window.targets().query(rank, size, &unit, baseptr);
        if (result == MPI_SUCCESS) *disp_unit = static_cast<int>(std::min<MPI_Aint>(unit, INT_MAX));
        return result;
      },
      [&] { return real.Win_shared_query(win, rank, size, disp_unit, baseptr); });
}

FAIRLEAD_MPI(Win_shared_query_c,
             (MPI_Win win, int rank, MPI_Aint* size, MPI_Aint* disp_unit, void* baseptr)) {
  CallRecord record(Function::Win_shared_query_c);
  return on_window(
      win, [&](Window& window) { return window.targets().query(rank, size, disp_unit, baseptr); },
      [&] { return real.Win_shared_query_c(win, rank, size, disp_unit, baseptr); });
}

// The memory that the program will attach is not known yet, so FAIRLEAD_WIN_DYNAMIC decides.
FAIRLEAD_MPI(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win* win)) {
  CallRecord record(Function::Win_create_dynamic, together(comm));
  if (!may_be_ours(0, 1, comm, win)) return real.Win_create_dynamic(info, comm, win);
  prepare(comm);
  int on_device = 0;
  if (const int error = agree(
          comm, fairlead::options().win_dynamic == "device" && fairlead::options().gpu_support, &on_device);
      error != MPI_SUCCESS)
    return error;
  if (on_device)
    return made(Window::create(nullptr, 0, 1, MPI_WIN_FLAVOR_DYNAMIC, false, info, comm, win), win, info,
                comm);
  BlockingHostCall blocking_call;
  return made(real.Win_create_dynamic(info, comm, win), win, info, comm);
}

FAIRLEAD_MPI(Win_attach, (MPI_Win win, void* base, MPI_Aint size)) {
  CallRecord record(Function::Win_attach);
  return on_window(
      win, [&](Window& window) { return window.targets().attach(base, size); },
      [&] {
        if (intercepting() && size > 0 && is_device(base)) return refuse_window(Function::Win_attach, win);
        return real.Win_attach(win, base, size);
      });
}

FAIRLEAD_MPI(Win_detach, (MPI_Win win, const void* base)) {
  CallRecord record(Function::Win_detach);
  return on_window(
      win, [&](Window& window) { return window.targets().detach(base); },
      [&] { return real.Win_detach(win, base); });
}

FAIRLEAD_MPI(Win_free, (MPI_Win * win)) {
  CallRecord record(Function::Win_free);
  if (!win || !intercepting()) return real.Win_free(win);
  forget_assertion(object_id(*win));
  if (std::shared_ptr<Window> window = find_window(*win)) return window->free(win);
  if (any_staged()) finish_staged(*win, all_targets);
  gather_window_before(*win);
  BlockingHostCall blocking_call;
  return real.Win_free(win);
}

FAIRLEAD_MPI(Win_get_attr, (MPI_Win win, int win_keyval, void* attribute_val, int* flag)) {
  CallRecord record(Function::Win_get_attr);
  if (std::shared_ptr<Window> window = find_window(win)) {
    if (const void* value = window->attribute(win_keyval); value || win_keyval == MPI_WIN_BASE) {
      *static_cast<const void**>(attribute_val) = value;
      *flag = 1;
      return MPI_SUCCESS;
    }
  }
  return real.Win_get_attr(win, win_keyval, attribute_val, flag);
}

// ---- Epochs ------------------------------------------------------------------------------------------

FAIRLEAD_MPI(Win_fence, (int assert, MPI_Win win)) {
  CallRecord record(Function::Win_fence);
  constexpr int known = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
  if (host_refuses(assert & ~known, win)) return real.Win_fence(assert, win);
  if (intercepting() && !find_window(win)) gather_window_before(win);
  return synchronize(win, all_targets, &Epochs::fence, real.Win_fence, assert);
}

FAIRLEAD_MPI(Win_post, (MPI_Group group, int assert, MPI_Win win)) {
  CallRecord record(Function::Win_post);
  constexpr int known = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;
  if (host_refuses(assert & ~known, win)) return real.Win_post(group, assert, win);
  return on_window(
      win, [&](Window& window) { return window.epochs().post(group, assert); },
      [&] { return real.Win_post(group, assert, win); });
}

FAIRLEAD_MPI(Win_start, (MPI_Group group, int assert, MPI_Win win)) {
  CallRecord record(Function::Win_start);
  if (host_refuses(assert & ~MPI_MODE_NOCHECK, win)) return real.Win_start(group, assert, win);
  return synchronize(win, no_target, &Epochs::start, real.Win_start, group, assert);
}

FAIRLEAD_MPI(Win_complete, (MPI_Win win)) {
  CallRecord record(Function::Win_complete);
  return synchronize(win, all_targets, &Epochs::complete, real.Win_complete);
}

FAIRLEAD_MPI(Win_wait, (MPI_Win win)) {
  CallRecord record(Function::Win_wait);
  return on_window(
      win, [](Window& window) { return window.epochs().wait(); }, [&] { return wait_in_host(win); });
}

FAIRLEAD_MPI(Win_test, (MPI_Win win, int* flag)) {
  CallRecord record(Function::Win_test);
  return on_window(
      win, [&](Window& window) { return flag ? window.epochs().test(flag) : MPI_ERR_ARG; },
      [&] { return real.Win_test(win, flag); });
}

FAIRLEAD_MPI(Win_lock, (int lock_type, int rank, int assert, MPI_Win win)) {
  CallRecord record(Function::Win_lock);
  const bool is_lock = lock_type == MPI_LOCK_EXCLUSIVE || lock_type == MPI_LOCK_SHARED;
  if (host_refuses(!is_lock || assert & ~MPI_MODE_NOCHECK, win))
    return real.Win_lock(lock_type, rank, assert, win);
  return synchronize(win, no_target, &Epochs::lock, real.Win_lock, lock_type, rank, assert);
}

FAIRLEAD_MPI(Win_unlock, (int rank, MPI_Win win)) {
  CallRecord record(Function::Win_unlock);
  return synchronize(win, rank, &Epochs::unlock, real.Win_unlock, rank);
}

FAIRLEAD_MPI(Win_lock_all, (int assert, MPI_Win win)) {
  CallRecord record(Function::Win_lock_all);
  if (host_refuses(assert & ~MPI_MODE_NOCHECK, win)) return real.Win_lock_all(assert, win);
  return synchronize(win, no_target, &Epochs::lock_all, real.Win_lock_all, assert);
}

FAIRLEAD_MPI(Win_unlock_all, (MPI_Win win)) {
  CallRecord record(Function::Win_unlock_all);
  return synchronize(win, all_targets, &Epochs::unlock_all, real.Win_unlock_all);
}

FAIRLEAD_MPI(Win_flush, (int rank, MPI_Win win)) {
  CallRecord record(Function::Win_flush);
  return synchronize(win, rank, &Epochs::flush, real.Win_flush, rank);
}

FAIRLEAD_MPI(Win_flush_all, (MPI_Win win)) {
  CallRecord record(Function::Win_flush_all);
  return synchronize(win, all_targets, &Epochs::flush_all, real.Win_flush_all);
}

// Fairlead makes the copies itself, so an access that is complete at the origin is complete at the target.
FAIRLEAD_MPI(Win_flush_local, (int rank, MPI_Win win)) {
  CallRecord record(Function::Win_flush_local);
  return synchronize(win, rank, &Epochs::flush, real.Win_flush_local, rank);
}

FAIRLEAD_MPI(Win_flush_local_all, (MPI_Win win)) {
  CallRecord record(Function::Win_flush_local_all);
  return synchronize(win, all_targets, &Epochs::flush_all, real.Win_flush_local_all);
}

// Copies are visible at the end of the epoch that made them. All that remains is to let other ranks make
// progress.
FAIRLEAD_MPI(Win_sync, (MPI_Win win)) {
  CallRecord record(Function::Win_sync);
  return on_window(
      win,
      [](Window&) {
        engine().progress();
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return MPI_SUCCESS;
      },
      [&] { return real.Win_sync(win); });
}
