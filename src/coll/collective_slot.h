// SPDX-License-Identifier: Apache-2.0
//
// The shared memory through which the ranks of a communicator within one node coordinate its collectives.
// Each rank announces its arrival at every collective together with its capability, which follows from the
// kind of memory that it passes. All ranks reach one decision: run on the GPU, or call the host MPI. The
// collectives of a communicator are numbered from 1 in the order of the calls; MPI requires this order to be
// the same on all ranks.
//
// A rank that passes host memory stores one word and calls the host MPI at once, however far behind the other
// ranks are. A rank that passes device memory waits until all ranks have arrived or one has announced host
// memory. Once all have arrived with device memory, the decision is `gpu`, or `nccl` or `met` if all of them
// announced that they can use NCCL, or meet in a kernel. Until then each of them may withdraw, which decides
// `staged`.
//
// In some nonblocking calls, one member can do the work of all (gpu_collective.h). The first member that sees
// that all have arrived decides whether it does so, or each member does its part. A kernel that is a member's
// part, or does the work of all, stores the number of the call to a word of the slot when it is over, which
// all members see.
//
// A process that damages these words does not lead others astray: members that see impossible values call the
// host MPI, or fail (is_damaged()). A member that waits also looks whether its own words are still there, and
// whether another member is past a collective without the words that this needs.
//
// The first rank of the communicator takes a free slot from its part of the slot pool and sends the slot's
// number to the other ranks. Objects belong to one thread at a time, except where noted.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/system/processor.h"
#include "coll/nccl_abi.h"
#include "device/ipc_registry.h"
#include "kernels/kernel_run.h"
#include "node/shared_memory.h"

namespace fairlead::coll {

using device::RemoteMemory;

constexpr int max_members = 32;  // the maximum for a communicator that uses a slot
constexpr int max_exports = 64;  // regions that one member exports, each at an offset of its own
constexpr uint64_t arrivals_kept = 64;
constexpr uint64_t records_kept = 8;

enum class Capability : uint64_t {
  none,
  host,     // calls the host MPI at once
  nothing,  // passes no bytes: accepts any decision
  device,   // can run on the GPU
  staged,   // passes device memory, but calls the host MPI
  // Can run by NCCL, or, in a blocking call, meet the others in a kernel (meeting.h). It exports its memory
  // only if another algorithm is decided on.
  nccl,
  meets,
};

// A word has room for the first four.
enum class Decision : uint64_t { undecided, gpu, staged, nccl, met };

// Who does the work of a call that is decided for the GPU: each member its part, or one the work of all. The
// latter may still find that it cannot, until it has started.
struct Workers {
  enum class Are : uint64_t { undecided, each, one, one_that_has_started } are = Are::undecided;
  int member = 0;  // the one
  bool operator==(const Workers&) const = default;
};

// What a member exports to the others during one collective.
struct alignas(cache_line) Record {
  RemoteMemory source, target;
  // Bytes passed by this member; target_bytes is 0 if the target is neither exported nor needed by others.
  uint64_t source_bytes, target_bytes;
  int32_t device;                     // holds both source and target, as the member numbers its devices
  uint64_t signature;                 // of the work of all, if another member may do it; else 0
  uint64_t meeting;                   // of the call, if this member announced `meets`
  uint8_t first_export[max_members];  // index in `offsets`, for each member
  uint64_t offsets[max_exports];      // offsets of the exported regions in `source`
  unsigned char gpu[16];              // UUID of the GPU that NCCL would use
  // Each word holds the collective's number, so that no word needs clearing.
  std::atomic<uint64_t> nccl;      // number * 4 + this member's stage of creating the NCCL communicator
  std::atomic<uint64_t> exported;  // number * 2, + 1 if source and target can be mapped
  std::atomic<uint64_t> ready;     // number * 2, + 1 if this member has mapped what it needs
  std::atomic<uint64_t> failed;    // number: a part of this collective failed
};

struct alignas(cache_line) MemberArea {
  std::atomic<uint64_t> arrivals[arrivals_kept];  // number * 8 + capability
  std::atomic<uint64_t> passed;  // all collectives up to this number are over for this member
  // Collectives up to this number for which the member stored no word in `arrivals`: it called the host MPI.
  alignas(cache_line) std::atomic<uint64_t> ahead;
  Record records[records_kept];
  // Memory of this member for calls in which all meet. Valid for those from a number on; 0: for none.
  RemoteMemory scratch;
  int32_t scratch_device;
  std::atomic<uint64_t> scratch_from;
};

// Identifies a communicator by its derivation, which its members know without a message: the communicator
// that it duplicates, by SlotPool::name(), and the number of the duplicate.
struct DuplicateKey {
  uint64_t parent = 0;  // 0: no communicator
  uint64_t number = 0;
};

struct alignas(cache_line) SlotHeader {
  std::atomic<uint32_t> left;  // members that no longer use the slot
  uint32_t members;            // 0: the slot is free
  uint64_t times_taken;
  std::atomic<uint64_t> duplicate_of, duplicate_number;
  std::atomic<uint64_t> decisions[arrivals_kept];  // number * 4 + decision
  std::atomic<uint64_t> workers[records_kept];     // number * 256 + Are * 64 + member
  // The number of a call that one member did for all, and of one of which each did its part; GPUs store them.
  uint64_t ended[records_kept];
  uint64_t done[records_kept][max_members];
  NcclId nccl_id;                     // id of the members' NCCL communicator, written by the first member
  std::atomic<uint32_t> nccl_failed;  // NCCL failed on a member: no member uses it any more
};

// All slots of a node. Each rank gives away the slots of its own part.
class SlotPool {
 public:
  // Collective over the node's ranks: the first rank calls create(), then the others call open().
  static node::SharedMemory create(int ranks);
  static node::SharedMemory open(int ranks, int file);

