// SPDX-License-Identifier: Apache-2.0
//
// What this rank's device messages did, and why some took a longer way, counted for FAIRLEAD_STATS. Counting
// is a relaxed atomic addition; reading is safe at any time. How long each took is in src/observe.

#pragma once

#include <atomic>
#include <cstdint>

namespace fairlead {

// Rows of the table, in its order. A message counts where its bytes moved.
enum class Traffic {
  peer,                      // received by a peer-to-peer copy
  bounced,                   // received by peer-to-peer copies from the sender's buffer pool
  staged,                    // received through host memory of the node
  network,                   // received from another node, by chunks through host memory
  native,                    // sent by handing the device pointer to the host MPI
  plain_sent,                // sent as host message: small, another node, or unknown to Fairlead
  plain_received,            // host message into device memory
  buffered_device,           // send that was buffered in device memory for a late receiver
  buffered_host,             // the same in host memory
  collective_gpu,            // this rank's part of a collective that ran on the GPU
  collective_nccl,           // the same by NCCL or RCCL
  collective_staged,         // the same through host memory and the host MPI
  collective_between_nodes,  // the same on the GPU in each node, and through the host MPI between them
  rma_direct,                // one-sided access to memory that this rank reaches
  rma_served,                // the same that was asked of the target
  rma_staged,                // device memory of an origin for a window of the host MPI
  rows
};

struct TrafficCount {
  std::atomic<uint64_t> messages{0}, bytes{0};
};

TrafficCount& traffic(Traffic row);
const char* to_string(Traffic row);

enum class Fallback {
#define FAIRLEAD_FALLBACK(name, words) name,
#include "base/fallbacks.def"
#undef FAIRLEAD_FALLBACK
  rows
};

std::atomic<uint64_t>& fallbacks(Fallback row);
const char* to_string(Fallback row);

inline void count(Fallback row) {
  fallbacks(row).fetch_add(1, std::memory_order_relaxed);
}

inline void count(Traffic row, uint64_t bytes) {
  traffic(row).messages.fetch_add(1, std::memory_order_relaxed);
  traffic(row).bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace fairlead
