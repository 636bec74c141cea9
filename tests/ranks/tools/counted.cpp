// SPDX-License-Identifier: Apache-2.0
//
// A program of known calls on device and on host memory, for tools that count them (pmpi_counter.c). Every
// byte must arrive, whoever stands where. TEST_TOOL_SEES says what the tool must have counted:
//
//   program   the calls of this program, and their bytes
//   sends     the same of MPI_Send alone
//   host      Fairlead's host messages: of the long device messages only what Fairlead sends by MPI for them
//   none      none of these calls
//   nothing   there is no tool
//
// BY_PROFILING_NAMES: the program calls PMPI_X. IN_A_LIBRARY: a library calls, which a program or mpi_opener
// calls.

#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "fairlead/device.h"

#ifdef BY_PROFILING_NAMES
#define MPI_Abort PMPI_Abort
#define MPI_Allreduce PMPI_Allreduce
#define MPI_Bcast PMPI_Bcast
#define MPI_Comm_rank PMPI_Comm_rank
#define MPI_Comm_size PMPI_Comm_size
#define MPI_Finalize PMPI_Finalize
#ifndef IN_A_LIBRARY  // that is opened: the first call of MPI_X makes Fairlead look for the MPI
#define MPI_Init PMPI_Init
#define MPI_Init_thread PMPI_Init_thread
#endif
#define MPI_Irecv PMPI_Irecv
#define MPI_Isend PMPI_Isend
#define MPI_Recv PMPI_Recv
#define MPI_Send PMPI_Send
#define MPI_Wait PMPI_Wait
#define MPI_Waitall PMPI_Waitall
#endif

namespace {

constexpr int long_bytes = 1 << 20, short_bytes = 64, messages = 3, doubles = 5000;

int rank = 0, size = 0, failures = 0;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  ++failures;
  std::fprintf(stderr, "counted: rank %d: %s\n", rank, what.c_str());
}

struct Count {
  long long calls = 0, bytes = 0;
};
std::map<std::string, Count> made;

void note(const char* function, long long bytes = 0) {
  ++made[function].calls;
  made[function].bytes += bytes;
}

Count of_tool(const std::string& function) {
  using Read = int(const char*, long long*, long long*);
  auto* read = reinterpret_cast<Read*>(dlsym(RTLD_DEFAULT, "pmpi_counter_read"));
  Count count;
  expect(read && read(function.c_str(), &count.calls, &count.bytes), "the tool does not count " + function);
  return count;
}

