// SPDX-License-Identifier: Apache-2.0
//
// Functions of MPI 4 that Fairlead offers although the host MPI may lack them, and what programs may do with
// the arguments of others: as mpi4py does, which looks for functions by weak references and frees arrays
// early.

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "harness/harness.h"
#include "harness/mpi4.h"

using namespace ranks;

namespace {

using LargeSend = int(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm);
using LargeRecv = int(void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);
using LargeIrecv = int(void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
using LargeAllgatherv = int(const void*, MPI_Count, MPI_Datatype, void*, const MPI_Count*, const MPI_Aint*,
                            MPI_Datatype, MPI_Comm);
using LargeGatherv = int(const void*, MPI_Count, MPI_Datatype, void*, const MPI_Count*, const MPI_Aint*,
                         MPI_Datatype, int, MPI_Comm);
using LargeIalltoallv = int(const void*, const MPI_Count*, const MPI_Aint*, MPI_Datatype, void*,
                            const MPI_Count*, const MPI_Aint*, MPI_Datatype, MPI_Comm, MPI_Request*);
using LargeGather = int(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Datatype, int, MPI_Comm);
using LargePack = int(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Count*, MPI_Comm);
using LargeContiguous = int(MPI_Count, MPI_Datatype, MPI_Datatype*);
using AllgathervInit = int(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype,
                           MPI_Comm, MPI_Info, MPI_Request*);

template <class Signature>
Signature* required(const char* name) {
  auto* function = mpi4::find<Signature>(name);
  if (!function) skip("neither Fairlead nor this MPI has the function");
  return function;
}

constexpr int block = 300;

}  // namespace

RANK_TEST(newer, large_counts_arrive, 2) {
  auto* send = required<LargeSend>("MPI_Send_c");
  auto* receive = required<LargeRecv>("MPI_Recv_c");
  if (!send || !receive) return;
  for (Place place : host_and_device) {
    Memory buffer(place, block);
    MPI_Status status;
    if (rank == 0) MUST(send(buffer.fill(key_of(1)), block, MPI_BYTE, 1, 3, MPI_COMM_WORLD));
    if (rank != 1) continue;
    MUST(receive(buffer, block, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &status));
    EXPECT_STATUS(status, 0, 3, block);
    EXPECT_HOLDS(buffer, key_of(1), block);
  }
}

// Nothing but what comes is touched of the memory.
RANK_TEST(newer, receives_of_counts_beyond_int, 2) {
  auto* receive = required<LargeRecv>("MPI_Recv_c");
  auto* ireceive = required<LargeIrecv>("MPI_Irecv_c");
  if (!receive || !ireceive || rank > 1) return;
  constexpr MPI_Count room = (MPI_Count{1} << 31) + 4096;
  for (Place from : host_and_device)
    for (bool blocking : {true, false}) {
      if (rank == 0) {
        Memory buffer(from, block);
        MUST(MPI_Send(buffer.fill(key_of(7)), block, MPI_BYTE, 1, 3, MPI_COMM_WORLD));
        continue;
      }
      void* large =
          mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (large == MAP_FAILED) give_up("no address space for %lld bytes", static_cast<long long>(room));
      MPI_Status status;
      MPI_Request request;
      if (blocking) {
        MUST(receive(large, room, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &status));
      } else {
        MUST(ireceive(large, room, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request));
        MUST(MPI_Wait(&request, &status));
      }
      EXPECT_STATUS(status, 0, 3, block);
      std::vector<char> wanted(block);
      write_pattern(key_of(7), wanted.data(), block);
      EXPECT(std::equal(wanted.begin(), wanted.end(), static_cast<char*>(large)), "from %s memory: wrong",
             to_string(from));
      munmap(large, room);
    }
}

RANK_TEST(newer, large_arrays_of_counts_arrive, 2) {
  auto* allgatherv = required<LargeAllgatherv>("MPI_Allgatherv_c");
  auto* gatherv = required<LargeGatherv>("MPI_Gatherv_c");
  auto* ialltoallv = required<LargeIalltoallv>("MPI_Ialltoallv_c");
  if (!allgatherv || !gatherv || !ialltoallv) return;
  std::vector<MPI_Count> counts(size, block);
  std::vector<MPI_Aint> places(size);
  for (int i = 0; i < size; ++i) places[i] = static_cast<MPI_Aint>(block) * i;
  const size_t whole = static_cast<size_t>(block) * size;
  for (Place place : host_and_device) {
    std::vector<char> wanted(whole), of_peers(whole);
    for (int from = 0; from < size; ++from) {
      write_pattern(key_of(from), &wanted[places[from]], block);
      std::vector<char> sent(whole);
      write_pattern(key_of(from, 2), sent.data(), whole);
      std::copy_n(&sent[places[rank]], block, &of_peers[places[from]]);
    }
    Memory mine(place, block), all(place, whole), to_all(place, whole), from_all(place, whole);
    mine.fill(key_of(rank));
    to_all.fill(key_of(rank, 2));
    std::string why;
    MUST(allgatherv(mine, block, MPI_BYTE, all, counts.data(), places.data(), MPI_BYTE, MPI_COMM_WORLD));
    EXPECT(all.holds(wanted, &why), "allgatherv: %s", why.c_str());
    all.clear();
    // Where nothing is received, the arrays may be anything.
    const auto* nowhere = reinterpret_cast<const MPI_Count*>(8);
    const auto* no_places = reinterpret_cast<const MPI_Aint*>(8);
    MUST(gatherv(mine, block, MPI_BYTE, all, rank == 0 ? counts.data() : nowhere,
                 rank == 0 ? places.data() : no_places, MPI_BYTE, 0, MPI_COMM_WORLD));
    if (rank == 0) EXPECT(all.holds(wanted, &why), "gatherv: %s", why.c_str());
    MPI_Request request;
    MUST(ialltoallv(to_all, counts.data(), places.data(), MPI_BYTE, from_all, counts.data(), places.data(),
                    MPI_BYTE, MPI_COMM_WORLD, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT(from_all.holds(of_peers, &why), "ialltoallv: %s", why.c_str());
  }
}

// Counts that are not significant, as those of what only the root receives or sends, may be any number.
RANK_TEST(newer, counts_of_nothing_may_be_any_number, 1) {
  auto* gather = required<LargeGather>("MPI_Gather_c");
  auto* scatter = required<LargeGather>("MPI_Scatter_c");
  if (!gather || !scatter) return;
  constexpr MPI_Count any = MPI_Count{1} << 40;
  const auto at_root = [](MPI_Count count) { return rank == 0 ? count : any; };
  const size_t whole = static_cast<size_t>(block) * size;
  for (Place place : host_and_device) {
    Memory mine(place, block), all(place, whole);
    std::vector<char> wanted(whole);
    for (int from = 0; from < size; ++from)
      write_pattern(key_of(from), &wanted[static_cast<size_t>(block) * from], block);
    all.write(wanted.data(), block);
    mine.fill(key_of(rank));
    std::string why;
    MUST(gather(mine, block, MPI_BYTE, all, at_root(block), MPI_BYTE, 0, MPI_COMM_WORLD));
    if (rank == 0) EXPECT(all.holds(wanted, &why), "gather: %s", why.c_str());
    MUST(gather(rank == 0 ? MPI_IN_PLACE : mine.data(), rank == 0 ? any : block, MPI_BYTE, all,
                at_root(block), MPI_BYTE, 0, MPI_COMM_WORLD));
    if (rank == 0) EXPECT(all.holds(wanted, &why), "gather in place: %s", why.c_str());
    MUST(scatter(all, at_root(block), MPI_BYTE, rank == 0 ? MPI_IN_PLACE : mine.clear().data(),
                 rank == 0 ? any : block, MPI_BYTE, 0, MPI_COMM_WORLD));
    EXPECT_HOLDS(mine, key_of(rank), block);
  }
}

// Extensions of MPICH 5, whose header the MPI at hand need not have.
RANK_TEST(newer, requests_are_polled_without_a_test, 2) {
  auto* is_complete = required<int(MPI_Request)>("MPIX_Request_is_complete");
  auto* progress = required<int(int)>("MPIX_Stream_progress");
  if (!is_complete || !progress) return;
  constexpr int no_stream = 0x3c000000;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (Place place : host_and_device) {
    for (size_t bytes : {size_t{8}, size_t{5000}, size_t{3000000}}) {
      Memory out(place, bytes), in(place, bytes);
      out.fill(key_of(rank));
      MPI_Request requests[2];
      MUST(MPI_Irecv(in, static_cast<int>(bytes), MPI_BYTE, previous, 4, MPI_COMM_WORLD, &requests[0]));
      MUST(MPI_Isend(out, static_cast<int>(bytes), MPI_BYTE, next, 4, MPI_COMM_WORLD, &requests[1]));
      for (MPI_Request request : requests)
        while (!is_complete(request)) MUST(progress(no_stream));
      MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
      EXPECT_HOLDS(in, key_of(previous), bytes);
    }
  }
}

// A communicator on which each rank has one of MPICH's own streams; null, with a skip, where there is none.
// It is never freed, which MPICH 4.3 does not survive. MPICH 5.0 cannot make one.
MPI_Comm with_stream_of_mpich() {
  static MPI_Comm made = MPI_COMM_NULL;
  auto* create = mpi4::find_in_both<int(MPI_Info, int*)>("MPIX_Stream_create", "PMPIX_Stream_create");
  auto* join = mpi4::find<int(MPI_Comm, int, int*, MPI_Comm*)>("MPIX_Stream_comm_create_multiplex");
  int stream = 0;
  if (made != MPI_COMM_NULL) return made;
  if (!create || !join || !mpi4::find<void()>("PMPIX_Stream_send"))
    skip("the MPI has no streams");
  else if (create(MPI_INFO_NULL, &stream) != MPI_SUCCESS)
    skip("MPIR_CVAR_CH4_RESERVE_VCIS=2 would reserve a stream");
  else
    MUST(join(MPI_COMM_WORLD, 1, &stream, &made));
  return made;
}

template <class Count>
void exchange_between_streams(const char* sends, const char* starts_send, const char* receives,
                              const char* starts_receive) {
  using Send = int(const void*, Count, MPI_Datatype, int, int, MPI_Comm, int, int);
  using Isend = int(const void*, Count, MPI_Datatype, int, int, MPI_Comm, int, int, MPI_Request*);
  using Recv = int(void*, Count, MPI_Datatype, int, int, MPI_Comm, int, int, MPI_Status*);
  using Irecv = int(void*, Count, MPI_Datatype, int, int, MPI_Comm, int, int, MPI_Request*);
  const MPI_Comm comm = with_stream_of_mpich();
  if (comm == MPI_COMM_NULL) return;
  auto* send = required<Send>(sends);
  auto* isend = required<Isend>(starts_send);
  auto* receive = required<Recv>(receives);
  auto* ireceive = required<Irecv>(starts_receive);
  if (!send || !isend || !receive || !ireceive) return;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Datatype pairs;  // of bytes, with gaps
  MUST(MPI_Type_vector(block / 2, 1, 2, MPI_SHORT, &pairs));
  MUST(MPI_Type_commit(&pairs));
  for (Place from : host_and_device)
    for (Place to : host_and_device) {
      Memory out(from, block), in(to, block), gaps(to, 2 * block), again(to, block);
      out.fill(key_of(rank));
      MPI_Request requests[2];
      MUST(ireceive(in, block, MPI_BYTE, previous, 5, comm, 0, 0, &requests[0]));
      MUST(ireceive(gaps, 1, pairs, previous, 6, comm, 0, 0, &requests[1]));
      MUST(send(out, block, MPI_BYTE, next, 5, comm, 0, 0));
      MUST(send(out, block / 2, MPI_SHORT, next, 6, comm, 0, 0));
      MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
      MUST(isend(gaps, 1, pairs, previous, 7, comm, 0, 0, &requests[0]));
      // MPICH 4.3 writes no status here.
      MUST(receive(again, block, MPI_BYTE, next, 7, comm, 0, 0, MPI_STATUS_IGNORE));
      MUST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
      EXPECT_HOLDS(in, key_of(previous), block);
      EXPECT_HOLDS(again, key_of(rank), block);
    }
  MUST(MPI_Type_free(&pairs));
}

RANK_TEST(newer, messages_between_streams_arrive, 2) {
  exchange_between_streams<int>("MPIX_Stream_send", "MPIX_Stream_isend", "MPIX_Stream_recv",
                                "MPIX_Stream_irecv");
}
RANK_TEST(newer, large_counts_between_streams_arrive, 2) {
  exchange_between_streams<MPI_Count>("MPIX_Stream_send_c", "MPIX_Stream_isend_c", "MPIX_Stream_recv_c",
                                      "MPIX_Stream_irecv_c");
}

RANK_TEST(newer, a_large_position_is_written, 1) {
  auto* pack = required<LargePack>("MPI_Pack_c");
  if (!pack) return;
  char from[8] = {}, to[64];
  MPI_Count position = 8;
  MUST(pack(from, 8, MPI_BYTE, to, sizeof to, &position, MPI_COMM_SELF));
  EXPECT(position == 16, "the position is %lld", static_cast<long long>(position));
}

// MPICH 5 does not tell of such a type to who asks by the ordinary functions.
RANK_TEST(newer, types_made_by_large_counts_arrive, 2) {
  auto* contiguous = required<LargeContiguous>("MPI_Type_contiguous_c");
  if (!contiguous) return;
  MPI_Datatype type;
  MUST(contiguous(block, MPI_BYTE, &type));
  MUST(MPI_Type_commit(&type));
  for (Place place : host_and_device) {
    Memory mine(place, 2 * block), got(place, 2 * block);
    mine.fill(key_of(rank, 5));
    MUST(MPI_Sendrecv(mine, 2, type, (rank + 1) % size, 4, got, 2, type, (rank + size - 1) % size, 4,
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_HOLDS(got, key_of((rank + size - 1) % size, 5), 2 * block);
  }
  MUST(MPI_Type_free(&type));
}

RANK_TEST(newer, a_count_that_no_function_takes_is_an_error, 1) {
  auto* allgatherv = required<LargeAllgatherv>("MPI_Allgatherv_c");
  if (!allgatherv) return;
  if (dlsym(RTLD_DEFAULT, "PMPI_Allgatherv_c")) return skip("this MPI takes it");
  const std::vector<MPI_Count> beyond_int(size, MPI_Count{1} << 31);
  const std::vector<MPI_Aint> places(size);
  EXPECT_ERROR(allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, nullptr, beyond_int.data(), places.data(), MPI_BYTE,
                          MPI_COMM_WORLD),
               MPI_ERR_OTHER);
}

// mpi4py 4.1 frees the counts of some persistent collectives when it has made them; host MPIs have read them
// by then.
RANK_TEST(newer, arrays_of_persistent_collectives_may_go, 2) {
  auto* init = required<AllgathervInit>("MPI_Allgatherv_init");
  if (!init || host_oracle) return;
  const size_t whole = static_cast<size_t>(block) * size;
  for (Place place : host_and_device) {
    Memory mine(place, block), all(place, whole);
    mine.fill(key_of(rank));
    std::vector<int> counts(size, block), places(size);
    for (int i = 0; i < size; ++i) places[i] = block * i;
    MPI_Request request;
    MUST(init(mine, block, MPI_BYTE, all, counts.data(), places.data(), MPI_BYTE, MPI_COMM_WORLD,
              MPI_INFO_NULL, &request));
    counts.assign(size, -1);
    places.assign(size, 1 << 30);
    MUST(MPI_Start(&request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MUST(MPI_Request_free(&request));
    std::vector<char> wanted(whole);
    for (int from = 0; from < size; ++from) write_pattern(key_of(from), &wanted[from * block], block);
    std::string why;
    EXPECT(all.holds(wanted, &why), "%s", why.c_str());
  }
}

RANK_TEST(newer, an_empty_status_tells_of_no_error, 1) {
  if (!mpi4::Request_get_status_any)
    return skip("neither Fairlead nor this MPI has MPI_Request_get_status_any");
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Status status;
  status.MPI_ERROR = MPI_ERR_OTHER;
  int index = 0, flag = 0;
  MUST(mpi4::Request_get_status_any(1, &none, &index, &flag, &status));
  EXPECT(flag && index == MPI_UNDEFINED, "flag %d, index %d", flag, index);
  EXPECT_EMPTY(status);
  EXPECT(status.MPI_ERROR == MPI_SUCCESS, "the error is %d", status.MPI_ERROR);
}
