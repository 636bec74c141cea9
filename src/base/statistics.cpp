// SPDX-License-Identifier: Apache-2.0

#include "base/statistics.h"

namespace fairlead {
namespace {

TrafficCount counts[static_cast<int>(Traffic::rows)];
constexpr const char* names[] = {
    "peer copies",
    "bounced in device memory",
    "staged in the node",
    "staged between nodes",
    "handed to the host MPI",
    "plain, sent",
    "plain, received",
    "buffered in device memory",
    "buffered in host memory",
    "collectives on the GPU",
    "collectives by NCCL",
    "collectives staged",
    "collectives between nodes"};

}  // namespace

TrafficCount& traffic(Traffic row) {
  return counts[static_cast<int>(row)];
}
const char* to_string(Traffic row) {
  return names[static_cast<int>(row)];
}

}  // namespace fairlead