class Buffer {
 public:
  Buffer(bool on_device, size_t bytes) : on_device_(on_device), bytes_(bytes) {
    if (on_device_)
      expect(fairlead_device_malloc(&address_, bytes) == 0, "no device memory");
    else
      address_ = std::malloc(bytes);
  }
  ~Buffer() {
    if (on_device_)
      fairlead_device_free(address_);
    else
      std::free(address_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* get() const { return address_; }
  template <class T>
  void fill(T value) {
    const std::vector<T> values(bytes_ / sizeof(T), value);
    expect(fairlead_device_copy(address_, values.data(), bytes_) == 0, "the copy to the buffer failed");
  }
  template <class T>
  void expect_holds(T value, const char* function) {
    std::vector<T> values(bytes_ / sizeof(T));
    expect(fairlead_device_copy(values.data(), address_, bytes_) == 0, "the copy from the buffer failed");
    expect(values == std::vector<T>(values.size(), value), std::string(function) + " brought wrong bytes");
  }

 private:
  bool on_device_;
  size_t bytes_;
  void* address_ = nullptr;
};

// Each rank sends to the next one and receives from the one before.
int next() {
  return (rank + 1) % size;
}
int before() {
  return (rank + size - 1) % size;
}

void send(const Buffer& buffer, int bytes) {
  note("MPI_Send", bytes);
  // By its address, which the program may hold itself.
  decltype(&MPI_Send) volatile send = &MPI_Send;
  send(buffer.get(), bytes, MPI_BYTE, next(), 1, MPI_COMM_WORLD);
}

void receive(const Buffer& buffer, int bytes) {
  note("MPI_Recv", bytes);
  MPI_Recv(buffer.get(), bytes, MPI_BYTE, before(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void blocking(bool on_device, int bytes) {
  Buffer out(on_device, bytes), in(on_device, bytes);
  out.fill<char>(static_cast<char>(rank));
  if (rank % 2 == 0) send(out, bytes);
  receive(in, bytes);
  if (rank % 2 != 0) send(out, bytes);
  in.expect_holds<char>(static_cast<char>(before()), "MPI_Recv");
}

void nonblocking(bool on_device, int bytes) {
  Buffer out(on_device, bytes), in(on_device, bytes);
  out.fill<char>(static_cast<char>(rank));
  for (int i = 0; i < messages; ++i) {
    MPI_Request requests[2];
    note("MPI_Irecv", bytes);
    MPI_Irecv(in.get(), bytes, MPI_BYTE, before(), 2, MPI_COMM_WORLD, &requests[0]);
    note("MPI_Isend", bytes);
    MPI_Isend(out.get(), bytes, MPI_BYTE, next(), 2, MPI_COMM_WORLD, &requests[1]);
    if (i == 0) {
      for (MPI_Request& request : requests) {
        note("MPI_Wait");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
    } else {
      note("MPI_Waitall");
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
  }
  in.expect_holds<char>(static_cast<char>(before()), "MPI_Irecv");
}

void collective(bool on_device) {
  constexpr int bytes = doubles * sizeof(double);
  Buffer out(on_device, bytes), in(on_device, bytes);
  out.fill<double>(rank + 1);
  note("MPI_Allreduce", bytes);
  MPI_Allreduce(out.get(), in.get(), doubles, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  in.expect_holds<double>(size * (size + 1) / 2.0, "MPI_Allreduce");
  note("MPI_Bcast", bytes);
  MPI_Bcast(out.get(), doubles, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
  out.expect_holds<double>(size, "MPI_Bcast");
}

void compare(const std::string& sees) {
  if (sees == "nothing") return;
  if (sees == "host") {
    const long long sent = of_tool("MPI_Send").bytes + of_tool("MPI_Isend").bytes;
    const long long of_program = made["MPI_Send"].bytes + made["MPI_Isend"].bytes;
    // Host messages pass as they are: half of the program's bytes.
    expect(sent >= of_program / 2 && sent < of_program / 2 + long_bytes,
           "the tool counted " + std::to_string(sent) + " sent bytes, where the program sent " +
               std::to_string(of_program));
    return;
  }
  for (auto [function, count] : made) {
    if (sees == "sends" && function != "MPI_Send") continue;
    if (sees == "none") count = {};
    const Count counted = of_tool(function);
    expect(counted.calls == count.calls && counted.bytes == count.bytes,
           function + ": the tool counted " + std::to_string(counted.calls) + " calls, " +
               std::to_string(counted.bytes) + " bytes; there were " + std::to_string(count.calls) + ", " +
               std::to_string(count.bytes));
  }
}

}  // namespace

#ifdef IN_A_LIBRARY
extern "C" __attribute__((visibility("default"))) int run() {
  int argc = 0;
  char** argv = nullptr;
#else
int main(int argc, char** argv) {
#endif
  // One of both, so that a tool may wrap either.
  if (argc > 1 && std::strcmp(argv[1], "threads") == 0) {
    int provided = 0;
    note("MPI_Init_thread");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  } else {
    note("MPI_Init");
    MPI_Init(&argc, &argv);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (bool on_device : {true, false}) {
    for (int bytes : {long_bytes, short_bytes}) {
      blocking(on_device, bytes);
      nonblocking(on_device, bytes);
    }
    collective(on_device);
  }
  const char* sees = std::getenv("TEST_TOOL_SEES");
  compare(sees ? sees : "nothing");
  if (failures == 0 && rank == 0) std::printf("counted: ok\n");
  if (failures > 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return 0;
}
