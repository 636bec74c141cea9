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
  std::unique_ptr<Exchange> (*make)(const Grid& grid);  // null: this MPI lacks the functions
};

const std::vector<Variant>& variants();
const Variant* find_variant(const std::string& name);

std::unique_ptr<Exchange> device_exchange(const Grid& grid);
std::unique_ptr<Exchange> host_exchange(const Grid& grid);
std::unique_ptr<Exchange> managed_exchange(const Grid& grid);
std::unique_ptr<Exchange> datatype_exchange(const Grid& grid);
std::unique_ptr<Exchange> neighbour_exchange(const Grid& grid);
std::unique_ptr<Exchange> persistent_exchange(const Grid& grid);
#if MPI_VERSION >= 4
std::unique_ptr<Exchange> partitioned_exchange(const Grid& grid);
#endif

}  // namespace ghost
