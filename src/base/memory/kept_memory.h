// SPDX-License-Identifier: Apache-2.0
//
// Memory that outlives this process: blocks in an anonymous file that another process keeps, which reads what
// is left there. Several processes share the file; each takes chunks of it. Blocks are never freed. Without
// such a file they are ordinary memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fairlead {

constexpr size_t kept_chunk = size_t{1} << 20;

// A descriptor of a file with room for so many chunks, which takes memory as they are used; -1 if the kernel
// refuses.
int make_kept_file(size_t chunks);

// From now on blocks are in this file, which must stay open.
void keep_in(int file);

// Zeros, aligned as any object. At most kept_chunk / 2 bytes. `kind` is for the reader. Thread-safe.
void* allocate_kept(uint32_t kind, size_t bytes);

// The blocks that are in the file, those of each process in their order; `process` numbers them from 0. The
// processes may have died at any point, or have damaged the file: a block is inside the file, and may contain
// anything. `data` is there during the visit.
struct KeptBlock {
  int process;
  uint32_t kind;
  const void* data;
  size_t bytes;
};
void visit_kept(int file, const std::function<void(const KeptBlock&)>& visit);

}  // namespace fairlead
