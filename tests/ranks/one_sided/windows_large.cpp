// SPDX-License-Identifier: Apache-2.0
//
// The large-count forms (MPI 4.0) of what makes windows and accesses them. A host MPI that lacks them is
// called by the ordinary ones.

#include <cstdlib>

#include "harness/exposed.h"
#include "harness/mpi4.h"

using namespace ranks;

namespace {

using Creation = int(void*, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, MPI_Win*);
using Allocation = int(MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*);
using Query = int(MPI_Win, int, MPI_Aint*, MPI_Aint*, void*);
using Putting = int(const void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype, MPI_Win);
using Getting = int(void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype, MPI_Win);
using Accumulation = int(const void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype, MPI_Op,
                         MPI_Win);
using Fetching = int(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Datatype, int, MPI_Aint,
                     MPI_Count, MPI_Datatype, MPI_Op, MPI_Win);
using RequestedPut = int(const void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype,
                         MPI_Win, MPI_Request*);
using RequestedGet = int(void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype, MPI_Win,
                         MPI_Request*);
using RequestedAccumulation = int(const void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count,
                                  MPI_Datatype, MPI_Op, MPI_Win, MPI_Request*);
using RequestedFetch = int(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Datatype, int,
                           MPI_Aint, MPI_Count, MPI_Datatype, MPI_Op, MPI_Win, MPI_Request*);

const auto Win_create_c = mpi4::find<Creation>("MPI_Win_create_c");
const auto Win_allocate_c = mpi4::find<Allocation>("MPI_Win_allocate_c");
const auto Win_allocate_shared_c = mpi4::find<Allocation>("MPI_Win_allocate_shared_c");
const auto Win_shared_query_c = mpi4::find<Query>("MPI_Win_shared_query_c");
const auto Put_c = mpi4::find<Putting>("MPI_Put_c");
const auto Get_c = mpi4::find<Getting>("MPI_Get_c");
const auto Accumulate_c = mpi4::find<Accumulation>("MPI_Accumulate_c");
const auto Get_accumulate_c = mpi4::find<Fetching>("MPI_Get_accumulate_c");
const auto Rput_c = mpi4::find<RequestedPut>("MPI_Rput_c");
const auto Rget_c = mpi4::find<RequestedGet>("MPI_Rget_c");
const auto Raccumulate_c = mpi4::find<RequestedAccumulation>("MPI_Raccumulate_c");
const auto Rget_accumulate_c = mpi4::find<RequestedFetch>("MPI_Rget_accumulate_c");

bool are_there() {
  if (Put_c && Win_create_c && Win_shared_query_c && Rget_accumulate_c) return true;
  skip("neither Fairlead nor this MPI has the functions");
  return false;
}

int next() {
  return (rank + 1) % size;
}
int previous() {
  return (rank + size - 1) % size;
}

}  // namespace

RANK_TEST(windows_large, accesses, 1) {
  if (!are_there()) return;
  constexpr int count = 600;
  for (Place place : host_and_device) {
    for (Place origin : host_and_device) {
      Memory memory = memory_of(place, std::vector<long>(count, 0));
      MPI_Win window;
      MUST(Win_create_c(memory.data(), count * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                        &window));
      const Memory values = memory_of(origin, std::vector<long>(count, 10 + rank));
      Memory got(origin, count * sizeof(long)), old(origin, count * sizeof(long));
      MPI_Request request;
      MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next(), 0, window));
      MUST(Put_c(values, count, MPI_LONG, next(), 0, count, MPI_LONG, window));
      MUST(MPI_Win_flush(next(), window));
      MUST(Accumulate_c(values, count, MPI_LONG, next(), 0, count, MPI_LONG, MPI_SUM, window));
      MUST(Get_accumulate_c(values, count, MPI_LONG, old, count, MPI_LONG, next(), 0, count, MPI_LONG,
                            MPI_SUM, window));
      MUST(MPI_Win_flush(next(), window));
      EXPECT(value_in<long>(old, count - 1) == 2 * (10 + rank), "fetched %ld",
             value_in<long>(old, count - 1));
      MUST(Get_c(got, count, MPI_LONG, next(), 0, count, MPI_LONG, window));
      MUST(MPI_Win_flush(next(), window));
      EXPECT(value_in<long>(got, count - 1) == 3 * (10 + rank), "got %ld", value_in<long>(got, count - 1));
      MUST(Rput_c(values, 1, MPI_LONG, next(), count - 1, 1, MPI_LONG, window, &request));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      MUST(MPI_Win_flush(next(), window));
      MUST(Raccumulate_c(values, 1, MPI_LONG, next(), count - 1, 1, MPI_LONG, MPI_SUM, window, &request));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      MUST(Rget_accumulate_c(values, 1, MPI_LONG, old, 1, MPI_LONG, next(), count - 1, 1, MPI_LONG, MPI_SUM,
                             window, &request));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT(value_in<long>(old) == 2 * (10 + rank), "fetched %ld", value_in<long>(old));
      MUST(MPI_Win_flush(next(), window));
      MUST(Rget_c(got, 1, MPI_LONG, next(), count - 1, 1, MPI_LONG, window, &request));
      MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT(value_in<long>(got) == 3 * (10 + rank), "got %ld", value_in<long>(got));
      MUST(MPI_Win_unlock(next(), window));
      MUST(MPI_Win_free(&window));
      EXPECT(value_in<long>(memory, count - 1) == 3 * (10 + previous()), "holds %ld",
             value_in<long>(memory, count - 1));
    }
  }
}

