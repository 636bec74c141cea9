// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/window.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <unordered_map>

#include "base/log.h"
#include "base/options.h"
#include "device/classify.h"
#include "device/copy.h"
#include "mpi/core/communicator.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/request.h"
#include "mpi/rma/service_thread.h"
#include "mpi/rma/window_access.h"
#include "transport/peer.h"

namespace fairlead::mpi {

namespace detail {
std::atomic<int> windows_open{0};
}

namespace {

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
  if (!window->by_messages()) return;
  // Other ranks may need this rank's progress, so completion calls poll from now on.
  engine().keep_busy(1);
  note_active_message_window(1);
  ++detail::gathering;
  registry().by_messages.push_back(window);
}

// The window that this thread is freeing. The program's functions that delete its attributes may still use
// it.
constinit thread_local Window* being_freed = nullptr;

void leave_registry(const Window& window) {
  std::scoped_lock lock(engine().mutex(), registry().mutex);
  registry().windows.erase(window.handle());
  if (!window.by_messages()) return;
  engine().keep_busy(-1);
  note_active_message_window(-1);
  --detail::gathering;
  std::erase_if(registry().by_messages, [&](const auto& one) { return one.get() == &window; });
}

// Starts a nonblocking operation of the host MPI, polls it to completion and serves other ranks meanwhile.
template <class Start>
int poll_host(const Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (int result = start(&request); result != MPI_SUCCESS) return result;
  return poll_until_complete(&request, MPI_STATUS_IGNORE);
}

}  // namespace

std::shared_ptr<Window> find_window(MPI_Win win) {
  if (being_freed && being_freed->handle() == win) return being_freed->shared_from_this();
  std::lock_guard lock(registry().mutex);
  auto found = registry().windows.find(win);
  return found == registry().windows.end() ? nullptr : found->second;
}

static void advance_windows() {
  for (const auto& window : registry().by_messages) window->advance();
}

static void gather_members(MPI_Comm comm) {
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter) return;
  MPI_Group members;
  PMPI_Comm_group(comm, &members);
  int size = 0;
  PMPI_Group_size(members, &size);
  bool known = false;
  std::vector<std::shared_ptr<Window>> by_messages;
  {
    std::lock_guard lock(engine().mutex());
    by_messages = registry().by_messages;
  }
  for (const auto& window : by_messages) {
    if (window->has_service_thread()) continue;
    std::vector<int> own(static_cast<size_t>(size)), there(own.size());
    for (int i = 0; i < size; ++i) own[static_cast<size_t>(i)] = i;
    MPI_Group group;
    PMPI_Comm_group(window->comm(), &group);
    PMPI_Group_translate_ranks(members, size, own.data(), group, there.data());
    PMPI_Group_free(&group);
    known = std::none_of(there.begin(), there.end(), [](int rank) { return rank == MPI_UNDEFINED; });
    if (known) break;
  }
  PMPI_Group_free(&members);
  if (known && size > 1) poll_host([&](MPI_Request* request) { return real.Ibarrier(comm, request); });
}

[[maybe_unused]] static const bool hooked =
    add_hooks({.advance = advance_windows, .note_blocked = note_blocked_thread, .gather = gather_members});

// ---- Creation ----------------------------------------------------------------------------------------

namespace {

// Makes a window of the host MPI without memory.
int make_handle(MPI_Info info, MPI_Comm comm, MPI_Win* handle) {
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  void* nothing = nullptr;
  // Open MPI 4.1 fails to create a window over a single rank, but can allocate one.
  return ranks == 1 ? real.Win_allocate(0, 1, info, comm, &nothing, handle)
                    : real.Win_create(nullptr, 0, 1, info, comm, handle);
}

int node_rank_of(MPI_Comm comm, int rank) {
  const node::Node* node = engine().node();
  return node ? node->node_rank_of_world(rank_in_world(comm, rank)) : -1;
}

}  // namespace

// Exports this rank's memory to the ranks of its node. For a rank that cannot map it, this rank is an
// active-message target.
void Window::export_memory(Target* mine, const std::vector<int>& node_ranks) {
  if (mine->device < 0 || mine->size == 0 || !options().ipc || node_ranks.size() < 2) return;
  std::lock_guard lock(engine().mutex());
  node::Node& node = *engine().node();
  void* base = reinterpret_cast<void*>(mine->base);
  mine->exported = transport::export_probe(node, mine->device) &&
                   transport::export_to(node, node_ranks, device::classify(base), base,
                                        static_cast<uint64_t>(mine->size), &mine->memory);
}

