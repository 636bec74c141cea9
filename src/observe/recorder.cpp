// SPDX-License-Identifier: Apache-2.0

#include "observe/recorder.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/mix.h"
#include "observe/per_thread.h"
#include "observe/ranges.h"
#include "observe/trace.h"

namespace fairlead::observe {

std::atomic<bool> detail::recording = false;

namespace {

constexpr int paths = static_cast<int>(Traffic::rows);
constexpr size_t nesting = 16, chains = 256;

int functions = 0;
NameOf name_of_function = nullptr;

// Written by one thread, read by any.
class Cell {
 public:
  void add(uint64_t bytes, uint64_t nanoseconds) {
    more(count_, 1);
    more(bytes_, bytes);
    more(nanoseconds_, nanoseconds);
    if (nanoseconds > longest_.load(std::memory_order_relaxed))
      longest_.store(nanoseconds, std::memory_order_relaxed);
    more(histogram_[static_cast<size_t>(bucket_of(nanoseconds))], 1);
  }
  void add_to(Tally* tally) const {
    tally->count += count_;
    tally->bytes += bytes_;
    tally->nanoseconds += nanoseconds_;
    tally->longest = std::max<uint64_t>(tally->longest, longest_);
    for (size_t i = 0; i < histogram_.size(); ++i) tally->histogram[i] += histogram_[i];
  }

 private:
  static void more(std::atomic<uint64_t>& number, uint64_t by) {
    number.store(number.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  std::atomic<uint64_t> count_{0}, bytes_{0}, nanoseconds_{0}, longest_{0};
  std::array<std::atomic<uint64_t>, histogram_buckets> histogram_{};
};

// The calls of a function from one place in the program.
struct CellOfSite : Cell {
  CellOfSite(int its_function, uintptr_t its_site, CellOfSite* other)
      : function(its_function), site(its_site), next(other) {}
  const int function;
  const uintptr_t site;
  CellOfSite* const next;
};

struct Thread {
  Thread() : messages(static_cast<size_t>(functions * paths)) {}
  std::vector<std::atomic<Cell*>> messages;              // by function and path
  std::array<std::atomic<CellOfSite*>, chains> calls{};  // by hash
  OpenCall open[nesting];
  size_t depth = 0;
  // The outermost open call, for other threads.
  std::atomic<int> function{-1};
  std::atomic<uint64_t> since{0};
};

Thread& mine() {
  return PerThread<Thread>::mine();
}

Cell& cell_of(Thread& thread, const OpenCall& call) {
  auto& first = thread.calls[mixed(call.site, static_cast<uint64_t>(call.function)) % chains];
  CellOfSite* cell = first.load(std::memory_order_relaxed);
  while (cell && (cell->site != call.site || cell->function != call.function)) cell = cell->next;
  if (!cell) {
    cell = new CellOfSite(call.function, call.site, first.load(std::memory_order_relaxed));
    first.store(cell, std::memory_order_release);
  }
  return *cell;
}

template <class Visit>
void visit_calls(Visit visit) {
  PerThread<Thread>::visit_all([&](const Thread& thread, int) {
    for (const auto& first : thread.calls)
      for (const CellOfSite* cell = first.load(std::memory_order_acquire); cell; cell = cell->next)
        visit(*cell);
  });
}

}  // namespace

void Tally::add(uint64_t more_bytes, uint64_t more_nanoseconds) {
  ++count;
  bytes += more_bytes;
  nanoseconds += more_nanoseconds;
  longest = std::max(longest, more_nanoseconds);
  ++histogram[static_cast<size_t>(bucket_of(more_nanoseconds))];
}

void open(int number, NameOf name_of) {
  functions = number;
  name_of_function = name_of;
  detail::recording = true;
}

void close() {
  detail::recording = false;
}

uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

OpenCall* current_call() {
  Thread& thread = mine();
  return thread.depth == 0 ? nullptr : &thread.open[std::min(thread.depth, nesting) - 1];
}

void begin_call(int function, uintptr_t site) {
  Thread& thread = mine();
  if (thread.depth++ < nesting) thread.open[thread.depth - 1] = {function, site, now(), 0, false};
  if (thread.depth == 1) {
    thread.since.store(thread.open[0].since, std::memory_order_relaxed);
    thread.function.store(function, std::memory_order_release);
  }
  if (ranges()) begin_range(name_of_function(function));
}

void end_call() {
  Thread& thread = mine();
  if (ranges()) end_range();
  if (thread.depth == 1) thread.function.store(-1, std::memory_order_relaxed);
  if (thread.depth-- > nesting) return;
  const OpenCall& call = thread.open[thread.depth];
  uint64_t end = now();
  cell_of(thread, call).add(call.bytes, end - call.since);
  if (tracing()) trace({EventKind::call, call.function, call.since, end, call.bytes});
}

OldestCall oldest_call() {
  OldestCall oldest;
  PerThread<Thread>::visit_all([&](const Thread& thread, int) {
    OldestCall its{thread.function.load(std::memory_order_acquire),
                   thread.since.load(std::memory_order_relaxed)};
    if (its.function >= 0 && (oldest.function < 0 || its.since < oldest.since)) oldest = its;
  });
  return oldest;
}

void add(const Key& key, uint64_t bytes, uint64_t nanoseconds) {
  auto& slot = mine().messages[static_cast<size_t>(key.function * paths + static_cast<int>(key.path))];
  Cell* cell = slot.load(std::memory_order_relaxed);
  if (!cell) slot.store(cell = new Cell, std::memory_order_release);
  cell->add(bytes, nanoseconds);
}

Tallies tallies() {
  Tallies sum;
  PerThread<Thread>::visit_all([&](const Thread& thread, int) {
    for (size_t i = 0; i < thread.messages.size(); ++i) {
      const Cell* cell = thread.messages[i].load(std::memory_order_acquire);
      int number = static_cast<int>(i);
      if (cell) cell->add_to(&sum[{number / paths, static_cast<Traffic>(number % paths)}]);
    }
  });
  visit_calls([&](const CellOfSite& cell) { cell.add_to(&sum[{cell.function, calls}]); });
  return sum;
}

Sites sites() {
  Sites sum;
  visit_calls([&](const CellOfSite& cell) { cell.add_to(&sum[{cell.function, place_of_code(cell.site)}]); });
  return sum;
}

}  // namespace fairlead::observe
