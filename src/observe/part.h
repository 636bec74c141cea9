// SPDX-License-Identifier: Apache-2.0
//
// This process's part of the statistics and the trace, in memory that outlives it
// (base/memory/kept_memory.h), and the parts of the ranks of a job that did not come to the end of
// MPI_Finalize, which `fairlead run` joins.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "base/memory/kept_memory.h"
#include "observe/clock.h"
#include "observe/report.h"
#include "observe/trace.h"

namespace fairlead::observe {

// What the blocks are.
enum class Kept : uint32_t { none, process, messages, calls, phase, phase_name, events };

struct KeptProcess {
  int32_t rank, ranks;
  uint64_t job;  // the same on all ranks of a job, and only there
  uint64_t started, start_of_trace;
  ClockFit clock;
  std::atomic<uint32_t> reported;  // with the other ranks, in MPI_Finalize
  std::atomic<uint64_t> dropped;   // events
  std::array<TrafficCount, static_cast<size_t>(Traffic::rows)> traffic;
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Fallback::rows)> fallbacks;
};

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
  bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }
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

struct KeptMessages : Cell {
  Key key;
};

// The calls of a function from one place in the program.
struct KeptCalls : Cell {
  int thread, function;
  std::atomic<uint64_t> open_since;  // 0: no call is in progress
  uintptr_t site;                    // in this process
  KeptCalls* next;                   // in this process, of the same hash
  uint64_t offset;                   // of its CodePlace, as is
  char file[512];
};

struct KeptPhase {
  uint32_t number, outer;  // 0: the root
  int32_t name;            // number
  int32_t thread;
  uint64_t count, nanoseconds;
  std::atomic<uint64_t> open_since;  // 0: the thread is not in it
};

struct KeptPhaseName {
  int32_t number;
  char text[256];
};

constexpr size_t events_per_piece = 1024;
struct KeptEvents {
  int32_t thread;  // its number_of_thread()
  std::atomic<uint32_t> used;
  Event events[events_per_piece];
};

template <class Block>
Block* keep(Kept kind) {
  return new (allocate_kept(static_cast<uint32_t>(kind), sizeof(Block))) Block();
}

// In ordinary memory, until the part is in this file of `fairlead run`. Before recording begins.
KeptProcess& own_part();
void open_part(int file);

// ---- Of a job that is over ----------------------------------------------------------------------------

struct Part {
  int rank = 0, ranks = 1;
  uint64_t job = 0, started = 0, dropped = 0;
  bool reported = false;
  uint64_t start_of_trace = 0;
  ClockFit clock;
  std::vector<uint64_t> messages, bytes, fallbacks;
  Tallies tallies;
  Sites sites;
  Phase phases;
  std::vector<Log> logs;
};
// Of the jobs of which no rank has reported, by their starts and ranks. What had not ended ended at `end`.
// Phases in the logs have their numbers in this process.
struct LeftParts {
  std::vector<Part> parts = {};
  bool after_others = false;  // another job has reported
};
LeftParts parts_in(int file, uint64_t end);

// Of these parts of one job.
Report joined(const std::vector<Part>& parts, uint64_t end);
// Returns "" or why it cannot be written.
std::string write_joined_trace(const std::vector<Part>& parts, const std::string& path, NameOf name_of);

}  // namespace fairlead::observe
