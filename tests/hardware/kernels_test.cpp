// SPDX-License-Identifier: Apache-2.0
//
// The kernels of collectives (src/kernels/reduce.h) against plain loops on the host, which know nothing of
// vectors, blocks or alignment: every operation on every element, in place and not, 1 to 8 and max_ranks
// buffers, any alignment and count; and copies of random pieces. Bytes outside the targets, padding among
// them, stay. FAIRLEAD_DEVICE says on which provider; exits with 77 where that has no device.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "device/runtime.h"
#include "device_runtime_kernel.h"
#include "kernels/half.h"
#include "kernels/reduce.h"
#include "kernels_fixture.h"

namespace fairlead::kernels {
namespace {

using device::CopyItem;

// ---- What runs on the device ------------------------------------------------------------------------

struct Case {
  int sources, targets;
  size_t count;
  bool in_place;
  std::vector<size_t> shifts;  // of the buffers from a boundary of 64 bytes, taken in turn
  unsigned blocks;
};

// Runs the case on a device whose memory holds all its buffers, and compares every byte of it.
template <class Type>
void check_reduce(Device& device, size_t room, ReduceOp op, Element element, const Case& the) {
  size_t stride = (the.count * sizeof(Type) + 64 + 63) / 64 * 64;
  int buffers = the.in_place ? std::max(the.sources, the.targets) : the.sources + the.targets;
  ASSERT_LE(stride * static_cast<size_t>(buffers), room);
  auto offset = [&](int buffer) {
    return stride * static_cast<size_t>(buffer) + the.shifts[static_cast<size_t>(buffer) % the.shifts.size()];
  };
  int first_target = the.in_place ? 0 : the.sources;
  Bytes content = random_bytes(room);
  std::vector<const void*> from;
  std::vector<void*> to;
  for (int source = 0; source < the.sources; ++source) {
    from.push_back(device.at(offset(source)));
    for (size_t i = 0; i < the.count; ++i) {
      auto* place = content.data() + offset(source) + i * sizeof(Type);
      Type value;
      std::memcpy(&value, place, sizeof value);  // padding is of any bits
      draw(&value);
      std::memcpy(place, &value, sizeof value);
    }
  }
  for (int target = 0; target < the.targets; ++target) to.push_back(device.at(offset(first_target + target)));
  device.write(content);

  for (size_t i = 0; i < the.count; ++i) {
    auto value_of = [&](int source) {
      Type value;
      std::memcpy(&value, content.data() + offset(source) + i * sizeof(Type), sizeof value);
      return value;
    };
    Type result = value_of(0);
    for (int source = 1; source < the.sources; ++source) result = expected(op, result, value_of(source));
    for (int target = 0; target < the.targets; ++target) {
      auto* place = content.data() + offset(first_target + target) + i * sizeof(Type);
      if constexpr (requires { result.index; }) {
        std::memcpy(place, &result.value, sizeof result.value);
        std::memcpy(place + offsetof(Type, index), &result.index, sizeof result.index);
      } else {
        std::memcpy(place, &result, sizeof result);
      }
    }
  }
  ASSERT_SUCCESS(launch_reduce(0, device.stream(), op, element, from.data(), the.sources, to.data(),
                               the.targets, the.count, the.blocks, device.next_signal()));
  device.await_flag();
  if (testing::Test::HasFatalFailure()) return;
  Bytes found = device.read();
  auto wrong = std::mismatch(content.begin(), content.end(), found.begin()).first;
  ASSERT_TRUE(wrong == content.end())
      << to_string(op) << " of " << to_string(element) << ", " << the.sources << " sources, " << the.targets
      << " targets, " << the.count << " elements" << (the.in_place ? " in place" : "") << ", shift "
      << the.shifts[0] << ", " << the.blocks << " blocks: wrong at byte " << wrong - content.begin()
      << ", buffers are " << stride << " apart";
}

void check_reduce(Device& device, size_t room, ReduceOp op, Element element, const Case& the) {
  with_type(element, [&]<class Type>(Type) {
    static_assert(std::is_trivially_copyable_v<Type>);
    ASSERT_EQ(sizeof(Type), element_bytes(element));
    ASSERT_EQ(alignof(Type), traits_of(element).alignment);
    check_reduce<Type>(device, room, op, element, the);
  });
}

template <class Work>
void for_each_kernel(Work work) {
  for (size_t op = 0; op < op_count; ++op)
    for (size_t element = 0; element < element_count; ++element)
      if (has_kernel(static_cast<ReduceOp>(op), static_cast<Element>(element)))
        work(static_cast<ReduceOp>(op), static_cast<Element>(element));
}

constexpr size_t room = 1 << 18;

// A kernel of the program that runs until this goes.
class Busy {
 public:
  explicit Busy(int device) {
    static const std::vector<device::CodeImage> images = test::kernel_images();
    device::Kernel kernel = nullptr;
    void* flag = nullptr;
    EXPECT_SUCCESS(gpu().find_kernel(device, images.data(), images.size(), "run_until", &kernel));
    EXPECT_SUCCESS(gpu().allocate_pinned(sizeof(int), &flag));
    EXPECT_SUCCESS(gpu().create_stream(device, &stream_, device::StreamKind::application));
    over_ = static_cast<volatile int*>(flag);
    *over_ = 0;
    void* arguments[] = {&flag};
    EXPECT_SUCCESS(gpu().launch(kernel, 1, 1, arguments, stream_));
  }
  ~Busy() {
    *over_ = 1;
    EXPECT_SUCCESS(gpu().synchronize_stream(stream_));
    EXPECT_SUCCESS(gpu().destroy_stream(stream_));
    EXPECT_SUCCESS(gpu().free_pinned(const_cast<int*>(over_)));
  }

