// SPDX-License-Identifier: Apache-2.0
//
// Memory that a rank shares with its node after MPI_Init: ranges of the file of the node's segment, which
// every rank keeps open from MPI_Init on. Therefore neither creating nor mapping a range takes a file
// descriptor or the permission to inspect another process, both of which ranks may lose later (RLIMIT_NOFILE,
// PR_SET_DUMPABLE). A range that cannot be mapped for want of address space is read and written through the
// file. Thread-safe.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "node/file_identity.h"

namespace fairlead::node {

class NodeMemory {
 public:
  // The caller keeps `file`, which is used as long as it refers to the same file. `end`, in memory of the
  // node, is where the ranges in the file end now; the first one begins at `begin`.
  NodeMemory(int file, std::atomic<uint64_t>& end, uint64_t begin = 0)
      : number_(file), identity_(identity_of(file)), end_(end), begin_(begin), own_end_(begin) {}
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // A range of this rank is given back by its destructor; a range of another rank is a view.
  class Range {
   public:
    Range() = default;
    Range(Range&& other) noexcept { *this = std::move(other); }
    Range& operator=(Range&& other) noexcept;
    ~Range();

    // Is there memory at all? Its contents are undefined.
    explicit operator bool() const { return memory_ != nullptr; }
    uint64_t offset() const { return offset_; }  // others open() the range by it
    size_t bytes() const { return bytes_; }
    unsigned char* data() const { return data_; }  // null if it cannot be mapped
    // Copies through the file; false if the kernel refuses.
    bool write(uint64_t at, const void* from, size_t bytes) const;
    bool read(uint64_t at, void* to, size_t bytes) const;

   private:
    friend NodeMemory;
    NodeMemory* memory_ = nullptr;
    uint64_t offset_ = 0;
    size_t bytes_ = 0;
    unsigned char* data_ = nullptr;
    bool own_ = false;
  };

  // Invalid if there is no memory; errno holds the reason.
  Range create(size_t bytes);
  // Maps what another rank has created. Invalid if the file has no such range, so that a wrong offset does no
  // harm.
  Range open(uint64_t offset, size_t bytes);

 private:
  Range map(uint64_t offset, size_t bytes, bool own);
  bool add_room(uint64_t room, uint64_t* offset);
  bool allocate(uint64_t offset, uint64_t bytes) const;
  void give_back(uint64_t offset, uint64_t bytes);

  // -1 if the program has closed it.
  int file() const { return is_still(number_, identity_) ? number_ : -1; }

  int number_;
  FileIdentity identity_;
  std::atomic<uint64_t>& end_;
  const uint64_t begin_;
  std::mutex mutex_;
  uint64_t own_end_;                                // of the last range that this rank has added
  std::map<uint64_t, std::vector<uint64_t>> idle_;  // offsets by room; their pages have been freed
};

}  // namespace fairlead::node
