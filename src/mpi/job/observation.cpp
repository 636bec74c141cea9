// SPDX-License-Identifier: Apache-2.0

#include "mpi/job/observation.h"

#include <unistd.h>

#include <climits>
#include <map>
#include <numeric>
#include <vector>

#include "base/log.h"
#include "base/options.h"
#include "base/output_file.h"
#include "device/runtime.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/abi/host_version.h"
#include "mpi/abi/real.h"
#include "mpi/failures/failures.h"
#include "mpi/job/flight_recorder.h"
#include "mpi/job/trace_of_job.h"
#include "observe/json/provenance.h"
#include "observe/part.h"
#include "observe/ranges.h"
#include "observe/recorder.h"
#include "observe/report.h"
#include "observe/signal.h"
#include "observe/ticker.h"
#include "observe/trace.h"

namespace fairlead::mpi {
namespace {

using observe::Key;
using observe::Report;
using observe::Tally;

constexpr int functions = 0
#define FAIRLEAD_FUNCTION(name) +1
#include "mpi/abi/generated/function_ids.inc"
    ;
constexpr int ways = static_cast<int>(Traffic::rows) + 1;

int own_rank = 0, all_ranks = 1;
uint64_t started = 0, start_of_trace = 0;  // the latter by the clock of rank 0
int nodes = 0;
MPI_Comm observer_comm = MPI_COMM_NULL;
observe::ClockFit clock_fit;

// What the options of rank 0 request. All ranks use it, because they must make the same collective calls.
struct Wanted {
  int statistics, trace, ranges;
} wanted;

const char* name_of(int function) {
  return to_string(static_cast<Function>(function));
}

// Of each rank: 40 MiB, which grow with use.
constexpr uint64_t events_of_a_trace = uint64_t{1} << 20;

// Where FAIRLEAD_STATS wants the report: "on", a file's name, or both.
struct StatisticsTo {
  bool table = false;
  std::string file;  // "": none

