// SPDX-License-Identifier: Apache-2.0
//
// Bad arguments of collectives: blocking, nonblocking and persistent ones (arguments.cpp).

#include <dlfcn.h>

#include "arguments/arguments.h"

using namespace ranks;
using namespace ranks::arguments;

namespace {

constexpr int no_root = 7, no_count = -1, counts[] = {1}, no_counts[] = {-1}, displacements[] = {0};

// The persistent form of a collective, which came with MPI 4.0; null where there is none.
template <class... Arguments>
auto persistent(int (*)(Arguments...), const char* name) {
  return reinterpret_cast<int (*)(Arguments..., MPI_Info, MPI_Request*)>(dlsym(RTLD_DEFAULT, name));
}

// Host MPIs of MPI 3.1 lack the persistent form: its errors are those of the blocking one.
#define PERSISTENT(Function, ...)                                                                            \
  {                                                                                                          \
#Function "_init(" #__VA_ARGS__ ")", [](Given& g) { return (void)g, HOST_MPI(Function)(__VA_ARGS__); },    \
        [](Given& g) {                                                                                      \
          const auto init = persistent(MPI_##Function, "MPI_" #Function "_init");                           \
          return init ? init(__VA_ARGS__, MPI_INFO_NULL, &g.request) : HOST_MPI(Function)(__VA_ARGS__);        \
        } \
  }

#define EACH(Function, IFunction, ...) \
  BAD(Function, __VA_ARGS__), STARTS(IFunction, __VA_ARGS__), PERSISTENT(Function, __VA_ARGS__)

const BadCall rooted[] = {
    EACH(Bcast, Ibcast, g.buffer, no_count, MPI_BYTE, 0, g.comm),
    EACH(Bcast, Ibcast, g.buffer, 1, MPI_DATATYPE_NULL, 0, g.comm),
    EACH(Bcast, Ibcast, g.buffer, 1, g.uncommitted, 0, g.comm),
    EACH(Bcast, Ibcast, g.buffer, 1, MPI_BYTE, no_root, g.comm),
    EACH(Bcast, Ibcast, g.buffer, 1, MPI_BYTE, -7, g.comm),
    EACH(Bcast, Ibcast, g.buffer, 1, MPI_BYTE, 0, MPI_COMM_NULL),
    EACH(Gather, Igather, g.buffer, no_count, MPI_BYTE, g.other, 1, MPI_BYTE, 0, g.comm),
    EACH(Gather, Igather, g.buffer, 1, MPI_DATATYPE_NULL, g.other, 1, MPI_BYTE, 0, g.comm),
    EACH(Gather, Igather, g.buffer, 1, g.uncommitted, g.other, 1, MPI_BYTE, 0, g.comm),
    EACH(Gather, Igather, g.buffer, 1, MPI_BYTE, g.other, no_count, MPI_BYTE, 0, g.comm),
    EACH(Gather, Igather, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_DATATYPE_NULL, 0, g.comm),
    UNLESS_OPEN_MPI(EACH(Gather, Igather, g.buffer, 1, MPI_BYTE, g.other, 1, g.uncommitted, 0, g.comm)),
    EACH(Gather, Igather, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_BYTE, no_root, g.comm),
    EACH(Gather, Igather, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_BYTE, 0, MPI_COMM_NULL),
    EACH(Gather, Igather, g.buffer, 1, MPI_BYTE, MPI_IN_PLACE, 1, MPI_BYTE, 0, g.comm),
    EACH(Gatherv, Igatherv, g.buffer, no_count, MPI_BYTE, g.other, counts, displacements, MPI_BYTE, 0,
         g.comm),
    EACH(Gatherv, Igatherv, g.buffer, 1, g.uncommitted, g.other, counts, displacements, MPI_BYTE, 0, g.comm),
    EACH(Gatherv, Igatherv, g.buffer, 1, MPI_BYTE, g.other, no_counts, displacements, MPI_BYTE, 0, g.comm),
    EACH(Gatherv, Igatherv, g.buffer, 1, MPI_BYTE, g.other, counts, displacements, MPI_DATATYPE_NULL, 0,
         g.comm),
    UNLESS_OPEN_MPI(EACH(Gatherv, Igatherv, g.buffer, 1, MPI_BYTE, g.other, counts, displacements,
                         g.uncommitted, 0, g.comm)),
    EACH(Gatherv, Igatherv, g.buffer, 1, MPI_BYTE, g.other, counts, displacements, MPI_BYTE, no_root, g.comm),
    UNLESS_MPICH(
        EACH(Gatherv, Igatherv, g.buffer, 1, MPI_BYTE, g.other, nullptr, displacements, MPI_BYTE, 0, g.comm)),
    UNLESS_MPICH(
        EACH(Gatherv, Igatherv, g.buffer, 1, MPI_BYTE, g.other, counts, nullptr, MPI_BYTE, 0, g.comm)),
    UNLESS_OPEN_MPI(EACH(Scatter, Iscatter, g.buffer, no_count, MPI_BYTE, g.other, 1, MPI_BYTE, 0, g.comm)),
    UNLESS_OPEN_MPI(EACH(Scatter, Iscatter, g.buffer, 1, MPI_DATATYPE_NULL, g.other, 1, MPI_BYTE, 0, g.comm)),
    UNLESS_OPEN_MPI(EACH(Scatter, Iscatter, g.buffer, 1, g.uncommitted, g.other, 1, MPI_BYTE, 0, g.comm)),
    EACH(Scatter, Iscatter, g.buffer, 1, MPI_BYTE, g.other, no_count, MPI_BYTE, 0, g.comm),
    UNLESS_OPEN_MPI(EACH(Scatter, Iscatter, g.buffer, 1, MPI_BYTE, g.other, 1, g.uncommitted, 0, g.comm)),
    EACH(Scatter, Iscatter, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_BYTE, no_root, g.comm),
    EACH(Scatterv, Iscatterv, g.buffer, no_counts, displacements, MPI_BYTE, g.other, 1, MPI_BYTE, 0, g.comm),
    EACH(Scatterv, Iscatterv, g.buffer, counts, displacements, g.uncommitted, g.other, 1, MPI_BYTE, 0,
         g.comm),
    EACH(Scatterv, Iscatterv, g.buffer, counts, displacements, MPI_BYTE, g.other, no_count, MPI_BYTE, 0,
         g.comm),
    UNLESS_OPEN_MPI(EACH(Scatterv, Iscatterv, g.buffer, counts, displacements, MPI_BYTE, g.other, 1,
                         g.uncommitted, 0, g.comm)),
    EACH(Scatterv, Iscatterv, g.buffer, counts, displacements, MPI_BYTE, g.other, 1, MPI_BYTE, no_root,
         g.comm),
};

const BadCall to_all[] = {
    BAD(Barrier, MPI_COMM_NULL),
    STARTS(Ibarrier, MPI_COMM_NULL),
    EACH(Allgather, Iallgather, g.buffer, no_count, MPI_BYTE, g.other, 1, MPI_BYTE, g.comm),
    EACH(Allgather, Iallgather, g.buffer, 1, g.uncommitted, g.other, 1, MPI_BYTE, g.comm),
    EACH(Allgather, Iallgather, g.buffer, 1, MPI_BYTE, g.other, no_count, MPI_BYTE, g.comm),
    EACH(Allgather, Iallgather, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_DATATYPE_NULL, g.comm),
    UNLESS_OPEN_MPI(EACH(Allgather, Iallgather, g.buffer, 1, MPI_BYTE, g.other, 1, g.uncommitted, g.comm)),
    UNLESS_OPEN_MPI(EACH(Allgather, Iallgather, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_BYTE, MPI_COMM_NULL)),
    EACH(Allgatherv, Iallgatherv, g.buffer, no_count, MPI_BYTE, g.other, counts, displacements, MPI_BYTE,
         g.comm),
    EACH(Allgatherv, Iallgatherv, g.buffer, 1, g.uncommitted, g.other, counts, displacements, MPI_BYTE,
         g.comm),
    UNLESS_OPEN_MPI(EACH(Allgatherv, Iallgatherv, g.buffer, 1, MPI_BYTE, g.other, no_counts, displacements,
                         MPI_BYTE, g.comm)),
    UNLESS_OPEN_MPI(EACH(Allgatherv, Iallgatherv, g.buffer, 1, MPI_BYTE, g.other, counts, displacements,
                         g.uncommitted, g.comm)),
    EACH(Allgatherv, Iallgatherv, g.buffer, 1, MPI_BYTE, g.other, counts, displacements, MPI_DATATYPE_NULL,
         g.comm),
    EACH(Alltoall, Ialltoall, g.buffer, no_count, MPI_BYTE, g.other, 1, MPI_BYTE, g.comm),
    EACH(Alltoall, Ialltoall, g.buffer, 1, g.uncommitted, g.other, 1, MPI_BYTE, g.comm),
    EACH(Alltoall, Ialltoall, g.buffer, 1, MPI_BYTE, g.other, no_count, MPI_BYTE, g.comm),
    EACH(Alltoall, Ialltoall, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_DATATYPE_NULL, g.comm),
    EACH(Alltoall, Ialltoall, g.buffer, 1, MPI_BYTE, g.other, 1, g.uncommitted, g.comm),
    EACH(Alltoallv, Ialltoallv, g.buffer, no_counts, displacements, MPI_BYTE, g.other, counts, displacements,
         MPI_BYTE, g.comm),
    EACH(Alltoallv, Ialltoallv, g.buffer, counts, displacements, g.uncommitted, g.other, counts,
         displacements, MPI_BYTE, g.comm),
    EACH(Alltoallv, Ialltoallv, g.buffer, counts, displacements, MPI_BYTE, g.other, no_counts, displacements,
         MPI_BYTE, g.comm),
    EACH(Alltoallv, Ialltoallv, g.buffer, counts, displacements, MPI_BYTE, g.other, counts, displacements,
         g.uncommitted, g.comm),
    UNLESS_MPICH(EACH(Alltoallv, Ialltoallv, g.buffer, nullptr, displacements, MPI_BYTE, g.other, counts,
                      displacements, MPI_BYTE, g.comm)),
    UNLESS_MPICH(EACH(Alltoallv, Ialltoallv, g.buffer, counts, displacements, MPI_BYTE, g.other, counts,
                      nullptr, MPI_BYTE, g.comm)),
    EACH(Alltoallw, Ialltoallw, g.buffer, no_counts, displacements, &g.derived, g.other, counts,
         displacements, &g.derived, g.comm),
    EACH(Alltoallw, Ialltoallw, g.buffer, counts, displacements, &g.uncommitted, g.other, counts,
         displacements, &g.derived, g.comm),
    EACH(Alltoallw, Ialltoallw, g.buffer, counts, displacements, &g.derived, g.other, no_counts,
         displacements, &g.derived, g.comm),
    EACH(Alltoallw, Ialltoallw, g.buffer, counts, displacements, &g.derived, g.other, counts, displacements,
         &g.uncommitted, g.comm),
};

const BadCall reductions[] = {
    UNLESS_MPICH(BAD(Reduce_local, g.buffer, g.other, no_count, MPI_INT, MPI_SUM)),
    BAD(Reduce_local, g.buffer, g.other, 1, MPI_INT, MPI_OP_NULL),
    UNLESS_MPICH_5(BAD(Reduce_local, g.buffer, g.other, 1, MPI_DATATYPE_NULL, MPI_SUM)),
    BAD(Reduce_local, g.buffer, g.other, 1, g.uncommitted, MPI_SUM),
    BAD(Reduce_local, g.buffer, g.other, 1, MPI_DOUBLE, MPI_BAND),
    UNLESS_MPICH(EACH(Reduce, Ireduce, g.buffer, g.other, no_count, MPI_INT, MPI_SUM, 0, g.comm)),
    EACH(Reduce, Ireduce, g.buffer, g.other, 1, MPI_INT, MPI_OP_NULL, 0, g.comm),
    UNLESS_MPICH_5(EACH(Reduce, Ireduce, g.buffer, g.other, 1, MPI_DATATYPE_NULL, MPI_SUM, 0, g.comm)),
    EACH(Reduce, Ireduce, g.buffer, g.other, 1, g.uncommitted, MPI_SUM, 0, g.comm),
    EACH(Reduce, Ireduce, g.buffer, g.other, 1, MPI_INT, MPI_SUM, no_root, g.comm),
    EACH(Reduce, Ireduce, g.buffer, g.other, 1, MPI_DOUBLE, MPI_BAND, 0, g.comm),
    UNLESS_MPICH(EACH(Allreduce, Iallreduce, g.buffer, g.other, no_count, MPI_INT, MPI_SUM, g.comm)),
    EACH(Allreduce, Iallreduce, g.buffer, g.other, 1, MPI_INT, MPI_OP_NULL, g.comm),
    UNLESS_MPICH_5(EACH(Allreduce, Iallreduce, g.buffer, g.other, 1, MPI_DATATYPE_NULL, MPI_SUM, g.comm)),
    EACH(Allreduce, Iallreduce, g.buffer, g.other, 1, g.uncommitted, MPI_SUM, g.comm),
    EACH(Allreduce, Iallreduce, g.buffer, g.other, 1, MPI_DOUBLE, MPI_BAND, g.comm),
    EACH(Allreduce, Iallreduce, g.buffer, g.other, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL),
    UNLESS_MPICH(EACH(Reduce_scatter_block, Ireduce_scatter_block, g.buffer, g.other, no_count, MPI_INT,
                      MPI_SUM, g.comm)),
    EACH(Reduce_scatter_block, Ireduce_scatter_block, g.buffer, g.other, 1, MPI_INT, MPI_OP_NULL, g.comm),
    EACH(Reduce_scatter_block, Ireduce_scatter_block, g.buffer, g.other, 1, g.uncommitted, MPI_SUM, g.comm),
    UNLESS_MPICH_5(EACH(Reduce_scatter_block, Ireduce_scatter_block, g.buffer, g.other, 1, MPI_DATATYPE_NULL,
                        MPI_SUM, g.comm)),
    EACH(Reduce_scatter, Ireduce_scatter, g.buffer, g.other, no_counts, MPI_INT, MPI_SUM, g.comm),
    EACH(Reduce_scatter, Ireduce_scatter, g.buffer, g.other, counts, MPI_INT, MPI_OP_NULL, g.comm),
    EACH(Reduce_scatter, Ireduce_scatter, g.buffer, g.other, counts, g.uncommitted, MPI_SUM, g.comm),
    UNLESS_MPICH(EACH(Reduce_scatter, Ireduce_scatter, g.buffer, g.other, nullptr, MPI_INT, MPI_SUM, g.comm)),
    UNLESS_MPICH(EACH(Scan, Iscan, g.buffer, g.other, no_count, MPI_INT, MPI_SUM, g.comm)),
    EACH(Scan, Iscan, g.buffer, g.other, 1, MPI_INT, MPI_OP_NULL, g.comm),
    EACH(Scan, Iscan, g.buffer, g.other, 1, g.uncommitted, MPI_SUM, g.comm),
    UNLESS_MPICH(EACH(Exscan, Iexscan, g.buffer, g.other, no_count, MPI_INT, MPI_SUM, g.comm)),
    EACH(Exscan, Iexscan, g.buffer, g.other, 1, MPI_INT, MPI_OP_NULL, g.comm),
    EACH(Exscan, Iexscan, g.buffer, g.other, 1, g.uncommitted, MPI_SUM, g.comm),
};

// What MPICH refuses of a rank that sends to itself, and of MPI_Reduce every MPI.
const BadCall in_one_place[] = {
    EACH(Reduce, Ireduce, g.buffer, g.buffer, 1, MPI_INT, MPI_SUM, 0, g.comm),
    UNLESS_OPEN_MPI(
        BAD(Reduce_local, g.buffer, g.buffer, 1, MPI_INT, MPI_SUM),
        EACH(Allreduce, Iallreduce, g.buffer, g.buffer, 1, MPI_INT, MPI_SUM, g.comm),
        EACH(Reduce_scatter_block, Ireduce_scatter_block, g.buffer, g.buffer, 1, MPI_INT, MPI_SUM, g.comm),
        EACH(Reduce_scatter, Ireduce_scatter, g.buffer, g.buffer, counts, MPI_INT, MPI_SUM, g.comm),
        EACH(Scan, Iscan, g.buffer, g.buffer, 1, MPI_INT, MPI_SUM, g.comm),
        EACH(Exscan, Iexscan, g.buffer, g.buffer, 1, MPI_INT, MPI_SUM, g.comm),
        EACH(Gather, Igather, g.buffer, 1, MPI_BYTE, g.buffer, 1, MPI_BYTE, 0, g.comm),
        EACH(Gatherv, Igatherv, g.buffer, 1, MPI_BYTE, g.buffer, counts, displacements, MPI_BYTE, 0, g.comm),
        EACH(Scatter, Iscatter, g.buffer, 1, MPI_BYTE, g.buffer, 1, MPI_BYTE, 0, g.comm),
        EACH(Scatterv, Iscatterv, g.buffer, counts, displacements, MPI_BYTE, g.buffer, 1, MPI_BYTE, 0,
             g.comm),
        EACH(Allgather, Iallgather, g.buffer, 1, MPI_BYTE, g.buffer, 1, MPI_BYTE, g.comm),
        EACH(Allgatherv, Iallgatherv, g.buffer, 1, MPI_BYTE, g.buffer, counts, displacements, MPI_BYTE,
             g.comm),
        EACH(Alltoall, Ialltoall, g.buffer, 1, MPI_BYTE, g.buffer, 1, MPI_BYTE, g.comm),
        EACH(Alltoallv, Ialltoallv, g.buffer, counts, displacements, MPI_BYTE, g.buffer, counts,
             displacements, MPI_BYTE, g.comm),
        EACH(Alltoallw, Ialltoallw, g.buffer, counts, displacements, &g.derived, g.buffer, counts,
             displacements, &g.derived, g.comm)),
};

const int two_counts[] = {1, 1}, two_bad_counts[] = {1, -1}, two_displacements[] = {0, 8};

const BadCall of_neighbors[] = {
    EACH(Neighbor_allgather, Ineighbor_allgather, g.buffer, no_count, MPI_BYTE, g.other, 1, MPI_BYTE, g.grid),
    EACH(Neighbor_allgather, Ineighbor_allgather, g.buffer, 1, MPI_BYTE, g.other, no_count, MPI_BYTE, g.grid),
    EACH(Neighbor_allgather, Ineighbor_allgather, g.buffer, 1, g.uncommitted, g.other, 1, MPI_BYTE, g.grid),
    UNLESS_OPEN_MPI(EACH(Neighbor_allgather, Ineighbor_allgather, g.buffer, 1, MPI_BYTE, g.other, 1,
                         g.uncommitted, g.grid)),
    BAD(Neighbor_allgather, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_BYTE, g.comm),
    STARTS(Ineighbor_allgather, g.buffer, 1, MPI_BYTE, g.other, 1, MPI_BYTE, g.comm),
    EACH(Neighbor_allgatherv, Ineighbor_allgatherv, g.buffer, no_count, MPI_BYTE, g.other, two_counts,
         two_displacements, MPI_BYTE, g.grid),
    UNLESS_OPEN_MPI(EACH(Neighbor_allgatherv, Ineighbor_allgatherv, g.buffer, 1, MPI_BYTE, g.other,
                         two_bad_counts, two_displacements, MPI_BYTE, g.grid)),
    EACH(Neighbor_allgatherv, Ineighbor_allgatherv, g.buffer, 1, g.uncommitted, g.other, two_counts,
         two_displacements, MPI_BYTE, g.grid),
    EACH(Neighbor_allgatherv, Ineighbor_allgatherv, g.buffer, 1, MPI_BYTE, g.other, two_counts,
         two_displacements, MPI_DATATYPE_NULL, g.grid),
    EACH(Neighbor_alltoall, Ineighbor_alltoall, g.buffer, no_count, MPI_BYTE, g.other, 1, MPI_BYTE, g.grid),
    EACH(Neighbor_alltoall, Ineighbor_alltoall, g.buffer, 1, MPI_BYTE, g.other, no_count, MPI_BYTE, g.grid),
    EACH(Neighbor_alltoall, Ineighbor_alltoall, g.buffer, 1, g.uncommitted, g.other, 1, MPI_BYTE, g.grid),
    EACH(Neighbor_alltoallv, Ineighbor_alltoallv, g.buffer, two_bad_counts, two_displacements, MPI_BYTE,
         g.other, two_counts, two_displacements, MPI_BYTE, g.grid),
    EACH(Neighbor_alltoallv, Ineighbor_alltoallv, g.buffer, two_counts, two_displacements, MPI_BYTE, g.other,
         two_bad_counts, two_displacements, MPI_BYTE, g.grid),
    EACH(Neighbor_alltoallv, Ineighbor_alltoallv, g.buffer, two_counts, two_displacements, g.uncommitted,
         g.other, two_counts, two_displacements, MPI_BYTE, g.grid),
};

}  // namespace

RANK_TEST(arguments, of_rooted_collectives, 1) {
  expect_errors_of_host(rooted);
}
RANK_TEST(arguments, of_collectives_to_all, 1) {
  expect_errors_of_host(to_all);
}
RANK_TEST(arguments, of_reductions, 1) {
  expect_errors_of_host(reductions);
}
RANK_TEST(arguments, of_collectives_in_one_place, 1) {
  expect_errors_of_host(in_one_place);
}

// MPICH does not check them.
RANK_TEST(arguments, negative_counts_of_reductions_in_device_memory, 1) {
  if (host_oracle) return;
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  Memory in(Place::device, room), out(Place::device, room);
  MPI_Request request;
  const auto expect_refused = [](const char* what, int result) {
    EXPECT(error_class(result) == MPI_ERR_COUNT, "%s returned %s", what,
           error_name(error_class(result)).c_str());
  };
  for (MPI_Comm all : {comm, MPI_COMM_SELF}) {
    MPI_Errhandler before;
    MUST(MPI_Comm_get_errhandler(all, &before));
    MUST(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    expect_refused("reduce", MPI_Reduce(in, out, no_count, MPI_INT, MPI_SUM, 0, all));
    expect_refused("allreduce", MPI_Allreduce(in, out, no_count, MPI_INT, MPI_SUM, all));
    expect_refused("scan", MPI_Scan(in, out, no_count, MPI_INT, MPI_SUM, all));
    expect_refused("exscan", MPI_Exscan(in, out, no_count, MPI_INT, MPI_SUM, all));
    expect_refused("scatter", MPI_Reduce_scatter_block(in, out, no_count, MPI_INT, MPI_SUM, all));
    expect_refused("iscan", MPI_Iscan(in, out, no_count, MPI_INT, MPI_SUM, all, &request));
    if (all == MPI_COMM_SELF) expect_refused("local", MPI_Reduce_local(in, out, no_count, MPI_INT, MPI_SUM));
    MUST(MPI_Comm_set_errhandler(all, before));
    MUST(MPI_Errhandler_free(&before));
  }
  MUST(MPI_Comm_free(&comm));
}

// Each rank's own part lies elsewhere in the buffer.
RANK_TEST(arguments, of_collectives_that_receive_where_they_send, 2) {
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  Memory host(Place::host, room), device(Place::device, room);
  const int wanted =
      error_class(HOST_MPI(Allgather)(host.data() + 8 * rank, 8, MPI_BYTE, host, 8, MPI_BYTE, comm));
  const int found =
      error_class(MPI_Allgather(device.data() + 8 * rank, 8, MPI_BYTE, device, 8, MPI_BYTE, comm));
  EXPECT(found == wanted, "allgather returned %s, not %s", error_name(found).c_str(),
         error_name(wanted).c_str());
  MUST(MPI_Comm_free(&comm));
}

// A rank that sends nothing to itself may name any place for that.
RANK_TEST(arguments, of_alltoallv_in_one_buffer, 2) {
  const auto members = static_cast<size_t>(size);
  std::vector<int> counts(members, 1), sent_at(members), received_at(members);
  for (int member = 0; member < size; ++member) {
    sent_at[static_cast<size_t>(member)] = member;
    received_at[static_cast<size_t>(member)] = size + member;
  }
  counts[static_cast<size_t>(rank)] = 0;
  sent_at[static_cast<size_t>(rank)] = received_at[static_cast<size_t>(rank)] = 0;
  const std::vector<int> received_counts = counts;
  std::vector<int> values(2 * members, rank);
  Memory buffer(Place::device, values.size() * sizeof(int));
  buffer.write(values.data(), buffer.bytes());
  MUST(MPI_Alltoallv(buffer, counts.data(), sent_at.data(), MPI_INT, buffer, received_counts.data(),
                     received_at.data(), MPI_INT, MPI_COMM_WORLD));
  buffer.read(values.data(), buffer.bytes());
  for (int member = 0; member < size; ++member)
    EXPECT(values[static_cast<size_t>(size + member)] == member, "%d from rank %d",
           values[static_cast<size_t>(size + member)], member);
}

RANK_TEST(arguments, of_neighborhood_collectives, 1) {
  expect_errors_of_host(of_neighbors);
}
