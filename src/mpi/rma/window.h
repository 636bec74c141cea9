// SPDX-License-Identifier: Apache-2.0
//
// A window that contains device memory, or may contain it later. Fairlead handles all of its targets. The
// handle that the program holds is a window of the host MPI without memory, which keeps the name, the group,
// the info and the error handler. A window of host memory alone belongs to the host MPI, and this file does
// not handle it.
//
// A target is *mapped* where this process can access its memory: its own memory, or device memory of this
// node that it has mapped. Other targets are *active-message targets*: origins send them requests
// (window_service.h), and they act on their own memory whenever they make progress.
//
// The engine's lock guards the members, except those that never change after the creation.

#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/abi/host_mpi.h"
//
#include "base/report_timer.h"
#include "device/ipc_registry.h"
#include "mpi/core/engine.h"
#include "mpi/core/gather.h"
#include "mpi/rma/window_attached.h"
#include "mpi/rma/window_service.h"
#include "node/node_memory.h"
#include "rma/locks.h"
#include "rma/transfer.h"

namespace fairlead::mpi {

class Access;

// The description of one target that all ranks of a window have.
struct Target {
  uint64_t base = 0;  // in the target's address space
  int64_t size = 0, disp_unit = 1;
  int32_t device = -1;   // as the target counts its devices; -1: host memory, or none
  int32_t exported = 0;  // `memory` lets other ranks of its node map it
  device::RemoteMemory memory{};
  // Set by the first rank of each node: the memory that the ranks of the node share.
  uint64_t words_offset = 0, words_bytes = 0;
};

class Window : public std::enable_shared_from_this<Window> {
 public:
  ~Window();

  // Collective over `comm`. `base` is host or device memory of this rank. If `owned`, the window frees it.
  static int create(void* base, MPI_Aint size, MPI_Aint disp_unit, int flavor, bool owned, MPI_Info info,
                    MPI_Comm comm, MPI_Win* win);
  // Collective, like MPI_Win_free.
  int free(MPI_Win* win);

  MPI_Win handle() const { return handle_; }
  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(targets_.size()); }
  int flavor() const { return flavor_; }
  bool dynamic() const { return flavor_ == MPI_WIN_FLAVOR_DYNAMIC; }
  const Target& target(int rank) const { return targets_[static_cast<size_t>(rank)]; }
  // Does any rank of the window have active-message targets?
  bool by_messages() const { return by_messages_; }
  // Does a service thread answer for every rank that is blocked in the host MPI?
  bool has_service_thread() const { return has_service_thread_; }
  // The value of MPI_WIN_BASE and the other predefined window attributes; null for any other key.
  const void* attribute(int keyval) const;
  // Like MPI_Win_shared_query: the base is null where this rank's GPU cannot access it.
  int query(int rank, MPI_Aint* size, MPI_Aint* disp_unit, void** base);
  // Raises the error through the window's error handler. `about` names what failed.
  int raise(int code) const;
  int raise(int code, const std::string& about) const;

  // The functions below return MPI error codes, and the caller raises them.
  // ---- Dynamic windows -----------------------------------------------------------------------------
  int attach(void* base, MPI_Aint size);
  int detach(const void* base);
  // The caller holds the engine's lock.
  const AttachedRegions& attached() const { return attached_; }

  // ---- What origins share --------------------------------------------------------------------------
  // Null where this rank does not share memory with the target.
  rma::TargetWords* words(int target);
  // The address at which this process, or the given device of it (-1: any), can access the target's memory.
  // False if it cannot access it.
  bool reach(int target, int device, char** address, int* reached_by);

  // ---- Accesses ------------------------------------------------------------------------------------
  // Starts the access if an epoch allows it. Returns an MPI error code.
  int start(const std::shared_ptr<Access>& access);
  // Waits until the accesses to a target (-1: to all targets) are complete at origin and target. Returns the
  // error of any of them.
  int complete(int target);