// The words of this node's targets lie in memory that the first of its ranks creates. False if that memory
// cannot be had.
bool Window::share_words(const std::vector<Target>& all) {
  int first = -1, places = 0;
  for (int member = 0; member < size(); ++member) {
    if (node_ranks_[static_cast<size_t>(member)] < 0) continue;
    if (first < 0) first = member;
    offset_of_words_[static_cast<size_t>(member)] = places++;
  }
  if (first < 0) return false;
  const Target& owner = all[static_cast<size_t>(first)];
  if (first != rank_ && owner.words_bytes == static_cast<size_t>(places) * sizeof(rma::TargetWords))
    words_memory_ = engine().node()->memory().open(owner.words_offset, owner.words_bytes);
  return words_memory_.data() != nullptr;
}

// A target that cannot be mapped now stays an active-message target as long as the window lives: accumulates
// would overtake each other if it were mapped later.
bool Window::map_targets() {
  device_ = target(rank_).device >= 0 ? target(rank_).device : device::device_in_use();
  for (int member = 0; member < size(); ++member) {
    const Target& wanted = target(member);
    bool reached = member == rank_ || wanted.size == 0;
    if (!reached && wanted.exported && device_ >= 0 && node_ranks_[static_cast<size_t>(member)] >= 0) {
      std::lock_guard lock(engine().mutex());
      reached = map(member, device_) != nullptr;
    }
    is_mapped_.push_back(reached);
  }
  return std::find(is_mapped_.begin(), is_mapped_.end(), false) == is_mapped_.end();
}

int Window::create(void* base, MPI_Aint size, MPI_Aint disp_unit, int flavor, bool owned, MPI_Info info,
                   MPI_Comm comm, MPI_Win* win) {
  std::shared_ptr<Window> window(new Window);
  window->flavor_ = flavor;
  window->base_ = base;
  window->bytes_ = size;
  // The attribute is an int; the query for shared memory also has a large-count form.
  window->disp_unit_ = static_cast<int>(std::min<MPI_Aint>(disp_unit, INT_MAX));
  window->owned_ = owned ? base : nullptr;
  {
    BlockingHostCall blocking_call;
    if (int result = make_handle(info, comm, &window->handle_); result != MPI_SUCCESS) return result;
    if (int result = real.Comm_dup(comm, &window->comm_); result != MPI_SUCCESS) return result;
  }
  int ranks = 1;
  PMPI_Comm_rank(comm, &window->rank_);
  PMPI_Comm_size(comm, &ranks);
  window->targets_.resize(static_cast<size_t>(ranks));
  window->offset_of_words_.assign(static_cast<size_t>(ranks), -1);
  std::vector<int> of_node;
  for (int member = 0; member < ranks; ++member) {
    window->node_ranks_.push_back(node_rank_of(comm, member));
    if (window->node_ranks_.back() >= 0) of_node.push_back(window->node_ranks_.back());
  }

  Target mine;
  mine.base = reinterpret_cast<uintptr_t>(base);
  mine.size = size;
  mine.disp_unit = disp_unit;
  mine.device = size > 0 ? device::device_at(base) : -1;
  window->export_memory(&mine, of_node);
  if (!of_node.empty() && of_node.front() == window->node_ranks_[static_cast<size_t>(window->rank_)]) {
    window->words_memory_ = engine().node()->memory().create(of_node.size() * sizeof(rma::TargetWords));
    if (window->words_memory_.data()) {
      std::memset(window->words_memory_.data(), 0, window->words_memory_.bytes());
      mine.words_offset = window->words_memory_.offset();
      mine.words_bytes = window->words_memory_.bytes();
    }
  }
  poll_host([&](MPI_Request* request) {
    return real.Iallgather(&mine, sizeof mine, MPI_BYTE, window->targets_.data(), sizeof mine, MPI_BYTE,
                           window->comm_, request);
  });
  // Either all ranks share words with the ranks of their node, or none does. A rank that cannot map a target
  // sends it requests, even if other ranks have mapped that target.
  const auto all_say = [&](int mine) {
    int all = 0;
    poll_host([&](MPI_Request* request) {
      return real.Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, window->comm_, request);
    });
    return all != 0;
  };
  if (!all_say(window->share_words(window->targets_))) {
    window->words_memory_ = {};
    window->own_words_ = std::vector<rma::TargetWords>(1);
    std::fill(window->node_ranks_.begin(), window->node_ranks_.end(), -1);
  }
  window->by_messages_ = !all_say(window->map_targets() && !window->dynamic()) && ranks > 1;
  window->has_service_thread_ = window->by_messages_ && all_say(engine().threads());
  if (window->by_messages_) window->service_.emplace(*window);
  if (window->by_messages_ && window->rank_ == 0)
    log_line(LogLevel::info, "some targets of a window of %d ranks are active-message targets", ranks);
  enter_registry(window);
  *win = window->handle_;
  return MPI_SUCCESS;
}