 private:
  Stream stream_ = nullptr;
  volatile int* over_ = nullptr;
};

// The first case: no kernel of reductions has been loaded.
TEST(kernels, that_were_not_loaded_at_first_are_later_and_stay) {
  if (gpu().name() != std::string("sim") && test::kernel_images().size() < 2)
    GTEST_SKIP() << "built without device code";
  const auto there = [] { return reduce_available(0, ReduceOp::sum, Element::float64); };
  // Questions are asked again after a while.
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  {
    Busy busy(0);
    const bool waits_for_the_device = gpu().query_loading(0) != Error::none;
    EXPECT_EQ(there(), !waits_for_the_device);
  }
  pause();
  EXPECT_TRUE(there());
  Busy busy(0);
  pause();
  load_missed_code();
  EXPECT_TRUE(there());
}

TEST(kernels, every_operation_on_every_element) {
  Device device(room);
  int kernels = 0;
  for_each_kernel([&](ReduceOp op, Element element) {
    size_t size = element_bytes(element), alignment = traits_of(element).alignment;
    auto check = [&](const Case& the) {
      if (!HasFatalFailure()) check_reduce(device, room, op, element, the);
    };
    check({3, 2, 1001, false, {0}, 3});
    check({8, 8, 129, true, {alignment}, 2});                      // vectors behind a head, or none
    check({2, 1, 97, false, {0, alignment}, 1});                   // aligned, but not to each other
    check({4, 3, 61, true, {size > 1 ? size_t{1} : 0, 3, 0}, 2});  // not aligned at all
    ++kernels;
  });
  EXPECT_EQ(kernels, 8 * 11 + 4 + 4 * 5 + 2 * 3 + 5 * 4 + 7 * 3);
}

TEST(kernels, any_number_of_sources_and_targets) {
  Device device(room);
  for (int sources = 1; sources <= max_ranks; sources += sources < 9 ? 1 : 7)
    for (int targets : {0, 1, 2, 7, 8, max_ranks})
      for (bool in_place : {false, true})
        for (auto [op, element] : {std::pair{ReduceOp::sum, Element::float32},
                                   {ReduceOp::prod, Element::int8},
                                   {ReduceOp::maxloc, Element::double_int}}) {
          check_reduce(device, room, op, element, {sources, targets, 83, in_place, {0}, 2});
          if (HasFatalFailure()) return;
        }
}

TEST(kernels, any_count_and_any_alignment) {
  Device device(room);
  for (int round = 0; round < 400; ++round) {
    auto op = static_cast<ReduceOp>(below(op_count));
    auto element = static_cast<Element>(below(element_count));
    if (!has_kernel(op, element)) continue;
    bool together = below(2);
    std::vector<size_t> shifts;
    for (size_t i = 0; i < (together ? 1 : 5); ++i)
      shifts.push_back(below(2) ? below(64)
                                : below(64) / traits_of(element).alignment * traits_of(element).alignment);
    check_reduce(
        device, room, op, element,
        {1 + static_cast<int>(below(8)), 1 + static_cast<int>(below(8)), below(3) ? below(200) : below(4),
         below(2) == 0, shifts, 1 + static_cast<unsigned>(below(5))});
    if (HasFatalFailure()) return;
  }
}

// Sums of floats depend on their order: the oracle's is that of the ranks.
TEST(kernels, the_grid_makes_no_difference) {
  constexpr size_t large = 8 << 20;
  Device device(large);
  for (unsigned blocks : {1u, 2u, 33u, 1000u})
    for (auto [op, element] : {std::pair{ReduceOp::sum, Element::float32},
                               {ReduceOp::prod, Element::float16},
                               {ReduceOp::prod, Element::complex_double}}) {
      check_reduce(device, large, op, element, {5, 2, 60001, true, {16}, blocks});
      if (HasFatalFailure()) return;
    }
}

TEST(kernels, refuses_what_the_standard_does_not_allow) {
  Device device(room);
  const void* from[] = {device.at(0)};
  void* to[] = {device.at(0)};
  auto launch = [&](ReduceOp op, Element element, int sources, int targets) {
    return launch_reduce(0, device.stream(), op, element, from, sources, to, targets, 1, 1, Signal{});
  };
  EXPECT_SUCCESS(launch(ReduceOp::sum, Element::int32, 1, 1));
  EXPECT_EQ(launch(ReduceOp::band, Element::float32, 1, 1), Error::invalid_value);
  EXPECT_EQ(launch(ReduceOp::sum, Element::byte, 1, 1), Error::invalid_value);
  EXPECT_EQ(launch(ReduceOp::max, Element::complex_float, 1, 1), Error::invalid_value);
  EXPECT_EQ(launch(ReduceOp::sum, Element::boolean, 1, 1), Error::invalid_value);
  EXPECT_EQ(launch(ReduceOp::minloc, Element::int32, 1, 1), Error::invalid_value);
  EXPECT_EQ(launch(ReduceOp::sum, Element::int32, 0, 1), Error::invalid_value);
  EXPECT_EQ(launch(ReduceOp::sum, Element::int32, max_ranks + 1, 1), Error::invalid_value);
  EXPECT_EQ(launch(ReduceOp::sum, Element::int32, 1, max_ranks + 1), Error::invalid_value);
}

// 16-bit numbers round to nearest even, overflow to infinity and keep subnormals.
TEST(kernels, halves_round_as_ieee_754_says) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<unsigned short>(bits);
    float value = float16_to_float(half);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(float16_to_float(float_to_float16(value))));
      continue;
    }
    int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
    float magnitude = exponent == 31  ? INFINITY
                      : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                      : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    ASSERT_EQ(value, bits & 0x8000 ? -magnitude : magnitude) << bits;
    ASSERT_EQ(float_to_float16(value), half);
    if ((bits & 0x7fff) >= 0x7bff) continue;
    float next = float16_to_float(static_cast<unsigned short>(half + 1)), middle = (value + next) / 2;
    ASSERT_EQ(float_to_float16(middle), half + (half & 1)) << "a tie goes to the even one";
    ASSERT_EQ(float_to_float16(std::nextafter(middle, value)), half);
    ASSERT_EQ(float_to_float16(std::nextafter(middle, next)), half + 1);
  }
  EXPECT_EQ(float_to_float16(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_float16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_float16(1e30f), 0x7c00);
  EXPECT_EQ(float_to_bfloat16(1.00390625f), 0x3f80);  // ties
  EXPECT_EQ(float_to_bfloat16(1.01171875f), 0x3f82);
  EXPECT_EQ(float_to_bfloat16(1.003907f), 0x3f81);
  EXPECT_EQ(float_to_bfloat16(3.4e38f), 0x7f80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

// The GPU's own conversions give the same bits as ours, for every number.
TEST(kernels, halves_are_the_same_on_every_gpu) {
  constexpr size_t numbers = 0x10000;
  for (Element element : {Element::float16, Element::bfloat16}) {
    Device device(3 * numbers * 2);
    Bytes content(3 * numbers * 2);
    auto* values = reinterpret_cast<unsigned short*>(content.data());
    for (size_t i = 0; i < numbers; ++i) {
      values[i] = static_cast<unsigned short>(i);
      values[numbers + i] = static_cast<unsigned short>(random_bits()());
    }
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod}) {
      device.write(content);
      const void* from[] = {device.at(0), device.at(2 * numbers)};
      void* to[] = {device.at(4 * numbers)};
      ASSERT_SUCCESS(
          launch_reduce(0, device.stream(), op, element, from, 2, to, 1, numbers, 16, device.next_signal()));
      device.await_flag();
      Bytes found = device.read();
      auto* results = reinterpret_cast<const unsigned short*>(found.data()) + 2 * numbers;
      for (size_t i = 0; i < numbers; ++i) {
        bool brain = element == Element::bfloat16;
        auto [a, b] = std::pair(values[i], values[numbers + i]);
        unsigned short right =
            brain ? expected(op, Brain{a}, Brain{b}).bits : expected(op, Half{a}, Half{b}).bits;
        float value = brain ? bfloat16_to_float(right) : float16_to_float(right);
        float result = brain ? bfloat16_to_float(results[i]) : float16_to_float(results[i]);
        if (std::isnan(value))
          ASSERT_TRUE(std::isnan(result)) << a << " and " << b;
        else
          ASSERT_EQ(results[i], right) << to_string(op) << " of " << a << " and " << b;
      }
    }
  }
}

