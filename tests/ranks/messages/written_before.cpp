// SPDX-License-Identifier: Apache-2.0
//
// What the program's cudaMemcpy() or hipMemcpy() wrote is there when MPI looks, also in memory that MPI has
// never seen, and what MPI receives is not overwritten by it: these functions may return before they have
// done their work. The simulated GPU does such work only when it is asked about the stream.

#include <algorithm>

#include "device/runtime.h"
#include "harness/harness.h"

using namespace ranks;

namespace {

namespace device = fairlead::device;

constexpr int tag = 7;
// What CUDA copies early, and what it does not.
constexpr size_t sizes[] = {8, 900, 60000, 70000};

void copy_as_program(void* to, const void* from, size_t bytes) {
  if (host_oracle)
    copy(to, from, bytes);
  else if (device::whole_runtime()->copy_as_program(to, from, bytes) != device::Error::none)
    give_up("cannot copy: %s", device::whole_runtime()->error_text());
}

std::vector<char> bytes_of(uint64_t key, size_t bytes) {
  std::vector<char> made(bytes);
  write_pattern(key, made.data(), bytes);
  return made;
}

// From pageable memory, or from other memory of the device.
class Source {
 public:
  Source(const Memory& to, bool inside_the_device) {
    if (inside_the_device) inside_ = Memory(to.place(), to.bytes());
  }
  void write(Memory& to, uint64_t key) {
    const std::vector<char> wanted = bytes_of(key, to.bytes());
    const bool inside = inside_.data() != nullptr;
    if (inside) inside_.write(wanted.data(), wanted.size());
    copy_as_program(to, inside ? inside_.data() : wanted.data(), to.bytes());
  }

 private:
  Memory inside_;
};

int count(const Memory& memory) {
  return static_cast<int>(memory.bytes());
}

}  // namespace

RANK_TEST(written_before, M10_a_send_finds_what_a_copy_has_written, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (const Place place : {Place::device, Place::pool, Place::virtual_memory})
    for (const bool inside : {false, true})
      for (const size_t bytes : sizes) {
        Memory out(place, bytes), in(place, bytes);
        Source source(out, inside);
        for (int time = 0; time < 3; ++time) {
          source.write(out, key_of(rank, bytes, time));
          MUST(MPI_Sendrecv(out, count(out), MPI_BYTE, peer, tag, in, count(in), MPI_BYTE, peer, tag,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE));
          EXPECT_HOLDS(in, key_of(peer, bytes, time), bytes);
        }
      }
}

RANK_TEST(written_before, M10_what_is_received_follows_what_a_copy_has_written, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  for (const bool inside : {false, true})
    for (const size_t bytes : sizes) {
      Memory out(Place::device, bytes), in(Place::device, bytes);
      Source source(in, inside);
      out.fill(key_of(rank, bytes));
      for (int time = 0; time < 3; ++time) {
        source.write(in, key_of(time));
        MUST(MPI_Sendrecv(out, count(out), MPI_BYTE, peer, tag, in, count(in), MPI_BYTE, peer, tag,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EXPECT_HOLDS(in, key_of(peer, bytes), bytes);
      }
    }
}

// With buffers of two devices it goes through host memory.
RANK_TEST(written_before, M10_a_sum_contains_what_a_copy_has_written, 2) {
  for (const Place place : {Place::device, Place::other_device})
    for (const size_t bytes : sizes) {
      const int n = static_cast<int>(bytes / sizeof(float));
      Memory out(Place::device, bytes), in(place, bytes);
      for (int time = 0; time < 3; ++time) {
        const std::vector<float> mine(n, static_cast<float>(rank + time));
        std::vector<float> sum(n);
        copy_as_program(out, mine.data(), n * sizeof(float));
        MUST(MPI_Allreduce(out, in, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
        in.read(sum.data(), n * sizeof(float));
        const float wanted = static_cast<float>(size * (size - 1) / 2 + size * time);
        EXPECT(std::all_of(sum.begin(), sum.end(), [=](float each) { return each == wanted; }),
               "the sum of %d elements in %s memory is %g, %g, not %g", n, to_string(place), sum[0],
               sum[n - 1], wanted);
      }
    }
}

RANK_TEST(written_before, M10_a_get_finds_what_a_copy_has_written, 2) {
  constexpr size_t bytes = 900;
  const int next = (rank + 1) % size;
  Memory exposed(Place::device, bytes), in(Place::device, bytes);
  Source source(exposed, false);
  MPI_Win window;
  MUST(MPI_Win_create(exposed, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
  for (int time = 0; time < 3; ++time) {
    source.write(exposed, key_of(rank, time));
    MUST(MPI_Win_fence(0, window));
    MUST(MPI_Get(in, count(in), MPI_BYTE, next, 0, count(in), MPI_BYTE, window));
    MUST(MPI_Win_fence(0, window));
    EXPECT_HOLDS(in, key_of(next, time), bytes);
  }
  MUST(MPI_Win_free(&window));
}
