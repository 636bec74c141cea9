// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/algorithm_log.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "mpi/abi/mutex.h"

namespace fairlead::mpi {

void log_algorithm(const CollectiveCall& call, const CommPosition& position, const Regions& regions,
                   const char* path, const char* why) {
  static Mutex mutex;
  static auto& logged = *new std::set<std::tuple<coll::Family, int, std::string>>;
  const coll::Family family = call.shape().family;
  {
    std::lock_guard lock(mutex);
    if (!logged.emplace(family, position.size, path).second) return;
  }
  log_line(LogLevel::info, "%s of %lld bytes in %d ranks: %s (%s)", coll::row_of(family).name.data(),
           static_cast<long long>(std::max(regions.read.bytes, regions.written.bytes)), position.size, path,
           why);
}

}  // namespace fairlead::mpi
