// SPDX-License-Identifier: Apache-2.0
//
// A window that contains device memory, or may contain it later. Fairlead handles all of its targets. The
// handle that the program holds is a window of the host MPI without memory, which keeps the name, the group,
// the info and the error handler. A window of host memory alone belongs to the host MPI, and this file does
// not handle it.

#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "device/context.h"
#include "mpi/rma/epochs.h"

namespace fairlead::mpi {

class Window : public std::enable_shared_from_this<Window> {
 public:
  // Collective over `comm`. `base` is host or device memory of this rank. If `owned`, the window frees it.
  static int create(void* base, MPI_Aint size, MPI_Aint disp_unit, int flavor, bool owned, MPI_Info info,
                    MPI_Comm comm, MPI_Win* win);
  // Collective, like MPI_Win_free.
  int free(MPI_Win* win);

  MPI_Win handle() const { return handle_; }
  // From the bottom to the top: each uses only those before it.
  Targets& targets() { return targets_; }
  Accesses& accesses() { return accesses_; }
  Epochs& epochs() { return epochs_; }

  // Which ranks have MPI_THREAD_MULTIPLE, so that a progress thread answers for those that are blocked in the
  // host MPI? Known of windows with active-message targets.
  enum class Threads { none, some, all };
  Threads threads() const { return threads_; }
  // The value of MPI_WIN_BASE and the other predefined window attributes; null for any other key.
  const void* attribute(int keyval) const;
  // Raises the error through the window's error handler. `about` names what failed.
  int raise(int code) const;
  int raise(int code, const std::string& about) const;

 private:
  Window() = default;

  MPI_Win handle_ = MPI_WIN_NULL;
  bool owned_ = false;
  Threads threads_ = Threads::none;
  device::Context context_;  // of memory that is owned
  // The values that MPI_Win_get_attr returns.
  void* base_ = nullptr;
  MPI_Aint bytes_ = 0;
  int disp_unit_ = 1, flavor_ = 0, model_ = MPI_WIN_UNIFIED;

  Targets targets_;
  ActiveMessages messages_{targets_};
  Accesses accesses_{targets_, messages_};
  Epochs epochs_{targets_, messages_, accesses_};
};

// ---- All windows -------------------------------------------------------------------------------------

namespace detail {
extern std::atomic<int> windows_open;
std::shared_ptr<Window> look_up_window(MPI_Win win);
}  // namespace detail
// Null if the window belongs to the host MPI. Looks up nothing while no window of Fairlead's exists.
inline std::shared_ptr<Window> find_window(MPI_Win win) {
  return detail::windows_open.load(std::memory_order_relaxed) == 0 ? nullptr : detail::look_up_window(win);
}

}  // namespace fairlead::mpi
