// SPDX-License-Identifier: Apache-2.0
//
// Counters for FAIRLEAD_STATS: the paths that this rank's device messages took, and why some did not take the
// shortest path. Counting is a relaxed atomic addition; reading is safe at any time. src/observe records
// durations.

#pragma once

#include <atomic>
#include <cstdint>

namespace fairlead {

// Rows of the table, in its order. A message counts for the path on which its bytes moved.
enum class Traffic {
  peer,                      // received by a peer-to-peer copy
  put,                       // received by a peer-to-peer copy of the sender's
  in_stream,                 // the same, for a GPU stream of the receiver, without its CPU
  device_staged,             // received by peer-to-peer copies from the sender's buffer pool
  staged,                    // staged through host memory of the node
  peer_between_nodes,        // received by a peer-to-peer copy from another node of the NVLink domain
  network,                   // received from another node, pipelined through host memory
  native,                    // sent by passing the device pointer to the host MPI
  host_message_sent,         // sent staged through host memory: small, another node, or unknown
  host_message_received,     // received staged through host memory
  buffered_device,           // send that was buffered in device memory for a late receiver
  buffered_host,             // the same in host memory
  collective_gpu,            // this rank's part of a collective that ran on the GPU
  collective_met,            // the same, in one kernel of each rank
  collective_by_one,         // the same, of one that the GPU of one rank did for all
  collective_nccl,           // the same by NCCL or RCCL
  collective_staged,         // the same through host memory and the host MPI
  collective_between_nodes,  // the same on the GPU in each node, and through the host MPI between them
  collective_in_stream,      // the same without the CPU, in a GPU stream
  rma_mapped,                // one-sided access to a mapped target
  rma_by_messages,           // one-sided access to an active-message target
  rma_staged,                // device memory of an origin, for a window of the host MPI
  file,                      // read from or written to a file, through host memory
  rows
};

struct TrafficCount {
  std::atomic<uint64_t> messages{0}, bytes{0};
};

TrafficCount& traffic(Traffic row);
const char* to_string(Traffic row);

enum class Fallback {
#define FAIRLEAD_FALLBACK(name, words) name,
#include "observe/fallbacks.def"
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