TEST(kernels, copies_any_pieces) {
  constexpr size_t side = 1 << 18;
  Device device(2 * side);
  for (int round = 0; round < 60; ++round) {
    size_t count = round == 0 ? 0 : round == 1 ? max_copies : 1 + below(max_copies);
    size_t longest = below(2) ? 2 * side / max_copies / 2 : 40;
    Bytes content = random_bytes(2 * side);
    device.write(content);
    std::vector<CopyItem> items;
    size_t to = side, from = 0;
    for (size_t i = 0; i < count; ++i) {
      size_t bytes = below(longest);
      to += below(3) ? below(20) : 16 - to % 16;
      from += below(3) ? below(20) : 16 - from % 16;
      if (to + bytes > 2 * side || from + bytes > side) break;
      items.push_back({device.at(to), device.at(from), bytes});
      std::copy_n(content.begin() + static_cast<ptrdiff_t>(from), bytes,
                  content.begin() + static_cast<ptrdiff_t>(to));
      to += bytes;
      from += bytes;
    }
    auto blocks = 1 + static_cast<unsigned>(below(40));
    ASSERT_SUCCESS(
        launch_copies(0, device.stream(), items.data(), items.size(), blocks, device.next_signal()));
    device.await_flag();
    if (HasFatalFailure()) return;
    Bytes found = device.read();
    auto wrong = std::mismatch(content.begin(), content.end(), found.begin()).first;
    ASSERT_TRUE(wrong == content.end()) << "round " << round << ": " << items.size() << " items in " << blocks
                                        << " blocks: wrong at byte " << wrong - content.begin();
  }
  std::vector<CopyItem> too_many(max_copies + 1);
  EXPECT_EQ(launch_copies(0, device.stream(), too_many.data(), too_many.size(), 1, Signal{}),
            Error::invalid_value);
}

