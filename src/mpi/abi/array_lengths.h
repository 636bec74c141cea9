// SPDX-License-Identifier: Apache-2.0
//
// How long the arrays are that MPI functions take beside a communicator, and copies of arrays that stay for
// ever.

#pragma once

#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "mpi/abi/host_mpi.h"

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

// How many elements a rank gives: of a communicator, and where only the root gives any; of processes in its
// own group; of destinations and sources in its topology.
int peers_of(MPI_Comm comm);
int peers_at_root(int root, MPI_Comm comm);
int members_of(MPI_Comm comm);
int destinations_of(MPI_Comm comm);
int sources_of(MPI_Comm comm);

}  // namespace fairlead::mpi
