// SPDX-License-Identifier: Apache-2.0
//
// The arrays of counts, displacements and types that collectives take: how long they are, and copies for
// operations that are not over when the call returns. Programs may not touch them meanwhile, says the
// standard (MPI 4.1, 6.12); but host MPIs read them in the call, and programs rely on that: mpi4py frees
// them.

#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "mpi/collective_call.h"

namespace fairlead::mpi {

// A copy that stays for ever, of equal arrays one; of an empty array there is one, too. Null stays null.
template <class Element>
const Element* kept(std::vector<Element> elements) {
  static std::mutex mutex;
  static auto& all = *new std::set<std::vector<Element>>;
  elements.push_back(Element{});
  std::lock_guard lock(mutex);
  return all.insert(std::move(elements)).first->data();
}
template <class Element>
const Element* kept(const Element* elements, int many) {
  return elements ? kept(std::vector<Element>(elements, elements + many)) : nullptr;
}

// Those of one call, which names them from then on.
class KeptArrays {
 public:
  void keep(CollectiveCall* call, const Place& place);

 private:
  template <class Element>
  const Element* copy(const Element* elements, size_t many);

  std::vector<std::unique_ptr<std::byte[]>> copies_;
};

// How many elements a rank gives: of a communicator, and where only the root gives any; of processes in its
// own group; of destinations and sources in its topology.
int peers_of(MPI_Comm comm);
int peers_at_root(int root, MPI_Comm comm);
int members_of(MPI_Comm comm);
int destinations_of(MPI_Comm comm);
int sources_of(MPI_Comm comm);

}  // namespace fairlead::mpi