// Within one node, each rank counts its barriers in a shared word, and the other ranks poll it.
int Window::barrier() {
  if (std::find(node_ranks_.begin(), node_ranks_.end(), -1) == node_ranks_.end()) {
    const uint64_t number = words(rank_)->barriers.fetch_add(1, std::memory_order_acq_rel) + 1;
    int member = 0;
    poll_until("the fence, or the end,", member, [&] {
      while (member < size() && words(member)->barriers.load(std::memory_order_acquire) >= number) ++member;
      return member == size();
    });
    return MPI_SUCCESS;
  }
  return host_barrier();
}

int Window::host_barrier() {
  return poll_host([&](MPI_Request* request) { return real.Ibarrier(comm_, request); });
}

int Window::free(MPI_Win* win) {
  int result = complete(-1);
  if (result != MPI_SUCCESS) result = raise(result);
  barrier();
  poll_until("answers", -1, [&] { return !service_ || service_->idle(); });
  leave_registry(*this);
  {
    std::lock_guard lock(engine().mutex());
    mappings_.clear();
    service_.reset();
  }
  // After this barrier no rank accesses this rank's memory any more, nor the shared words.
  host_barrier();
  int freed = MPI_SUCCESS;
  {
    BlockingHostCall blocking_call;
    real.Comm_free(&comm_);
    being_freed = this;
    freed = real.Win_free(&handle_);
    being_freed = nullptr;
    --detail::windows_open;
  }
  if (owned_) device::runtime()->free(owned_);
  *win = MPI_WIN_NULL;
  return result == MPI_SUCCESS ? freed : result;
}

Window::~Window() = default;

const void* Window::attribute(int keyval) const {
  if (keyval == MPI_WIN_BASE) return base_;
  if (keyval == MPI_WIN_SIZE) return &bytes_;
  if (keyval == MPI_WIN_DISP_UNIT) return &disp_unit_;
  if (keyval == MPI_WIN_CREATE_FLAVOR) return &flavor_;
  if (keyval == MPI_WIN_MODEL) return &model_;
  return nullptr;
}

int Window::query(int rank, MPI_Aint* size, MPI_Aint* disp_unit, void** base) {
  if (dynamic()) return MPI_ERR_RMA_FLAVOR;
  if (rank == MPI_PROC_NULL)
    for (rank = 0; rank + 1 < this->size() && target(rank).size == 0;) ++rank;
  if (rank < 0 || rank >= this->size()) return MPI_ERR_RANK;
  *size = static_cast<MPI_Aint>(target(rank).size);
  *disp_unit = static_cast<MPI_Aint>(target(rank).disp_unit);
  char* address = nullptr;
  int device = -1;
  *base =
      target(rank).size > 0 && reach(rank, device_, &address, &device) && (rank == rank_ || device == device_)
          ? address
          : nullptr;
  return MPI_SUCCESS;
}

void Window::complain(const char* what, int whom) const {
  const std::string rank = whom >= 0 ? " of rank " + std::to_string(whom) : "";
  log_line(LogLevel::warn, "rank %d of a window of %d ranks still waits for %s%s", rank_, size(), what,
           rank.c_str());
}

int Window::raise(int code) const {
  return raise(code, "a call on a window of " + std::to_string(size()) + " ranks");
}

int Window::raise(int code, const std::string& about) const {
  return raise_window_error(handle_, code, about);
}

// ---- Dynamic windows ---------------------------------------------------------------------------------

int Window::attach(void* base, MPI_Aint size) {
  std::lock_guard lock(engine().mutex());
  attached_.attach(base, static_cast<uint64_t>(size));
  return MPI_SUCCESS;
}

int Window::detach(const void* base) {
  std::lock_guard lock(engine().mutex());
  attached_.detach(base);
  return MPI_SUCCESS;
}

// ---- Targets -----------------------------------------------------------------------------------------

rma::TargetWords* Window::words(int target) {
  if (node_ranks_[static_cast<size_t>(target)] < 0) return target == rank_ ? own_words_.data() : nullptr;
  return reinterpret_cast<rma::TargetWords*>(words_memory_.data()) +
         offset_of_words_[static_cast<size_t>(target)];
}