  // ---- Epochs: window_epoch.cpp --------------------------------------------------------------------
  int fence(int assertion);
  int post(MPI_Group group, int assertion);
  int start(MPI_Group group, int assertion);
  int end_access();
  int wait_exposure();
  int test_exposure(int* flag);
  int lock(int target, bool exclusive, int assertion);
  int unlock(int target);
  int lock_all(int assertion);
  int unlock_all();
  int flush(int target);  // -1: all targets

  // The caller holds the engine's lock.
  void advance();

  // Makes progress until `done` returns true; calls `done` with the engine's lock. After a while the log
  // reports that this rank still waits for `what` of rank `whom` (-1: of any rank).
  template <class Done>
  void poll_until(const char* what, const int& whom, const Done& done) {
    ReportTimer report_timer;
    for (Backoff backoff;; backoff.pause()) {
      {
        std::lock_guard lock(engine().mutex());
        if (done()) return;
      }
      engine().progress();
      if (report_timer.is_over()) complain(what, whom);
    }
  }

 private:
  struct Mapped {
    device::MappedMemory memory;
    int device;
  };

  Window() = default;
  const Mapped* map(int target, int device);
  bool share_words(const std::vector<Target>& all);
  void export_memory(Target* mine, const std::vector<int>& node_ranks);
  bool map_targets();
  int may_access(int target);
  void acquire(int target, bool exclusive);
  void acquire_once(int target);
  void release(int target, bool exclusive);
  void ask_and_wait(int target, rma::Request kind, bool exclusive);
  std::vector<int> members_of(MPI_Group group) const;
  bool any_pending(int target, uint64_t up_to) const;
  int barrier();
  int host_barrier();
  void complain(const char* what, int whom) const;

  MPI_Win handle_ = MPI_WIN_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;  // a duplicate for the window's own messages
  int rank_ = 0, flavor_ = 0;
  bool by_messages_ = false, has_service_thread_ = false;
  void* owned_ = nullptr;
  // The values that MPI_Win_get_attr returns.
  void* base_ = nullptr;
  MPI_Aint bytes_ = 0;
  int disp_unit_ = 1, model_ = MPI_WIN_UNIFIED;

  std::vector<Target> targets_;
  std::vector<int> node_ranks_;  // of each member; -1 where no memory is shared
  node::NodeMemory::Range words_memory_;
  std::vector<rma::TargetWords> own_words_;  // where no memory can be shared
  std::vector<int> offset_of_words_;         // of each member, in this node's shared memory; -1

  std::vector<bool> is_mapped_;                     // of each member
  std::map<std::pair<int, int>, Mapped> mappings_;  // by target and requested device
  int device_ = -1;                                 // the device for which the creation mapped the targets

  AttachedRegions attached_;

  std::optional<WindowService> service_;
  struct Pending {
    uint64_t number;  // in the order of their starts
    std::shared_ptr<Access> access;
  };
  std::list<Pending> pending_;
  uint64_t started_accesses_ = 0;
  int error_ = MPI_SUCCESS;  // of a completed access

  struct Locked {
    bool exclusive = false;
    bool held = false;    // false with MPI_MODE_NOCHECK
    bool coming = false;  // a thread is waiting for it
  };
  bool fenced_ = false;
  std::optional<std::map<int, MPI_Request>> started_;  // the request that completes when a target has posted

  std::optional<std::vector<MPI_Request>> exposed_;
  std::map<int, Locked> locked_;
  bool locked_all_ = false, locked_all_unchecked_ = false;
};

// ---- All windows -------------------------------------------------------------------------------------

namespace detail {
extern std::atomic<int> windows_open;
}
// Does any window of Fairlead's exist? If not, calls go to the host MPI without a lookup.
inline bool any_windows() {
  return detail::windows_open.load(std::memory_order_relaxed) != 0;
}
// Null if the window belongs to the host MPI.
std::shared_ptr<Window> find_window(MPI_Win win);

}  // namespace fairlead::mpi
