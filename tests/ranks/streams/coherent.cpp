// SPDX-License-Identifier: Apache-2.0
//
// Machines whose CPU and GPU share their memory (FAIRLEAD_SIM_BAR=coherent): kernels use memory of malloc(),
// as on GH200, and the CPU device memory at its address, as on MI300A. With TEST_MEMORY=system all themes use
// such memory as their device memory.

#include <fairlead/device.h>
#include <kernels/pattern/pattern.h>

#include <algorithm>
#include <vector>

#include "streams/enqueue.h"

using namespace ranks;

namespace {

constexpr size_t lengths[] = {1, 200, 9000, 400000};  // in words
using Word = unsigned long;

// The CPU's pointer to device memory, or null.
Word* at_its_address(const Memory& memory) {
  device::Allocation found;
  if (!host_oracle) device::whole_runtime()->query(memory.data(), &found);
  if (found.kind == device::MemoryKind::host) return reinterpret_cast<Word*>(memory.data());
  void* mapped = nullptr;
  for (int attempt = 0; attempt < 3 && !mapped; ++attempt)
    mapped = device::whole_runtime()->cpu_mapping(memory.data(), memory.bytes());
  return mapped == memory.data() ? static_cast<Word*>(mapped) : nullptr;
}

bool cpu_reaches_device_memory() {
  return at_its_address(Memory(Place::device, 4096)) != nullptr;
}

}  // namespace

RANK_TEST(coherent, the_cpu_uses_device_memory_before_and_after_calls, 2) {
  if (!cpu_reaches_device_memory()) return skip("the CPU does not reach device memory at its address");
  const int peer = partner();
  for (size_t words : lengths) {
    const int count = static_cast<int>(words);
    Memory out(Place::device, words * sizeof(Word)), in(Place::device, words * sizeof(Word));
    Word *const sent = at_its_address(out), *const received = at_its_address(in);
    for (Word round = 1; round <= 8; ++round) {
      if (peer != MPI_PROC_NULL) {
        std::fill_n(sent, words, round * 100 + static_cast<Word>(rank));
        MUST(MPI_Sendrecv(out, count, MPI_UNSIGNED_LONG, peer, tag, in, count, MPI_UNSIGNED_LONG, peer, tag,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EXPECT(std::count(received, received + words, round * 100 + static_cast<Word>(peer)) == count,
               "round %lu: %zu words of %d came wrong", round, words, peer);
      }
      std::fill_n(sent, words, round);
      MUST(MPI_Allreduce(out, in, count, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD));
      EXPECT(std::count(received, received + words, round * static_cast<Word>(size)) == count,
             "round %lu: the sum of %zu words is wrong", round, words);
    }
  }
}

RANK_TEST(coherent, the_cpu_reads_what_was_put_into_a_window, 2) {
  if (!cpu_reaches_device_memory()) return skip("the CPU does not reach device memory at its address");
  constexpr size_t words = 9000;
  Memory window(Place::device, words * sizeof(Word)), out(Place::device, words * sizeof(Word));
  MPI_Win win;
  MUST(MPI_Win_create(window, static_cast<MPI_Aint>(window.bytes()), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  for (Word round = 1; round <= 4; ++round) {
    std::fill_n(at_its_address(out), words, round * 100 + static_cast<Word>(rank));
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Put(out, words, MPI_UNSIGNED_LONG, (rank + 1) % size, 0, words, MPI_UNSIGNED_LONG, win));
    MUST(MPI_Win_fence(0, win));
    const Word expected = round * 100 + static_cast<Word>((rank + size - 1) % size);
    const Word* const found = at_its_address(window);
    EXPECT(std::count(found, found + words, expected) == words, "round %lu: wrong words", round);
  }
  MUST(MPI_Win_free(&win));
}

// Nobody waits for the kernel that writes what is sent, or for the message that a kernel reads.
RANK_TEST(coherent, messages_in_streams_take_memory_of_malloc, 2) {
  if (const char* reason = why_not()) return skip(reason);
  if (!Stream::gpu().kernels_reach_host(0)) return skip("kernels do not reach memory of malloc()");
  const int peer = partner();
  Stream stream;
  if (peer == MPI_PROC_NULL) return;
  fairlead_device_stream* kernels = nullptr;
  fairlead_device_stream_adopt(&kernels, Stream::gpu().native(stream.get()));
  for (size_t words : lengths) {
    std::vector<Word> out(words), in(words), wrong(1);
    Word *written = out.data(), *read = in.data(), *bad = wrong.data();
    Word count = words, mine = static_cast<Word>(rank), theirs = static_cast<Word>(peer);
    const auto launch = [&](const char* kernel, void** arguments) {
      EXPECT(fairlead_device_launch_on(kernels, kernel, 8, 128, arguments) == FAIRLEAD_DEVICE_SUCCESS,
             "cannot launch %s: %s", kernel, fairlead_device_error_text());
    };
    void* filled[] = {&written, &count, &mine};
    void* checked[] = {&read, &count, &theirs, &bad};
    stream.hold();
    launch("fill_pattern", filled);
    MPI_Request requests[2];
    const int bytes = static_cast<int>(words * sizeof(Word));
    MUST(MPIX_Irecv_enqueue(read, bytes, MPI_BYTE, peer, tag, stream.comm(), &requests[0]));
    MUST(MPIX_Isend_enqueue(written, bytes, MPI_BYTE, peer, tag, stream.comm(), &requests[1]));
    MUST(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
    launch("check_pattern", checked);
    stream.release();
    stream.synchronize();
    EXPECT(wrong[0] == 0, "%lu of %zu words are wrong", wrong[0], words);
  }
  fairlead_device_stream_destroy(kernels);
}