// All that a kernel stored to page-locked memory is there once its flag is.
TEST(kernels, the_flag_comes_last) {
  constexpr size_t bytes = 4 << 20;
  Device device(bytes);
  void* pinned = nullptr;
  ASSERT_SUCCESS(gpu().allocate_pinned(bytes, &pinned));
  for (unsigned round = 1; round <= 20; ++round) {
    ASSERT_SUCCESS(gpu().fill(device.at(0), static_cast<int>(round), bytes, device.stream()));
    CopyItem item{pinned, device.at(0), bytes};
    ASSERT_SUCCESS(launch_copies(0, device.stream(), &item, 1, 48, device.next_signal()));
    device.await_flag();
    if (HasFatalFailure()) break;
    auto* first = static_cast<const unsigned char*>(pinned);
    ASSERT_TRUE(std::all_of(first, first + bytes, [&](unsigned char byte) { return byte == round; }))
        << round;
  }
  EXPECT_SUCCESS(gpu().synchronize_stream(device.stream()));
  EXPECT_SUCCESS(gpu().free_pinned(pinned));
}

// A collective of two ranks in streams, as StreamCollective makes it; both ranks are on one device.
TEST(kernels, exchange_between_streams) {
  constexpr size_t half = 1 << 16, words_at = 4 * half;
  for (unsigned blocks : {1u, 7u}) {
    Device ranks[] = {Device(words_at + 256), Device(words_at + 256)};
    auto word = [&](int rank, int index) {
      return reinterpret_cast<uint32_t*>(ranks[rank].at(words_at)) + index;
    };
    for (const Device& rank : ranks) rank.write(Bytes(words_at + 256));
    for (int call = 0; call < 5; ++call) {
      const size_t bytes = (half >> call) - 12, input = 2 * half, result = 3 * half;
      Bytes gave[2];
      for (int me : {0, 1}) {
        const Device& mine = ranks[me];
        gave[me] = random_bytes(bytes);
        ASSERT_SUCCESS(gpu().copy(mine.at(input), gave[me].data(), bytes, mine.stream()));
        ASSERT_SUCCESS(gpu().synchronize_stream(mine.stream()));
      }
      Signal signals[2];
      for (int me : {0, 1}) {
        const Device& mine = ranks[me];
        const CopyItem item{mine.at(0), mine.at(input), bytes};
        uint32_t* const given[] = {word(1 - me, 2)};
        const Exchange gives{word(me, 0), word(me, 1), half, given, 1, true};
        ASSERT_SUCCESS(launch_copies(0, mine.stream(), &item, 1, blocks, {}, &gives));
        const device::WordAccess wait{true, word(me, 2), exchange_units};
        ASSERT_SUCCESS(gpu().access_words(mine.stream(), &wait, 1));
      }
      for (int me : {0, 1}) {
        const Device& mine = ranks[me];
        uint32_t* const taken[] = {word(me, 2)};
        const Exchange takes{word(me, 1), word(me, 0), half, taken, 1, false};
        const void* from[] = {ranks[0].at(0), ranks[1].at(0)};
        void* to = mine.at(result);
        signals[me] = ranks[me].next_signal();
        const CopyItem item{to, from[1 - me], bytes};
        ASSERT_SUCCESS(call % 2
                           ? launch_copies(0, mine.stream(), &item, 1, blocks, signals[me], &takes)
                           : launch_reduce(0, mine.stream(), ReduceOp::bxor, Element::int32, from, 2, &to, 1,
                                           bytes / sizeof(int32_t), blocks, signals[me], nullptr, &takes));
      }
      for (int me : {0, 1}) {
        ranks[me].await_flag();
        const Bytes content = ranks[me].read();
        Bytes wanted = gave[1 - me];
        for (size_t i = 0; i < bytes && call % 2 == 0; ++i) wanted[i] ^= gave[me][i];
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), content.begin() + result))
            << "call " << call << " of " << blocks << " blocks";
        const auto* words = reinterpret_cast<const uint32_t*>(content.data() + words_at);
        EXPECT_EQ(words[0], call + 1u);
        EXPECT_EQ(words[1], static_cast<uint32_t>(call));
        EXPECT_EQ(words[2], 0u);
      }
    }
  }
}

