// SPDX-License-Identifier: Apache-2.0
//
// The blocks of an irregular layout, in a form in which kernels and the CPU look them up. Offsets count from
// the first block; positions count bytes in transfer order. A device gets a copy when it first needs one.
// That memory is not returned to the driver before MPI_Finalize, because this would wait for all work of the
// device: other lists reuse it. Thread-safe.

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/attempt.h"
#include "device/context.h"
#include "device/pinned_buffer.h"
#include "kernels/blocks.h"
#include "packing/tree.h"

namespace fairlead::packing {

// Memory of a table, in the form that block_list.cpp explains.
struct TableMemory {
  void* address = nullptr;
  int location = 0;
  size_t bytes = 0;
  device::Context context;
  std::shared_ptr<device::PinnedBuffer> pinned;  // if the memory is host memory
};

class BlockList {
 public:
  // Null if there are more than `most` blocks.
  static std::shared_ptr<const BlockList> make(const Tree& tree, size_t most = blocks_at_most);
  explicit BlockList(std::vector<kernels::ListedBlock> blocks, uint64_t bytes);
  ~BlockList();
  BlockList(const BlockList&) = delete;
  BlockList& operator=(const BlockList&) = delete;

  struct Run {
    int64_t offset;
    uint64_t bytes;
  };
  Run run_at(uint64_t position) const;
  size_t size() const { return blocks_.size(); }
  uint64_t mean_block() const { return bytes_ / blocks_.size(); }

  // The copy in the memory of this device, for kernels there.
  Attempt table_on(int device, kernels::BlockTable* table) const;

  bool operator==(const BlockList& other) const;

 private:
  uint64_t end_of(size_t block) const {
    return block + 1 < blocks_.size() ? blocks_[block + 1].position : bytes_;
  }
  struct Table {
    kernels::BlockTable on_device;
    TableMemory memory;
  };
  Attempt upload(int device, Table* table) const;

  std::vector<kernels::ListedBlock> blocks_;
  uint64_t bytes_;
  uint64_t equal_bytes_ = 0;  // length of each block if all are equal, else 0
  uint64_t bits_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<int, Table> tables_;
};

// Called in MPI_Finalize.
void release_block_tables();

}  // namespace fairlead::packing
