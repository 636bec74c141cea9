// SPDX-License-Identifier: Apache-2.0
//
// One rank's execution of a collective that has been decided to run on the GPU (see meeting.h and work.h):
//
//   expose   publishes where this rank's memory can be reached: before arriving, so that it may still say
//            that it cannot; or later, by a rank that hoped for NCCL
//   map      reaches the memory of the others, while what must be packed is; if one of them cannot, all of
//            them stage after all
//   run      a kernel or copies; when all have done so, every byte is where it belongs
//
// Ranks meet on the CPU between these steps; no kernel waits for another, so that nothing can deadlock on the
// GPU, whatever else runs there. Belongs to one thread at a time (the engine's lock).

#pragma once

#include <list>

#include "coll/work.h"
#include "datatype/move.h"
#include "kernels/kernel_run.h"
#include "node/node.h"

namespace fairlead::coll {

enum class Progress { waiting, refused, failed, over };

class GpuCollective {
 public:
  // `members`: the node rank of each member of the meeting.
  GpuCollective(node::Node& node, CollectiveSlot& slot, const std::vector<int>& members, uint64_t number,
                Work work);
  ~GpuCollective();

  // False: this rank's memory cannot be shown to the others. `possible`: may it be tried?
  bool expose(bool possible = true);
  Progress advance();
  // It will not be refused any more.
  bool all_have_mapped() const { return step_ > Step::readying; }

 private:
  bool export_memory();
  bool export_to(const Exposed& memory, RemoteMemory* remote);
  bool copy(const Exposed& memory, void* pool, bool back);
  device::Error state_of_copies();
  bool map_others();
  bool reach(int member, const RemoteMemory& remote, char** address);
  bool run();
  bool note(device::Error state);
  void start_reduction(const Reduction& part);
  void start_as_one_kernel();
  bool fetch_by_kernel(const std::vector<size_t>& pieces);
  const char* address_of(const Piece& piece);
  void start_ready_pieces();
  bool has_done(int member, uint64_t step);
  void announce(uint64_t step);

  Record& mine() { return slot_.record(slot_.me(), number_); }

  node::Node& node_;
  CollectiveSlot& slot_;
  const std::vector<int>& members_;
  uint64_t number_;
  Work work_;

  enum class Step { slot, mapping, readying, running, joining, bringing_back, over } step_ = Step::slot;
  bool reached_ = false;                     // what this rank needs of the others
  std::list<device::MappedMemory> mapped_;  // before what uses it
  std::vector<char*> sources_, targets_;     // of each member, as this process sees them
  std::vector<void*> pooled_;
  void* target_copy_ = nullptr;
  std::list<kernels::KernelRun> kernels_;
  std::list<datatype::Move> copying_;  // between this rank's memory and the pool
  std::list<datatype::Move> moves_;
  // How each piece is fetched; by neither before it starts.
  struct PieceTransfer {
    datatype::Move* move = nullptr;
    kernels::KernelRun* kernel = nullptr;
    bool started() const { return move || kernel; }
    device::Error poll() const { return kernel ? kernel->poll() : move->poll(); }
  };
  std::vector<PieceTransfer> transfers_;
  bool failed_ = false;
};

}  // namespace fairlead::coll
