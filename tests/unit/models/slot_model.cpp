// SPDX-License-Identifier: Apache-2.0
// The slot of a communicator (coll/collective_slot.h): all members reach one decision, see what the others
// have stored for it, use words again only when nobody reads them, and nobody starts what another one has
// left.

#include <models/modelled.h>

#include "coll/collective_slot.cpp"

// What the slot takes of other files; no program here calls it.
namespace modelled {
namespace device {
constinit thread_local bool BlockingDriverCalls::in_thread_of_library = false;
bool register_memory(void*, size_t) {
  return false;
}
void* registered_for_kernels(int, void*) {
  return nullptr;
}
}  // namespace device
node::SharedMemory::~SharedMemory() = default;
node::SharedMemory node::SharedMemory::create(size_t) {
  return {};
}
node::SharedMemory node::SharedMemory::adopt(int, size_t) {
  return {};
}
}  // namespace modelled

namespace modelled::coll {
namespace {

using models::await;
using models::Machine;
using models::require;
using enum Capability;

constexpr int members_at_most = 3;

// Slots of programs are not reused, but cleared, as SlotPool::take() gives them away.
struct Slot {
  explicit Slot(int members)
      : memory(sizeof(SlotHeader) + static_cast<size_t>(members) * sizeof(MemberArea) + cache_line) {
    auto* header = reinterpret_cast<SlotHeader*>(
        (reinterpret_cast<uintptr_t>(memory.data()) + cache_line - 1) / cache_line * cache_line);
    for (int i = 0; i < members; ++i) member.push_back(std::make_unique<CollectiveSlot>(header, members, i));
  }
  std::vector<unsigned char> memory;
  std::vector<std::unique_ptr<CollectiveSlot>> member;
  models::Plain<int> record[members_at_most];  // as source and target of Record
  Decision decision[members_at_most] = {};
};

Decision decide(Slot& slot, int me, Capability capability, uint64_t number) {
  slot.record[me].write(1);
  slot.member[static_cast<size_t>(me)]->arrive(number, capability);
  await([&] {
    slot.decision[me] = slot.member[static_cast<size_t>(me)]->outcome(number);
    return slot.decision[me] != Decision::undecided;
  });
  return slot.decision[me];
}

// The last member withdraws if it cannot decide at once.
Machine::Program decision(std::vector<Capability> capabilities, bool withdraws) {
  return [=](Machine::Run& run) {
    const int count = static_cast<int>(capabilities.size());
    auto slot = std::make_shared<Slot>(count);
    for (int me = 0; me < count; ++me)
      run.thread([=] {
        if (withdraws && me + 1 == count) {
          slot->member[static_cast<size_t>(me)]->arrive(1, capabilities[static_cast<size_t>(me)]);
          slot->decision[me] = slot->member[static_cast<size_t>(me)]->withdraw(1);
        } else if (decide(*slot, me, capabilities[static_cast<size_t>(me)], 1) == Decision::gpu &&
                   !withdraws) {
          for (int other = 0; other < count; ++other) (void)slot->record[other].read();
        }
      });
    run.in_the_end = [=] {
      for (int me = 1; me < count; ++me)
        require(slot->decision[me] == slot->decision[0], "two members decide differently");
    };
  };
}

// None of three waits for the others, and one withdraws.
void decisions_of_three(Machine::Run& run) {
  auto slot = std::make_shared<Slot>(3);
  for (int me = 0; me < 3; ++me)
    run.thread([=] {
      CollectiveSlot& mine = *slot->member[static_cast<size_t>(me)];
      mine.arrive(1, device);
      slot->decision[me] = me == 2 ? mine.withdraw(1) : mine.outcome(1);
    });
  run.in_the_end = [=] {
    const Decision last = slot->decision[2];
    for (Decision one : slot->decision)
      require(one == Decision::undecided || one == last, "two members decide differently");
  };
}

// A member that is far ahead calls the host MPI without a word: nobody takes its earlier word for that.
void ahead(Machine::Run& run) {
  auto slot = std::make_shared<Slot>(2);
  run.thread([=] {
    slot->member[0]->arrive(1, device);
    slot->member[0]->go_ahead(2);
  });
  run.thread([=] {
    await([&] { return slot->member[1]->missing(2).size() == 1; });  // itself
    slot->member[1]->arrive(1, device);
    require(slot->member[1]->outcome(1) == Decision::gpu, "an arrival is missed");
  });
}

// The records of a call are those of a later one when all have passed it.
void use_again(Machine::Run& run) {
  auto slot = std::make_shared<Slot>(2);
  run.thread([=] {
    slot->record[0].write(1);
    slot->member[0]->record(0, 1).exported.store(3, std::memory_order_release);
    slot->member[0]->pass(1);
    await([&] { return slot->member[0]->may_use_record(1 + records_kept); });
    slot->record[0].write(2);
  });
  run.thread([=] {
    await([&] { return slot->member[1]->record(0, 1).exported.load(std::memory_order_acquire) == 3; });
    (void)slot->record[0].read();
    slot->member[1]->pass(1);
  });
}

// As CollectiveOperation::arrive() and GpuCollective::choose_workers() of a member that does the work of all,
// and GpuCollective::abandon() of another one that has arrived before: it does not leave its memory to a
// kernel.
void abandon(Machine::Run& run) {
  struct Leaving : Slot {
    using Slot::Slot;
    bool started = false, left = false;
  };
  auto slot = std::make_shared<Leaving>(2);
  slot->member[0]->arrive(1, device);
  run.thread([=] {
    slot->member[0]->give_up(1);
    slot->left = slot->member[0]->is_out(1, 1);
  });
  run.thread([=] {
    slot->member[1]->arrive(1, device);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const Workers one{Workers::Are::one, 1};
    if (slot->member[1]->propose(1, one) == one) slot->started = !slot->member[1]->gave_up(0, 1);
  });
  run.in_the_end = [=] {
    require(!slot->left || !slot->started, "a kernel uses memory of one who has left");
  };
}
// The same of CollectiveOperation::decide(), which gives up and looks who works.
void decide_otherwise(Machine::Run& run) {
  struct Deciding : Slot {
    using Slot::Slot;
    bool started = false, left = false;
  };
  auto slot = std::make_shared<Deciding>(2);
  run.thread([=] {
    slot->member[0]->give_up(1);
    slot->left = slot->member[0]->workers(1).are <= Workers::Are::each;
  });
  run.thread([=] {
    const Workers one{Workers::Are::one, 1};
    if (slot->member[1]->propose(1, one) == one) slot->started = !slot->member[1]->gave_up(0, 1);
  });
  run.in_the_end = [=] {
    require(!slot->left || !slot->started, "a kernel uses memory of one who has left");
  };
}

TEST(Models, collective_slot) {
  // These publish to GPUs and drivers, or serve the look for damage.
  models::examine(
      {decision({device, device}, false), decision({device, host}, false), decision({device, device}, true),
       decisions_of_three, ahead, use_again, abandon, decide_otherwise},
      {"collective_slot.cpp, is_out(): load, acquire -> relaxed",
       "collective_slot.cpp, is_set(): load, acquire -> relaxed",
       "collective_slot.cpp, set_once(): load, acquire -> relaxed",
       "collective_slot.cpp, workers(): load, acquire -> relaxed",
       "collective_slot.h, pass(): store, release -> relaxed"});
}

}  // namespace
}  // namespace modelled::coll
