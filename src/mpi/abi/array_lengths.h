// SPDX-License-Identifier: Apache-2.0
//
// The lengths of the array arguments of MPI functions that take a communicator, and permanent copies of
// arrays.

#pragma once

#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "mpi/abi/host_mpi.h"
#include "mpi/abi/mutex.h"

namespace fairlead::mpi {

// Returns a permanent copy. Equal arrays share one copy, and an empty array has one too. Null stays null.
template <class Element>
const Element* kept(std::vector<Element> elements) {
  static Mutex mutex;
  static auto& all = *new std::set<std::vector<Element>>;
  elements.push_back(Element{});
  std::lock_guard lock(mutex);
  return all.insert(std::move(elements)).first->data();
}
template <class Element>
const Element* kept(const Element* elements, int many) {
  return elements ? kept(std::vector<Element>(elements, elements + many)) : nullptr;
}

// The number of elements that a rank passes: one per rank of the communicator (of the remote group, if there
// is one); the same, but only at the root; one per process of the rank's own group; one per destination, and
// one per source, of its topology.
int peers_of(MPI_Comm comm);
int peers_at_root(int root, MPI_Comm comm);
int members_of(MPI_Comm comm);
int destinations_of(MPI_Comm comm);
int sources_of(MPI_Comm comm);

}  // namespace fairlead::mpi
