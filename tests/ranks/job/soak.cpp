// SPDX-License-Identifier: Apache-2.0
//
// What the library keeps does not grow with the number of calls: neither its counts (fairlead_kept() in
// src/mpi/job/leaks.cpp) nor the resident memory, once they have been made often enough. --rounds 1000000 is
// the long form: so many messages, a third of that in communicators, a hundredth in windows and in
// streams, a fortieth in captures of one stream.

#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "streams/enqueue.h"

using namespace ranks;

namespace {

using Counts = std::map<std::string, size_t>;

Counts kept() {
  Counts counts;
  using Take = void (*)(void*, const char*, size_t);
  auto each = reinterpret_cast<void (*)(Take, void*)>(dlsym(RTLD_DEFAULT, "fairlead_kept"));
  if (each)
    each([](void* to, const char* what, size_t count) { (*static_cast<Counts*>(to))[what] = count; },
         &counts);
  return counts;
}

size_t resident_bytes() {
  size_t whole = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  EXPECT(file && std::fscanf(file, "%zu %zu", &whole, &resident) == 2, "no /proc/self/statm");
  if (file) std::fclose(file);
  return resident * 4096;
}

// `part`: of the rounds, which differs between the cases. The first half only warms up.
template <class Round>
void soak(long part, Round round) {
  constexpr size_t bytes_vary = 2 << 20;
  const long rounds = (options.rounds > 0 ? options.rounds : 8000) / part;
  Counts before;
  size_t resident = 0;
  for (long i = 0; i < rounds; ++i) {
    if (i % 100 == 0) rearm_watchdog();
    if (i == rounds / 2) {
      MUST(MPI_Barrier(MPI_COMM_WORLD));
      before = kept();
      resident = resident_bytes();
    }
    round(i);
  }
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  for (const auto& [what, count] : kept()) {
    const size_t varies = what.ends_with("bytes") ? bytes_vary : 16;
    EXPECT(count <= before[what] + varies, "%s: %zu, then %zu", what.c_str(), before[what], count);
  }
  const size_t now = resident_bytes();
  EXPECT(now <= resident + bytes_vary, "resident: %zu KiB, then %zu KiB", resident >> 10, now >> 10);
}

constexpr int bytes = 20000;

class Exchange {
 public:
  void operator()(const void* from, void* to, MPI_Comm comm) const {
    if (peer_ != MPI_PROC_NULL)
      MUST(MPI_Sendrecv(from, bytes, MPI_BYTE, peer_, tag, to, bytes, MPI_BYTE, peer_, tag, comm,
                        MPI_STATUS_IGNORE));
  }

 private:
  int peer_ = partner();
};

// Captures an exchange, launches it twice, and destroys the graph.
void exchange_in_graph(const Stream& stream, const void* out, void* in) {
  const int peer = partner();
  const device::Graph graph = stream.capture([&] {
    MUST(MPIX_Sendrecv_enqueue(out, bytes, MPI_BYTE, peer, tag, in, bytes, MPI_BYTE, peer, tag, stream.comm(),
                               MPI_STATUS_IGNORE));
  });
  for (int launch = 0; launch < 2; ++launch) DRIVER(Stream::gpu().launch_graph(graph, stream.get()));
  DRIVER(Stream::gpu().destroy_graph(graph));
  stream.synchronize();
}

}  // namespace

RANK_TEST(soak, messages_of_new_buffers, 2) {
  const Exchange exchange;
  constexpr long live = 64;
  void* others[live] = {};
  soak(1, [&](long i) {
    void *out = allocate(Place::device, bytes), *in = allocate(Place::device, bytes);
    for (long n = i % 4; n >= 0; --n) exchange(out, in, MPI_COMM_WORLD);
    if (i % 7 == 0) MUST(MPI_Allreduce(out, in, bytes / 8, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    deallocate(Place::device, i % 3 == 0 ? std::exchange(others[i % live], out) : out);
    deallocate(Place::device, in);
  });
  for (void* other : others) deallocate(Place::device, other);
}

RANK_TEST(soak, communicators, 2) {
  const Exchange exchange;
  const Memory out(Place::device, bytes), in(Place::device, bytes);
  soak(3, [&](long i) {
    MPI_Comm comm = MPI_COMM_NULL;
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    exchange(out, in, comm);
    if (i % 3 == 0) MUST(MPI_Allreduce(out, in, 8, MPI_FLOAT, MPI_SUM, comm));
    MUST(MPI_Comm_free(&comm));
  });
}

RANK_TEST(soak, windows, 2) {
  const Memory origin(Place::device, bytes);
  soak(100, [&](long) {
    const Memory exposed(Place::device, bytes);
    MPI_Win win = MPI_WIN_NULL;
    MUST(MPI_Win_create(exposed, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(origin, bytes, MPI_BYTE, (rank + 1) % size, 0, bytes, MPI_BYTE, win));
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Win_free(&win));
  });
}

RANK_TEST(soak, streams_with_graphs, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  const Memory out(Place::device, bytes), in(Place::device, bytes);
  soak(100, [&](long) {
    const Stream stream;
    for (int n = 0; n < 3; ++n) exchange_in_graph(stream, out, in);
  });
}

RANK_TEST(soak, captures_of_one_stream, 2) {
  if (const char* reason = why_no_graphs()) return skip(reason);
  const Memory out(Place::device, bytes), in(Place::device, bytes);
  Stream stream;
  soak(40, [&](long) { exchange_in_graph(stream, out, in); });
}
