// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/window.h"

#include <algorithm>
#include <climits>
#include <unordered_map>

#include "base/log.h"
#include "device/blocking_driver_calls.h"
#include "device/classify.h"
#include "mpi/abi/mutex.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/gather.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/requests/poll.h"
#include "mpi/failures/failures.h"

namespace fairlead::mpi {

namespace detail {
std::atomic<int> windows_open{0};
}

namespace {

constexpr int tag_meeting = 4;  // beside those of epochs.cpp and active_messages.cpp

struct Registry {
  Mutex mutex;
  std::unordered_map<MPI_Win, std::shared_ptr<Window>> windows;
  std::vector<std::shared_ptr<Window>> by_messages;  // guarded by the engine's lock
};
Registry& registry() {
  // Never destroyed, like the engine.
  static auto* only = new Registry;
  return *only;
}

void enter_registry(const std::shared_ptr<Window>& window) {
  std::scoped_lock lock(engine().mutex(), registry().mutex);
  registry().windows[window->handle()] = window;
  ++detail::windows_open;
  if (!window->targets().by_messages()) return;
  // Other ranks may need this rank's progress, so completion calls poll from now on.
  engine().keep_busy(1);
  progress_thread().note_active_message_window(1);
  if (window->threads() != Window::Threads::all) ++detail::gathering;
  registry().by_messages.push_back(window);
}

// The window that this thread is freeing. The program's functions that delete its attributes may still use
// it.
constinit thread_local Window* being_freed = nullptr;

void leave_registry(Window& window) {
  std::scoped_lock lock(engine().mutex(), registry().mutex);
  registry().windows.erase(window.handle());
  if (!window.targets().by_messages()) return;
  engine().keep_busy(-1);
  progress_thread().note_active_message_window(-1);
  if (window.threads() != Window::Threads::all) --detail::gathering;
  std::erase_if(registry().by_messages, [&](const auto& one) { return one.get() == &window; });
}

}  // namespace

std::shared_ptr<Window> detail::look_up_window(MPI_Win win) {
  if (being_freed && being_freed->handle() == win) return being_freed->shared_from_this();
  std::lock_guard lock(registry().mutex);
  auto found = registry().windows.find(win);
  return found == registry().windows.end() ? nullptr : found->second;
}

static constexpr const char* meeting = "a call that ranks of a window make together";

static void advance_windows() {
  for (const auto& window : registry().by_messages) window->accesses().advance();
}

// A barrier of some ranks of a window: in each step, a rank tells the next one that it and those before it
// are here, in steps of 1, 2, 4 and so on.
static void meet(const Targets& targets, const std::vector<int>& ranks) {
  const size_t own =
      static_cast<size_t>(std::find(ranks.begin(), ranks.end(), targets.rank()) - ranks.begin());
  if (own == ranks.size()) return;
  for (size_t step = 1; step < ranks.size(); step *= 2) {
    const int next = ranks[(own + step) % ranks.size()];
    const int previous = ranks[(own + ranks.size() - step) % ranks.size()];
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    real.Irecv(nullptr, 0, MPI_BYTE, previous, tag_meeting, targets.comm(), &requests[0]);
    real.Isend(nullptr, 0, MPI_BYTE, next, tag_meeting, targets.comm(), &requests[1]);
    for (MPI_Request& request : requests) poll_host(&request, MPI_STATUS_IGNORE, meeting, targets.comm());
  }
}

// All know the windows to which they belong, and have made those that they share in one order. Those members
// that belong to a window meet, unless they have met with more of them. Where all belong to it, a barrier of
// the host MPI on their communicator cannot meet one that other threads make on another, and ends if a rank
// fails.
static void gather_members(MPI_Group members, MPI_Comm comm) {
  std::vector<std::shared_ptr<Window>> by_messages;
  {
    std::lock_guard lock(engine().mutex());
    by_messages = registry().by_messages;
  }
  std::vector<std::vector<bool>> met;
  for (const std::shared_ptr<Window>& window : by_messages) {
    if (window->threads() == Window::Threads::all) continue;
    const std::vector<int> ranks = window->targets().ranks_of(members);
    std::vector<int> here;
    std::vector<bool> are_here;
    for (int rank : ranks) {
      are_here.push_back(rank != MPI_UNDEFINED);
      if (are_here.back()) here.push_back(rank);
    }
    auto includes_all = [&](const std::vector<bool>& others) {
      return std::ranges::equal(others, are_here, [](bool there, bool is_here) { return there || !is_here; });
    };
    if (here.size() < 2 || std::ranges::any_of(met, includes_all)) continue;
    if (here.size() == ranks.size() && comm != MPI_COMM_NULL) {
      poll_host(meeting, comm, [&](MPI_Request* request) { return real.Ibarrier(comm, request); });
    } else if (window->threads() == Window::Threads::none && !survives_failures()) {
      meet(window->targets(), here);
    } else {
      continue;
    }
    if (here.size() == ranks.size()) return;
    met.push_back(std::move(are_here));
  }
}

[[maybe_unused]] static const bool hooked = add_hooks({.advance = advance_windows, .gather = gather_members});

// ---- Creation and end --------------------------------------------------------------------------------

// Makes a window of the host MPI without memory.
static int make_handle(MPI_Info info, MPI_Comm comm, MPI_Win* handle) {
  BlockingHostCall blocking_call;
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  void* nothing = nullptr;
  // Over a single rank: quirk win_create_of_one.
  return ranks == 1 ? real.Win_allocate(0, 1, info, comm, &nothing, handle)
                    : real.Win_create(nullptr, 0, 1, info, comm, handle);
}

int Window::create(void* base, MPI_Aint size, MPI_Aint disp_unit, int flavor, bool owned, MPI_Info info,
                   MPI_Comm comm, MPI_Win* win) {
  std::shared_ptr<Window> window(new Window);
  window->flavor_ = flavor;
  window->base_ = base;
  window->bytes_ = size;
  // The attribute is an int; the query for shared memory also has a large-count form.
  window->disp_unit_ = static_cast<int>(std::min<MPI_Aint>(disp_unit, INT_MAX));
  window->owned_ = owned;
  if (owned) window->context_ = device::Context(device::device_at(base));
  if (int result = make_handle(info, comm, &window->handle_); result != MPI_SUCCESS) return result;
  Targets& targets = window->targets_;
  if (int result = targets.create(base, size, disp_unit, flavor == MPI_WIN_FLAVOR_DYNAMIC, comm);
      result != MPI_SUCCESS)
    return result;
  if (targets.by_messages())
    window->threads_ = targets.all_say(engine().threads())    ? Threads::all
                       : targets.all_say(!engine().threads()) ? Threads::none
                                                              : Threads::some;
  if (targets.by_messages() && targets.rank() == 0)
    log_line(LogLevel::info, "some targets of a window of %d ranks are active-message targets",
             targets.size());
  enter_registry(window);
  *win = window->handle_;
  return MPI_SUCCESS;
}

int Window::free(MPI_Win* win) {
  int result = accesses_.complete(all_targets);
  const int there = targets_.barrier();
  const int answered = targets_.poll_until("answers", -1, [&] { return messages_.idle(); });
  for (const int error : {there, answered})
    if (result == MPI_SUCCESS) result = error;
  if (result != MPI_SUCCESS) result = raise(result);
  leave_registry(*this);
  targets_.close();
  int freed = MPI_SUCCESS;
  {
    BlockingHostCall blocking_call;
    being_freed = this;
    freed = real.Win_free(&handle_);
    being_freed = nullptr;
    --detail::windows_open;
  }
  if (owned_) device::notice_resets();
  if (owned_ && !context_.is_gone()) device::BlockingDriverCalls::of_program()->free(base_);
  *win = MPI_WIN_NULL;
  return result == MPI_SUCCESS ? freed : result;
}

const void* Window::attribute(int keyval) const {
  if (keyval == MPI_WIN_BASE) return base_;
  if (keyval == MPI_WIN_SIZE) return &bytes_;
  if (keyval == MPI_WIN_DISP_UNIT) return &disp_unit_;
  if (keyval == MPI_WIN_CREATE_FLAVOR) return &flavor_;
  if (keyval == MPI_WIN_MODEL) return &model_;
  return nullptr;
}

int Window::raise(int code) const {
  return raise(code, "a call on a window of " + std::to_string(targets_.size()) + " ranks");
}

int Window::raise(int code, const std::string& about) const {
  return raise_window_error(handle_, code, about);
}

}  // namespace fairlead::mpi
