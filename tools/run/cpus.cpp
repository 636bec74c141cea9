// SPDX-License-Identifier: Apache-2.0

#include "run/cpus.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "bench/machine.h"
#include "common/failure.h"
#include "common/words.h"

namespace fairlead::tools {

Cpus cpus_of(const std::string& list) {
  Cpus cpus;
  char* next = nullptr;
  for (const char* at = list.c_str(); *at >= '0' && *at <= '9'; at = *next == ',' ? next + 1 : next) {
    long first = std::strtol(at, &next, 10), last = first;
    if (*next == '-') last = std::strtol(next + 1, &next, 10);
    for (long cpu = first; cpu <= last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

std::string to_text(const Cpus& cpus) {
  return ranges_in_words(cpus);
}

Cpus common(const Cpus& a, const Cpus& b) {
  Cpus both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
  return both;
}

Cpus own_cpus() {
  return cpus_of(bound_cpus());
}

void bind_to(const Cpus& cpus) {
  if (cpus.empty()) return;
  size_t bytes = CPU_ALLOC_SIZE(*cpus.rbegin() + 1);
  std::vector<cpu_set_t> mask((bytes + sizeof(cpu_set_t) - 1) / sizeof(cpu_set_t));
  std::memset(mask.data(), 0, mask.size() * sizeof(cpu_set_t));
  for (int cpu : cpus) CPU_SET_S(cpu, bytes, mask.data());
  if (sched_setaffinity(0, bytes, mask.data()) != 0)
    throw usage(fmt::format("--bind-cores: the kernel refuses cores {}: {}; leave --bind-cores out",
                            to_text(cpus), std::strerror(errno)));
}

}  // namespace fairlead::tools