// MPI_Fetch_and_op: target and first source are one, and what it held is kept.
TEST(kernels, what_the_first_source_held_is_kept) {
  constexpr size_t numbers = 1003;
  for (size_t shift : {size_t{0}, size_t{1}}) {  // bytes: aligned, and not
    constexpr size_t room = (numbers + 1) * sizeof(int);
    Device device(3 * room);
    std::vector<int> mine(numbers), theirs(numbers), found(numbers);
    for (size_t i = 0; i < numbers; ++i) {
      mine[i] = static_cast<int>(i);
      theirs[i] = static_cast<int>(5 * i + 3);
    }
    unsigned char* target = device.at(0) + shift;
    unsigned char* operand = device.at(room) + shift;
    unsigned char* old = device.at(2 * room) + shift;
    constexpr size_t bytes = numbers * sizeof(int);
    ASSERT_SUCCESS(gpu().copy(target, mine.data(), bytes, device.stream()));
    ASSERT_SUCCESS(gpu().copy(operand, theirs.data(), bytes, device.stream()));
    const void* from[] = {target, operand};
    void* to[] = {target};
    ASSERT_SUCCESS(launch_reduce(0, device.stream(), ReduceOp::sum, Element::int32, from, 2, to, 1, numbers,
                                 4, device.next_signal(), old));
    device.await_flag();
    ASSERT_SUCCESS(gpu().copy(found.data(), old, bytes, device.stream()));
    ASSERT_SUCCESS(gpu().synchronize_stream(device.stream()));
    EXPECT_EQ(found, mine);
    ASSERT_SUCCESS(gpu().copy(found.data(), target, bytes, device.stream()));
    ASSERT_SUCCESS(gpu().synchronize_stream(device.stream()));
    for (size_t i = 0; i < numbers; ++i) ASSERT_EQ(found[i], mine[i] + theirs[i]) << i;
  }
}