  SlotPool(node::SharedMemory memory, int ranks, int my_rank);

  // Takes a cleared slot for `members` members, of which this rank is the first; -1 if all slots of this rank
  // are taken. Any thread may call this, because each may be creating a communicator.
  int64_t take(int members, DuplicateKey key = {});
  // The slot that node rank `rank` took for `key`; -1 if there is none.
  int64_t find(int rank, DuplicateKey key) const;
  // Identifies a slot in its current use: names are unique and never 0.
  uint64_t name(int64_t slot) const;
  SlotHeader* slot(int64_t number) const;
  size_t taken_by_me() const;

 private:
  node::SharedMemory memory_;
  int ranks_, my_rank_;
  std::mutex taking_;
};

class CollectiveSlot {
 public:
  CollectiveSlot(SlotHeader* slot, int members, int me) : slot_(slot), members_(members), me_(me) {}
  ~CollectiveSlot() { slot_->left.fetch_add(1, std::memory_order_release); }
  CollectiveSlot(const CollectiveSlot&) = delete;
  CollectiveSlot& operator=(const CollectiveSlot&) = delete;

  int members() const { return members_; }
  int me() const { return me_; }

  // May this rank announce its arrival? It may not while another member is so far behind that the
  // announcement would overwrite a word that the other member still needs. The same rule applies to records,
  // of which fewer are kept.
  bool may_arrive(uint64_t number) { return everybody_passed(number, arrivals_kept); }
  bool may_use_record(uint64_t number) { return everybody_passed(number, records_kept); }
  void arrive(uint64_t number, Capability capability) {
    const uint64_t word = number * 8 + static_cast<uint64_t>(capability);
    arrived_[number % arrivals_kept] = word;
    area(me_).arrivals[number % arrivals_kept].store(word, std::memory_order_release);
  }
  // If the rank may not arrive, it may still call the host MPI at once, after announcing that with this
  // function. It has arrived at all earlier collectives.
  void go_ahead(uint64_t number) { area(me_).ahead.store(number, std::memory_order_release); }
  // Decides if that is possible now. If no member may withdraw, as in a blocking call, all members derive the
  // same decision from the capabilities and need not agree on a word.
  enum class Capabilities { may_be_withdrawn, stand };
  Decision outcome(uint64_t number, Capabilities capabilities = Capabilities::may_be_withdrawn);
  // Decides `staged` unless there is a decision already; returns the decision.
  Decision withdraw(uint64_t number) { return decide(number, Decision::staged); }
  Workers workers(uint64_t number) const;
  // Sets them unless they are set already; returns what is set.
  Workers propose(uint64_t number, Workers workers);
  // The one member says what becomes of the call.
  void announce(uint64_t number, Workers workers);
  bool has_ended(uint64_t number) const { return is_set(slot_->ended[number % records_kept], number); }
  // The member has done its part; this one has.
  bool is_done(int member, uint64_t number) const {
    return is_set(slot_->done[number % records_kept][member], number);
  }
  void set_done(uint64_t number);
  // Registers the words below with the driver if that is permitted now (device/blocking_driver_calls.h). A
  // thread of the library does not: the driver may let it wait for a call of the program's that waits for a
  // collective.
  void register_words();
  // The words for has_ended() and for is_done() of this member; none if they are not registered, or if
  // kernels of this device cannot see them.
  kernels::EndWord word_of_end(uint64_t number, int device) const;
  kernels::EndWord word_of_part(uint64_t number, int device) const;
  // Words hold the number of their call. As long as this rank has not passed a call, no later one has words
  // in the same places.
  bool is_damaged(uint64_t number) const;
  // Members that see a failure pass a collective without the words that it needs.
  void members_may_fail() { members_may_fail_ = true; }
  // Has another member, which did not give up, passed this collective? It has then stored all of its words.
  bool any_other_passed(uint64_t number);
  // This rank no longer reads anything of this collective or of those before it.
  void pass(uint64_t number) {
    area(me_).passed.store(number, std::memory_order_release);
    passed_.store(number, std::memory_order_release);  // later: the shared word is never below
  }

  Record& record(int member, uint64_t number) { return area(member).records[number % records_kept]; }
  SlotHeader& slot() { return *slot_; }
  MemberArea& area(int member) const { return reinterpret_cast<MemberArea*>(slot_ + 1)[member]; }
  // Has this member, which lives, no part in this collective any more, or none yet? It then neither uses the
  // memory of the others, nor will it once this rank has announced that it gives up.
  bool is_out(int member, uint64_t number);
  // This rank takes no part, although it may have said that it is ready. Of this call and one of arrive(),
  // behind which is a fence too, or of propose(), each followed by a look at the other, one sees the other.
  void give_up(uint64_t number) {
    record(me_, number).ready.store(number * 2, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  bool gave_up(int member, uint64_t number) {
    return record(member, number).ready.load(std::memory_order_seq_cst) == number * 2;
  }
  // Members that have not arrived.
  std::vector<int> missing(uint64_t number);

 private:
  static bool is_set(uint64_t& word, uint64_t number);
  Capability capability(int member, uint64_t number) const;
  Decision decide(uint64_t number, Decision outcome);
  bool everybody_passed(uint64_t number, uint64_t kept);
  kernels::EndWord for_kernels(uint64_t* word, int device) const;

  SlotHeader* slot_;
  int members_, me_;
  uint64_t all_passed_ = 0;  // a lower bound
  bool members_may_fail_ = false;
  // What this rank has stored.
  uint64_t arrived_[arrivals_kept] = {};
  std::atomic<uint64_t> passed_ = 0;
};

}  // namespace fairlead::coll
