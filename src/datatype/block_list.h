// SPDX-License-Identifier: Apache-2.0
//
// The blocks of an irregular layout, which kernels and the CPU look up: offsets count from the first block,
// positions are those in the stream of bytes. A device gets a copy when it needs one for the first time. That
// memory is never given back to the driver before MPI_Finalize, since this would wait for all work of the
// device: other lists use it again. Thread-safe.

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "datatype/tree.h"
#include "kernels/blocks.h"

namespace fairlead::datatype {

class BlockList {
 public:
  // Null when there are too many.
  static std::shared_ptr<const BlockList> make(const Tree& tree);
  explicit BlockList(std::vector<kernels::Block> blocks, uint64_t bytes);
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
  device::Error table_on(int device, kernels::BlockTable* table) const;

  bool operator==(const BlockList& other) const;

 private:
  uint64_t end_of(size_t block) const {
    return block + 1 < blocks_.size() ? blocks_[block + 1].position : bytes_;
  }
  device::Error upload(int device, kernels::BlockTable* table) const;

  std::vector<kernels::Block> blocks_;
  uint64_t bytes_;
  uint64_t equal_bytes_ = 0;  // of all blocks, where they are equal
  uint64_t bits_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<int, kernels::BlockTable> tables_;
};

// In MPI_Finalize.
void release_block_tables();

}  // namespace fairlead::datatype
