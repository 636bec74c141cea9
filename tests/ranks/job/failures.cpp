// SPDX-License-Identifier: Apache-2.0
//
// In a job that survives failures, what needs a process that was killed returns an error, as it does for host
// memory without Fairlead; what does not need it goes on; and the survivors go on with a communicator of
// their own. Each case that kills a rank is a launch of its own (ulfm.h).

#include <functional>
#include <vector>

#include "harness/ulfm.h"

using namespace ranks;
using namespace ranks::ulfm;

namespace {

constexpr int tag = 61, ready = 62, unsent = 63;
// No standard send of the longest completes before its receiver has come.
constexpr size_t small = 64, large = size_t{1} << 20, longest = size_t{32} << 20;

int victim() {
  return size - 1;
}
bool is_victim() {
  return rank == victim();
}
// The survivor that exchanges messages with this one; MPI_PROC_NULL if there is none.
int living_partner() {
  const int other = rank ^ 1;
  return other < victim() ? other : MPI_PROC_NULL;
}

// The victim dies when every other rank has called this.
void let_it_die(MPI_Comm comm) {
  if (!is_victim()) {
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, victim(), ready, comm));
    return;
  }
  for (int other = 0; other < victim(); ++other)
    MUST(MPI_Recv(nullptr, 0, MPI_BYTE, other, ready, comm, MPI_STATUS_IGNORE));
  die();
}

// Messages and a collective of device memory among those that live.
void expect_to_work(MPI_Comm comm) {
  int me = 0, members = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &members);
  const int left = (me + members - 1) % members, right = (me + 1) % members;
  for (size_t bytes : {small, large}) {
    Memory out(Place::device, bytes), in(Place::device, bytes);
    out.fill(key_of(bytes, static_cast<uint64_t>(me)));
    MPI_Request requests[2];
    MUST(MPI_Irecv(in, static_cast<int>(bytes), MPI_BYTE, left, tag, comm, &requests[0]));
    MUST(MPI_Isend(out, static_cast<int>(bytes), MPI_BYTE, right, tag, comm, &requests[1]));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT_HOLDS(in, key_of(bytes, static_cast<uint64_t>(left)), bytes);
    Memory sum(Place::device, bytes);
    const std::vector<int> ones(bytes / sizeof(int), 1), wanted(ones.size(), members);
    out.write(ones.data(), bytes);
    MUST(MPI_Allreduce(out, sum, static_cast<int>(ones.size()), MPI_INT, MPI_SUM, comm));
    std::vector<int> got(ones.size());
    sum.read(got.data(), bytes);
    EXPECT(got == wanted, "a sum of %d members is %d", members, got[0]);
  }
}

void end(MPI_Comm* comm) {
  MPI_Comm living = survivors_of(comm);
  int members = 0;
  MPI_Comm_size(living, &members);
  EXPECT(members == size - 1, "%d of %d ranks are left", members, size);
  expect_to_work(living);
  MUST(MPI_Comm_free(&living));
}

}  // namespace

