// SPDX-License-Identifier: Apache-2.0
//
// Programs that use MPI by sessions (MPI 4.1, 11.3): alone, in turns and several at once, and before, within
// and after MPI_Init ... MPI_Finalize. Their device messages work on every communicator.
//
//   sessions alone | cycles | some | before | within | after | refused
//
// On plain MPI, with TEST_MEMORY=host, the memory is host memory.

#include <mpi.h>
#ifdef MPIX_STREAM_NULL
constexpr bool host_has_streams = true;  // MPICH from 4.1 on
#else
constexpr bool host_has_streams = false;
#endif

#define FAIRLEAD_STREAM_KEEP_THREAD_LEVEL
#include <fairlead/device.h>
#include <fairlead/stream.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if MPI_VERSION < 4 && !(defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
int main() {
  std::puts("skip: this MPI has no sessions");
  return 77;
}
#else
namespace {

constexpr int counts[] = {1, 12, 1000, 300000};  // 12 doubles are as long as a descriptor

bool host_memory() {
  const char* memory = std::getenv("TEST_MEMORY");
  return memory && std::strcmp(memory, "host") == 0;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "sessions: %s\n", what);
  std::abort();
}
#define MUST(call) require((call) == MPI_SUCCESS, #call)

class Doubles {
 public:
  explicit Doubles(int count, double first = -1) : count_(count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(double);
    if (host_memory())
      memory_ = std::malloc(bytes);
    else
      require(fairlead_device_malloc(&memory_, bytes) == 0, fairlead_device_error_text());
    std::vector<double> values(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = first + i;
    copy(memory_, values.data());
  }
  ~Doubles() {
    if (host_memory())
      std::free(memory_);
    else
      fairlead_device_free(memory_);
  }
  Doubles(const Doubles&) = delete;
  Doubles& operator=(const Doubles&) = delete;
  operator void*() const { return memory_; }
  // Element i is first + i * step.
  void must_hold(double first, double step, const char* what) const {
    std::vector<double> values(static_cast<size_t>(count_));
    copy(values.data(), memory_);
    for (int i = 0; i < count_; ++i) require(values[static_cast<size_t>(i)] == first + i * step, what);
  }

 private:
  void copy(void* to, const void* from) const {
    const size_t bytes = static_cast<size_t>(count_) * sizeof(double);
    if (host_memory())
      std::memcpy(to, from, bytes);
    else
      require(fairlead_device_copy(to, from, bytes) == 0, fairlead_device_error_text());
  }

  int count_;
  void* memory_ = nullptr;
};

void send_around(MPI_Comm comm, int rank, int size) {
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (int count : counts) {
    Doubles sent(count, rank), received(count), matched(count);
    MPI_Request request;
    MUST(MPI_Isend(sent, count, MPI_DOUBLE, next, 1, comm, &request));
    MPI_Status status;
    MUST(MPI_Probe(previous, 1, comm, &status));
    int found = 0;
    MUST(MPI_Get_count(&status, MPI_DOUBLE, &found));
    require(found == count, "a probe tells another length");
    MUST(MPI_Recv(received, count, MPI_DOUBLE, previous, 1, comm, MPI_STATUS_IGNORE));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    received.must_hold(previous, 1, "a message brought other bytes");
    // Into host memory, and out of it.
    std::vector<double> host(static_cast<size_t>(count), rank);
    MUST(MPI_Sendrecv(sent, count, MPI_DOUBLE, next, 2, host.data(), count, MPI_DOUBLE, previous, 2, comm,
                      MPI_STATUS_IGNORE));
    require(host.back() == previous + count - 1, "a message to host memory brought other bytes");
    MUST(MPI_Sendrecv(host.data(), count, MPI_DOUBLE, previous, 3, received, count, MPI_DOUBLE, next, 3, comm,
                      MPI_STATUS_IGNORE));
    received.must_hold(rank, 1, "a message from host memory brought other bytes");
    // Requests that wait for nobody are of a communicator of Fairlead's own.
    MPI_Request persistent;
    MUST(MPI_Send_init(sent, count, MPI_DOUBLE, next, 4, comm, &persistent));
    MUST(MPI_Start(&persistent));
    MPI_Message message;
    MUST(MPI_Mprobe(previous, 4, comm, &message, MPI_STATUS_IGNORE));
    MUST(MPI_Mrecv(matched, count, MPI_DOUBLE, &message, MPI_STATUS_IGNORE));
    MUST(MPI_Wait(&persistent, MPI_STATUS_IGNORE));
    MUST(MPI_Request_free(&persistent));
    matched.must_hold(previous, 1, "a matched message brought other bytes");
  }
}

void send_columns(MPI_Comm comm, int rank, int size) {
  constexpr int rows = 50;
  MPI_Datatype column;
  MUST(MPI_Type_vector(rows, 1, 3, MPI_DOUBLE, &column));
  MUST(MPI_Type_commit(&column));
  Doubles sent(3 * rows, rank), received(rows);
  MUST(MPI_Sendrecv(sent, 1, column, (rank + 1) % size, 5, received, rows, MPI_DOUBLE,
                    (rank + size - 1) % size, 5, comm, MPI_STATUS_IGNORE));
  MUST(MPI_Type_free(&column));
  received.must_hold((rank + size - 1) % size, 3, "a column brought other bytes");
}

void add_up(MPI_Comm comm, int rank, int size) {
  for (int count : counts) {
    Doubles part(count, rank), sum(count), all(count);
    MUST(MPI_Allreduce(part, sum, count, MPI_DOUBLE, MPI_SUM, comm));
    sum.must_hold(size * (size - 1) / 2.0, size, "a sum is wrong");
    MPI_Request request;
    MUST(MPI_Iallreduce(part, all, count, MPI_DOUBLE, MPI_SUM, comm, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    all.must_hold(size * (size - 1) / 2.0, size, "a nonblocking sum is wrong");
  }
}

void use_window(MPI_Comm comm, int rank, int size) {
  constexpr int count = 1000;
  Doubles target(count), origin(count, rank);
  MPI_Win window;
  MUST(MPI_Win_create(target, count * sizeof(double), sizeof(double), MPI_INFO_NULL, comm, &window));
  MUST(MPI_Win_fence(0, window));
  MUST(MPI_Put(origin, count, MPI_DOUBLE, (rank + 1) % size, 0, count, MPI_DOUBLE, window));
  MUST(MPI_Win_fence(0, window));
  MUST(MPI_Win_free(&window));
  target.must_hold((rank + size - 1) % size, 1, "an access brought other bytes");
}

// Of a communicator, and then of a session: the GPU memory that Fairlead takes, and what was requested of it.
std::string kinds_in(MPI_Info info) {
  char kinds[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  MUST(MPI_Info_get(info, "mpi_memory_alloc_kinds", MPI_MAX_INFO_VAL, kinds, &found));
  MUST(MPI_Info_free(&info));
  return kinds;
}

void must_tell_kinds(const std::string& kinds) {
  if (host_memory()) return;
  const std::string device = std::string(",") + fairlead_device_provider() + ":device,";
  require(("," + kinds + ",").find(device) != std::string::npos, "device memory is not told");
  require(kinds.find("nonsense") == std::string::npos, "a kind is told that is not there");
}

void use(MPI_Comm comm) {
  MPI_Info told;
  MUST(MPI_Comm_get_info(comm, &told));
  must_tell_kinds(kinds_in(told));
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  send_around(comm, rank, size);
  send_columns(comm, rank, size);
  add_up(comm, rank, size);
  use_window(comm, rank, size);
}

class Session {
 public:
  Session() {
    MPI_Info info, told;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "mpi_memory_alloc_kinds", "nonsense,mpi:alloc_mem,sim:host:device"));
    MUST(MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session_));
    MUST(MPI_Info_free(&info));
    MUST(MPI_Session_get_info(session_, &told));
    const std::string kinds = kinds_in(told);
    must_tell_kinds(kinds);
    for (const char* requested : {",mpi:alloc_mem,", ",sim:host:device,"})
      require(host_memory() || ("," + kinds + ",").find(requested) != std::string::npos,
              "what was requested is not told");
  }
  ~Session() { MUST(MPI_Session_finalize(&session_)); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  MPI_Group group(const char* set) const {
    MPI_Group group;
    MUST(MPI_Group_from_session_pset(session_, set, &group));
    return group;
  }

 private:
  MPI_Session session_;
};

// A communicator of the processes of a group.
class Communicator {
 public:
  Communicator(MPI_Group group, const char* tag) {
    MPI_Info info, told;
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "system,sim:device"));
    MUST(MPI_Comm_create_from_group(group, tag, info, MPI_ERRORS_ARE_FATAL, &comm_));
    MPI_Group_free(&group);
    MUST(MPI_Info_free(&info));
    MUST(MPI_Comm_get_info(comm_, &told));
    const std::string kinds = kinds_in(told);
    require(host_memory() || kinds == "system,sim:device", "an assertion is not told");
  }
  ~Communicator() { MPI_Comm_free(&comm_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  operator MPI_Comm() const { return comm_; }

 private:
  MPI_Comm comm_;
};

void use_all(const Session& session) {
  Communicator world(session.group("mpi://WORLD"), "world"), self(session.group("mpi://SELF"), "self");
  use(world);
  use(self);
  MPI_Comm duplicate;
  MUST(MPI_Comm_dup(world, &duplicate));
  use(duplicate);
  MUST(MPI_Comm_free(&duplicate));
}

// An error of a call without an object: there is no communicator to raise it on.
void refused() {
  if (host_memory()) return;
  MPI_Info info;
  MPIX_Stream stream;
  MUST(MPI_Info_create(&info));
  MUST(MPI_Info_set(info, "type", "cudaStream_t"));
  MUST(MPI_Info_set(info, "value", "no handle"));
  require(MPIX_Stream_create(info, &stream) != MPI_SUCCESS, "a stream was made of no handle");
  MUST(MPI_Info_free(&info));
}

void alone() {
  Session outer;
  for (int i = 0; i < 3; ++i) {
    Session one, other;
    use_all(one);
    use_all(other);
  }
  use_all(outer);
  refused();
}

// Fairlead is off. Where MPICH has the function, it ends the program unless it is built for CUDA.
int refused_in_session() {
  if (host_has_streams) {
    std::puts("skip: this MPI has streams");
    return 77;
  }
  MPI_Session session;
  MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  refused();
  MUST(MPI_Session_finalize(&session));
  return 0;
}

// All of MPI ends and begins again.
void cycles() {
  for (int i = 0; i < 2; ++i) {
    Session session;
    use_all(session);
  }
}

// The last rank makes no communicator with the others, and the first begins a session more.
void some() {
  Session session;
  MPI_Group world = session.group("mpi://WORLD"), others = MPI_GROUP_NULL;
  int rank = 0, size = 1;
  MPI_Group_rank(world, &rank);
  MPI_Group_size(world, &size);
  if (rank == 0) Session();
  if (rank < size - 1) {
    int last[] = {size - 1};
    MUST(MPI_Group_excl(world, 1, last, &others));
    Communicator comm(others, "all but the last");
    use(comm);
  } else {
    Communicator comm(session.group("mpi://SELF"), "the last");
    use(comm);
  }
  MPI_Group_free(&world);
}

void before(int* argc, char*** argv) {
  Session session;
  Communicator early(session.group("mpi://WORLD"), "early");
  use(early);
  MUST(MPI_Init(argc, argv));
  use(MPI_COMM_WORLD);
  use(early);
  use_all(session);
  MUST(MPI_Finalize());
  use(early);
  use_all(session);
}

void within(int* argc, char*** argv) {
  MUST(MPI_Init(argc, argv));
  for (int i = 0; i < 2; ++i) {
    Session session;
    use(MPI_COMM_WORLD);
    use_all(session);
  }
  use(MPI_COMM_WORLD);
  MUST(MPI_Finalize());
}

void after(int* argc, char*** argv) {
  MUST(MPI_Init(argc, argv));
  use(MPI_COMM_WORLD);
  Session outer;
  MUST(MPI_Finalize());
  Session session;
  use_all(session);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string when = argc > 1 ? argv[1] : "";
  if (when == "alone")
    alone();
  else if (when == "cycles")
    cycles();
  else if (when == "some")
    some();
  else if (when == "before")
    before(&argc, &argv);
  else if (when == "within")
    within(&argc, &argv);
  else if (when == "after")
    after(&argc, &argv);
  else if (when == "refused")
    return refused_in_session();
  else
    require(false, "usage: sessions alone | cycles | some | before | within | after | refused");
  return 0;
}
#endif
