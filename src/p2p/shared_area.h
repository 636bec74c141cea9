// SPDX-License-Identifier: Apache-2.0
//
// Memory that each rank makes when it first needs it, and that the others of its node find by an offset in
// its block. Belongs to one thread at a time (the engine's lock).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "node/node.h"

namespace fairlead::p2p {

// Starts as zeros. Null: the rank has made none yet, or it cannot be mapped.
unsigned char* shared_area(node::Node& node, int rank, std::atomic<uint64_t> node::RankBlock::*offset,
                           size_t bytes);

}  // namespace fairlead::p2p