RANK_TEST(failures, receives_from_a_failed_rank_return_an_error, 3) {
  if (is_missing()) return;
  MPI_Comm comm = everybody();
  const auto each_place = [&](const std::function<void(Memory&)>& body) {
    for (Place place : host_and_device)
      for (size_t bytes : {small, large}) {
        Memory buffer(place, bytes);
        body(buffer);
      }
  };
  std::vector<Memory> posted;
  std::vector<MPI_Request> requests;
  if (!is_victim())
    each_place([&](Memory& buffer) {
      posted.push_back(std::move(buffer));
      MUST(MPI_Irecv(posted.back(), static_cast<int>(posted.back().bytes()), MPI_BYTE, victim(), tag, comm,
                     &requests.emplace_back()));
    });
  let_it_die(comm);
  for (MPI_Request& request : requests) {
    EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), proc_failed);
    EXPECT(request == MPI_REQUEST_NULL, "a failed receive is not over");
  }
  each_place([&](Memory& buffer) {
    const int bytes = static_cast<int>(buffer.bytes());
    MPI_Status statuses[2];
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int flag = 0, index = -1, count = 0;
    const auto post = [&] { MUST(MPI_Irecv(buffer, bytes, MPI_BYTE, victim(), tag, comm, &request[0])); };
    EXPECT_ERROR(MPI_Recv(buffer, bytes, MPI_BYTE, victim(), tag, comm, MPI_STATUS_IGNORE), proc_failed);
    EXPECT_ERROR(MPI_Sendrecv(buffer, 1, MPI_BYTE, MPI_PROC_NULL, tag, buffer, bytes, MPI_BYTE, victim(), tag,
                              comm, MPI_STATUS_IGNORE),
                 proc_failed);
    post();
    int result = MPI_SUCCESS;
    while (!flag && result == MPI_SUCCESS) result = CALL(MPI_Test(&request[0], &flag, MPI_STATUS_IGNORE));
    EXPECT(error_class(result) == proc_failed, "MPI_Test returned %s", error_name(result).c_str());
    EXPECT(request[0] == MPI_REQUEST_NULL, "a failed receive is not over");
    post();
    EXPECT_ERROR(MPI_Waitany(2, request, &index, MPI_STATUS_IGNORE), proc_failed);
    EXPECT(index == 0, "MPI_Waitany found request %d", index);
    post();
    EXPECT_ERROR(MPI_Waitsome(2, request, &count, &index, statuses), MPI_ERR_IN_STATUS);
    EXPECT(count == 1 && index == 0 && error_class(statuses[0].MPI_ERROR) == proc_failed,
           "MPI_Waitsome found %d requests, and %s", count, error_name(statuses[0].MPI_ERROR).c_str());
    // A rank that waited for all would never send what its partner waits for.
    if (living_partner() == MPI_PROC_NULL) return;
    Memory in(buffer.place(), buffer.bytes());
    post();
    MUST(MPI_Irecv(in, bytes, MPI_BYTE, living_partner(), unsent, comm, &request[1]));
    EXPECT_ERROR(MPI_Waitall(2, request, statuses), MPI_ERR_IN_STATUS);
    EXPECT(error_class(statuses[0].MPI_ERROR) == proc_failed && statuses[1].MPI_ERROR == MPI_ERR_PENDING &&
               request[1] != MPI_REQUEST_NULL,
           "MPI_Waitall told %s and %s", error_name(statuses[0].MPI_ERROR).c_str(),
           error_name(statuses[1].MPI_ERROR).c_str());
    buffer.fill(key_of(buffer.bytes()));
    MUST(exchange_nothing(living_partner(), ready));
    MUST(MPI_Send(buffer, bytes, MPI_BYTE, living_partner(), unsent, comm));
    MUST(MPI_Wait(&request[1], MPI_STATUS_IGNORE));
    EXPECT_HOLDS(in, key_of(buffer.bytes()), buffer.bytes());
  });
  MPI_Status status;
  MPI_Message message;
  EXPECT_ERROR(MPI_Probe(victim(), tag, comm, &status), proc_failed);
  EXPECT_ERROR(MPI_Mprobe(victim(), tag, comm, &message, &status), proc_failed);
  end(&comm);
}

RANK_TEST(failures, persistent_operations_with_a_failed_rank_return_an_error, 3) {
  if (is_missing()) return;
  MPI_Comm comm = everybody();
  std::vector<Memory> buffers;
  std::vector<MPI_Request> requests;
  if (!is_victim())
    for (Place place : host_and_device) {
      Memory& in = buffers.emplace_back(place, large);
      MUST(MPI_Recv_init(in, large, MPI_BYTE, victim(), tag, comm, &requests.emplace_back()));
      Memory& out = buffers.emplace_back(place, large);
      MUST(MPI_Ssend_init(out, large, MPI_BYTE, victim(), tag, comm, &requests.emplace_back()));
    }
  let_it_die(comm);
  for (int start : {1, 2})
    for (MPI_Request& request : requests) {
      int result = CALL(MPI_Start(&request));
      if (result == MPI_SUCCESS) result = CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT(error_class(result) == proc_failed, "start %d: %s", start, error_name(result).c_str());
      // Open MPI itself does not start a request again that has failed.
      if (host_oracle) break;
    }
  for (MPI_Request& request : requests) MUST(MPI_Request_free(&request));
  end(&comm);
}