// A mapping is for one device. If the target cannot be mapped for the origin's device, the mapping of the
// creation is used.
const Window::Mapped* Window::map(int target, int device) {
  const Target& wanted = targets_[static_cast<size_t>(target)];
  if (auto found = mappings_.find({target, device}); found != mappings_.end()) return &found->second;
  Mapped mapped{{}, device};
  if (transport::reach(*engine().node(), node_ranks_[static_cast<size_t>(target)], wanted.device,
                       &mapped.device, wanted.memory, &mapped.memory) != node::Reason::none)
    return device == device_ ? nullptr : map(target, device_);
  return &mappings_.emplace(std::pair(target, device), std::move(mapped)).first->second;
}

bool Window::reach(int target, int device, char** address, int* reached_by) {
  const Target& wanted = targets_[static_cast<size_t>(target)];
  if (target == rank_) {
    *address = reinterpret_cast<char*>(wanted.base);
    *reached_by = wanted.device;
    return true;
  }
  if (!is_mapped_[static_cast<size_t>(target)]) return false;
  if (device < 0) device = device_;
  std::lock_guard lock(engine().mutex());
  const Mapped* mapped = map(target, device);
  if (!mapped) return false;
  *address = static_cast<char*>(mapped->memory.address());
  *reached_by = mapped->device;
  return true;
}

// ---- Accesses ----------------------------------------------------------------------------------------

int Window::start(const std::shared_ptr<Access>& access) {
  const int target = access->target();
  if (int error = may_access(target); error != MPI_SUCCESS) return error;
  if (access->over()) return MPI_SUCCESS;
  rma::Buffer memory;
  bool mapped = false;
  if (!dynamic()) {
    char* address = nullptr;
    int device = -1;
    mapped = reach(target, access->device(), &address, &device);
    memory = access->target_in(address, device);
  } else if (target == rank_) {
    // In a dynamic window, displacements are addresses.
    memory = access->target_in(nullptr, -1);
    std::lock_guard lock(engine().mutex());
    if (!attached_.locate(&memory, 0, memory.bytes(), access->low(), access->high()))
      return MPI_ERR_RMA_RANGE;
    mapped = true;
  }
  if (mapped && access->accumulates()) {
    access->accumulate(memory, words(target)->accumulate_lock);
    return access->in_request() ? MPI_SUCCESS : access->error();
  }
  // Each pending access adds to the cost of every round of progress, so their number is limited.
  constexpr size_t at_once = 1024;
  std::unique_lock lock(engine().mutex());
  while (pending_.size() >= at_once) {
    lock.unlock();
    poll_until("an end of earlier accesses", -1, [&] {
      advance();
      return pending_.size() < at_once;
    });
    lock.lock();
  }
  if (mapped) access->start(memory, pending_.empty());
  if (mapped && access->over() && access->error() == MPI_SUCCESS) return MPI_SUCCESS;
  pending_.push_back({++started_accesses_, access});
  // Start accesses in batches: a program that issues many would otherwise leave the GPU idle until its first
  // wait.
  constexpr size_t together = 8;
  if (!mapped) access->use_messages();
  if (!mapped || pending_.size() % together == 0) {
    device::start_enqueued();
    advance();
  }
  return MPI_SUCCESS;
}

void Window::advance() {
  // Accesses to one target never overtake each other, so that accumulates keep their order.
  std::vector<int> behind;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    Access& access = *entry->access;
    if (access.by_messages()) {
      const bool blocked = std::find(behind.begin(), behind.end(), access.target()) != behind.end();
      if (blocked || !access.ask(*service_, entry->access)) behind.push_back(access.target());
    } else {
      access.advance();
    }
    if (!access.over()) {
      ++entry;
      continue;
    }
    if (access.error() != MPI_SUCCESS && !access.in_request()) error_ = access.error();
    entry = pending_.erase(entry);
  }
  if (service_) service_->advance();
}

bool Window::any_pending(int target, uint64_t up_to) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& one) {
    return one.number <= up_to && (target < 0 || one.access->target() == target);
  });
}

int Window::complete(int target) {
  int error = MPI_SUCCESS;
  device::start_enqueued();
  // Other threads may start more accesses meanwhile; this call does not wait for those.
  uint64_t last = 0;
  {
    std::lock_guard lock(engine().mutex());
    last = started_accesses_;
  }
  poll_until("accesses to memory", target, [&] {
    advance();
    if (any_pending(target, last)) return false;
    error = std::exchange(error_, MPI_SUCCESS);
    return true;
  });
  return error;
}

}  // namespace fairlead::mpi