TEST(kernels, an_element_is_swapped_if_it_is_as_expected) {
  ASSERT_TRUE(swap_available(0));
  for (size_t bytes : {1, 2, 4, 8, 16})
    for (bool equal : {true, false})
      for (size_t shift : {size_t{0}, size_t{1}}) {  // bytes: aligned, and not
        constexpr size_t room = 64;
        Device device(4 * room);
        std::vector<unsigned char> all(4 * room);
        for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<unsigned char>(i + 1);
        std::copy_n(all.data() + shift, bytes, all.data() + room + shift);
        if (!equal) ++all[room + shift + bytes - 1];  // in its last byte
        ASSERT_SUCCESS(gpu().copy(device.at(0), all.data(), all.size(), device.stream()));
        unsigned char* target = device.at(shift);
        ASSERT_SUCCESS(launch_swap(0, device.stream(), target, target + room, target + 2 * room,
                                   target + 3 * room, static_cast<unsigned>(bytes), device.next_signal()));
        device.await_flag();
        std::copy_n(all.data() + shift, bytes, all.data() + 3 * room + shift);
        if (equal) std::copy_n(all.data() + 2 * room + shift, bytes, all.data() + shift);
        std::vector<unsigned char> found(all.size());
        ASSERT_SUCCESS(gpu().copy(found.data(), device.at(0), found.size(), device.stream()));
        ASSERT_SUCCESS(gpu().synchronize_stream(device.stream()));
        EXPECT_EQ(found, all) << bytes << " bytes, equal: " << equal << ", shift " << shift;
      }
}

TEST(kernels, peers_memory_is_read_and_written) {
  int devices = 0;
  bool possible = false;
  ASSERT_SUCCESS(gpu().device_count(&devices));
  if (devices < 2) GTEST_SKIP() << "needs 2 devices, has " << devices;
  ASSERT_SUCCESS(gpu().can_access_peer(0, 1, &possible));
  if (!possible) GTEST_SKIP() << "devices 0 and 1 cannot reach each other";
  ASSERT_SUCCESS(gpu().enable_peer(0, 1));
  constexpr size_t count = 100001;
  Device device(count * sizeof(int));
  void* peer = nullptr;
  ASSERT_SUCCESS(gpu().allocate(1, count * sizeof(int), &peer));
  std::vector<int> mine(count), theirs(count), found(count);
  for (size_t i = 0; i < count; ++i) {
    mine[i] = static_cast<int>(i);
    theirs[i] = static_cast<int>(7 * i + 1);
  }
  ASSERT_SUCCESS(gpu().copy(device.at(0), mine.data(), count * sizeof(int), device.stream()));
  ASSERT_SUCCESS(gpu().copy(peer, theirs.data(), count * sizeof(int), device.stream()));
  const void* from[] = {device.at(0), peer};
  void* to[] = {device.at(0), peer};
  ASSERT_SUCCESS(launch_reduce(0, device.stream(), ReduceOp::sum, Element::int32, from, 2, to, 2, count, 20,
                               device.next_signal()));
  device.await_flag();
  for (const void* result : from) {
    ASSERT_SUCCESS(gpu().copy(found.data(), result, count * sizeof(int), device.stream()));
    ASSERT_SUCCESS(gpu().synchronize_stream(device.stream()));
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(found[i], mine[i] + theirs[i]) << i;
  }
  EXPECT_SUCCESS(gpu().free(peer));
}

}  // namespace
}  // namespace fairlead::kernels

int main(int argc, char** argv) {
  using namespace fairlead;
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  if (device::whole_runtime()) device::whole_runtime()->device_count(&devices);
  if (!devices) {
    std::fprintf(stderr, "skipped: no device of this provider\n");
    return 77;
  }
  if (!kernels::copies_available(0)) {
    std::fprintf(stderr, "%s: kernels cannot run: %s\n", device::whole_runtime()->name(),
                 device::whole_runtime()->error_text());
    return 1;
  }
  return RUN_ALL_TESTS();
}