RANK_TEST(failures, receives_from_any_rank_go_on_when_the_failure_is_acknowledged, 3) {
  if (is_missing()) return;
  MPI_Comm comm = everybody();
  std::vector<Memory> buffers;
  std::vector<MPI_Request> requests;
  // Fairlead completes those of device memory, and those of host memory that are posted behind them. Open MPI
  // itself (5.0.11) crashes if a message comes before the next wait for a receive that was pending.
  const bool pending_first = !host_oracle;
  if (!is_victim())
    for (Place place : {Place::device, Place::host})
      for (size_t bytes : {small, large}) {
        Memory& in = buffers.emplace_back(place, bytes);
        const int its_tag = unsent + static_cast<int>(requests.size());
        MUST(MPI_Irecv(in, static_cast<int>(bytes), MPI_BYTE, MPI_ANY_SOURCE, its_tag, comm,
                       &requests.emplace_back()));
      }
  let_it_die(comm);
  if (!pending_first) await_failures(comm, 1);
  for (MPI_Request& request : requests)
    for (int again = 1; pending_first && again <= 2; ++again) {
      int over = 0, result = MPI_SUCCESS;
      while (again == 1 && !over && result == MPI_SUCCESS)
        result = CALL(MPI_Test(&request, &over, MPI_STATUS_IGNORE));
      if (again == 2) result = CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT(error_class(result) == proc_failed_pending, "a call %d ended with %s", again,
             error_name(result).c_str());
      EXPECT(request != MPI_REQUEST_NULL, "wait %d: a receive that is pending is over", again);
    }
  int index = -1;
  if (pending_first) {
    EXPECT_ERROR(MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &index, MPI_STATUS_IGNORE),
                 proc_failed_pending);
    EXPECT(index == 0, "MPI_Waitany found request %d", index);
  }
  Memory in(Place::device, small);
  EXPECT_ERROR(MPI_Recv(in, small, MPI_BYTE, MPI_ANY_SOURCE, unsent + 9, comm, MPI_STATUS_IGNORE),
               proc_failed);
  MUST(Comm_failure_ack(comm));
  int all_have = 1;
  MUST(Comm_agree(comm, &all_have));
  // To the next one that lives.
  std::vector<MPI_Request> sends(requests.size());
  std::vector<Memory> outgoing;
  for (size_t i = 0; i < requests.size(); ++i) {
    Memory& out = outgoing.emplace_back(buffers[i].place(), buffers[i].bytes());
    out.fill(key_of(i));
    MUST(MPI_Isend(out, static_cast<int>(out.bytes()), MPI_BYTE, (rank + 1) % victim(),
                   unsent + static_cast<int>(i), comm, &sends[i]));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    MPI_Status status;
    MUST(MPI_Wait(&requests[i], &status));
    EXPECT_STATUS(status, (rank + victim() - 1) % victim(), unsent + static_cast<int>(i), buffers[i].bytes());
    EXPECT_HOLDS(buffers[i], key_of(i), buffers[i].bytes());
  }
  MUST(MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE));
  end(&comm);
}

RANK_TEST(failures, sends_to_a_failed_rank_return_an_error, 3) {
  if (is_missing()) return;
  MPI_Comm comm = everybody();
  std::vector<Memory> buffers;
  std::vector<MPI_Request> requests;
  if (!is_victim())
    for (Place place : host_and_device) {
      MUST(MPI_Isend(buffers.emplace_back(place, longest), longest, MPI_BYTE, victim(), tag, comm,
                     &requests.emplace_back()));
      MUST(MPI_Issend(buffers.emplace_back(place, small), small, MPI_BYTE, victim(), tag, comm,
                      &requests.emplace_back()));
    }
  let_it_die(comm);
  for (MPI_Request& request : requests) EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), proc_failed);
  for (Memory& buffer : buffers) {
    EXPECT_ERROR(MPI_Ssend(buffer, static_cast<int>(buffer.bytes()), MPI_BYTE, victim(), tag, comm),
                 proc_failed);
    // The host MPI may have sent a small message before it sees that nobody is there.
    if (const int result =
            CALL(MPI_Send(buffer, static_cast<int>(buffer.bytes()), MPI_BYTE, victim(), tag, comm));
        result != MPI_SUCCESS || buffer.bytes() == longest)
      EXPECT(error_class(result) == proc_failed, "MPI_Send returned %s", error_name(result).c_str());
    Memory in(buffer.place(), buffer.bytes());
    EXPECT_ERROR(MPI_Sendrecv(buffer, static_cast<int>(buffer.bytes()), MPI_BYTE, victim(), tag, in,
                              static_cast<int>(in.bytes()), MPI_BYTE, victim(), tag, comm, MPI_STATUS_IGNORE),
                 proc_failed);
  }
  end(&comm);
}

