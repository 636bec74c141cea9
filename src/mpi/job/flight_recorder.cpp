// SPDX-License-Identifier: Apache-2.0

#include "mpi/job/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/library_thread.h"
#include "base/log.h"
#include "base/options.h"
#include "flight/report.h"
#include "mpi/abi/mutex.h"
#include "mpi/core/record.h"
#include "node/shared_memory.h"

namespace fairlead::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// Reports when no rank of the job on this node has begun or ended a call for so long, and one is in a call;
// then again after twice the time, and so on.
class Watch {
 public:
  Watch(const flight::Header* header, uint64_t job) : header_(header), job_(job) {}

  void look(Clock::time_point now) {
    if (const uint64_t calls = calls_so_far(); calls != calls_) {
      calls_ = calls;
      since_ = now;
      due_ = period();
    }
    if (now - since_ < due_) return;
    due_ = 2 * (now - since_);
    report(std::chrono::duration_cast<std::chrono::seconds>(now - since_));
  }
  static std::chrono::seconds period() { return std::chrono::seconds(options().stall_report_s); }

 private:
  // Repeated polls count as one call.
  uint64_t calls_so_far() const {
    uint64_t calls = 0;
    for (int i = 0; i < std::clamp(header_->taken.load(), 0, header_->ranks); ++i) {
      const flight::Rank& rank = flight::block(const_cast<flight::Header*>(header_), i);
      if (rank.state.load() == flight::State::unused || rank.job != job_) continue;
      for (const flight::Thread& thread : rank.threads) calls += 2 * thread.begun + (thread.open != 0) + 1;
      for (const flight::Enqueued& enqueued : rank.enqueued) calls += enqueued.begun;
    }
    return calls;
  }

  // Where a rank is outside MPI, the others may well wait for what it computes, reads or writes.
  void report(std::chrono::seconds lasted) const {
    if (!log_enabled(LogLevel::warn)) return;
    const auto waits = [](const flight::RankView& rank) {
      return rank.lives && (rank.open || !rank.streams.empty());
    };
    const auto computes = [](const flight::RankView& rank) {
      return rank.lives && rank.state == flight::State::running && !rank.open && rank.streams.empty() &&
             !rank.polls();
    };
    for (const flight::JobView& job : flight::look(header_)) {
      if (job.job != job_ || std::none_of(job.ranks.begin(), job.ranks.end(), waits)) continue;
      if (lasted < 6 * period() && std::any_of(job.ranks.begin(), job.ranks.end(), computes)) continue;
      log_line(LogLevel::warn,
               "no rank on this node has gone on for %d s:", static_cast<int>(lasted.count()));
      const std::string text =
          flight::as_text(job, 0, [](const flight::RankView& rank, const flight::Call& call) {
            return flight::site_of(rank, call).text();
          });
      [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    }
  }

  const flight::Header* header_;
  const uint64_t job_;
  uint64_t calls_ = 0;
  Clock::time_point since_ = Clock::now();
  Clock::duration due_ = period();
};

struct Watcher {
  Mutex mutex;
  std::condition_variable_any changed;
  bool stopping = false;
  std::thread thread;
};
Watcher* watcher = nullptr;

void start_watching(const flight::Header* header, uint64_t job) {
  if (options().stall_report_s == 0) return;
  watcher = new Watcher;
  watcher->thread = start_library_thread("fairlead-watch", [watch = Watch(header, job)]() mutable {
    const auto pause = std::min<Clock::duration>(Watch::period() / 4, std::chrono::seconds(1));
    std::unique_lock lock(watcher->mutex);
    while (!watcher->changed.wait_for(lock, pause, [] { return watcher->stopping; }))
      watch.look(Clock::now());
  });
}

flight::Header* map_with_room(int file, int ranks) {
  flight::Header* header = file < 0 ? nullptr : flight::map_file(file, true);
  return header && header->ranks - header->taken.load() >= ranks ? header : nullptr;
}

void describe_handles(flight::Rank* rank) {
  rank->any_source = MPI_ANY_SOURCE;
  rank->any_tag = MPI_ANY_TAG;
  rank->null_rank = MPI_PROC_NULL;
  rank->world = bits_of(MPI_COMM_WORLD);
  const MPI_Op operations[] = {MPI_MAX, MPI_MIN,  MPI_SUM,  MPI_PROD,   MPI_LAND,   MPI_BAND,    MPI_LOR,
                               MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP};
  std::transform(std::begin(operations), std::end(operations), rank->operations,
                 [](MPI_Op operation) { return bits_of(operation); });
}

constexpr int recorded_functions = [] {
  int count = 0;
#define FAIRLEAD_FUNCTION(name) ++count;
#include "mpi/abi/generated/function_ids.inc"
  return count;
}();
static_assert(recorded_functions <= static_cast<int>(flight::functions_kept));

}  // namespace

// The numbers may be those of another node.
int file_of_launcher(FileOfLauncher which) {
  struct {
    int number;
    unsigned long long inode;
  } files[2];
  int pid = 0;
  if (std::sscanf(options().flight_file.c_str(), "%d:%d:%llu:%d:%llu", &pid, &files[0].number,
                  &files[0].inode, &files[1].number, &files[1].inode) != 5)
    return -1;
  const auto& [number, inode] = files[static_cast<int>(which)];
  const int file = node::open_file_of(pid, number);
  struct stat status;
  if (file >= 0 && fstat(file, &status) == 0 && status.st_ino == inode) return file;
  if (file >= 0) close(file);
  return -1;
}

void open_flight_recorder(MPI_Comm node, uint64_t job) {
  if (!options().enabled) return;
  int node_rank = 0, ranks = 1;
  PMPI_Comm_rank(node, &node_rank);
  PMPI_Comm_size(node, &ranks);
  // The file stays open: `fairlead hang` finds it there.
  int file = -1;
  flight::Header* header = nullptr;
  if (node_rank == 0) {
    header = map_with_room(file = file_of_launcher(FileOfLauncher::flight), ranks);
    if (!header) header = map_with_room(file = flight::make_file(ranks), ranks);
  }
  int where[] = {getpid(), file};
  real.Bcast(where, 2, MPI_INT, 0, node);
  if (node_rank != 0) {
    header = map_with_room(node::open_file_of(where[0], where[1]), 1);
    // In another PID namespace, for example.
    if (!header) header = map_with_room(flight::make_file(1), 1);
  }
  flight::Rank* rank = header ? flight::take_block(header) : nullptr;
  if (!rank) return;
  for (int i = 0; i < recorded_functions; ++i)
    std::strncpy(header->functions[i], to_string(static_cast<Function>(i)), sizeof header->functions[i] - 1);
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank->rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &rank->size);
  rank->job = job;
  describe_handles(rank);
  rank->state.store(flight::State::running, std::memory_order_release);
  flight::detail::rank.store(rank);
  if (node_rank == 0) start_watching(header, job);
}

void close_flight_recorder() {
  if (flight::Rank* rank = flight::own_rank()) rank->state = flight::State::finalized;
  if (!watcher) return;
  {
    std::lock_guard lock(watcher->mutex);
    watcher->stopping = true;
  }
  watcher->changed.notify_one();
  if (watcher->thread.joinable()) watcher->thread.join();
  delete std::exchange(watcher, nullptr);
}

}  // namespace fairlead::mpi
