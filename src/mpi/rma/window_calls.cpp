// SPDX-License-Identifier: Apache-2.0
//
// The MPI functions that make windows and delimit epochs. A call on a window of the host MPI goes to the host
// MPI. If it ends accesses, the staged buffers of those accesses end with it (window_staged.h).

#include <algorithm>
#include <climits>

#include "base/log.h"
#include "base/options.h"
#include "device/classify.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/communicator.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/rma/window.h"
#include "mpi/rma/window_access.h"
#include "mpi/rma/window_staged.h"

namespace fairlead::mpi {
namespace {

// The maximum of `mine` over all ranks of `comm`.
int agreed(MPI_Comm comm, int mine) {
  int all = 0;
  BlockingHostCall blocking_call;
  real.Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, comm);
  return all;
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

template <class Host>
int create(void* base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win,
           const Host& host) {
  if (!may_be_ours(size, disp_unit, comm, win)) return host();
  prepare(comm);
  if (agreed(comm, size > 0 && is_device(base))) {
    if (!options().gpu_support) return refuse_device_memory(comm);
    return Window::create(base, size, disp_unit, MPI_WIN_FLAVOR_CREATE, false, info, comm, win);
  }
  BlockingHostCall blocking_call;
  return host();
}

std::string value_of(MPI_Info info, const char* key) {
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  if (info != MPI_INFO_NULL) PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
  return found ? value : "";
}

bool wants_device_memory(MPI_Info info, int flavor) {
  if (!device::runtime() || !options().gpu_support) return false;
  const std::string kinds = value_of(info, "mpi_memory_alloc_kinds");
  if (kinds.empty()) return flavor == MPI_WIN_FLAVOR_ALLOCATE && options().win_allocate == "device";
  if (!names_device_memory_only(kinds)) return false;
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

template <class Host>
int allocate(MPI_Aint size, MPI_Aint disp_unit, int flavor, MPI_Info info, MPI_Comm comm, void* baseptr,
             MPI_Win* win, const Host& host) {
  if (!may_be_ours(size, disp_unit, comm, win)) return host();
  prepare(comm);
  const bool wanted =
      wants_device_memory(info, flavor) && (flavor == MPI_WIN_FLAVOR_ALLOCATE || share_a_node(comm));
  void* memory = nullptr;
  if (agreed(comm, wanted)) {
    int device = 0;
    device::Error error = device::Error::not_initialized;
    if (device::Runtime* runtime = device::required_runtime();
        runtime && runtime->initialize() == device::Error::none &&
        runtime->current_device(&device) == device::Error::none)
      error = size > 0 ? runtime->allocate(device, static_cast<size_t>(size), &memory) : device::Error::none;
    if (!agreed(comm, error != device::Error::none)) {
      const int result = Window::create(memory, size, disp_unit, flavor, memory, info, comm, win);
      if (result == MPI_SUCCESS) *static_cast<void**>(baseptr) = memory;
      return result;
    }
    if (memory) device::runtime()->free(memory);
    log_line(LogLevel::warn,
             "not all ranks can allocate the device memory of a window, so it is of host memory");
  }
  BlockingHostCall blocking_call;
  return host();
}

// Calls `ours` if the window is Fairlead's, and raises the error that it returns; otherwise calls the host
// MPI.
template <class Ours, class Host>
int on_window(MPI_Win win, const Ours& ours, const Host& host) {
  if (!intercepting()) return host();
  if (any_windows()) {
    if (std::shared_ptr<Window> window = find_window(win)) {
      const int result = ours(*window);
      return result == MPI_SUCCESS ? result : window->raise(result);
    }
  }
  return host();
}

// A call with wrong arguments on a window of Fairlead's goes to the host MPI. That refuses it before it looks
// at the window behind the handle, which has no memory.
bool is_refused(bool wrong, MPI_Win win) {
  return wrong && intercepting() && any_windows() && find_window(win);
}

// Does `assertion` contain bits other than those of `known`?
bool is_other_than(int assertion, int known) {
  return assertion & ~known;
}

// Flushes one rank. A negative rank is an error here, although -1 stands for all targets in Window::flush().
int flush_one(Window& window, int rank) {
  if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
  return rank < 0 || rank >= window.size() ? MPI_ERR_RANK : window.flush(rank);
}

// Like on_window(), for a call that ends the accesses to `target` (-1: to all targets).
template <class Ours, class Host>
int synchronize(MPI_Win win, int target, const Ours& ours, const Host& host) {
  return on_window(win, ours, [&] {
    BlockingHostCall blocking_call;
    const int result = host();
    return result == MPI_SUCCESS && any_staged() ? finish_staged(win, target) : result;
  });
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

// ---- Windows -----------------------------------------------------------------------------------------

FAIRLEAD_MPI(Win_create,
             (void* base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win)) {
  CallRecord record(Function::Win_create);
  return create(base, size, disp_unit, info, comm, win,
                [&] { return real.Win_create(base, size, disp_unit, info, comm, win); });
}

FAIRLEAD_MPI(Win_create_c,
             (void* base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win)) {
  CallRecord record(Function::Win_create_c);
  return create(base, size, disp_unit, info, comm, win,
                [&] { return real.Win_create_c(base, size, disp_unit, info, comm, win); });
}

FAIRLEAD_MPI(Win_allocate,
             (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win)) {
  CallRecord record(Function::Win_allocate);
  return allocate(size, disp_unit, MPI_WIN_FLAVOR_ALLOCATE, info, comm, baseptr, win,
                  [&] { return real.Win_allocate(size, disp_unit, info, comm, baseptr, win); });
}

FAIRLEAD_MPI(Win_allocate_c,
             (MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win)) {
  CallRecord record(Function::Win_allocate_c);
  return allocate(size, disp_unit, MPI_WIN_FLAVOR_ALLOCATE, info, comm, baseptr, win,
                  [&] { return real.Win_allocate_c(size, disp_unit, info, comm, baseptr, win); });
}

FAIRLEAD_MPI(Win_allocate_shared,
             (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win)) {
  CallRecord record(Function::Win_allocate_shared);
  return allocate(size, disp_unit, MPI_WIN_FLAVOR_SHARED, info, comm, baseptr, win,
                  [&] { return real.Win_allocate_shared(size, disp_unit, info, comm, baseptr, win); });
}

FAIRLEAD_MPI(Win_allocate_shared_c,
             (MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win)) {
  CallRecord record(Function::Win_allocate_shared_c);
  return allocate(size, disp_unit, MPI_WIN_FLAVOR_SHARED, info, comm, baseptr, win,
                  [&] { return real.Win_allocate_shared_c(size, disp_unit, info, comm, baseptr, win); });
}

FAIRLEAD_MPI(Win_shared_query, (MPI_Win win, int rank, MPI_Aint* size, int* disp_unit, void* baseptr)) {
  CallRecord record(Function::Win_shared_query);
  return on_window(
      win,
      [&](Window& window) {
        MPI_Aint unit = 0;
        const int result = window.query(rank, size, &unit, static_cast<void**>(baseptr));
        if (result == MPI_SUCCESS) *disp_unit = static_cast<int>(std::min<MPI_Aint>(unit, INT_MAX));
        return result;
      },
      [&] { return real.Win_shared_query(win, rank, size, disp_unit, baseptr); });
}

FAIRLEAD_MPI(Win_shared_query_c,
             (MPI_Win win, int rank, MPI_Aint* size, MPI_Aint* disp_unit, void* baseptr)) {
  CallRecord record(Function::Win_shared_query_c);
  return on_window(
      win, [&](Window& window) { return window.query(rank, size, disp_unit, static_cast<void**>(baseptr)); },
      [&] { return real.Win_shared_query_c(win, rank, size, disp_unit, baseptr); });
}

// The memory that the program will attach is not known yet, so FAIRLEAD_WIN_DYNAMIC decides.
FAIRLEAD_MPI(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win* win)) {
  CallRecord record(Function::Win_create_dynamic);
  if (!may_be_ours(0, 1, comm, win)) return real.Win_create_dynamic(info, comm, win);
  prepare(comm);
  if (agreed(comm, fairlead::options().win_dynamic == "device" && fairlead::options().gpu_support))
    return Window::create(nullptr, 0, 1, MPI_WIN_FLAVOR_DYNAMIC, false, info, comm, win);
  BlockingHostCall blocking_call;
  return real.Win_create_dynamic(info, comm, win);
}

FAIRLEAD_MPI(Win_attach, (MPI_Win win, void* base, MPI_Aint size)) {
  CallRecord record(Function::Win_attach);
  return on_window(
      win, [&](Window& window) { return window.dynamic() ? window.attach(base, size) : MPI_ERR_RMA_FLAVOR; },
      [&] {
        if (intercepting() && size > 0 && is_device(base)) return refuse_window(Function::Win_attach, win);
        return real.Win_attach(win, base, size);
      });
}

FAIRLEAD_MPI(Win_detach, (MPI_Win win, const void* base)) {
  CallRecord record(Function::Win_detach);
  return on_window(
      win, [&](Window& window) { return window.dynamic() ? window.detach(base) : MPI_ERR_RMA_FLAVOR; },
      [&] { return real.Win_detach(win, base); });
}

FAIRLEAD_MPI(Win_free, (MPI_Win * win)) {
  CallRecord record(Function::Win_free);
  if (!intercepting()) return real.Win_free(win);
  if (any_windows())
    if (std::shared_ptr<Window> window = find_window(*win)) return window->free(win);
  if (any_staged()) finish_staged(*win, -1);
  BlockingHostCall blocking_call;
  return real.Win_free(win);
}

FAIRLEAD_MPI(Win_get_attr, (MPI_Win win, int win_keyval, void* attribute_val, int* flag)) {
  CallRecord record(Function::Win_get_attr);
  if (any_windows()) {
    if (std::shared_ptr<Window> window = find_window(win)) {
      if (const void* value = window->attribute(win_keyval); value || win_keyval == MPI_WIN_BASE) {
        *static_cast<const void**>(attribute_val) = value;
        *flag = 1;
        return MPI_SUCCESS;
      }
    }
  }
  return real.Win_get_attr(win, win_keyval, attribute_val, flag);
}

// ---- Epochs ------------------------------------------------------------------------------------------

FAIRLEAD_MPI(Win_fence, (int assert, MPI_Win win)) {
  CallRecord record(Function::Win_fence);
  if (is_refused(
          is_other_than(assert, MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED),
          win))
    return real.Win_fence(assert, win);
  return synchronize(
      win, -1, [&](Window& window) { return window.fence(assert); },
      [&] { return real.Win_fence(assert, win); });
}

FAIRLEAD_MPI(Win_post, (MPI_Group group, int assert, MPI_Win win)) {
  CallRecord record(Function::Win_post);
  if (is_refused(is_other_than(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT), win))
    return real.Win_post(group, assert, win);
  return on_window(
      win,
      [&](Window& window) { return group == MPI_GROUP_NULL ? MPI_ERR_GROUP : window.post(group, assert); },
      [&] { return real.Win_post(group, assert, win); });
}

FAIRLEAD_MPI(Win_start, (MPI_Group group, int assert, MPI_Win win)) {
  CallRecord record(Function::Win_start);
  if (is_refused(is_other_than(assert, MPI_MODE_NOCHECK), win)) return real.Win_start(group, assert, win);
  return on_window(
      win,
      [&](Window& window) { return group == MPI_GROUP_NULL ? MPI_ERR_GROUP : window.start(group, assert); },
      [&] {
        BlockingHostCall blocking_call;
        return real.Win_start(group, assert, win);
      });
}

FAIRLEAD_MPI(Win_complete, (MPI_Win win)) {
  CallRecord record(Function::Win_complete);
  return synchronize(
      win, -1, [](Window& window) { return window.end_access(); }, [&] { return real.Win_complete(win); });
}

FAIRLEAD_MPI(Win_wait, (MPI_Win win)) {
  CallRecord record(Function::Win_wait);
  return on_window(
      win, [](Window& window) { return window.wait_exposure(); },
      [&] {
        BlockingHostCall blocking_call;
        return real.Win_wait(win);
      });
}

FAIRLEAD_MPI(Win_test, (MPI_Win win, int* flag)) {
  CallRecord record(Function::Win_test);
  return on_window(
      win, [&](Window& window) { return flag ? window.test_exposure(flag) : MPI_ERR_ARG; },
      [&] { return real.Win_test(win, flag); });
}

FAIRLEAD_MPI(Win_lock, (int lock_type, int rank, int assert, MPI_Win win)) {
  CallRecord record(Function::Win_lock);
  const bool is_lock = lock_type == MPI_LOCK_EXCLUSIVE || lock_type == MPI_LOCK_SHARED;
  if (is_refused(!is_lock || is_other_than(assert, MPI_MODE_NOCHECK), win))
    return real.Win_lock(lock_type, rank, assert, win);
  return on_window(
      win, [&](Window& window) { return window.lock(rank, lock_type == MPI_LOCK_EXCLUSIVE, assert); },
      [&] {
        BlockingHostCall blocking_call;
        return real.Win_lock(lock_type, rank, assert, win);
      });
}

FAIRLEAD_MPI(Win_unlock, (int rank, MPI_Win win)) {
  CallRecord record(Function::Win_unlock);
  return synchronize(
      win, rank, [&](Window& window) { return window.unlock(rank); },
      [&] { return real.Win_unlock(rank, win); });
}

FAIRLEAD_MPI(Win_lock_all, (int assert, MPI_Win win)) {
  CallRecord record(Function::Win_lock_all);
  if (is_refused(is_other_than(assert, MPI_MODE_NOCHECK), win)) return real.Win_lock_all(assert, win);
  return on_window(
      win, [&](Window& window) { return window.lock_all(assert); },
      [&] {
        BlockingHostCall blocking_call;
        return real.Win_lock_all(assert, win);
      });
}

FAIRLEAD_MPI(Win_unlock_all, (MPI_Win win)) {
  CallRecord record(Function::Win_unlock_all);
  return synchronize(
      win, -1, [](Window& window) { return window.unlock_all(); }, [&] { return real.Win_unlock_all(win); });
}

FAIRLEAD_MPI(Win_flush, (int rank, MPI_Win win)) {
  CallRecord record(Function::Win_flush);
  return synchronize(
      win, rank, [&](Window& window) { return flush_one(window, rank); },
      [&] { return real.Win_flush(rank, win); });
}

FAIRLEAD_MPI(Win_flush_all, (MPI_Win win)) {
  CallRecord record(Function::Win_flush_all);
  return synchronize(
      win, -1, [](Window& window) { return window.flush(-1); }, [&] { return real.Win_flush_all(win); });
}

// Fairlead makes the copies itself, so an access that is complete at the origin is complete at the target.
FAIRLEAD_MPI(Win_flush_local, (int rank, MPI_Win win)) {
  CallRecord record(Function::Win_flush_local);
  return synchronize(
      win, rank, [&](Window& window) { return flush_one(window, rank); },
      [&] { return real.Win_flush_local(rank, win); });
}

FAIRLEAD_MPI(Win_flush_local_all, (MPI_Win win)) {
  CallRecord record(Function::Win_flush_local_all);
  return synchronize(
      win, -1, [](Window& window) { return window.flush(-1); },
      [&] { return real.Win_flush_local_all(win); });
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