// The program ignores what it has heard, and sends and receives among the survivors on the same communicator.
RANK_TEST(failures, survivors_go_on_without_a_new_communicator, 3) {
  if (is_missing()) return;
  MPI_Comm comm = everybody();
  let_it_die(comm);
  for (int round = 0; round < 20; ++round) {
    Memory out(Place::device, large), in(Place::device, large), lost(Place::device, large);
    MPI_Request request;
    MUST(MPI_Irecv(lost, large, MPI_BYTE, victim(), tag, comm, &request));
    out.fill(key_of(static_cast<uint64_t>(round)));
    MUST(MPI_Sendrecv(out, large, MPI_BYTE, living_partner(), tag, in, large, MPI_BYTE, living_partner(), tag,
                      comm, MPI_STATUS_IGNORE));
    if (living_partner() != MPI_PROC_NULL) EXPECT_HOLDS(in, key_of(static_cast<uint64_t>(round)), large);
    EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), proc_failed);
  }
  end(&comm);
}

namespace {

// Collectives of device memory; each returns its result.
struct Call {
  const char* name;
  std::function<int(void* out, void* in, MPI_Comm comm)> make;
};
constexpr int block = 3000;  // elements of each member
const std::vector<Call>& collectives() {
  static const std::vector<Call> all = {
      {"MPI_Allreduce",
       [](void* out, void* in, MPI_Comm c) { return MPI_Allreduce(out, in, block, MPI_INT, MPI_SUM, c); }},
      {"MPI_Allgather", [](void* out, void* in,
                           MPI_Comm c) { return MPI_Allgather(out, block, MPI_INT, in, block, MPI_INT, c); }},
      {"MPI_Alltoall", [](void* out, void* in,
                          MPI_Comm c) { return MPI_Alltoall(out, block, MPI_INT, in, block, MPI_INT, c); }},
      {"MPI_Reduce_scatter_block",
       [](void* out, void* in, MPI_Comm c) {
         return MPI_Reduce_scatter_block(out, in, block, MPI_INT, MPI_SUM, c);
       }},
  };
  return all;
}

}  // namespace

RANK_TEST(failures, collectives_with_a_failed_rank_return_an_error, 3) {
  if (is_missing()) return;
  MPI_Comm comm = everybody(), another = everybody();
  const size_t bytes = sizeof(int) * block * static_cast<size_t>(size);
  Memory out(Place::device, bytes), in(Place::device, bytes), result(Place::device, bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  if (!is_victim()) MUST(MPI_Iallreduce(out, result, block, MPI_INT, MPI_SUM, another, &request));
  if (is_victim()) usleep(20000);  // so that the others most likely wait in the first one
  if (is_victim()) die();
  for (const Call& call : collectives()) {
    const int error = (at(__FILE__, __LINE__, call.name), call.make(out, in, comm));
    EXPECT(error_class(error) == proc_failed, "%s returned %s", call.name, error_name(error).c_str());
  }
  EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), proc_failed);
  int started = CALL(MPI_Iallgather(out, block, MPI_INT, in, block, MPI_INT, comm, &request));
  if (started == MPI_SUCCESS) started = CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT(error_class(started) == proc_failed, "MPI_Iallgather: %s", error_name(started).c_str());
  MUST(MPI_Comm_free(&another));
  end(&comm);
}

// Of a broadcast, some ranks may have all that they need.
RANK_TEST(failures, no_rank_waits_in_a_broadcast, 3) {
  if (is_missing()) return;
  MPI_Comm comm = everybody();
  if (is_victim()) die();
  for (size_t bytes : {small, large})
    for (int root = 0; root < size; ++root) {
      Memory buffer(Place::device, bytes);
      const int result = CALL(MPI_Bcast(buffer, static_cast<int>(bytes), MPI_BYTE, root, comm));
      EXPECT(result == MPI_SUCCESS || is_failure(result), "MPI_Bcast returned %s",
             error_name(result).c_str());
    }
  end(&comm);
}

