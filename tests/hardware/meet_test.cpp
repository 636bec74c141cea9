// SPDX-License-Identifier: Apache-2.0
//
// Collectives whose ranks meet in one kernel (src/kernels/meet.h), in streams or after their CPUs have met,
// with all ranks on one device: random functions, lengths, alignments and reductions, of calls in a row,
// whose first kernels find the others' bytes or do not.

#include "kernels/meet.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels_fixture.h"

namespace fairlead::kernels {
namespace {

constexpr size_t slot_bytes = 4096, place = 64 << 10;

struct Rank {
  explicit Rank(int ranks)
      : room(exchange_header_bytes + meet_slots_bytes(ranks, slot_bytes)), device(room + 2 * place) {
    device.write(Bytes(room + 2 * place));
  }
  char* scratch() const { return reinterpret_cast<char*>(device.at(0)); }
  uint32_t* given(int by) const { return &reinterpret_cast<ExchangeHeader*>(scratch())->given[by]; }
  uint64_t* late() const { return device.word_beside_flag(); }
  size_t room;
  Device device;
  Bytes input;
};

enum class Function { allreduce, reduce, reduce_scatter, allgather, alltoall, bcast, barrier };
constexpr int functions = 7;

struct Call {
  Function function;
  int root;
  size_t unit, shift;  // bytes of a block, and of the buffers from a boundary
  bool in_place;
  ReduceOp op;
  Element element;
  bool reduces() const { return function <= Function::reduce_scatter; }
  bool has_blocks() const { return function == Function::reduce_scatter || function == Function::alltoall; }
  bool gets_blocks() const { return function == Function::allgather || function == Function::alltoall; }
};

Call random_call(int ranks) {
  constexpr ReduceOp ops[] = {ReduceOp::sum,  ReduceOp::prod, ReduceOp::min,  ReduceOp::max,
                              ReduceOp::land, ReduceOp::lor,  ReduceOp::band, ReduceOp::bor};
  constexpr Element types[] = {Element::int32,   Element::uint32,   Element::int64,   Element::uint64,
                               Element::float16, Element::bfloat16, Element::float32, Element::float64};
  Call call{static_cast<Function>(below(functions)),
            static_cast<int>(below(static_cast<unsigned long>(ranks))),
            0,
            0,
            below(2) == 0,
            {},
            Element::uint8};
  if (call.reduces()) do {
      call.op = ops[below(std::size(ops))];
      call.element = types[below(std::size(types))];
    } while (!has_kernel(call.op, call.element));
  const size_t size = element_bytes(call.element);
  const size_t most = meet_block_bytes(slot_bytes) / size;
  call.unit = call.function == Function::barrier ? 0 : size * (below(2) ? 1 + below(20) : 1 + below(most));
  call.shift = size * below(64 / size);
  return call;
}

// `number`: of the call, if the CPUs have met; else 0.
void submit(const std::vector<std::unique_ptr<Rank>>& all, int me, const Call& call, bool first,
            uint32_t number) {
  const int ranks = static_cast<int>(all.size());
  const Rank& mine = *all[static_cast<size_t>(me)];
  std::vector<char*> scratches;
  std::vector<device::WordAccess> waits;
  for (int rank = 0; rank < ranks; ++rank) {
    scratches.push_back(all[static_cast<size_t>(rank)]->scratch());
    if (rank != me) waits.push_back({true, mine.given(rank), exchange_units});
  }
  const uint32_t everybody = (1u << ranks) - 1, root = 1u << call.root;
  unsigned char* const result = mine.device.at(mine.room) + call.shift;
  unsigned char* const input = call.in_place ? result : result + place;
  Meet meet{scratches.data(), me, ranks, slot_bytes};
  meet.input = call.function == Function::bcast && me != call.root ? nullptr : input;
  meet.result = call.function == Function::reduce && me != call.root  ? nullptr
                : call.function == Function::bcast && me == call.root ? nullptr
                                                                      : result;
  meet.block_bytes = call.unit;
  meet.input_step = call.has_blocks() ? call.unit : 0;
  meet.result_step = call.gets_blocks() ? call.unit : 0;
  meet.gives_to = call.function == Function::reduce ? root : everybody;
  meet.takes_from = call.function == Function::bcast ? root : everybody;
  meet.reduces = call.reduces();
  meet.op = call.op;
  meet.element = call.element;
  meet.flag = mine.device.signal().flag;
  if (call.in_place && call.function == Function::allgather)
    meet.input = result + static_cast<size_t>(me) * call.unit;
  meet.number = number;
  Signal signal;
  if (number) {
    meet.flag = mine.late();
    signal = mine.device.signal();
    signal.value = number;
  } else if (!first) {
    ASSERT_SUCCESS(gpu().access_words(mine.device.stream(), waits.data(), waits.size()));
  }
  ASSERT_SUCCESS(launch_meet(0, mine.device.stream(), meet, first, signal));
}

// As MeetingPlace::advance() does.
void repeat_until_all_have_come(const std::vector<std::unique_ptr<Rank>>& all, const Call& call,
                                uint32_t number, int* repeated) {
  for (size_t me = 0; me < all.size(); ++me) {
    const Rank& mine = *all[me];
    ASSERT_SUCCESS(gpu().synchronize_stream(mine.device.stream()));
    while (__atomic_load_n(mine.late(), __ATOMIC_ACQUIRE) == number) {
      *mine.late() = 0;
      ++*repeated;
      submit(all, static_cast<int>(me), call, false, number);
      if (testing::Test::HasFatalFailure()) return;
      ASSERT_SUCCESS(gpu().synchronize_stream(mine.device.stream()));
    }
  }
}

// What the result of rank `me` must be, from what all ranks had; the rest of the place stays.
void expect(const std::vector<std::unique_ptr<Rank>>& all, int me, const Call& call, Bytes* place_of_result) {
  const size_t unit = call.unit, ranks = all.size(), at = static_cast<size_t>(me) * unit;
  auto input = [&](size_t rank) {
    const Bytes& had = all[rank]->input;
    const size_t own = call.in_place && call.function == Function::allgather ? rank * unit : 0;
    return had.data() + (call.in_place ? 0 : place) + call.shift + own;
  };
  unsigned char* const to = place_of_result->data() + call.shift;
  if (call.function == Function::reduce && me != call.root) return;
  if (call.function == Function::bcast) {
    if (me != call.root) std::copy_n(input(static_cast<size_t>(call.root)), unit, to);
  } else if (call.gets_blocks()) {
    for (size_t rank = 0; rank < ranks; ++rank)
      std::copy_n(input(rank) + (call.has_blocks() ? at : 0), unit, to + rank * unit);
  } else if (call.reduces()) {
    with_type(call.element, [&](auto type) {
      using Type = decltype(type);
      for (size_t i = 0; i < unit; i += sizeof(Type)) {
        Type result{}, value;
        for (size_t rank = 0; rank < ranks; ++rank) {
          std::memcpy(&value, input(rank) + (call.has_blocks() ? at : 0) + i, sizeof value);
          result = rank ? expected(call.op, result, value) : value;
        }
        std::memcpy(to + i, &result, sizeof result);
      }
    });
  }
}

void draw_input(Rank& rank, const Call& call, size_t blocks) {
  rank.input = random_bytes(2 * place);
  if (!call.reduces()) return;
  with_type(call.element, [&](auto value) {
    for (size_t begin : {size_t{0}, place})
      for (size_t i = 0; i < blocks * call.unit; i += sizeof value) {
        draw(&value);
        std::memcpy(rank.input.data() + begin + call.shift + i, &value, sizeof value);
      }
  });
}

enum class After { streams_wait, cpus_met };

void test_random_calls(After after) {
  int repeated = 0;
  for (int ranks : {1, 2, 3, 5, 9}) {
    std::vector<std::unique_ptr<Rank>> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<Rank>(ranks));
    for (uint64_t number = 1; number <= 40; ++number) {
      Call call = random_call(ranks);
      const size_t blocks = call.has_blocks() || call.gets_blocks() ? all.size() : 1;
      call.unit = std::min(call.unit, (place - 64) / blocks / 8 * 8);
      for (auto& rank : all) {
        draw_input(*rank, call, blocks);
        ASSERT_SUCCESS(
            gpu().copy(rank->device.at(rank->room), rank->input.data(), 2 * place, rank->device.stream()));
        ASSERT_SUCCESS(gpu().synchronize_stream(rank->device.stream()));
      }
      std::vector<int> order;
      for (int rank = 0; rank < ranks; ++rank) order.push_back(rank);
      std::shuffle(order.begin(), order.end(), random_bits());
      // Streams of one process may share a queue, in which nothing may be behind a wait for it.
      const uint32_t announced = after == After::cpus_met ? static_cast<uint32_t>(number) : 0;
      const bool one_by_one = announced && below(2);
      for (bool first : {true, false})
        for (int me : order) {
          if (announced && !first) continue;
          submit(all, me, call, first, announced);
          if (testing::Test::HasFatalFailure()) return;
          if (one_by_one) {
            ASSERT_SUCCESS(gpu().synchronize_stream(all[static_cast<size_t>(me)]->device.stream()));
          }
        }
      if (announced) repeat_until_all_have_come(all, call, announced, &repeated);
      if (testing::Test::HasFatalFailure()) return;
      for (int me = 0; me < ranks; ++me) {
        const Rank& mine = *all[static_cast<size_t>(me)];
        Bytes wanted = mine.input;
        expect(all, me, call, &wanted);
        const Bytes found = mine.device.read();
        ASSERT_EQ(__atomic_load_n(mine.device.signal().flag, __ATOMIC_ACQUIRE), number);
        const auto differs =
            std::mismatch(wanted.begin(), wanted.end(), found.begin() + static_cast<long>(mine.room));
        ASSERT_TRUE(differs.first == wanted.end())
            << "byte " << differs.first - wanted.begin() << " of rank " << me << " of " << ranks << ", call "
            << number << ": function " << static_cast<int>(call.function) << ", " << call.unit
            << " bytes, shift " << call.shift << ", " << to_string(call.op) << " of "
            << to_string(call.element) << (call.in_place ? ", in place" : "");
        for (int by = 0; by < ranks; ++by) {
          uint32_t left = 0;
          std::memcpy(&left, found.data() + (reinterpret_cast<char*>(mine.given(by)) - mine.scratch()),
                      sizeof left);
          ASSERT_EQ(left, 0u);
        }
      }
    }
  }
  if (after == After::cpus_met) {
    EXPECT_GT(repeated, 0) << "kernels that run one by one miss something";
  }
}

TEST(meet, random_calls_in_streams) {
  if (!meet_available(0)) GTEST_SKIP();
  test_random_calls(After::streams_wait);
}

TEST(meet, random_calls_after_the_cpus_have_met) {
  if (!meet_available(0)) GTEST_SKIP();
  test_random_calls(After::cpus_met);
}

}  // namespace
}  // namespace fairlead::kernels
