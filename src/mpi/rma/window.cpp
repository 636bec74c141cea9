// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/window.h"

#include <algorithm>
#include <climits>
#include <unordered_map>

#include "base/log.h"
#include "device/classify.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/gather.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/request.h"

namespace fairlead::mpi {

namespace detail {
std::atomic<int> windows_open{0};
}

namespace {

constexpr int tag_meeting = 4;  // beside those of epochs.cpp and active_messages.cpp

struct Registry {
  std::mutex mutex;
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
  ++detail::gathering;
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
  --detail::gathering;
  std::erase_if(registry().by_messages, [&](const auto& one) { return one.get() == &window; });
}

}  // namespace

std::shared_ptr<Window> detail::look_up_window(MPI_Win win) {
  if (being_freed && being_freed->handle() == win) return being_freed->shared_from_this();
  std::lock_guard lock(registry().mutex);
  auto found = registry().windows.find(win);
  return found == registry().windows.end() ? nullptr : found->second;
}

static void advance_windows() {
  for (const auto& window : registry().by_messages) window->accesses().advance();
}

// Finds a window that these members know of and no thread serves: the same one on each of them, because all
// have made their common windows in one order. `ranks` are theirs in it. Null if there is none.
static std::shared_ptr<Window> window_of(MPI_Group members, std::vector<int>* ranks) {
  std::vector<std::shared_ptr<Window>> by_messages;
  {
    std::lock_guard lock(engine().mutex());
    by_messages = registry().by_messages;
  }
  for (std::shared_ptr<Window>& window : by_messages) {
    if (window->is_served()) continue;
    *ranks = window->targets().ranks_of(members);
    if (std::find(ranks->begin(), ranks->end(), MPI_UNDEFINED) == ranks->end()) return std::move(window);
  }
  return nullptr;
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
    for (MPI_Request& request : requests) poll_until_complete(&request, MPI_STATUS_IGNORE);
  }
}

static void gather_members(MPI_Comm comm, MPI_Group group) {
  std::vector<int> ranks;
  if (comm == MPI_COMM_NULL) {
    if (group == MPI_GROUP_NULL) return;
    if (const std::shared_ptr<Window> window = window_of(group, &ranks)) meet(window->targets(), ranks);
    return;
  }
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter) return;
  MPI_Group members;
  PMPI_Comm_group(comm, &members);
  const bool known = window_of(members, &ranks) != nullptr;
  PMPI_Group_free(&members);
  MPI_Request request = MPI_REQUEST_NULL;
  if (known && ranks.size() > 1 && real.Ibarrier(comm, &request) == MPI_SUCCESS)
    poll_until_complete(&request, MPI_STATUS_IGNORE);
}

[[maybe_unused]] static const bool hooked = add_hooks({.advance = advance_windows, .gather = gather_members});

// ---- Creation and end --------------------------------------------------------------------------------

// Makes a window of the host MPI without memory.
static int make_handle(MPI_Info info, MPI_Comm comm, MPI_Win* handle) {
  BlockingHostCall blocking_call;
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  void* nothing = nullptr;
  // Open MPI 4.1 fails to create a window over a single rank, but can allocate one.
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
  window->is_served_ = targets.by_messages() && targets.all_say(engine().threads());
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
  if (owned_ && !context_.is_gone()) device::runtime()->free(base_);
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
