// SPDX-License-Identifier: Apache-2.0
//
// One rank's execution of a collective that the ranks decided to run on the GPU (collective_slot.h, work.h):
//
//   expose   exports this rank's memory: before the rank arrives, so that it can still announce a failure; or
//            later, on a rank that announced NCCL
//   map      maps the memory of the other ranks while packing is in progress; if one rank cannot, all of them
//            stage through host memory after all
//   run      runs a kernel or copies; when all ranks have done so, every byte is in place
//
// In nonblocking calls the CPU of a rank computes meanwhile, so that every step waits for a thread to wake
// up. In short regular calls whose buffers all ranks could export, one rank therefore does the work of all:
// the first that looks when all have arrived, in most cases in the call that is the last to arrive. Its
// kernel stores to a word that all see, and no other rank has to do anything.
//
// A kernel that is a rank's whole part tells all ranks of its end, so that none of them needs the CPU of
// another.
//
// Ranks synchronize on the CPU between these steps. No kernel waits for another, so nothing can deadlock on
// the GPU, whatever else runs there. Belongs to one thread at a time (the engine's lock).

#pragma once

#include <list>

#include "base/rate_limit.h"
#include "coll/work.h"
#include "kernels/kernel_run.h"
#include "node/node.h"
#include "packing/move.h"

namespace fairlead::coll {

enum class Progress { waiting, refused, failed, over };

class GpuCollective {
 public:
  // `members`: the node rank of each member of the slot.
  GpuCollective(node::Node& node, CollectiveSlot& slot, const std::vector<int>& members, uint64_t number,
                CollectiveWork work);
  ~GpuCollective();

  // False: this rank's memory cannot be exported. If `possible` is false, the export is not tried.
  bool expose(bool possible = true);
  // Fails, too, if another process has damaged what the members share, as far as this rank sees that.
  Progress advance();
  // A member has failed, or the communicator was revoked: this rank takes no part any more. False while a
  // member that lives may still use this rank's memory; it learns of the failure as this rank does.
  bool abandon(const std::vector<bool>& lives);
  // advance() no longer returns `refused`.
  bool all_have_mapped() const { return step_ > Step::readying; }
  bool done_by_one() const { return one_ >= 0; }
  // One rank does the work of all, or will when all have arrived, unless it rings. If its kernel fails, the
  // others learn of that in its next MPI call.
  bool is_single_worker() const {
    return offers_part_ && (step_ <= Step::choosing || step_ >= Step::single_worker);
  }
  // Until others have done their parts, there is nothing to do but to see that. If this rank's kernel dies,
  // the others learn of it seconds later, or in its next MPI call.
  bool left_to_others() const {
    return is_single_worker() ||
           (!target_copy_ && ((step_ == Step::running && tells_itself_) || step_ == Step::joining));
  }

 private:
  // Memory of a member, as this process accesses it.
  struct Reached {
    char* address = nullptr;
    uint64_t bytes = 0;
  };
  Progress step();
  Progress damaged();
  bool own_words_are_there();
  bool awaits_members() const;
  bool export_memory();
  bool export_to(const Exposed& memory, RemoteMemory* remote);
  bool export_at(void* address, const Exposed& memory, RemoteMemory* remote);
  bool copy(const Exposed& memory, void* pool, bool back);
  device::Error state_of_copies();
  bool map_others();
  bool map_source(int member);
  bool map_target(int member);
  bool map_for(const Reduction& part);
  bool export_result();
  bool may_fetch_instead() const { return work_.reduction && !work_.pieces.empty(); }
  void reduce_or_fetch();
  bool choose_workers();
  bool any_gave_up();
  bool all_may_be_done_by_one();
  bool knows_way_to(int member);
  bool start_work_of_all();
  Progress wait_for_one();
  bool reach(int member, const RemoteMemory& remote, void* own, Reached* reached);
  bool run();
  bool note(device::Error state);
  void tell_of_failure();
  kernels::KernelRun& add_kernel();
  Attempt start_reduction(kernels::KernelRun& kernel, const Reduction& part);
  int targets_of(const Reduction& part, void** to) const;
  bool distributes_by_copies() const;
  void copy_to_all();
  bool copies_may_write_to_all(const Reduction& part);
  bool fetch_by_kernel();
  const char* address_of(const Piece& piece);
  void start_pieces();

  Record& mine() { return slot_.record(slot_.me(), number_); }

  node::Node& node_;
  CollectiveSlot& slot_;
  const std::vector<int>& members_;
  uint64_t number_;
  CollectiveWork work_;

  enum class Step {
    slot,
    choosing,
    mapping,
    readying,
    launching,
    running,
    joining,
    bringing_back,
    single_worker,
    over
  } step_ = Step::slot;
  bool offers_part_ = false;                // another rank may do this rank's part
  int one_ = -1;                            // the member that does the work of all
  bool reached_ = false;                    // this rank has mapped what it needs
  std::list<device::MappedMemory> mapped_;  // declared before what uses it
  std::vector<Reached> sources_, targets_;  // of each member
  void* own_source_ = nullptr;              // what this rank exports
  void* own_target_ = nullptr;
  std::vector<void*> pooled_;
  void* target_copy_ = nullptr;
  std::list<kernels::KernelRun> kernels_;
  std::list<packing::Move> copying_;  // between this rank's memory and the pool
  std::list<packing::Move> moves_;
  bool pushes_by_kernel_ = false;  // the pieces go to memory that copies must not write to
  bool tells_itself_ = false;      // the kernel stores the word of this member's part
  bool failed_ = false, abandoned_ = false, damaged_ = false;
  RareLook rare_look_;
};

}  // namespace fairlead::coll
