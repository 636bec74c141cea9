// SPDX-License-Identifier: Apache-2.0
//
// All ranks change the same few places at once, by all functions that accumulate and in several types: no
// update is lost, and no two of one value fetch the same.

#include <algorithm>
#include <numeric>
#include <random>

#include "harness/exposed.h"
#include "harness/rounds.h"

using namespace ranks;

namespace {

// What a counter of one type needs: each is at a place of its own, the same on every target.
struct Counter {
  MPI_Datatype type;
  size_t bytes;
  void (*store)(long value, void* to);
  long (*load)(const void* from);
};

template <class Value>
Counter counter_of(MPI_Datatype type) {
  return {type, sizeof(Value),
          [](long value, void* to) {
            const Value typed = static_cast<Value>(value);
            std::memcpy(to, &typed, sizeof typed);
          },
          [](const void* from) {
            Value typed;
            std::memcpy(&typed, from, sizeof typed);
            return static_cast<long>(typed);
          }};
}

enum class How { accumulate, fetch_and_op, get_accumulate, raccumulate, rget_accumulate, compare_and_swap };

class Contention {
 public:
  explicit Contention(uint64_t seed)
      : random_(seed * 1000 + static_cast<uint64_t>(rank)),
        counters_{counter_of<int>(MPI_INT), counter_of<long>(MPI_LONG), counter_of<uint16_t>(MPI_UINT16_T),
                  counter_of<float>(MPI_FLOAT), counter_of<double>(MPI_DOUBLE)},
        exposed_(Place::device, counters_.size() * stride),
        added_(counters_.size() * static_cast<size_t>(size)),
        fetched_(added_.size()) {
    const std::vector<char> zeros(exposed_.memory().bytes());
    exposed_.memory().write(zeros.data(), zeros.size());
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }

  void hammer(int accesses) {
    MUST(MPI_Win_lock_all(0, exposed_));
    for (int i = 0; i < accesses; ++i) {
      // Most go to one place of one rank.
      const size_t which = pick(0, 2) ? 0 : pick(0, counters_.size() - 1);
      const int target = pick(0, 2) ? 0 : static_cast<int>(pick(0, static_cast<uint64_t>(size) - 1));
      change(static_cast<How>(pick(0, 5)), which, target);
    }
    MUST(MPI_Win_unlock_all(exposed_));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }

  void check() {
    std::vector<long> sums(added_.size());
    MUST(MPI_Allreduce(added_.data(), sums.data(), static_cast<int>(sums.size()), MPI_LONG, MPI_SUM,
                       MPI_COMM_WORLD));
    const std::vector<char> found = exposed_.values<char>();
    for (size_t which = 0; which < counters_.size(); ++which) {
      const long value = counters_[which].load(&found[which * stride]);
      const long wanted = sums[which * static_cast<size_t>(size) + static_cast<size_t>(rank)];
      EXPECT(value == wanted, "counter %zu is %ld, not %ld", which, value, wanted);
    }
    for (std::vector<long>& values : fetched_) {
      // Everything that was added is above zero, so that a counter has each value once.
      std::vector<int> counts(static_cast<size_t>(size)), begins(counts.size());
      const int mine = static_cast<int>(values.size());
      MUST(MPI_Allgather(&mine, 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD));
      std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
      std::vector<long> all(static_cast<size_t>(begins.back() + counts.back()));
      MUST(MPI_Allgatherv(values.data(), mine, MPI_LONG, all.data(), counts.data(), begins.data(), MPI_LONG,
                          MPI_COMM_WORLD));
      EXPECT(std::is_sorted(values.begin(), values.end()), "what one rank fetches goes down");
      std::sort(all.begin(), all.end());
      EXPECT(std::adjacent_find(all.begin(), all.end()) == all.end(), "two accesses fetched the same");
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }

 private:
  static constexpr size_t stride = 16;
  uint64_t pick(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }
  Memory value_of(const Counter& counter, long value) {
    std::vector<char> bytes(counter.bytes);
    counter.store(value, bytes.data());
    return memory_of(pick(0, 1) ? Place::device : Place::host, bytes);
  }
  long held(const Counter& counter, const Memory& memory) {
    std::vector<char> bytes(counter.bytes);
    memory.read(bytes.data(), bytes.size());
    return counter.load(bytes.data());
  }

  void change(How how, size_t which, int target) {
    const Counter& counter = counters_[which];
    const MPI_Datatype type = counter.type;
    const MPI_Aint at = static_cast<MPI_Aint>(which * stride);
    const long more = static_cast<long>(pick(1, 3));
    // Floating-point numbers are not compared. Open MPI 4.1 itself crashes where a rank swaps in its own
    // memory.
    const bool compares = type != MPI_FLOAT && type != MPI_DOUBLE && !(host_oracle && target == rank);
    if (how == How::compare_and_swap && !compares) how = How::fetch_and_op;
    const Memory operand = value_of(counter, more);
    Memory old(pick(0, 1) ? Place::device : Place::host, counter.bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    switch (how) {
      case How::accumulate:
        MUST(MPI_Accumulate(operand, 1, type, target, at, 1, type, MPI_SUM, exposed_));
        break;
      case How::raccumulate:
        MUST(MPI_Raccumulate(operand, 1, type, target, at, 1, type, MPI_SUM, exposed_, &request));
        break;
      case How::fetch_and_op:
        MUST(MPI_Fetch_and_op(operand, old, type, target, at, MPI_SUM, exposed_));
        break;
      case How::get_accumulate:
        MUST(MPI_Get_accumulate(operand, 1, type, old, 1, type, target, at, 1, type, MPI_SUM, exposed_));
        break;
      case How::rget_accumulate:
        MUST(MPI_Rget_accumulate(operand, 1, type, old, 1, type, target, at, 1, type, MPI_SUM, exposed_,
                                 &request));
        break;
      case How::compare_and_swap:
        swap_until_it_succeeds(counter, target, at, more, &old);
        break;
    }
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Win_flush(target, exposed_));
    const size_t place = which * static_cast<size_t>(size) + static_cast<size_t>(target);
    added_[place] += more;
    if (how != How::accumulate && how != How::raccumulate) fetched_[place].push_back(held(counter, old));
  }

  void swap_until_it_succeeds(const Counter& counter, int target, MPI_Aint at, long more, Memory* old) {
    long seen = 0;
    for (bool swapped = false; !swapped;) {
      const Memory compare = value_of(counter, seen), wanted = value_of(counter, seen + more);
      MUST(MPI_Compare_and_swap(wanted, compare, *old, counter.type, target, at, exposed_));
      MUST(MPI_Win_flush(target, exposed_));
      const long found = held(counter, *old);
      swapped = found == seen;
      seen = found;
    }
  }

  std::mt19937_64 random_;
  const std::vector<Counter> counters_;
  Exposed exposed_;
  std::vector<long> added_;                 // by this rank, to each counter of each rank
  std::vector<std::vector<long>> fetched_;  // from each
};

}  // namespace

RANK_TEST(rma_contention, every_update_of_every_function_counts, 2) {
  repeat("rma_contention", options.seconds, [](uint64_t seed) {
    Contention contention(seed);
    contention.hammer(40);
    contention.check();
  });
}