  explicit StatisticsTo(const std::string& asked) {
    const size_t comma = asked.find(',');
    if (parse_boolean(asked.substr(0, comma), &table).empty())
      file = comma == std::string::npos ? "" : asked.substr(comma + 1);
    else if (asked.find_first_of("./") != std::string::npos)
      file = asked;
    else
      log_line(LogLevel::warn,
               "FAIRLEAD_STATS=%s is not understood (accepted: on, off, a file such as stats.json, or "
               "on,FILE); using off",
               asked.c_str());
  }
};

// Read once. Never destroyed: programs may finalize in the destructor of a static object.
const StatisticsTo& statistics_to() {
  static const auto& to = *new StatisticsTo(options().stats);
  return to;
}

Wanted asked_for() {
  if (!options().enabled) return {};
  return {statistics_to().table || !statistics_to().file.empty(), options().trace != "off",
          options().ranges != "off"};
}

double seconds_since_start() {
  return static_cast<double>(observe::now() - started) * 1e-9;
}

// The sums over all ranks, at rank 0.
std::vector<uint64_t> sum(const std::vector<uint64_t>& mine) {
  std::vector<uint64_t> all(mine.size());
  real.Reduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_UINT64_T, MPI_SUM, 0,
              observer_comm);
  return all;
}

// The keys for which any rank has a row.
std::vector<Key> all_keys(const observe::Tallies& mine) {
  std::vector<int> here(functions * ways), anywhere(here.size());
  for (const auto& [key, tally] : mine)
    here[static_cast<size_t>(key.function) * ways + static_cast<size_t>(key.path)] = 1;
  real.Allreduce(here.data(), anywhere.data(), functions * ways, MPI_INT, MPI_MAX, observer_comm);
  std::vector<Key> keys;
  for (int i = 0; i < functions * ways; ++i)
    if (anywhere[static_cast<size_t>(i)]) keys.push_back({i / ways, static_cast<Traffic>(i % ways)});
  return keys;
}

// The sums over all ranks, at rank 0. Gives `mine` a row, perhaps an empty one, for every key of any rank.
observe::Tallies reduce(observe::Tallies& mine) {
  std::vector<Key> keys = all_keys(mine);
  std::vector<uint64_t> sums, longest;
  for (const Key& key : keys) {
    const Tally& tally = mine[key];
    sums.insert(sums.end(), {tally.count, tally.bytes, tally.nanoseconds});
    sums.insert(sums.end(), tally.histogram.begin(), tally.histogram.end());
    longest.push_back(tally.longest);
  }
  sums = sum(sums);
  std::vector<uint64_t> longest_of_all(longest.size());
  real.Reduce(longest.data(), longest_of_all.data(), static_cast<int>(longest.size()), MPI_UINT64_T, MPI_MAX,
              0, observer_comm);
  observe::Tallies all;
  const uint64_t* next = sums.data();
  for (size_t i = 0; i < keys.size(); ++i) {
    Tally& tally = all[keys[i]];
    tally = {next[0], next[1], next[2], longest_of_all[i], {}};
    std::copy_n(next + 3, tally.histogram.size(), tally.histogram.begin());
    next += 3 + tally.histogram.size();
  }
  return all;
}

// Compares the calls of each function between the ranks, and of all, at rank 0. All ranks have the same rows.
void compare_ranks(const observe::Tallies& mine, Report* report) {
  std::vector<int> functions_called;
  std::vector<uint64_t> own;
  for (const auto& [key, tally] : mine) {
    if (key.path != observe::calls) continue;
    functions_called.push_back(key.function);
    own.insert(own.end(), {tally.nanoseconds, tally.count});
  }
  std::vector<uint64_t> all(own_rank == 0 ? own.size() * static_cast<size_t>(all_ranks) : 0);
  const int length = static_cast<int>(own.size());
  real.Gather(own.data(), length, MPI_UINT64_T, all.data(), length, MPI_UINT64_T, 0, observer_comm);
  if (own_rank != 0) return;
  auto spread_of_column = [&](size_t column) {
    std::vector<uint64_t> of_ranks;
    for (size_t i = column; i < all.size(); i += own.size()) of_ranks.push_back(all[i]);
    return observe::spread_of(std::move(of_ranks));
  };
  std::vector<uint64_t> in_mpi(static_cast<size_t>(all_ranks));
  for (size_t i = 0; i < functions_called.size(); ++i) {
    report->spreads[functions_called[i]] = {spread_of_column(2 * i), spread_of_column(2 * i + 1)};
    for (size_t rank = 0; rank < in_mpi.size(); ++rank) in_mpi[rank] += all[rank * own.size() + 2 * i];
  }
  report->in_mpi = observe::spread_of(std::move(in_mpi));
}

// The texts of all ranks, at rank 0; none if they are longer than one message can be.
std::vector<std::string> gather(const std::string& mine) {
  const uint64_t bytes = mine.size();
  uint64_t bytes_of_all = 0;
  real.Allreduce(&bytes, &bytes_of_all, 1, MPI_UINT64_T, MPI_SUM, observer_comm);
  if (bytes_of_all > INT_MAX) return {};
  int length = static_cast<int>(bytes);
  std::vector<int> lengths(static_cast<size_t>(all_ranks)), offsets(lengths.size());
  real.Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, observer_comm);
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(static_cast<size_t>(offsets.back() + lengths.back()), '\0');
  real.Gatherv(mine.data(), length, MPI_BYTE, all.data(), lengths.data(), offsets.data(), MPI_BYTE, 0,
               observer_comm);
  std::vector<std::string> of_ranks;
  for (size_t i = 0; i < lengths.size(); ++i)
    of_ranks.push_back(all.substr(static_cast<size_t>(offsets[i]), static_cast<size_t>(lengths[i])));
  return of_ranks;
}

Report report_of_the_job() {
  Report report = observe::own_report();
  report.whose = std::to_string(all_ranks) + (all_ranks == 1 ? " rank" : " ranks");
  report.ranks = all_ranks;
  report.seconds = seconds_since_start();
  report.messages = sum(report.messages);
  report.bytes = sum(report.bytes);
  report.fallbacks = sum(report.fallbacks);
  observe::Tallies mine = std::move(report.tallies);
  report.tallies = reduce(mine);
  compare_ranks(mine, &report);
  const auto of_sites = gather(observe::encode(observe::sites()));
  if (own_rank == 0) report.sites = observe::listed(observe::add_up_sites(of_sites), true);
  report.phases = observe::add_up(gather(observe::encode(observe::own_phases())));
  return report;
}

// Writes the text in one piece, so that the output of several ranks does not mix.
void print(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t length = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (length <= 0) return;
    done += static_cast<size_t>(length);
  }
}

void print_own_report() {
  Report report = observe::own_report();
  report.whose = "rank " + std::to_string(own_rank) + " of " + std::to_string(all_ranks) + " so far";
  report.seconds = seconds_since_start();
  print(as_table(report, name_of));
}

void print_progress() {
  static Report& before = *new Report;  // never destroyed: the program may exit meanwhile
  Report report = observe::own_report();
  report.whose = "rank 0 of " + std::to_string(all_ranks);
  report.seconds = seconds_since_start();
  print(as_line(report, before, observe::oldest_call(), name_of));
  before = std::move(report);
}