RANK_TEST(failures, a_revoked_communicator_ends_its_operations, 3) {
  if (is_missing()) return;
  MPI_Comm comm = everybody();
  constexpr size_t operations = 6;
  MPI_Request requests[operations];
  std::vector<Memory> buffers;
  for (size_t i = 0; i < operations; ++i)
    buffers.emplace_back(i % 2 && !host_oracle ? Place::device : Place::host, i == 3 ? longest : large);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MUST(MPI_Irecv(buffers[0], large, MPI_BYTE, left, unsent, comm, &requests[0]));
  MUST(MPI_Irecv(buffers[1], large, MPI_BYTE, left, unsent, comm, &requests[1]));
  MUST(MPI_Issend(buffers[2], large, MPI_BYTE, right, tag, comm, &requests[2]));
  MUST(MPI_Isend(buffers[3], longest, MPI_BYTE, right, tag, comm, &requests[3]));
  MUST(MPI_Irecv(buffers[4], large, MPI_BYTE, MPI_ANY_SOURCE, unsent, comm, &requests[4]));
  if (rank != 0)
    MUST(MPI_Iallreduce(MPI_IN_PLACE, buffers[5], large, MPI_BYTE, MPI_BOR, comm, &requests[5]));
  else
    MUST(MPI_Irecv(buffers[5], large, MPI_BYTE, left, unsent, comm, &requests[5]));
  // Not a barrier: a rank that blocks there would complete its sends of device memory before.
  for (int other = 1; other < size; ++other) {
    if (rank == other) MUST(MPI_Send(nullptr, 0, MPI_BYTE, 0, ready, MPI_COMM_WORLD));
    if (rank == 0) MUST(MPI_Recv(nullptr, 0, MPI_BYTE, other, ready, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  if (rank == 0) MUST(Comm_revoke(comm));
  for (MPI_Request& request : requests) {
    const int result = CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    // Open MPI (5.0.11) says of sends that they are complete. So does Fairlead of those that it has buffered,
    // because the receiver is in another call.
    const bool sends = &request == &requests[2] || &request == &requests[3];
    EXPECT(error_class(result) == revoked || (sends && result == MPI_SUCCESS), "operation %d ended with %s",
           static_cast<int>(&request - requests), error_name(result).c_str());
  }
  int flag = 0;
  MUST(Comm_is_revoked(comm, &flag));
  EXPECT(flag, "the communicator is not revoked");
  EXPECT_ERROR(MPI_Send(buffers[1], large, MPI_BYTE, right, tag, comm), revoked);
  EXPECT_ERROR(MPI_Recv(buffers[1], large, MPI_BYTE, left, tag, comm, MPI_STATUS_IGNORE), revoked);
  EXPECT_ERROR(MPI_Allreduce(MPI_IN_PLACE, buffers[1], large, MPI_BYTE, MPI_BOR, comm), revoked);
  MPI_Comm whole = MPI_COMM_NULL;
  MUST(Comm_shrink(comm, &whole));
  MUST(MPI_Comm_free(&comm));
  expect_to_work(whole);
  MUST(MPI_Comm_free(&whole));
}

// The communicator may be gone before the message that is still on its way.
RANK_TEST(failures, a_communicator_that_was_freed_is_no_failure, 2) {
  if (is_missing()) return;
  MPI_Comm comm = everybody();
  Memory out(Place::device, large), in(Place::device, large);
  out.fill(key_of(1));
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MUST(MPI_Irecv(in, large, MPI_BYTE, (rank + 1) % size, tag, comm, &requests[0]));
  MPI_Comm same = comm;
  MUST(MPI_Comm_free(&comm));
  // So that progress looks at the receive for a while.
  for (int round = 0; round < 20000; ++round) {
    int ignored;
    MUST(MPI_Testall(2, requests, &ignored, MPI_STATUSES_IGNORE));
  }
  comm = everybody();
  EXPECT(comm != MPI_COMM_NULL && same != MPI_COMM_NULL, "there is no communicator");
  MUST(MPI_Comm_free(&comm));
  MUST(MPI_Cancel(&requests[0]));
  MUST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
}

RANK_TEST(failures, windows_with_a_failed_rank_return_an_error, 3) {
  if (is_missing()) return;
  // Open MPI warns that its own may hang.
  if (host_oracle) return skip("windows of the host MPI do not survive");
  MPI_Comm comm = everybody();
  Memory exposed(Place::device, large), origin(Place::device, small);
  MPI_Win window;
  MUST(MPI_Win_create(exposed, large, 1, MPI_INFO_NULL, comm, &window));
  MUST(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
  MPI_Group everyone;
  MUST(MPI_Comm_group(comm, &everyone));
  if (is_victim()) {
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
    MUST(MPI_Put(origin, small, MPI_BYTE, 0, 0, small, MPI_BYTE, window));
  }
  MUST(MPI_Barrier(comm));
  let_it_die(comm);
  EXPECT_ERROR(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window), proc_failed);
  EXPECT_ERROR(MPI_Win_fence(0, window), proc_failed);
  MUST(MPI_Win_post(everyone, 0, window));
  EXPECT_ERROR(MPI_Win_wait(window), proc_failed);
  MUST(MPI_Win_start(everyone, 0, window));
  EXPECT_ERROR(MPI_Win_complete(window), proc_failed);
  EXPECT_ERROR(MPI_Win_free(&window), proc_failed);
  EXPECT(window == MPI_WIN_NULL, "the window is not freed");
  MUST(MPI_Group_free(&everyone));
  end(&comm);
}
