// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "exchange.h"

namespace ghost {

struct Variant {
  const char* name;
  const char* summary;
  Memory memory;   // of all arrays
  bool overlaps;   // the interior is blurred between start() and finish()
  std::unique_ptr<Exchange> (*make)(const Grid& grid);  // null: this MPI, or this GPU, lacks the functions
  int thread_level = MPI_THREAD_SINGLE;                 // what MPI must give
  std::string needs = {};                               // where `make` is null: what is lacking
};

const std::vector<Variant>& variants();
const Variant* find_variant(const std::string& name);
// What the variant needs and does not have here; empty: it can run. MPI is initialised.
std::string lacking(const Variant& variant);

std::unique_ptr<Exchange> device_exchange(const Grid& grid);
std::unique_ptr<Exchange> host_exchange(const Grid& grid);
std::unique_ptr<Exchange> managed_exchange(const Grid& grid);
std::unique_ptr<Exchange> datatype_exchange(const Grid& grid);
std::unique_ptr<Exchange> neighbour_exchange(const Grid& grid);
std::unique_ptr<Exchange> persistent_exchange(const Grid& grid);
#if MPI_VERSION >= 4
std::unique_ptr<Exchange> partitioned_exchange(const Grid& grid);
#endif
std::unique_ptr<Exchange> stream_exchange(const Grid& grid);
std::unique_ptr<Exchange> graph_exchange(const Grid& grid);

}  // namespace ghost
