// SPDX-License-Identifier: Apache-2.0
//
// M12 and M10: messages follow the application's allocations through free and re-allocation at the same
// address, more of them than mappings are kept, parts of them; and kernels and messages see each other's
// bytes in the order of the program.

#include <fairlead/device.h>
#include <kernels/pattern/pattern.h>

#include <atomic>
#include <random>
#include <thread>

#include "harness/exposed.h"
#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int tag = 31;
using Word = unsigned long;

void send(const Memory& out, int peer) {
  MUST(MPI_Send(out, static_cast<int>(out.bytes()), MPI_BYTE, peer, tag, MPI_COMM_WORLD));
}

void receive(const Memory& in, int peer, uint64_t key) {
  MPI_Status status;
  MUST(MPI_Recv(in, static_cast<int>(in.bytes()), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
  EXPECT_STATUS(status, peer, tag, in.bytes());
  EXPECT_HOLDS(in, key, in.bytes());
}

// Kernels of src/kernels/pattern/pattern.cpp. Both return at once on a device.
void fill_words(Word* words, Word count, Word seed) {
  if (host_oracle) {
    for (Word i = 0; i < count; ++i) words[i] = fairlead::kernels::pattern_word(seed, i);
    return;
  }
  void* arguments[] = {&words, &count, &seed};
  if (fairlead_device_launch("fill_pattern", 8, 128, arguments) != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot launch fill_pattern: %s", fairlead_device_error_text());
}

void count_wrong_words(const Word* words, Word count, Word seed, Word* wrong) {
  if (host_oracle) {
    for (Word i = 0; i < count; ++i) *wrong += words[i] != fairlead::kernels::pattern_word(seed, i);
    return;
  }
  void* arguments[] = {&words, &count, &seed, &wrong};
  if (fairlead_device_launch("check_pattern", 8, 128, arguments) != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot launch check_pattern: %s", fairlead_device_error_text());
}

void synchronize() {
  if (!host_oracle && fairlead_device_synchronize() != FAIRLEAD_DEVICE_SUCCESS)
    give_up("cannot synchronize: %s", fairlead_device_error_text());
}

}  // namespace

RANK_TEST(memory, M12_reallocation_at_the_same_address, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 1000;
  constexpr size_t sizes[] = {70000, 70000, 200000, 65, 70000, 8192};
  for (int round = 0; round < rounds; ++round) {
    const size_t bytes = sizes[round % std::size(sizes)];
    Memory buffer(Place::device, bytes);
    if (rank < peer) {
      buffer.fill(key_of(round));
      send(buffer, peer);
    } else {
      receive(buffer, peer, key_of(round));
    }
  }
}

RANK_TEST(memory, M12_changing_kinds_of_memory, 2) {
  // Addresses come back as another kind of memory.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  std::mt19937 random(static_cast<unsigned>(options.seed) + rank / 2);
  for (int round = 0; round < 300; ++round) {
    const Place from = all_places[random() % std::size(all_places)];
    const Place to = all_places[random() % std::size(all_places)];
    const size_t bytes = 1 + random() % 150000;
    Memory buffer(rank < peer ? from : to, bytes);
    if (rank < peer) {
      buffer.fill(key_of(round, 1));
      send(buffer, peer);
    } else {
      receive(buffer, peer, key_of(round, 1));
    }
  }
}

RANK_TEST(memory, M12_more_live_allocations_than_mappings_are_kept, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int allocations = 300, visits = 900;  // 256 mappings are kept by default (FAIRLEAD_POOLS)
  constexpr size_t bytes = 70000;
  std::mt19937 random(static_cast<unsigned>(options.seed));
  std::vector<Memory> live;
  Memory in(Place::device, bytes);
  if (rank < peer) {
    for (int i = 0; i < allocations; ++i) {
      live.emplace_back(Place::device, bytes);
      live[i].fill(key_of(i, 2));
    }
  }
  for (int visit = 0; visit < visits; ++visit) {
    const int i = visit < allocations ? visit : static_cast<int>(random() % allocations);
    if (rank < peer)
      send(live[i], peer);
    else
      receive(in, peer, key_of(i, 2));
  }
}

RANK_TEST(memory, M12_parts_of_one_allocation, 2) {
  // As a caching allocator of an application hands them out: neighbours in one allocation, freed as a whole.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr size_t parts = 40;
  constexpr size_t part_sizes[] = {512, 65536, 131072, 77777, 40};
  for (int round = 0; round < 5; ++round) {
    std::vector<size_t> starts, lengths;
    size_t end = 0;
    for (size_t i = 0; i < parts; ++i) {
      starts.push_back(end);
      lengths.push_back(part_sizes[(i + round) % std::size(part_sizes)]);
      end += lengths.back();
    }
    Memory whole(Place::device, end);
    std::vector<MPI_Request> requests(parts);
    if (rank < peer) {
      for (size_t i = 0; i < parts; ++i) {
        std::vector<char> content(lengths[i]);
        write_pattern(key_of(round, i, 3), content.data(), lengths[i]);
        whole.write(content.data(), lengths[i], starts[i]);
      }
      for (size_t i = 0; i < parts; ++i)
        MUST(MPI_Isend(whole.data() + starts[i], static_cast<int>(lengths[i]), MPI_BYTE, peer,
                       static_cast<int>(i), MPI_COMM_WORLD, &requests[i]));
      MUST(MPI_Waitall(parts, requests.data(), MPI_STATUSES_IGNORE));
    } else {
      for (size_t i = parts; i-- > 0;)
        MUST(MPI_Irecv(whole.data() + starts[i], static_cast<int>(lengths[i]), MPI_BYTE, peer,
                       static_cast<int>(i), MPI_COMM_WORLD, &requests[i]));
      MUST(MPI_Waitall(parts, requests.data(), MPI_STATUSES_IGNORE));
      for (size_t i = 0; i < parts; ++i) {
        std::vector<char> found(lengths[i]), wanted(lengths[i]);
        whole.read(found.data(), lengths[i], starts[i]);
        write_pattern(key_of(round, i, 3), wanted.data(), lengths[i]);
        EXPECT(found == wanted, "part %zu of %zu bytes at %zu is wrong", i, lengths[i], starts[i]);
      }
    }
  }
}

RANK_TEST(memory, M12_buffers_freed_right_after_their_send, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 200;
  constexpr size_t sizes[] = {65, 4096, 65536, 65537, 500000};
  for (int round = 0; round < rounds; ++round) {
    const size_t bytes = sizes[round % std::size(sizes)];
    if (rank < peer) {
      Memory out(Place::device, bytes);
      out.fill(key_of(round, 4));
      if (round % 2 == 0) {
        send(out, peer);
      } else {
        MPI_Request request;
        MUST(MPI_Isend(out, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
      }
      // Freed here, while the receiver of an eager message may not even have posted its receive; the next
      // allocation is likely to take its place.
    } else {
      Memory in(round % 3 == 0 ? Place::host : Place::device, bytes);
      receive(in, peer, key_of(round, 4));
    }
  }
}

RANK_TEST(memory, M10_kernels_after_a_receive_see_the_message, 2) {
  // Ping-pong in which kernels write what is sent and check what was received, without copies by the host.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 40;
  for (Word count : {Word{1}, Word{9}, Word{1000}, Word{100000}}) {
    const int bytes = static_cast<int>(count * sizeof(Word));
    Memory words(Place::device, count * sizeof(Word)), wrong(Place::device, sizeof(Word));
    const Word zero = 0;
    wrong.write(&zero, sizeof(zero));
    auto* device_words = reinterpret_cast<Word*>(words.data());
    auto* device_wrong = reinterpret_cast<Word*>(wrong.data());
    for (int round = 0; round < rounds; ++round) {
      const Word seed = count * 1000 + round;
      if ((rank < peer) == (round % 2 == 0)) {
        fill_words(device_words, count, seed);
        synchronize();
        MUST(MPI_Send(words, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      } else {
        MPI_Status status;
        if (round % 4 < 2) {
          MUST(MPI_Recv(words, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
        } else {
          MPI_Request request;
          MUST(MPI_Irecv(words, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
          MUST(MPI_Wait(&request, &status));
        }
        count_wrong_words(device_words, count, seed, device_wrong);
      }
    }
    synchronize();
    Word found = 0;
    wrong.read(&found, sizeof(found));
    EXPECT(found == 0, "kernels found %lu wrong words in messages of %lu", found, count);
  }
}

RANK_TEST(memory, M10_kernels_see_what_a_peer_has_put, 2) {
  // Kernels read a window before and after a peer writes to it, and the host copies nothing: a GPU must not
  // find what it has read before in its caches.
  const int peer = partner();
  constexpr int rounds = 40;
  for (Word count : {Word{1}, Word{1000}, Word{100000}}) {
    const auto bytes = static_cast<int>(count * sizeof(Word));
    Exposed window(Place::device, count * sizeof(Word));
    Memory out(Place::device, count * sizeof(Word)), wrong(Place::device, sizeof(Word));
    const Word zero = 0;
    wrong.write(&zero, sizeof zero);
    for (int round = 0; round < rounds; ++round) {
      auto seed_of = [&](int from) { return count * 1000 + static_cast<Word>(2 * round + from % 2); };
      fill_words(reinterpret_cast<Word*>(out.data()), count, seed_of(rank));
      synchronize();
      MUST(MPI_Win_fence(0, window));
      if (peer != MPI_PROC_NULL) MUST(MPI_Put(out, bytes, MPI_BYTE, peer, 0, bytes, MPI_BYTE, window));
      MUST(MPI_Win_fence(0, window));
      if (peer != MPI_PROC_NULL)
        count_wrong_words(reinterpret_cast<Word*>(window.memory().data()), count, seed_of(peer),
                          reinterpret_cast<Word*>(wrong.data()));
      synchronize();
    }
    const auto found = value_in<Word>(wrong);
    EXPECT(found == 0, "kernels found %lu wrong words in windows of %lu", found, count);
  }
}

RANK_TEST(memory, M10_a_buffer_may_be_overwritten_by_a_kernel_after_its_send, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int rounds = 60;
  for (Word count : {Word{20}, Word{8000}, Word{50000}}) {
    Memory words(Place::device, count * sizeof(Word));
    const int bytes = static_cast<int>(words.bytes());
    auto* device_words = reinterpret_cast<Word*>(words.data());
    std::vector<Word> found(count);
    for (int round = 0; round < rounds; ++round) {
      if (rank < peer) {
        fill_words(device_words, count, round);
        synchronize();
        MUST(MPI_Send(words, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
        fill_words(device_words, count, round + 1000000);  // at once, on a late receiver's data
      } else {
        MUST(MPI_Recv(words, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        words.read(found.data(), words.bytes());
        Word wrong = 0;
        for (Word i = 0; i < count; ++i) wrong += found[i] != fairlead::kernels::pattern_word(round, i);
        EXPECT(wrong == 0, "round %d: %lu of %lu words are wrong", round, wrong, count);
      }
    }
    synchronize();
  }
}

RANK_TEST(memory, M10_gaps_of_a_receive_are_the_programs, 2) {
  // While a strided receive lands, the program writes into its gaps; slow copies (ctest `faults.parking`)
  // give it time to. Nothing it wrote may be undone.
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  constexpr int blocks = 16, stride = 64, rounds = 3;
  constexpr size_t span = blocks * stride;
  MPI_Datatype comb;
  MUST(MPI_Type_vector(blocks, 8, stride, MPI_BYTE, &comb));
  MUST(MPI_Type_commit(&comb));
  for (int round = 0; round < rounds; ++round) {
    Memory buffer(Place::device, span);
    if (rank < peer) {
      buffer.fill(key_of(round, 5));
      MUST(MPI_Recv(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MUST(MPI_Send(buffer, 1, comb, peer, tag, MPI_COMM_WORLD));
      continue;
    }
    MPI_Request request;
    MUST(MPI_Irecv(buffer, 1, comb, peer, tag, MPI_COMM_WORLD, &request));
    std::atomic<bool> landed = false;
    size_t written = 0;
    std::thread writer([&] {
      const char mark = 7;
      for (; !landed && written < span; ++written)
        if (written % stride >= 8) buffer.write(&mark, 1, written);
    });
    MUST(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    landed = true;
    writer.join();
    std::vector<char> found(span), sent(span);
    buffer.read(found.data(), span);
    write_pattern(key_of(round, 5), sent.data(), span);
    size_t undone = 0, wrong = 0;
    for (size_t i = 0; i < span; ++i) {
      if (i % stride < 8)
        wrong += found[i] != sent[i];
      else
        undone += i < written && found[i] != 7;
    }
    EXPECT(undone == 0, "%zu of %zu bytes written during the receive were undone", undone, written);
    EXPECT(wrong == 0, "%zu bytes of the message are wrong", wrong);
  }
  MUST(MPI_Type_free(&comb));
}
