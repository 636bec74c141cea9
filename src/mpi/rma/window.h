// SPDX-License-Identifier: Apache-2.0
//
// A window some of whose memory is device memory, or may become it: all of its targets are Fairlead's, and
// the handle that the program holds is a window of the host MPI without memory, which keeps the name, the
// group, the info and the error handler. A window of host memory alone is the host MPI's and not known here.
//
// A target is *direct* where this process reaches its memory: its own, or device memory of this node that it
// has mapped. Other targets are *served*: they are asked by messages (window_service.h) and act on their own
// memory whenever they make progress.
//
// Members are guarded by the engine's lock, except those that never change after the creation.

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

// What all ranks of a window know of one of them.
struct Target {
  uint64_t base = 0;  // in its own address space
  int64_t size = 0, disp_unit = 1;
  int32_t device = -1;  // as the target counts its devices; -1: host memory, or none
  int32_t exported = 0;    // `memory` tells others of its node where it lies
  device::RemoteMemory memory{};
  // Of the first rank of each node: what the ranks of the node share.
  uint64_t words_offset = 0, words_bytes = 0;
};

class Window : public std::enable_shared_from_this<Window> {
 public:
  ~Window();

  // Collective over `comm`. `base`, of this rank, is host or device memory. `owned` is freed with the window.
  static int create(void* base, MPI_Aint size, MPI_Aint disp_unit, int flavor, bool owned, MPI_Info info,
                    MPI_Comm comm, MPI_Win* win);
  // Collective, as MPI_Win_free.
  int free(MPI_Win* win);

  MPI_Win handle() const { return handle_; }
  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(targets_.size()); }
  int flavor() const { return flavor_; }
  bool dynamic() const { return flavor_ == MPI_WIN_FLAVOR_DYNAMIC; }
  const Target& target(int rank) const { return targets_[static_cast<size_t>(rank)]; }
  // May any rank ask another one to act on its memory?
  bool by_messages() const { return by_messages_; }
  // Does a thread answer for each of them that sits in the host MPI?
  bool stood_in_for() const { return stood_in_for_; }
  // MPI_WIN_BASE and its like; null for keys that are not of windows.
  const void* attribute(int keyval) const;
  // As MPI_Win_shared_query: the base is null where this rank's GPU does not reach it.
  int query(int rank, MPI_Aint* size, MPI_Aint* disp_unit, void** base);
  // Raises it through the window's handler. `about` says what failed.
  int raise(int code) const;
  int raise(int code, const std::string& about) const;

  // What follows gives codes of MPI errors, which are the caller's to raise.
  // ---- Dynamic windows -----------------------------------------------------------------------------
  int attach(void* base, MPI_Aint size);
  int detach(const void* base);
  // With the engine's lock.
  const AttachedRegions& attached() const { return attached_; }

  // ---- What origins share --------------------------------------------------------------------------
  // Null where this rank does not share memory with the target.
  rma::TargetWords* words(int target);
  // Where this process reaches the memory of the target, for a device of its own (-1: any); false: nowhere.
  bool reach(int target, int device, char** address, int* reached_by);

  // ---- Accesses ------------------------------------------------------------------------------------
  // Starts it, in an epoch that allows it: an MPI error code.
  int start(const std::shared_ptr<Access>& access);
  // Waits until the accesses to a target, or to all of them (-1), are over here and there. The error of any.
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
  int flush(int target);  // -1: all

  // With the engine's lock.
  void advance();

  // Calls `done` with the engine's lock, and makes progress, until it says so. The log is told what it is,
  // and of which rank (-1: of any).
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
  void show_memory(Target* mine, const std::vector<int>& node_ranks);
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
  MPI_Comm comm_ = MPI_COMM_NULL;  // our own
  int rank_ = 0, flavor_ = 0;
  bool by_messages_ = false, stood_in_for_ = false;
  void* owned_ = nullptr;
  // As MPI_Win_get_attr tells them.
  void* base_ = nullptr;
  MPI_Aint bytes_ = 0;
  int disp_unit_ = 1, model_ = MPI_WIN_UNIFIED;

  std::vector<Target> targets_;
  std::vector<int> node_ranks_;  // of each member; -1 where no memory is shared
  node::NodeMemory::Range words_memory_;
  std::vector<rma::TargetWords> own_words_;  // where none can be shared
  std::vector<int> place_of_words_;          // of each member, in the memory of this node; -1

  std::vector<bool> is_mapped_;                    // of each member
  std::map<std::pair<int, int>, Mapped> mappings_;  // by target and the device it was wanted for
  int device_ = -1;                               // for which targets were mapped at the creation

  AttachedRegions attached_;

  std::optional<WindowService> service_;
  struct Pending {
    uint64_t number;  // in the order of their starts
    std::shared_ptr<Access> access;
  };
  std::list<Pending> pending_;
  uint64_t started_accesses_ = 0;
  int error_ = MPI_SUCCESS;  // of an access that is over

  struct Locked {
    bool exclusive = false;
    bool held = false;    // not with MPI_MODE_NOCHECK
    bool coming = false;  // a thread waits for it
  };
  bool fenced_ = false;
  std::optional<std::map<int, MPI_Request>> started_;  // what says that a target has posted

  std::optional<std::vector<MPI_Request>> exposed_;
  std::map<int, Locked> locked_;
  bool locked_all_ = false, locked_all_unchecked_ = false;
};

// ---- All windows -------------------------------------------------------------------------------------

namespace detail {
extern std::atomic<int> windows_open;
}
// Is there any window of ours? If not, calls go to the host MPI without a look.
inline bool any_windows() {
  return detail::windows_open.load(std::memory_order_relaxed) != 0;
}
// Null where it is the host MPI's.
std::shared_ptr<Window> find_window(MPI_Win win);

}  // namespace fairlead::mpi
