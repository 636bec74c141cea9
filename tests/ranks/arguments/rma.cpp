// SPDX-License-Identifier: Apache-2.0
//
// Bad arguments of windows: accesses and epochs (arguments.cpp).

#include "arguments/arguments.h"

using namespace ranks;
using namespace ranks::arguments;

namespace {

constexpr int no_rank = 7, no_count = -1, no_assertion = 1 << 30;

const BadCall accesses[] = {
#define PUT_OR_GET(PutGet, RPutGet)                                                   \
  BAD(PutGet, g.other, no_count, MPI_BYTE, 0, 0, 1, MPI_BYTE, g.win),                 \
      BAD(PutGet, g.other, 1, MPI_BYTE, 0, 0, no_count, MPI_BYTE, g.win),             \
      BAD(PutGet, g.other, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_BYTE, g.win),           \
      BAD(PutGet, g.other, 1, MPI_BYTE, 0, 0, 1, MPI_DATATYPE_NULL, g.win),           \
      BAD(PutGet, g.other, 1, g.uncommitted, 0, 0, 8, MPI_BYTE, g.win),               \
      BAD(PutGet, g.other, 8, MPI_BYTE, 0, 0, 1, g.uncommitted, g.win),               \
      BAD(PutGet, g.other, 1, MPI_BYTE, no_rank, 0, 1, MPI_BYTE, g.win),              \
      BAD(PutGet, g.other, 1, MPI_BYTE, -7, 0, 1, MPI_BYTE, g.win),                   \
      BAD(PutGet, g.other, 1, MPI_BYTE, 0, -1, 1, MPI_BYTE, g.win),                   \
      BAD(PutGet, g.other, 0, MPI_BYTE, 0, -1, 0, MPI_BYTE, g.win),                   \
      BAD(PutGet, g.other, 1, MPI_BYTE, MPI_PROC_NULL, -1, 1, MPI_BYTE, g.win),       \
      BAD(PutGet, g.other, 1, MPI_BYTE, MPI_PROC_NULL, 0, no_count, MPI_BYTE, g.win), \
      BAD(PutGet, g.other, 1, g.uncommitted, MPI_PROC_NULL, 0, 1, MPI_BYTE, g.win),   \
      BAD(PutGet, g.other, 1, MPI_BYTE, 0, 0, 1, MPI_BYTE, MPI_WIN_NULL),             \
      STARTS(RPutGet, g.other, no_count, MPI_BYTE, 0, 0, 1, MPI_BYTE, g.win),         \
      STARTS(RPutGet, g.other, 1, g.uncommitted, 0, 0, 8, MPI_BYTE, g.win),           \
      STARTS(RPutGet, g.other, 1, MPI_BYTE, no_rank, 0, 1, MPI_BYTE, g.win)
    PUT_OR_GET(Put, Rput),
    PUT_OR_GET(Get, Rget),
#define ACCUMULATE(...) BAD(Accumulate, __VA_ARGS__, g.win), STARTS(Raccumulate, __VA_ARGS__, g.win)
    ACCUMULATE(g.other, no_count, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM),
    ACCUMULATE(g.other, 1, MPI_INT, 0, 0, no_count, MPI_INT, MPI_SUM),
    ACCUMULATE(g.other, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL),
    ACCUMULATE(g.other, 1, MPI_INT, no_rank, 0, 1, MPI_INT, MPI_SUM),
    ACCUMULATE(g.other, 1, MPI_INT, 0, -1, 1, MPI_INT, MPI_SUM),
    ACCUMULATE(g.other, 1, g.uncommitted, 0, 0, 2, MPI_INT, MPI_SUM),
    ACCUMULATE(g.other, 2, MPI_INT, 0, 0, 1, g.uncommitted, MPI_SUM),
    ACCUMULATE(g.other, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, MPI_SUM),
    UNLESS_MPICH(ACCUMULATE(g.other, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_BAND)),
#define GET_ACCUMULATE(...) \
  BAD(Get_accumulate, __VA_ARGS__, g.win), STARTS(Rget_accumulate, __VA_ARGS__, g.win)
    GET_ACCUMULATE(g.other, no_count, MPI_INT, g.other + 100, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM),
    UNLESS_OPEN_MPI(
        GET_ACCUMULATE(g.other, 1, MPI_INT, g.other + 100, no_count, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM)),
    GET_ACCUMULATE(g.other, 1, MPI_INT, g.other + 100, 1, MPI_INT, 0, 0, no_count, MPI_INT, MPI_SUM),
    GET_ACCUMULATE(g.other, 1, MPI_INT, g.other + 100, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL),
    GET_ACCUMULATE(g.other, 1, MPI_INT, g.other + 100, 1, MPI_INT, no_rank, 0, 1, MPI_INT, MPI_SUM),
    GET_ACCUMULATE(g.other, 1, MPI_INT, g.other + 100, 1, MPI_INT, 0, -1, 1, MPI_INT, MPI_SUM),
    UNLESS_OPEN_MPI(
        GET_ACCUMULATE(g.other, 2, MPI_INT, g.other + 100, 1, g.uncommitted, 0, 0, 2, MPI_INT, MPI_SUM)),
    BAD(Fetch_and_op, g.other, g.other + 100, MPI_DATATYPE_NULL, 0, 0, MPI_SUM, g.win),
    UNLESS_OPEN_MPI(BAD(Fetch_and_op, g.other, g.other + 100, g.derived, 0, 0, MPI_SUM, g.win)),
    UNLESS_OPEN_MPI(BAD(Fetch_and_op, g.other, g.other + 100, MPI_INT, 0, 0, MPI_OP_NULL, g.win)),
    BAD(Fetch_and_op, g.other, g.other + 100, MPI_INT, no_rank, 0, MPI_SUM, g.win),
    BAD(Fetch_and_op, g.other, g.other + 100, MPI_INT, 0, -1, MPI_SUM, g.win),
    UNLESS_OPEN_MPI(BAD(Compare_and_swap, g.other, g.other + 100, g.other + 200, MPI_FLOAT, 0, 0, g.win)),
    UNLESS_OPEN_MPI(
        BAD(Compare_and_swap, g.other, g.other + 100, g.other + 200, MPI_DOUBLE_INT, 0, 0, g.win)),
    UNLESS_OPEN_MPI(BAD(Compare_and_swap, g.other, g.other + 100, g.other + 200, g.derived, 0, 0, g.win)),
    BAD(Compare_and_swap, g.other, g.other + 100, g.other + 200, MPI_DATATYPE_NULL, 0, 0, g.win),
    BAD(Compare_and_swap, g.other, g.other + 100, g.other + 200, MPI_INT, no_rank, 0, g.win),
    BAD(Compare_and_swap, g.other, g.other + 100, g.other + 200, MPI_INT, 0, -1, g.win),
};

const BadCall epochs[] = {
    BAD(Win_fence, no_assertion, g.win),
    BAD(Win_fence, -1, g.win),
    BAD(Win_fence, MPI_MODE_NOCHECK, g.win),
    BAD(Win_fence, 0, MPI_WIN_NULL),
    BAD(Win_post, g.group, no_assertion, g.win),
    UNLESS_OPEN_MPI(BAD(Win_post, MPI_GROUP_NULL, 0, g.win)),
    BAD(Win_start, g.group, no_assertion, g.win),
    BAD(Win_start, g.group, MPI_MODE_NOPUT, g.win),
    UNLESS_OPEN_MPI(BAD(Win_start, MPI_GROUP_NULL, 0, g.win)),
    BAD(Win_lock, MPI_LOCK_SHARED, no_rank, 0, g.win),
    BAD(Win_lock, MPI_LOCK_SHARED, -7, 0, g.win),
    BAD(Win_lock, 99, 0, 0, g.win),
    BAD(Win_lock, MPI_LOCK_SHARED, 0, no_assertion, g.win),
    BAD(Win_lock, MPI_LOCK_SHARED, 0, MPI_MODE_NOPUT, g.win),
    BAD(Win_lock_all, no_assertion, g.win),
    BAD(Win_lock_all, MPI_MODE_NOPUT, g.win),
    BAD(Win_unlock, no_rank, g.win),
    BAD(Win_unlock, 0, g.win),
    UNLESS_OPEN_MPI(BAD(Win_flush, no_rank, g.win)),
    BAD(Win_flush, 0, g.win),
    UNLESS_OPEN_MPI(BAD(Win_flush_local, no_rank, g.win)),
    UNLESS_OPEN_MPI(BAD(Win_test, g.win, nullptr)),
    BAD(Win_complete, MPI_WIN_NULL),
    BAD(Win_flush_all, g.win),
    BAD(Win_flush_local_all, g.win),
    BAD(Win_unlock_all, g.win),
    BAD(Win_create, g.buffer, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &g.win),
    BAD(Win_create, g.buffer, room, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &g.win),
    BAD(Win_create, g.buffer, room, 1, MPI_INFO_NULL, MPI_COMM_NULL, &g.win),
    BAD(Win_create, g.buffer, room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, nullptr),
};

}  // namespace

RANK_TEST(arguments, of_accesses, 2) {
  expect_errors_of_host(accesses, Window::fenced);
}
RANK_TEST(arguments, of_epochs, 2) {
  expect_errors_of_host(epochs, Window::closed);
}
