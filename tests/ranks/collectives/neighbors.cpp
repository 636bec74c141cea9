// SPDX-License-Identifier: Apache-2.0
//
// Collectives of neighbours: every block comes from the right neighbour, and is the right one of several
// where two ranks are neighbours more than once. The theme `neighbors` brings plain data in device memory,
// all of which must move on the GPU: ctest looks at the statistics. Other data are in `communicators`.

#include <algorithm>
#include <numeric>
#include <random>

#include "collectives/exercise.h"

using namespace ranks;
using namespace ranks::coll;

namespace {

constexpr int random_graphs = 6;

// Is a rank the neighbour on both sides of a grid? Which of two blocks is whose then, the standard says since
// edition 4.0 only.
bool has_doubtful_neighbors(const Team& team) {
  for (size_t i = 0; i + 1 < team.sources.size(); i += 2)
    if (team.sources[i].rank == team.sources[i + 1].rank && team.sources[i].rank != MPI_PROC_NULL)
      return true;
  return false;
}

bool is_grid(const Team& team) {
  int topology = MPI_UNDEFINED;
  MUST(MPI_Topo_test(team.comm, &topology));
  return topology == MPI_CART;
}

// Where no block has any bytes the host MPI is asked, too.
bool works([[maybe_unused]] const Team& team, Kind kind, Form form) {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40300000
  // MPICH 4.0.2 and 4.2.1 mix up messages of multiple edges.
  if (host_oracle && !is_grid(team)) return false;
#endif
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
  // MPICH 4.0.2 reads other blocks in Neighbor_alltoallw in graphs, and loses data of persistent collectives.
  if (kind == Kind::neighbor_alltoallw && !is_grid(team)) return false;
  if (host_oracle && (form == Form::persistent || form == Form::large_persistent)) return false;
#endif
  return exists(kind, form);
}

Plan plan_of(Kind kind, Form form, int count, uint64_t salt) {
  Plan plan;
  plan.kind = kind;
  plan.count = count;
  plan.key = key_of(options.seed, static_cast<uint64_t>(kind) * form_count + static_cast<uint64_t>(form),
                    salt * 100000 + static_cast<uint64_t>(count));
  plan.types = plan.key % 2 == 0 ? Types::bytes : Types::integers;
  return plan;
}

void run_all_forms(const Team& team, uint64_t salt) {
  rearm_watchdog();
  int doubtful = host_oracle && is_grid(team) && has_doubtful_neighbors(team);
  MUST(MPI_Allreduce(MPI_IN_PLACE, &doubtful, 1, MPI_INT, MPI_MAX, team.comm));
  if (doubtful) return;
  for (int k = static_cast<int>(Kind::neighbor_allgather); k < kind_count; ++k)
    for (int f = 0; f < form_count; ++f) {
      const auto kind = static_cast<Kind>(k);
      const auto form = static_cast<Form>(f);
      if (!works(team, kind, form)) continue;
      for (int count : {1, 20000}) run(team, plan_of(kind, form, count, salt), form);
    }
}

void run_all_forms_and_free(MPI_Comm comm, uint64_t salt) {
  if (comm == MPI_COMM_NULL) return;
  run_all_forms(Team(comm), salt);
  MUST(MPI_Comm_free(&comm));
}

// How often each rank sends to each: the same on every rank.
std::vector<int> random_edges(std::mt19937_64& random, int most) {
  std::vector<int> edges(static_cast<size_t>(size) * static_cast<size_t>(size));
  for (int& count : edges)
    count = static_cast<int>(random() % 2 * (random() % static_cast<uint64_t>(most) + 1));
  edges[0] = 1;
  // Somebody has no neighbours at all, and somebody only sends.
  for (int other = 0; other < size && size > 2; ++other) {
    const auto first = static_cast<size_t>(other) * static_cast<size_t>(size),
               lone = static_cast<size_t>(size - 1);
    edges[first + lone] = edges[lone * static_cast<size_t>(size) + static_cast<size_t>(other)] = 0;
    edges[first + 1] = 0;
  }
  return edges;
}

MPI_Comm graph_of(const std::vector<int>& edges, std::mt19937_64& own, bool from_one) {
  const auto edge = [&](int from, int to) {
    return edges[static_cast<size_t>(from) * static_cast<size_t>(size) + static_cast<size_t>(to)];
  };
  MPI_Comm graph = MPI_COMM_NULL;
  if (from_one) {
    std::vector<int> sources, degrees, destinations;
    for (int from = 0; from < size && rank == 0; ++from) {
      sources.push_back(from);
      degrees.push_back(0);
      for (int to = 0; to < size; ++to) {
        degrees.back() += edge(from, to);
        destinations.insert(destinations.end(), static_cast<size_t>(edge(from, to)), to);
      }
    }
    MUST(MPI_Dist_graph_create(MPI_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
                               degrees.data(), destinations.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                               &graph));
    return graph;
  }
  std::vector<int> in, out;
  for (int other = 0; other < size; ++other) {
    in.insert(in.end(), static_cast<size_t>(edge(other, rank)), other);
    out.insert(out.end(), static_cast<size_t>(edge(rank, other)), other);
  }
  std::shuffle(in.begin(), in.end(), own);
  std::shuffle(out.begin(), out.end(), own);
  // Open MPI takes a null array for a mistake.
  const int nobody = 0;
  MUST(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, static_cast<int>(in.size()),
                                      in.empty() ? &nobody : in.data(), MPI_UNWEIGHTED,
                                      static_cast<int>(out.size()), out.empty() ? &nobody : out.data(),
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
  return graph;
}

}  // namespace

RANK_TEST(neighbors, on_grids, 1) {
  struct Grid {
    std::vector<int> edges;
    std::vector<int> rings;
  };
  const Grid grids[] = {
      {{0}, {0}},       {{0}, {1}}, {{0, 0}, {0, 1}}, {{0, 0, 1}, {1, 0, 1}}, {{1, 1, 0}, {1, 1, 1}},
      {{1, 2}, {1, 1}},
  };
  uint64_t salt = 0;
  for (Grid grid : grids) {
    ++salt;
    const int dimensions = static_cast<int>(grid.edges.size());
    int fixed = 1;
    for (int edge : grid.edges) fixed *= std::max(edge, 1);
    if (size < fixed) continue;
    if (std::count(grid.edges.begin(), grid.edges.end(), 0) > 0)
      MUST(MPI_Dims_create(size, dimensions, grid.edges.data()));
    MPI_Comm comm;
    MUST(MPI_Cart_create(MPI_COMM_WORLD, dimensions, grid.edges.data(), grid.rings.data(), 0, &comm));
    run_all_forms_and_free(comm, salt);
  }
}

// A ring, in which each edge is there twice.
RANK_TEST(neighbors, of_graphs, 2) {
  MPI_Comm graph;
  std::vector<int> ends, neighbors;
  for (int member = 0; member < size; ++member) {
    const int left = (member + size - 1) % size, right = (member + 1) % size;
    neighbors.insert(neighbors.end(), {right, left, left, right});
    ends.push_back(static_cast<int>(neighbors.size()));
  }
  MUST(MPI_Graph_create(MPI_COMM_WORLD, size, ends.data(), neighbors.data(), 0, &graph));
  run_all_forms_and_free(graph, 1);
}

RANK_TEST(neighbors, of_random_graphs, 1) {
  std::mt19937_64 random(options.seed), own(options.seed + 1 + static_cast<uint64_t>(rank));
  for (int graph = 0; graph < random_graphs; ++graph) {
    const std::vector<int> edges = random_edges(random, 3);
    run_all_forms_and_free(graph_of(edges, own, graph % 2 == 1), static_cast<uint64_t>(graph));
  }
}

// More messages than a rank can offer on the GPU: it alone sees that, and all stage.
RANK_TEST(communicators, with_more_messages_between_neighbors_than_fit, 2) {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40300000
  skip("this MPICH mixes up messages of multiple edges");
  return;
#endif
  std::vector<int> edges(static_cast<size_t>(size) * static_cast<size_t>(size), 1);
  edges[1] = 100;
  std::mt19937_64 own(options.seed + static_cast<uint64_t>(rank));
  MPI_Comm graph = graph_of(edges, own, false);
  {
    const Team team(graph);
    for (Kind kind : {Kind::neighbor_allgather, Kind::neighbor_alltoall, Kind::neighbor_alltoallv})
      run(team, plan_of(kind, Form::blocking, 10, 1));
  }
  MUST(MPI_Comm_free(&graph));
}
