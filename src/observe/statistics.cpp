// SPDX-License-Identifier: Apache-2.0

#include "observe/statistics.h"

#include "observe/part.h"

namespace fairlead {

using observe::own_part;

namespace {

constexpr const char* names[] = {"peer copies",
                                 "peer copies by the sender",
                                 "peer copies in streams",
                                 "staged in device memory",
                                 "staged in host memory",
                                 "peer copies between nodes",
                                 "pipelined between nodes",
                                 "passed to the host MPI",
                                 "host message, sent",
                                 "host message, received",
                                 "buffered in device memory",
                                 "buffered in host memory",
                                 "collectives on the GPU",
                                 "collectives in one kernel",
                                 "collectives by one GPU",
                                 "collectives by NCCL",
                                 "collectives staged",
                                 "collectives between nodes",
                                 "collectives in streams",
                                 "one-sided, mapped",
                                 "one-sided, by messages",
                                 "one-sided, staged",
                                 "files, staged"};

constexpr const char* fallback_words[] = {
#define FAIRLEAD_FALLBACK(name, words) words,
#include "observe/fallbacks.def"
#undef FAIRLEAD_FALLBACK
};

}  // namespace

TrafficCount& traffic(Traffic row) {
  return own_part().traffic[static_cast<size_t>(row)];
}
const char* to_string(Traffic row) {
  return names[static_cast<int>(row)];
}

std::atomic<uint64_t>& fallbacks(Fallback row) {
  return own_part().fallbacks[static_cast<size_t>(row)];
}
const char* to_string(Fallback row) {
  return fallback_words[static_cast<int>(row)];
}

}  // namespace fairlead