// When the job starts. Warns, because at its end what was recorded would be lost.
void prepare_file(const char* what, const std::string& path) {
  const std::string why = path == "off" || path.empty() ? "" : why_unwritable(path);
  if (why.empty()) discard_file(path);
  if (!why.empty())
    log_line(LogLevel::warn, "the %s cannot be written to %s, as things are now: %s", what, path.c_str(),
             why.c_str());
}

// Of the GPUs only if the program has used them: looking would start the driver.
observe::Provenance provenance_of_the_job() {
  observe::Provenance provenance;
  provenance.mpi_abi = own_abi;
  provenance.mpi_library = host_version();
  provenance.ranks = all_ranks;
  provenance.nodes = nodes;
  device::PromptRuntime* runtime = options().enabled ? device::runtime() : nullptr;
  if (!runtime)
    provenance.gpus.provider = "none";
  else if (runtime->in_use())
    provenance.gpus = observe::Provenance::gpus_seen(runtime->version());
  return provenance;
}

void write_statistics(const std::string& path, const Report& report) {
  if (const std::string why = write_file(path, as_json(report, provenance_of_the_job(), name_of));
      !why.empty())
    log_line(LogLevel::warn, "the statistics cannot be written to %s: %s", path.c_str(), why.c_str());
}

// The others report.
void leave_out_failed() {
  if (!survives_failures() || observer_comm == MPI_COMM_NULL) return;
  shrink_to_living(&observer_comm);
  PMPI_Comm_rank(observer_comm, &own_rank);
  PMPI_Comm_size(observer_comm, &all_ranks);
}

void finish_statistics() {
  Report report = report_of_the_job();
  if (own_rank != 0) return;
  if (statistics_to().table) print(as_table(report, name_of));
  if (!statistics_to().file.empty()) write_statistics(statistics_to().file, report);
}

void finish_trace() {
  clock_fit.last = compare_clocks(observer_comm);
  write_trace(observer_comm, options().trace.c_str(), clock_fit, start_of_trace, provenance_of_the_job,
              name_of);
}

// If this rank dies, `fairlead run` reports what it has recorded.
void open_own_part(uint64_t job) {
  observe::open_part(file_of_launcher(FileOfLauncher::parts));
  observe::KeptProcess& part = observe::own_part();
  part.ranks = all_ranks;
  part.job = job;
  part.started = started;
  part.start_of_trace = start_of_trace;
  part.clock = clock_fit;
  part.rank = own_rank;
}

}  // namespace

void start_observing(MPI_Comm node, uint64_t job) {
  started = observe::now();
  PMPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
  wanted = asked_for();
  real.Bcast(&wanted, sizeof wanted, MPI_BYTE, 0, MPI_COMM_WORLD);
  const bool together = wanted.statistics || wanted.trace || wanted.ranges;
  const bool progress = options().enabled && own_rank == 0 && options().progress_s > 0;
  if (!together && !progress) return;
  if (together) adopt(real.Comm_dup(MPI_COMM_WORLD, &observer_comm), &observer_comm);
  if (own_rank == 0 && wanted.statistics) prepare_file("statistics", statistics_to().file);
  if (own_rank == 0 && wanted.trace) prepare_file("trace", options().trace);
  int node_rank = 0;
  PMPI_Comm_rank(node, &node_rank);
  const int first_of_node = node_rank == 0;
  if (together) real.Reduce(&first_of_node, &nodes, 1, MPI_INT, MPI_SUM, 0, observer_comm);
  if (wanted.trace) {
    clock_fit.first = compare_clocks(observer_comm);
    start_of_trace = started;
    real.Bcast(&start_of_trace, 1, MPI_UINT64_T, 0, observer_comm);
  }
  if (wanted.statistics || wanted.trace) open_own_part(job);
  // A rank whose own options request no ranges, unlike rank 0's, uses "auto".
  if (wanted.ranges) observe::open_ranges(options().ranges == "off" ? "auto" : options().ranges.c_str());
  if (wanted.trace) observe::open_trace(events_of_a_trace, own_rank);
  observe::open(functions, name_of);
  if (wanted.statistics) observe::start_listening(print_own_report);
  if (progress) observe::start_ticking(static_cast<int>(options().progress_s), print_progress);
}

void stop_observing() {
  if (!observe::recording()) return;
  observe::stop_listening();
  observe::stop_ticking();
  observe::close();
  observe::close_trace();
  leave_out_failed();
  if (wanted.statistics) finish_statistics();
  if (wanted.trace) finish_trace();
  // Rank 0 may still be writing.
  if (wanted.statistics || wanted.trace) barrier_of_living(observer_comm);
  observe::own_part().reported = true;
  free_own(&observer_comm);
}

std::string statistics_as_json() {
  Report report = observe::own_report();
  report.seconds = started ? seconds_since_start() : 0;
  return as_json(report, provenance_of_the_job(), name_of);
}

}  // namespace fairlead::mpi
