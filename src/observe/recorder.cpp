// SPDX-License-Identifier: Apache-2.0

#include "observe/recorder.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/mix.h"
#include "observe/part.h"
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

std::atomic<int> threads{0};
struct ThreadNumber {
  const int number = threads++;
};

struct Thread {
  Thread() : messages(static_cast<size_t>(functions * paths)) {}
  std::vector<std::atomic<KeptMessages*>> messages;     // by function and path
  std::array<std::atomic<KeptCalls*>, chains> calls{};  // by hash
  OpenCall open[nesting];
  size_t depth = 0;
  // The outermost open call, for other threads.
  std::atomic<int> function{-1};
  std::atomic<uint64_t> since{0};
};

Thread& mine() {
  return PerThread<Thread>::mine();
}

KeptCalls& calls_from(Thread& thread, int function, uintptr_t site) {
  auto& first = thread.calls[mixed(site, static_cast<uint64_t>(function)) % chains];
  KeptCalls* calls = first.load(std::memory_order_relaxed);
  while (calls && (calls->site != site || calls->function != function)) calls = calls->next;
  if (calls) return *calls;
  calls = keep<KeptCalls>(Kept::calls);
  calls->thread = number_of_thread();
  calls->function = function;
  calls->site = site;
  calls->next = first.load(std::memory_order_relaxed);
  const CodePlace place = place_of_code(site);
  place.file.copy(calls->file, sizeof calls->file - 1);
  calls->offset = place.offset;
  first.store(calls, std::memory_order_release);
  return *calls;
}

template <class Visit>
void visit_calls(Visit visit) {
  PerThread<Thread>::visit_all([&](const Thread& thread, int) {
    for (const auto& first : thread.calls)
      for (const KeptCalls* calls = first.load(std::memory_order_acquire); calls; calls = calls->next)
        if (!calls->is_empty()) visit(*calls);
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

void Tally::add(const Tally& more) {
  count += more.count;
  bytes += more.bytes;
  nanoseconds += more.nanoseconds;
  longest = std::max(longest, more.longest);
  for (size_t i = 0; i < histogram.size(); ++i) histogram[i] += more.histogram[i];
}

int number_of_thread() {
  return PerThread<ThreadNumber>::mine().number;
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
  if (thread.depth++ < nesting) {
    OpenCall& call = thread.open[thread.depth - 1];
    call = {function, &calls_from(thread, function, site), now(), 0, false};
    call.calls->open_since.store(call.since, std::memory_order_relaxed);
  }
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
  call.calls->open_since.store(0, std::memory_order_relaxed);
  call.calls->add(call.bytes, end - call.since);
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
  auto& slot = mine().messages[static_cast<size_t>(key.function) * paths + static_cast<size_t>(key.path)];
  KeptMessages* cell = slot.load(std::memory_order_relaxed);
  if (!cell) {
    cell = keep<KeptMessages>(Kept::messages);
    cell->key = key;
    slot.store(cell, std::memory_order_release);
  }
  cell->add(bytes, nanoseconds);
}

Tallies tallies() {
  Tallies sum;
  PerThread<Thread>::visit_all([&](const Thread& thread, int) {
    for (const auto& slot : thread.messages)
      if (const KeptMessages* cell = slot.load(std::memory_order_acquire)) cell->add_to(&sum[cell->key]);
  });
  visit_calls([&](const KeptCalls& cell) { cell.add_to(&sum[{cell.function, calls}]); });
  return sum;
}

Sites sites() {
  Sites sum;
  visit_calls([&](const KeptCalls& cell) { cell.add_to(&sum[{cell.function, {cell.file, cell.offset}}]); });
  return sum;
}

}  // namespace fairlead::observe
