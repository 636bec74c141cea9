// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of a communicator that lies within one node meet for its collectives: shared memory in
// which each announces its arrival at every collective, with the kind of memory it brings, and in which all
// of them come to one decision: on the GPU, or through the host MPI. The collectives of a communicator are
// numbered from 1 in the order of the calls, which MPI demands to be the same on all ranks.
//
// A rank that brings host memory stores one word and goes to the host MPI at once, however far behind others
// are. The others wait until
// all have arrived, or somebody has brought host memory. Once all have come with device memory the decision
// is `gpu`, or `nccl` where all of them have said that they can; until then any of them may withdraw, which
// decides `staged`.
//
// The rank that is first in the communicator finds a free slot in its part of the hall and tells the others
// its number. Belongs to one thread at a time, except where said.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "coll/nccl_abi.h"
#include "device/ipc_registry.h"
#include "node/shared_memory.h"

namespace fairlead::coll {

using device::RemoteMemory;

constexpr int max_members = 32;  // of a communicator that meets
constexpr int max_exports = 64;   // of what one member shows to others, each with a place of its own
constexpr uint64_t arrivals_kept = 64;
constexpr uint64_t records_kept = 8;

enum class Capability : uint64_t {
  none,
  host,     // takes part through the host MPI, and does so at once
  nothing,  // brings no bytes: whatever the others do
  device,   // can do it on the GPU
  staged,   // device memory, but for the host MPI to handle
  nccl,     // can do it by NCCL, and shows its memory only where it comes to something else
};

enum class Decision : uint64_t { undecided, gpu, staged, nccl };

// What a member lets the others reach during one collective.
struct alignas(64) Record {
  RemoteMemory source, target;
  int32_t device;                    // on which both lie, in the member's numbering
  uint8_t first_export[max_members];  // for each member
  uint64_t offsets[max_exports];      // of what is for others, in `source`
  unsigned char gpu[16];             // with which NCCL would run, by its UUID
  // All of them hold the collective's number in their upper bits, so that they need no clearing.
  std::atomic<uint64_t> nccl;    // * 4 + how far this member is with its communicator of NCCL
  std::atomic<uint64_t> exported;   // * 2, + 1 if source and target are here to be mapped
  std::atomic<uint64_t> ready;   // * 2, + 1 if this member has mapped what it needs
  std::atomic<uint64_t> done;    // * steps_allowed + the number of steps this member has done
  std::atomic<uint64_t> failed;  // the number itself: a step failed
};
constexpr uint64_t steps_allowed = 256;  // the last of them: all is done

struct alignas(64) MemberArea {
  std::atomic<uint64_t> arrivals[arrivals_kept];  // number * 8 + vote
  std::atomic<uint64_t> passed;  // all collectives up to this number are over for this member
  // Up to this number, those without a word of their own are in the host MPI's hands.
  alignas(64) std::atomic<uint64_t> ahead;
  Record records[records_kept];
};

// A communicator by its descent, which its members know without a message: what it is a duplicate of, by
// SlotPool::name(), and which of its duplicates.
struct Heir {
  uint64_t parent = 0;  // 0: of none
  uint64_t number = 0;
};

struct alignas(64) SlotHeader {
  std::atomic<uint32_t> left;  // members that are gone for good
  uint32_t members;            // 0: a free slot
  uint64_t times_taken;
  std::atomic<uint64_t> heir_of, heir_number;
  std::atomic<uint64_t> decisions[arrivals_kept];  // number * 4 + outcome
  NcclId nccl_id;                     // of the members' communicator of NCCL, by the first of them
  std::atomic<uint32_t> nccl_failed;  // on some member: none uses NCCL any more
};

// All slots of a node: a part for each rank to give away.
class SlotPool {
 public:
  // Collective over the node's ranks, by two calls: the first rank creates, the others open.
  static node::SharedMemory create(int ranks);
  static node::SharedMemory open(int ranks, pid_t pid, int fd);

  SlotPool(node::SharedMemory memory, int ranks, int my_rank);

  // A cleared slot for this many members, of which this rank is the first; -1 when all are taken. Any thread
  // may call it: each may be making a communicator.
  int64_t take(int members, Heir heir = {});
  // The slot that this rank of the node took for the heir; -1 when there is none.
  int64_t find(int rank, Heir heir) const;
  // Of a slot as it is taken now; no two are alike, and none is 0.
  uint64_t name(int64_t slot) const;
  SlotHeader* slot(int64_t number) const;
  size_t taken_by_me() const;

 private:
  node::SharedMemory memory_;
  int ranks_, my_rank_;
  std::mutex taking_;
  int64_t search_from_ = 0;
};

class CollectiveSlot {
 public:
  CollectiveSlot(SlotHeader* slot, int members, int me) : slot_(slot), members_(members), me_(me) {}
  ~CollectiveSlot() { slot_->left.fetch_add(1, std::memory_order_release); }
  CollectiveSlot(const CollectiveSlot&) = delete;
  CollectiveSlot& operator=(const CollectiveSlot&) = delete;

  int members() const { return members_; }
  int me() const { return me_; }

  // May this rank arrive already? Not while somebody is so far behind that its words would be overwritten;
  // with a record, sooner.
  bool may_arrive(uint64_t number) { return everybody_passed(number, arrivals_kept); }
  bool may_use_record(uint64_t number) { return everybody_passed(number, records_kept); }
  void arrive(uint64_t number, Capability capability) {
    area(me_).arrivals[number % arrivals_kept].store(number * 8 + static_cast<uint64_t>(capability),
                                                     std::memory_order_release);
  }
  // Where it may not arrive, it still may go to the host MPI at once: it has arrived at all before this one.
  void go_ahead(uint64_t number) { area(me_).ahead.store(number, std::memory_order_release); }
  // Decides if that is possible now. Where nobody may withdraw, as from a blocking call, all members see the
  // same in the votes, and no word need be agreed on.
  enum class Capabilities { may_be_withdrawn, stand };
  Decision outcome(uint64_t number, Capabilities capabilities = Capabilities::may_be_withdrawn);
  // Decides `staged` unless it is decided already; says what it is.
  Decision withdraw(uint64_t number) { return decide(number, Decision::staged); }
  // This rank looks at nothing of this collective, and of those before it, any more.
  void pass(uint64_t number) { area(me_).passed.store(number, std::memory_order_release); }

  Record& record(int member, uint64_t number) { return area(member).records[number % records_kept]; }
  SlotHeader& slot() { return *slot_; }
  // Members that have not arrived.
  std::vector<int> missing(uint64_t number);

 private:
  MemberArea& area(int member) const { return reinterpret_cast<MemberArea*>(slot_ + 1)[member]; }
  Capability capability(int member, uint64_t number) const;
  Decision decide(uint64_t number, Decision outcome);
  bool everybody_passed(uint64_t number, uint64_t kept);

  SlotHeader* slot_;
  int members_, me_;
  uint64_t all_passed_ = 0;  // a lower bound
};

}  // namespace fairlead::coll
