// SPDX-License-Identifier: Apache-2.0
//
// Bad arguments of functions that older MPIs lack: those of MPI 4 with large counts, MPI_Isendrecv, and what
// asks about arrays of requests (MPI 4.1). See arguments.cpp.

#include "arguments/arguments.h"

#if MPI_VERSION >= 4

using namespace ranks;
using namespace ranks::arguments;

namespace {

constexpr int tag = 1, no_rank = 7;
constexpr MPI_Count no_count = -1;

const BadCall large_counts[] = {
    BAD(Send_c, g.buffer, no_count, MPI_BYTE, 0, tag, g.comm),
    BAD(Send_c, g.buffer, 1, g.uncommitted, 0, tag, g.comm),
    BAD(Ssend_c, g.buffer, 1, MPI_BYTE, no_rank, tag, g.comm),
    STARTS(Isend_c, g.buffer, no_count, MPI_BYTE, 0, tag, g.comm),
    STARTS(Send_init_c, g.buffer, 1, MPI_DATATYPE_NULL, 0, tag, g.comm),
    BAD(Recv_c, g.buffer, no_count, MPI_BYTE, 0, tag, g.comm, MPI_STATUS_IGNORE),
    BAD(Recv_c, g.buffer, 1, g.uncommitted, 0, tag, g.comm, MPI_STATUS_IGNORE),
    STARTS(Irecv_c, g.buffer, no_count, MPI_BYTE, 0, tag, g.comm),
    STARTS(Recv_init_c, g.buffer, 1, MPI_BYTE, no_rank, tag, g.comm),
    BAD(Sendrecv_c, g.buffer, no_count, MPI_BYTE, 0, tag, g.other, 1, MPI_BYTE, 0, tag, g.comm,
        MPI_STATUS_IGNORE),
    BAD(Sendrecv_c, g.buffer, 1, MPI_BYTE, 0, tag, g.other, 1, g.uncommitted, 0, tag, g.comm,
        MPI_STATUS_IGNORE),
    BAD(Bcast_c, g.buffer, no_count, MPI_BYTE, 0, g.comm),
    STARTS(Ibcast_c, g.buffer, 1, g.uncommitted, 0, g.comm),
    BAD(Gather_c, g.buffer, 1, MPI_BYTE, g.other, no_count, MPI_BYTE, 0, g.comm),
    BAD(Allreduce_c, g.buffer, g.other, 1, MPI_INT, MPI_OP_NULL, g.comm),
    BAD(Put_c, g.other, no_count, MPI_BYTE, 0, 0, 1, MPI_BYTE, g.win),
};

const BadCall exchanges[] = {
    STARTS(Isendrecv, g.buffer, -1, MPI_BYTE, 0, tag, g.other, 1, MPI_BYTE, 0, tag, g.comm),
    STARTS(Isendrecv, g.buffer, 1, g.uncommitted, 0, tag, g.other, 1, MPI_BYTE, 0, tag, g.comm),
    STARTS(Isendrecv, g.buffer, 1, MPI_BYTE, no_rank, tag, g.other, 1, MPI_BYTE, 0, tag, g.comm),
    STARTS(Isendrecv, g.buffer, 1, MPI_BYTE, 0, tag, g.other, -1, MPI_BYTE, 0, tag, g.comm),
    STARTS(Isendrecv, g.buffer, 1, MPI_BYTE, 0, tag, g.other, 1, MPI_DATATYPE_NULL, 0, tag, g.comm),
    STARTS(Isendrecv, g.buffer, 1, MPI_BYTE, 0, tag, g.other, 1, MPI_BYTE, no_rank, tag, g.comm),
    STARTS(Isendrecv_replace, g.buffer, -1, MPI_BYTE, 0, tag, 0, tag, g.comm),
    STARTS(Isendrecv_replace, g.buffer, 1, MPI_BYTE, 0, tag, no_rank, tag, g.comm),
};

#if MPI_VERSION > 4 || MPI_SUBVERSION >= 1
const BadCall questions[] = {
    BAD(Request_get_status_all, -1, g.requests, &g.number, g.statuses),
    BAD(Request_get_status_any, -1, g.requests, &g.number, &g.second, &g.status),
    BAD(Request_get_status_some, -1, g.requests, &g.number, g.numbers, g.statuses),
};
#endif

}  // namespace

RANK_TEST(arguments, of_large_counts, 1) {
  expect_errors_of_host(large_counts, Window::fenced);
}
RANK_TEST(arguments, of_nonblocking_exchanges, 1) {
  expect_errors_of_host(exchanges);
}
#if MPI_VERSION > 4 || MPI_SUBVERSION >= 1
RANK_TEST(arguments, of_questions_about_requests, 1) {
  expect_errors_of_host(questions);
}
#endif

#endif
