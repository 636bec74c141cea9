// SPDX-License-Identifier: Apache-2.0
//
// Windows under MPI_THREAD_MULTIPLE (M9): threads that access one at once, and windows that come and go
// beside what other threads do.

#include <algorithm>
#include <atomic>
#include <thread>

#include "harness/exposed.h"

using namespace ranks;

// Threads of all ranks draw tickets and put into places of their own at once.
RANK_TEST(rma_threads, M9_threads_share_a_window, 2) {
  if (!threads) return skip("needs TEST_THREADS=1");
  constexpr int workers = 3, rounds = 12;
  Exposed exposed(Place::device, static_cast<size_t>(1 + size * workers) * sizeof(long), sizeof(long));
  exposed.fill_with(0L);
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  MUST(MPI_Win_lock_all(0, exposed));
  std::vector<long> tickets(workers * rounds);
  std::vector<std::thread> all;
  for (int worker = 0; worker < workers; ++worker) {
    all.emplace_back([&, worker] {
      const Place place = worker % 2 ? Place::device : Place::host;
      const Memory one = memory_of(place, std::vector<long>{1});
      Memory old(place, sizeof(long)), mine(place, sizeof(long));
      for (int i = 0; i < rounds; ++i) {
        MUST(MPI_Fetch_and_op(one, old, MPI_LONG, 0, 0, MPI_SUM, exposed));
        MUST(MPI_Win_flush(0, exposed));
        tickets[static_cast<size_t>(worker * rounds + i)] = value_in<long>(old);
        const long value = 1000 * rank + 100 * worker + i;
        mine.write(&value, sizeof value);
        const int target = (rank + i) % size;
        MPI_Request request;
        MUST(
            MPI_Rput(mine, 1, MPI_LONG, target, 1 + rank * workers + worker, 1, MPI_LONG, exposed, &request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MUST(MPI_Win_flush(target, exposed));
      }
    });
  }
  for (std::thread& worker : all) worker.join();
  MUST(MPI_Win_unlock_all(exposed));
  std::vector<long> drawn(tickets.size() * static_cast<size_t>(size));
  const int count = static_cast<int>(tickets.size());
  MUST(MPI_Allgather(tickets.data(), count, MPI_LONG, drawn.data(), count, MPI_LONG, MPI_COMM_WORLD));
  std::sort(drawn.begin(), drawn.end());
  for (size_t i = 0; i < drawn.size(); ++i)
    EXPECT(drawn[i] == static_cast<long>(i), "ticket %zu is %ld", i, drawn[i]);
  const std::vector<long> found = exposed.values<long>();
  for (int from = 0; from < size; ++from) {
    for (int worker = 0; worker < workers; ++worker) {
      int last = rounds - 1;
      while ((from + last) % size != rank) --last;
      const long wanted = 1000 * from + 100 * worker + last;
      EXPECT(found[static_cast<size_t>(1 + from * workers + worker)] == wanted,
             "rank %d, thread %d: %ld, not %ld", from, worker,
             found[static_cast<size_t>(1 + from * workers + worker)], wanted);
    }
  }
  MUST(MPI_Barrier(MPI_COMM_WORLD));
}

// Threads that come to a target at once, in an epoch by lock_all, leave it to whoever locks it next.
RANK_TEST(rma_threads, M9_threads_take_a_lock_once, 2) {
  if (!threads) return skip("needs TEST_THREADS=1");
  constexpr int workers = 3, rounds = 12;
  Exposed exposed(Place::device, static_cast<size_t>(size) * workers * sizeof(long), sizeof(long));
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> ready = 0;
    MUST(MPI_Win_lock_all(0, exposed));
    std::vector<std::thread> all;
    for (int worker = 0; worker < workers; ++worker) {
      all.emplace_back([&, worker] {
        const Memory mine = memory_of(Place::host, std::vector<long>{round});
        for (++ready; ready < workers;) std::this_thread::yield();
        for (int i = 1; i <= size; ++i) {
          const int target = (rank + i) % size;
          MUST(MPI_Put(mine, 1, MPI_LONG, target, rank * workers + worker, 1, MPI_LONG, exposed));
          MUST(MPI_Win_flush(target, exposed));
        }
      });
    }
    for (std::thread& worker : all) worker.join();
    MUST(MPI_Win_unlock_all(exposed));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + 1) % size, 0, exposed));
    MUST(MPI_Win_unlock((rank + 1) % size, exposed));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    const std::vector<long> found = exposed.values<long>();
    EXPECT(found == std::vector<long>(found.size(), round), "round %d: a put is missing", round);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
  }
}

// Windows come and go in one thread while another calls collectives on another communicator.
RANK_TEST(rma_threads, M9_windows_come_and_go_beside_collectives, 2) {
  if (!threads) return skip("needs TEST_THREADS=1");
  constexpr int rounds = 20, barriers = 60;
  MPI_Comm of_windows;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &of_windows));
  Memory memory(Place::device, 64);
  std::atomic<bool> over = false;
  std::thread windows([&] {
    for (int i = 0; i < rounds; ++i) {
      MPI_Win window;
      MUST(MPI_Win_create(memory.data(), 64, 1, MPI_INFO_NULL, of_windows, &window));
      MUST(MPI_Win_free(&window));
    }
    over = true;
  });
  for (int done = 0; !done;) {
    for (int i = 0; i < barriers; ++i) MUST(MPI_Barrier(MPI_COMM_WORLD));
    int mine = over;
    MUST(MPI_Allreduce(&mine, &done, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
  }
  windows.join();
  MUST(MPI_Comm_free(&of_windows));
}

// A flush ends although another thread starts more accesses all the while.
RANK_TEST(rma_threads, M9_a_flush_ends_while_others_put, 2) {
  if (!threads) return skip("needs TEST_THREADS=1");
  constexpr int bytes = 20000, flushes = 20, at_once = 16;
  Exposed exposed(Place::device, bytes);
  const Memory mine(Place::device, bytes);
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  MUST(MPI_Win_lock_all(0, exposed));
  std::atomic<bool> over = false;
  std::atomic<long> puts = 0;
  std::thread putting([&] {
    MPI_Request requests[at_once];
    std::fill_n(requests, at_once, MPI_REQUEST_NULL);
    for (; !over; ++puts) {
      MPI_Request* request = &requests[puts % at_once];
      MUST(MPI_Wait(request, MPI_STATUS_IGNORE));
      MUST(MPI_Rput(mine, bytes, MPI_BYTE, (rank + 1) % size, 0, bytes, MPI_BYTE, exposed, request));
    }
    MUST(MPI_Waitall(at_once, requests, MPI_STATUSES_IGNORE));
  });
  for (int i = 0; i < flushes; ++i) {
    for (const long before = puts; puts < before + 10;) std::this_thread::yield();
    MUST(i % 2 ? MPI_Win_flush_all(exposed) : MPI_Win_flush((rank + 1) % size, exposed));
  }
  over = true;
  putting.join();
  MUST(MPI_Win_unlock_all(exposed));
  MUST(MPI_Barrier(MPI_COMM_WORLD));
}
