// SPDX-License-Identifier: Apache-2.0

#include "variants.h"

namespace ghost {

const std::vector<Variant>& variants() {
#if MPI_VERSION >= 4
  constexpr auto partitioned = partitioned_exchange;
#else
  constexpr std::unique_ptr<Exchange> (*partitioned)(const Grid&) = nullptr;
#endif
  static const std::vector<Variant> all = {
      {"host", "copies to host memory, for any MPI", Memory::device, false, host_exchange},
      {"managed", "managed memory, which host and GPU reach", Memory::managed, false, managed_exchange},
      {"device", "device buffers, for a GPU-aware MPI", Memory::device, false, device_exchange},
      {"datatypes", "MPI datatypes instead of packing", Memory::device, false, datatype_exchange},
      {"neighbourhood", "MPI_Neighbor_alltoallv", Memory::device, false, neighbour_exchange},
      {"overlap", "as device; the interior is blurred meanwhile", Memory::device, true, device_exchange},
      {"persistent", "persistent requests", Memory::device, false, persistent_exchange},
      {"partitioned", "partitioned messages (MPI 4)", Memory::device, false, partitioned},
  };
  return all;
}

const Variant* find_variant(const std::string& name) {
  for (const Variant& variant : variants())
    if (name == variant.name) return &variant;
  return nullptr;
}

}  // namespace ghost
