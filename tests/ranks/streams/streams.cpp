// SPDX-License-Identifier: Apache-2.0
//
// M10, FAIRLEAD_CHECK=streams: a program that hands a buffer to MPI while its kernels are in flight is told
// so, once for each place of a call; a program that synchronises is told nothing. Without the option nobody
// is. Every case counts the warnings that Fairlead writes to stderr.

#include <fairlead/device.h>
#define FAIRLEAD_STREAM_KEEP_THREAD_LEVEL
#include <fairlead/stream.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/harness.h"
#include "harness/mpi4.h"
#include "harness/overheard.h"

using namespace ranks;

namespace {

constexpr int tag = 41;
constexpr int bytes = 5000;
constexpr const char* warning = "synchronise that stream before the call";

bool checked() {
  const char* check = getenv("FAIRLEAD_CHECK");
  return !host_oracle && check && strstr(check, "streams");
}

// What the check must say, or nothing where it is off.
size_t expected(size_t warnings) {
  return checked() ? warnings : 0;
}

#define EXPECT_WARNINGS(overheard, warnings)                                             \
  EXPECT((overheard).count(warning) == expected(warnings), "%zu warnings, not %zu:\n%s", \
         (overheard).count(warning), expected(warnings), (overheard).text().c_str())

// One place of a call each. (A call that ends its function may become a jump, and have no place.)
[[gnu::noinline]] void send_here(const Memory& buffer, int peer) {
  MUST(MPI_Send(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
}
[[gnu::noinline]] void receive_here(const Memory& buffer, int peer) {
  MUST(MPI_Recv(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

// The first message between two ranks may allocate and map memory, for which a driver may wait for kernels.
void get_acquainted(Memory& buffer, const Memory& host, int peer, MPI_Comm comm = MPI_COMM_WORLD) {
  buffer.fill(1);
  Overheard overheard;
  MUST(MPI_Sendrecv(buffer, bytes, MPI_BYTE, peer, tag, host, bytes, MPI_BYTE, peer, tag, comm,
                    MPI_STATUS_IGNORE));
  MUST(MPI_Sendrecv(host, bytes, MPI_BYTE, peer, tag, buffer, bytes, MPI_BYTE, peer, tag, comm,
                    MPI_STATUS_IGNORE));
  EXPECT_WARNINGS(overheard, 0u);
}

}  // namespace

RANK_TEST(streams, M10_each_place_of_a_send_in_flight_warns_once, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Memory buffer(Place::device, bytes), host(Place::host, bytes);
  get_acquainted(buffer, host, peer);
  Overheard overheard;
  if (rank < peer) {
    KernelInFlight kernel(buffer);
    for (int i = 0; i < 10; ++i) send_here(buffer, peer);
    MUST(MPI_Send(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    send_here(buffer, peer);
  } else {
    for (int i = 0; i < 12; ++i) receive_here(host, peer);
  }
  EXPECT_WARNINGS(overheard, rank < peer ? 2u : 0u);
  if (rank < peer && checked()) {
    for (const char* part : {"MPI_Send at rank-tests-", " sends a buffer of device ",
                             "kernel write_when_over", "may still write it", "cudaStreamSynchronize"})
      EXPECT(overheard.count(part) == 2, "\"%s\" is not twice in\n%s", part, overheard.text().c_str());
  }
}

RANK_TEST(streams, M10_each_place_of_a_receive_in_flight_warns_once, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Memory buffer(Place::device, bytes), host(Place::host, bytes);
  get_acquainted(buffer, host, peer);
  Overheard overheard;
  if (rank < peer) {
    KernelInFlight kernel(buffer);
    for (int i = 0; i < 10; ++i) receive_here(buffer, peer);
    MUST(MPI_Recv(buffer, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  } else {
    for (int i = 0; i < 11; ++i) send_here(host, peer);
  }
  EXPECT_WARNINGS(overheard, rank < peer ? 2u : 0u);
  if (rank < peer && checked()) {
    for (const char* part : {"MPI_Recv at ", " receives into a buffer of device ", "may still access it"})
      EXPECT(overheard.count(part) == 2, "\"%s\" is not twice in\n%s", part, overheard.text().c_str());
  }
}

// A kernel marks a partition while it runs, and may wait for one of a receive that is started meanwhile.
RANK_TEST(streams, M10_partitions_of_kernels_are_no_mistake, 2) {
  if (mpi4::lacks_partitioned()) return;
  if (host_oracle || !threads) return skip(host_oracle ? "needs kernels" : "needs TEST_THREADS=1");
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Memory out(Place::device, 2 * bytes), in(Place::device, 2 * bytes), order(Place::pinned, sizeof(int));
  const int first = 0;
  order.write(&first, sizeof first);
  MPI_Request send, receive;
  MPIX_Prequest marks, arrivals;
  MUST(mpi4::Psend_init(out, 2, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
  MUST(mpi4::Precv_init(in, 2, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
  MUST(MPIX_Prequest_create(send, &marks));
  MUST(MPIX_Prequest_create(receive, &arrivals));
  fairlead_device_stream* stream = nullptr;
  MUST(fairlead_device_stream_create(&stream));
  Overheard overheard;
  {
    KernelInFlight kernel(out, bytes);
    MUST(MPI_Start(&receive));
    MUST(MPI_Start(&send));
    void *data = out, *numbers = order, *over = nullptr;
    unsigned long length = bytes;
    unsigned seed = 1;
    void* arguments[] = {&data, &length, &seed, &numbers, &over, &marks};
    MUST(fairlead_device_launch_on(stream, "fill_and_mark", 1, 1, arguments));
    MUST(mpi4::Pready(1, send));  // is one
    MUST(MPI_Wait(&send, MPI_STATUS_IGNORE));
    MUST(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  }
  EXPECT_WARNINGS(overheard, 1u);
  MUST(fairlead_device_stream_destroy(stream));
  MUST(MPI_Request_free(&send));
  MUST(MPI_Request_free(&receive));
  MUST(MPIX_Prequest_free(&marks));
  MUST(MPIX_Prequest_free(&arrivals));
}

RANK_TEST(streams, M10_a_program_that_synchronises_is_told_nothing, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Memory buffer(Place::device, bytes), host(Place::host, bytes);
  get_acquainted(buffer, host, peer);
  Overheard overheard;
  for (int i = 0; i < 10; ++i) {
    { KernelInFlight kernel(buffer); }  // and its end
    MUST(MPI_Sendrecv(buffer, bytes, MPI_BYTE, peer, tag, host, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    // Copies of Fairlead's own are in flight during the second and third.
    MPI_Request requests[3];
    for (int n = 0; n < 3; ++n)
      MUST(MPI_Isend(buffer, bytes, MPI_BYTE, peer, tag + n, MPI_COMM_WORLD, &requests[n]));
    Memory in(Place::device, 3 * bytes);
    for (int n = 0; n < 3; ++n)
      MUST(
          MPI_Recv(in.data() + n * bytes, bytes, MPI_BYTE, peer, tag + n, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MUST(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
  }
  EXPECT_WARNINGS(overheard, 0u);
}

RANK_TEST(streams, M10_kernels_of_another_device_and_buffers_that_move_no_bytes_are_not_meant, 1) {
  if (host_oracle || fairlead_device_count() < 2) return skip("needs 2 devices");
  Memory buffer(Place::other_device, bytes), here(Place::device, bytes), host(Place::host, bytes);
  Overheard overheard;
  {
    KernelInFlight kernel(here);
    MUST(MPI_Sendrecv(buffer, bytes, MPI_BYTE, 0, tag, host, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF,
                      MPI_STATUS_IGNORE));
    MUST(MPI_Sendrecv(host, bytes, MPI_BYTE, 0, tag, buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF,
                      MPI_STATUS_IGNORE));
    MUST(
        MPI_Sendrecv(here, 0, MPI_BYTE, 0, tag, here, 0, MPI_BYTE, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    MUST(MPI_Send(here, bytes, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_SELF));
    MUST(MPI_Recv(here, bytes, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE));
  }
  EXPECT_WARNINGS(overheard, 0u);
}

RANK_TEST(streams, M10_the_warning_names_the_function, 1) {
  // Messages to ourselves, with host memory at the other end.
  Memory buffer(Place::device, bytes), host(Place::host, bytes);
  get_acquainted(buffer, host, 0, MPI_COMM_SELF);
  std::vector<char> attached(bytes + MPI_BSEND_OVERHEAD);
  MUST(MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size())));
  const MPI_Comm self = MPI_COMM_SELF;
  std::vector<const char*> called;
  auto sent = [&](const char* name, auto start) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MUST(MPI_Irecv(host, bytes, MPI_BYTE, 0, tag, self, &requests[0]));
    MUST(start(&requests[1]));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    called.push_back(name);
  };
  auto received = [&](const char* name, auto start) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MUST(MPI_Isend(host, bytes, MPI_BYTE, 0, tag, self, &requests[0]));
    MUST(start(&requests[1]));
    MUST(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    called.push_back(name);
  };
  MPI_Request persistent[3];
  MUST(MPI_Send_init(buffer, bytes, MPI_BYTE, 0, tag, self, &persistent[0]));
  MUST(MPI_Recv_init(buffer, bytes, MPI_BYTE, 0, tag, self, &persistent[1]));
  MUST(MPI_Ssend_init(buffer, bytes, MPI_BYTE, 0, tag, self, &persistent[2]));

  Overheard overheard;
  {
    KernelInFlight kernel(buffer);
    sent("MPI_Send", [&](MPI_Request*) { return MPI_Send(buffer, bytes, MPI_BYTE, 0, tag, self); });
    sent("MPI_Ssend", [&](MPI_Request*) { return MPI_Ssend(buffer, bytes, MPI_BYTE, 0, tag, self); });
    sent("MPI_Rsend", [&](MPI_Request*) { return MPI_Rsend(buffer, bytes, MPI_BYTE, 0, tag, self); });
    sent("MPI_Bsend", [&](MPI_Request*) { return MPI_Bsend(buffer, bytes, MPI_BYTE, 0, tag, self); });
    sent("MPI_Isend", [&](MPI_Request* r) { return MPI_Isend(buffer, bytes, MPI_BYTE, 0, tag, self, r); });
    sent("MPI_Issend", [&](MPI_Request* r) { return MPI_Issend(buffer, bytes, MPI_BYTE, 0, tag, self, r); });
    sent("MPI_Irsend", [&](MPI_Request* r) { return MPI_Irsend(buffer, bytes, MPI_BYTE, 0, tag, self, r); });
    sent("MPI_Ibsend", [&](MPI_Request* r) { return MPI_Ibsend(buffer, bytes, MPI_BYTE, 0, tag, self, r); });
    sent("MPI_Start", [&](MPI_Request* r) { return *r = persistent[0], MPI_Start(r); });
    sent("MPI_Startall", [&](MPI_Request* r) { return *r = persistent[2], MPI_Startall(1, r); });
    received("MPI_Recv", [&](MPI_Request*) {
      return MPI_Recv(buffer, bytes, MPI_BYTE, 0, tag, self, MPI_STATUS_IGNORE);
    });
    received("MPI_Irecv",
             [&](MPI_Request* r) { return MPI_Irecv(buffer, bytes, MPI_BYTE, 0, tag, self, r); });
    received("MPI_Start", [&](MPI_Request* r) { return *r = persistent[1], MPI_Start(r); });
    received("MPI_Mrecv", [&](MPI_Request*) {
      MPI_Message message;
      MUST(MPI_Mprobe(0, tag, self, &message, MPI_STATUS_IGNORE));
      return MPI_Mrecv(buffer, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    });
    received("MPI_Imrecv", [&](MPI_Request* r) {
      MPI_Message message;
      MUST(MPI_Mprobe(0, tag, self, &message, MPI_STATUS_IGNORE));
      return MPI_Imrecv(buffer, bytes, MPI_BYTE, &message, r);
    });
    MUST(MPI_Sendrecv(buffer, bytes, MPI_BYTE, 0, tag, host, bytes, MPI_BYTE, 0, tag, self,
                      MPI_STATUS_IGNORE));
    called.push_back("MPI_Sendrecv");
    MUST(MPI_Sendrecv_replace(buffer, bytes, MPI_BYTE, 0, tag, 0, tag, self, MPI_STATUS_IGNORE));
    called.push_back("MPI_Sendrecv_replace");
  }
  for (MPI_Request& request : persistent) MUST(MPI_Request_free(&request));
  void* detached;
  int size;
  MUST(MPI_Buffer_detach(&detached, &size));

  EXPECT_WARNINGS(overheard, called.size());
  if (!checked()) return;
  for (const char* name : called)
    EXPECT(overheard.count((std::string(name) + " at ").c_str()) == (strcmp(name, "MPI_Start") == 0 ? 2 : 1),
           "%s is not named in\n%s", name, overheard.text().c_str());
}

RANK_TEST(streams, M10_partitions_that_are_ready_too_early_are_told, 2) {
  const int peer = partner();
  if (mpi4::lacks_partitioned()) return;
  if (peer == MPI_PROC_NULL) return;
  Memory buffer(Place::device, bytes);
  MPI_Request request;
  if (rank < peer)
    MUST(
        mpi4::Psend_init(buffer, 4, bytes / 4, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  else
    MUST(
        mpi4::Precv_init(buffer, 4, bytes / 4, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  for (bool early : {false, true}) {
    Overheard overheard;
    std::optional<KernelInFlight> kernel;
    if (rank < peer) {
      MUST(MPI_Start(&request));
      if (early) kernel.emplace(buffer, 3 * bytes / 4);
      for (int partition = 0; partition < 3; ++partition) MUST(mpi4::Pready(partition, request));
      MUST(mpi4::Pready_range(3, 3, request));
    } else {
      if (early) kernel.emplace(buffer, 3 * bytes / 4);
      MUST(MPI_Start(&request));
    }
    kernel.reset();
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_WARNINGS(overheard, early ? 1u : 0u);
  }
  MUST(MPI_Request_free(&request));
}

RANK_TEST(streams, M10_threads_at_one_place_are_told_once, 1) {
  if (!threads) return skip("needs TEST_THREADS=1");
  Memory buffer(Place::device, bytes), hosts[4];
  for (Memory& host : hosts) host = Memory(Place::host, bytes);
  get_acquainted(buffer, hosts[0], 0, MPI_COMM_SELF);
  Overheard overheard;
  {
    KernelInFlight kernel(buffer);
    std::vector<std::thread> running;
    for (int thread = 0; thread < 4; ++thread)
      running.emplace_back([&buffer, &host = hosts[thread], thread] {
        for (int i = 0; i < 20; ++i)
          MUST(MPI_Sendrecv(buffer, bytes, MPI_BYTE, 0, thread, host, bytes, MPI_BYTE, 0, thread,
                            MPI_COMM_SELF, MPI_STATUS_IGNORE));
      });
    for (std::thread& thread : running) thread.join();
  }
  EXPECT_WARNINGS(overheard, 1u);
}

namespace {

template <int place>
[[gnu::noinline]] void send_from(const Memory& buffer, const Memory& host) {
  MUST(MPI_Sendrecv(buffer, bytes, MPI_BYTE, 0, place, host, bytes, MPI_BYTE, 0, place, MPI_COMM_SELF,
                    MPI_STATUS_IGNORE));
}

template <int... places>
void send_from_all(const Memory& buffer, const Memory& host, std::integer_sequence<int, places...>) {
  (send_from<places>(buffer, host), ...);
}

}  // namespace

// The last case: no place is named after it.
RANK_TEST(streams, M10_many_places_do_not_flood_the_log, 1) {
  Memory buffer(Place::device, bytes), host(Place::host, bytes);
  get_acquainted(buffer, host, 0, MPI_COMM_SELF);
  Overheard overheard;
  {
    KernelInFlight kernel(buffer);
    for (int i = 0; i < 2; ++i) send_from_all(buffer, host, std::make_integer_sequence<int, 100>());
  }
  const size_t named = overheard.count(warning);
  EXPECT(checked() ? named > 0 && named <= 64 : named == 0, "%zu places are named", named);
  EXPECT(overheard.count("more than 64 places") == expected(1), "in\n%s", overheard.text().c_str());
}
