// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a window as targets: the memory that each of them exposes, and how this process accesses it.
//
// A target is *mapped* where this process can access its memory: its own memory, or device memory of this
// node that it has mapped. Other targets are *active-message targets*: origins send them requests
// (active_messages.h), and they act on their own memory whenever they make progress.
//
// The engine's lock guards the mappings and the attached regions. Nothing else changes after the creation.

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "mpi/abi/host_mpi.h"
//
#include "base/rate_limit.h"
#include "base/report_timer.h"
#include "device/ipc_registry.h"
#include "mpi/core/engine.h"
#include "mpi/rma/attached_regions.h"
#include "node/node_memory.h"
#include "rma/locks.h"

namespace fairlead::mpi {

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

// Where this process accesses a mapped target.
struct MappedTarget {
  char* address;
  int device;              // of this process; -1: host memory
  bool by_kernel = false;  // as in rma::Buffer
};

class Targets {
 public:
  // Collective over `comm`. `base` is host or device memory of this rank.
  int create(void* base, MPI_Aint size, MPI_Aint disp_unit, bool dynamic, MPI_Comm comm);
  // Collective. After this call no rank accesses this rank's memory any more, nor the shared words.
  void close();

  MPI_Comm comm() const { return comm_; }  // a duplicate for the window's own messages
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(targets_.size()); }
  const Target& operator[](int rank) const { return targets_[static_cast<size_t>(rank)]; }
  const Target& mine() const { return (*this)[rank_]; }
  // In a dynamic window, displacements are addresses in attached regions.
  bool dynamic() const { return dynamic_; }
  // Does any rank of the window have active-message targets?
  bool by_messages() const { return by_messages_; }
  // The ranks of the group's members in the window; MPI_UNDEFINED for those outside it.
  std::vector<int> ranks_of(MPI_Group group) const;

  // The target's memory for the given device of this process (-1: any). Empty for an active-message target.
  std::optional<MappedTarget> map(int target, int device);
  // If so, it answers no messages, and map() has failed if it is empty: the program has reset the device, and
  // memory that is shared by file descriptor cannot be mapped again.
  bool was_mapped(int target) const { return is_mapped_[static_cast<size_t>(target)]; }
  // What origins share about a target; null where this rank does not share memory with the target.
  rma::TargetWords* words(int target);
  rma::TargetWords& own_words() { return *words(rank_); }
  // Like MPI_Win_attach and MPI_Win_detach.
  int attach(void* base, MPI_Aint size);
  int detach(const void* base);
  // The caller holds the engine's lock.
  const AttachedRegions& attached() const { return attached_; }
  // Like MPI_Win_shared_query: the base is null where this rank's GPU cannot access it.
  int query(int rank, MPI_Aint* size, MPI_Aint* disp_unit, void* baseptr);

  // A request of some window has ended with an error, because a process has failed.
  static void note_failed_request();
  // Collective: is `mine` true on all ranks?
  bool all_say(bool mine) const;
  // Collective: returns when all ranks have called it.
  int barrier();
  // Makes progress until `done` returns true; calls `done` with the engine's lock. After a while the log
  // reports that this rank still waits for `what` of rank `whom` (-1: of any rank). If a process of the
  // window has failed, returns that error in place of waiting on: it may hold a lock, or keep others waiting.
  template <class Done>
  int poll_until(const char* what, const int& whom, const Done& done) const {
    ReportTimer report_timer;
    RareLook rare_look;
    for (Backoff backoff;; backoff.pause()) {
      {
        std::lock_guard lock(engine().mutex());
        if (done()) return failure_of_requests();
      }
      if (const int failure = rare_look.due() ? failure_seen() : MPI_SUCCESS; failure != MPI_SUCCESS)
        return failure;
      engine().progress();
      if (const int seconds = report_timer.due()) complain(what, whom, seconds);
    }
  }

 private:
  struct Mapping {
    device::MappedMemory memory;
    int device;
    bool by_kernel;
  };
  void export_memory(Target* mine, const std::vector<int>& node_ranks);
  bool share_words();
  bool map_all();
  const Mapping* mapping(int target, int device);
  int host_barrier() const;
  int failure_seen() const;
  int failure_of_requests() const;
  void complain(const char* what, int whom, int seconds) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  bool dynamic_ = false, by_messages_ = false;

  std::vector<Target> targets_;
  std::vector<int> node_ranks_;  // of each member; -1 where no memory is shared
  node::NodeMemory::Range words_memory_;
  std::vector<rma::TargetWords> unshared_words_;  // this rank's, where no memory can be shared
  std::vector<int> offset_of_words_;              // of each member, in this node's shared memory; -1

  std::vector<bool> is_mapped_;                      // of each member
  std::map<std::pair<int, int>, Mapping> mappings_;  // by target and requested device
  int device_ = -1;                                  // the device for which the creation mapped the targets

  uint64_t barriers_ = 0;  // that this rank has entered
  AttachedRegions attached_;
};

}  // namespace fairlead::mpi
