// SPDX-License-Identifier: Apache-2.0

#include "variants.h"

#include <string_view>

namespace ghost {

const std::vector<Variant>& variants() {
  using Make = std::unique_ptr<Exchange> (*)(const Grid&);
#if MPI_VERSION >= 4
  constexpr Make partitioned = partitioned_exchange;
#else
  constexpr Make partitioned = nullptr;
#endif
  constexpr Make graph = std::string_view(gpuProvider) == "HIP" ? nullptr : graph_exchange;
  static const std::vector<Variant> all = {
      {"host", "copies to host memory, for any MPI", Memory::device, false, host_exchange},
      {"managed", "managed memory, which host and GPU reach", Memory::managed, false, managed_exchange},
      {"device", "device buffers, for a GPU-aware MPI", Memory::device, false, device_exchange},
      {"datatypes", "MPI datatypes instead of packing", Memory::device, false, datatype_exchange},
      {"neighbourhood", "MPI_Neighbor_alltoallv", Memory::device, false, neighbour_exchange},
      {"overlap", "as device; the interior is blurred meanwhile", Memory::device, true, device_exchange},
      {"persistent", "persistent requests", Memory::device, false, persistent_exchange},
      {"partitioned", "partitioned messages (MPI 4)", Memory::device, false, partitioned, MPI_THREAD_SINGLE,
       "an MPI that has MPI 4; this one has MPI " + std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION)},
      {"stream", "enqueued on a GPU stream (Fairlead)", Memory::device, false, stream_exchange, MPI_THREAD_MULTIPLE},
      {"graph", "as stream, captured into graphs; not on AMD GPUs", Memory::device, false, graph, MPI_THREAD_MULTIPLE,
       "MPI operations in graphs, which cannot be captured on AMD GPUs (docs/use/streams.md, Limits)"},
  };
  return all;
}

const Variant* find_variant(const std::string& name) {
  for (const Variant& variant : variants())
    if (name == variant.name) return &variant;
  return nullptr;
}

std::string lacking(const Variant& variant) {
  if (!variant.make) return variant.needs;
  int given;
  MPI_Query_thread(&given);
  return given < variant.thread_level ? "an MPI that gives MPI_THREAD_MULTIPLE" : "";
}

}  // namespace ghost
