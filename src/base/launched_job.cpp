// SPDX-License-Identifier: Apache-2.0

#include "base/launched_job.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "base/environment.h"

namespace fairlead {
namespace {

struct RankVariables {
  const char *launcher, *abi, *rank, *size, *local_rank, *local_size, *node, *nodes, *job, *terminal;
};

constexpr RankVariables launchers[] = {
#define FAIRLEAD_RANK_VARIABLES(...) {__VA_ARGS__},
#include "base/launchers.def"
};

constexpr Pmi pmis[] = {
#define FAIRLEAD_PMI(...) {__VA_ARGS__},
#include "base/launchers.def"
};

// Returns -1 if the variable is not set or is not a number.
int number(const char* variable) {
  const char* text = environment_variable(variable);
  return text && *text >= '0' && *text <= '9' ? std::atoi(text) : -1;
}

bool missing(const char* variable) {
  return *variable && number(variable) < 0;
}

// Returns entry `index` of a list like "4(x2),3", which means 4, 4, 3; -1 if there is none.
int entry(const char* list, int index) {
  for (char* end = nullptr; *list >= '0' && *list <= '9'; list = *end == ',' ? end + 1 : end) {
    long value = std::strtol(list, &end, 10), times = 1;
    if (end[0] == '(' && end[1] == 'x') {
      times = std::strtol(end + 2, &end, 10);
      if (*end == ')') ++end;
    }
    if (index < times) return static_cast<int>(value);
    index -= static_cast<int>(times);
  }
  return -1;
}

int local_size(const RankVariables& row, int size) {
  const char* list = environment_variable(row.local_size);
  if (list) return entry(list, *row.node ? number(row.node) : 0);
  int nodes = *row.nodes ? number(row.nodes) : 0;
  return nodes > 0 ? (size + nodes - 1) / nodes : -1;
}

std::string job_id(const char* variables) {
  std::string id;
  std::istringstream names(variables);
  for (std::string name; names >> name;)
    if (const char* value = environment_variable(name.c_str()))
      id += (id.empty() ? "" : ".") + std::string(value);
  return id;
}

// Of `srun -n 4 --pty bash` one shell has the terminal. What that shell starts by srun has the variable, too,
// but no terminal.
bool on_terminal_of(const RankVariables& row) {
  if (!*row.terminal || !environment_variable(row.terminal)) return false;
  const int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) close(terminal);
  return terminal >= 0;
}

}  // namespace

std::vector<Job> jobs_from_environment() {
  std::vector<Job> jobs;
  bool by_scheduler = false;
  for (const RankVariables& row : launchers) {
    if (missing(row.rank) || missing(row.size) || missing(row.local_rank)) continue;
    if (by_scheduler && *row.abi) continue;  // the scheduler set these, too, for the PMI of that MPI
    by_scheduler |= !*row.abi;
    Job job{row.launcher, row.abi, number(row.rank), number(row.size), number(row.local_rank)};
    job.local_size = local_size(row, job.size);
    job.id = job_id(row.job);
    // A scheduler's batch or interactive shell is also a job, but not a launched MPI job.
    const bool scheduler_shell = job.abi.empty() && (job.size == 1 || on_terminal_of(row));
    if (!scheduler_shell) jobs.push_back(job);
  }
  return jobs;
}

bool Pmi::offered() const {
  std::istringstream names(variables);
  for (std::string name; names >> name;)
    if (environment_variable(name.c_str())) return true;
  return false;
}

const Pmi* find_pmi(const std::string& launcher, const std::string& abi) {
  auto row = std::find_if(std::begin(pmis), std::end(pmis),
                          [&](const Pmi& each) { return launcher == each.launcher && abi == each.abi; });
  return row == std::end(pmis) ? nullptr : row;
}

std::optional<Job> job_from_environment() {
  std::vector<Job> jobs = jobs_from_environment();
  return jobs.empty() ? std::nullopt : std::optional(jobs.front());
}

}  // namespace fairlead
