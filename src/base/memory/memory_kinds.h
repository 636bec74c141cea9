// SPDX-License-Identifier: Apache-2.0
//
// Lists of memory allocation kinds (MPI 4.1, section 11.4.3): "system,mpi,cuda:host:device". An entry is the
// name of a kind and restrictors of it; without restrictors it means all memory of the kind. The names of GPU
// memory are those of the side document "Memory Allocation Kinds" 1.0, and `sim` is Fairlead's own for memory
// of simulated GPUs.

#pragma once

#include <string>
#include <vector>

namespace fairlead {

struct AllocationKind {
  std::string name;
  std::vector<std::string> restrictors;

  bool operator==(const AllocationKind&) const = default;
  std::string text() const;
};

class KindList {
 public:
  // Entries that are not written as above are left out and, if `wrong` is given, stored there. Blanks around
  // an entry do not count. Empty text is the empty list.
  static KindList parse(const std::string& text, std::vector<std::string>* wrong = nullptr);
  // All that there is of this kind of GPU memory, entry by entry: "cuda,cuda:host,cuda:device,cuda:managed".
  // Programs compare entries as texts, so each has to be there.
  static KindList all_of(const std::string& name);

  // Is all memory that the entry means in this list? False for restrictors that the kind does not have.
  bool covers(const AllocationKind& kind) const;
  bool covers(const KindList& other) const;
  // Appends what is not in this list yet.
  void add(const KindList& other);
  void add(const AllocationKind& kind);

  const std::vector<AllocationKind>& kinds() const { return kinds_; }
  bool empty() const { return kinds_.empty(); }
  std::string text() const;

 private:
  std::vector<AllocationKind> kinds_;
};

}  // namespace fairlead