// A count or a unit beyond an int is what it is.
RANK_TEST(windows_large, numbers_beyond_an_int, 1) {
  if (!are_there() || host_oracle) return;
  constexpr MPI_Count many = (MPI_Count{1} << 32) + 4;
  constexpr MPI_Aint unit = MPI_Aint{1} << 32;
  Memory memory(Place::device, 1000), buffer(Place::device, 1000);
  MPI_Win window;
  MUST(Win_create_c(memory.data(), 1000, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
  MUST(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
  buffer.fill(key_of(9));
  MUST(MPI_Win_fence(0, window));
  EXPECT_ERROR(Put_c(buffer, many, MPI_BYTE, next(), 0, many, MPI_BYTE, window), MPI_ERR_RMA_RANGE);
  EXPECT_ERROR(Put_c(buffer, 4, MPI_BYTE, next(), 1, 4, MPI_BYTE, window), MPI_ERR_RMA_RANGE);
  EXPECT_ERROR(Get_c(buffer, many, MPI_BYTE, next(), 0, 4, MPI_BYTE, window), MPI_ERR_TYPE);
  MUST(Put_c(buffer, 1000, MPI_BYTE, next(), 0, 1000, MPI_BYTE, window));
  MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
  EXPECT_HOLDS(memory, key_of(9), 1000);
  MPI_Aint told = 0, unit_told = 0;
  void* base = nullptr;
  MUST(Win_shared_query_c(window, rank, &told, &unit_told, &base));
  EXPECT(told == 1000 && unit_told == unit && base == memory.data(), "told of %td bytes in units of %td",
         told, unit_told);
  MUST(MPI_Win_free(&window));
}

RANK_TEST(windows_large, allocated_memory_tells_where_it_is, 1) {
  if (!are_there() || host_oracle) return;
  MPI_Info info;
  MUST(MPI_Info_create(&info));
  MUST(MPI_Info_set(info, "fairlead_win_allocate", "device"));
  MUST(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
  for (const auto allocate : {Win_allocate_c, Win_allocate_shared_c}) {
    if (allocate == Win_allocate_shared_c && getenv("FAIRLEAD_NODES")) continue;  // the ranks share no node
    const MPI_Aint bytes = 4096 + 8 * rank;
    char* base = nullptr;
    MPI_Win window;
    MUST(allocate(bytes, 8, info, MPI_COMM_WORLD, &base, &window));
    for (int other = 0; other < size; ++other) {
      MPI_Aint told = 0, unit = 0;
      char* there = nullptr;
      MUST(Win_shared_query_c(window, other, &told, &unit, &there));
      EXPECT(told == 4096 + 8 * other && unit == 8, "rank %d has %td bytes in units of %td", other, told,
             unit);
      EXPECT(other != rank || there == base, "another base");
    }
    MUST(MPI_Win_free(&window));
  }
  MUST(MPI_Info_free(&info));
}
