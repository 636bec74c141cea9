// SPDX-License-Identifier: Apache-2.0
//
// Words by which kernels and the CPU tell each other about the partitions of one request
// (include/fairlead/partitioned.h): one in page-locked memory for each. A kernel sets the word of a partition
// of a send when that is ready, and the CPU clears it again; the CPU sets that of a partition of a receive
// when that is in device memory.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/pinned_buffer.h"
#include "device/runtime.h"

namespace fairlead::mpi {

class PartitionWords {
 public:
  // Null if there is no page-locked memory.
  static std::shared_ptr<PartitionWords> make(int partitions) {
    auto made = std::make_shared<PartitionWords>(partitions);
    if (!made->memory_.pinned()) return nullptr;
    made->clear();
    return made;
  }
  explicit PartitionWords(int partitions)
      : partitions_(partitions), memory_(sizeof(uint32_t) * static_cast<size_t>(partitions)) {}

  uint32_t* data() const { return reinterpret_cast<uint32_t*>(memory_.data()); }
  // Has a kernel set the word? Clears it.
  bool take(int partition) {
    if (word(partition).load(std::memory_order_acquire) == 0) return false;
    word(partition).store(0, std::memory_order_relaxed);
    return true;
  }
  void set(int partition) { word(partition).store(1, std::memory_order_release); }
  void clear() {
    for (int partition = 0; partition < partitions_; ++partition)
      word(partition).store(0, std::memory_order_relaxed);
  }
  device::Error clear_on(device::Stream stream) {
    return device::runtime()->fill(data(), 0, sizeof(uint32_t) * static_cast<size_t>(partitions_), stream);
  }

 private:
  std::atomic_ref<uint32_t> word(int partition) { return std::atomic_ref<uint32_t>(data()[partition]); }

  int partitions_;
  device::PinnedBuffer memory_;
};

}  // namespace fairlead::mpi
