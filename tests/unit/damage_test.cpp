// SPDX-License-Identifier: Apache-2.0
// What a process reads in memory that others share, another process may have damaged. Then messages end in
// errors: nothing crashes, no byte is written outside the buffer of the receive, and later messages pass.
//
// Both ranks are in this process, which cannot import its own memory: their messages are staged, and messages
// of a rank to itself are not.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iostream>
#include <random>
#include <vector>

#include "device/classify.h"
#include "device/copies/copy.h"
#include "node/node.h"
#include "p2p/get.h"
#include "p2p/posted_buffer.h"
#include "p2p/rendezvous_send.h"
#include "sim/sim_fixture.h"
#include "transport/arena.h"

namespace fairlead::p2p {
namespace {

using device::Error;
using node::Node;
using node::Rendezvous;
using node::RendezvousState;

constexpr node::Nonce nonce{{1, 2}};
class Damage : public device::SimTest {
 protected:
  static constexpr size_t bytes = 3 << 20, guard = 4096;

  static Node& rank(int number) {
    static node::SharedMemory first = Node::create_segment(nonce, 2);
    static const int file = first.fd();
    static auto& second =
        *new Node(Node::open_segment(nonce, 2, node::open_file_of(getpid(), file)), nonce, {0, 1}, 1);
    static auto& nodes = *new std::array<Node*, 2>{new Node(std::move(first), nonce, {0, 1}, 0), &second};
    return *nodes[static_cast<size_t>(number)];
  }

  Damage() : source_(device_memory(bytes)), target_(device_memory(bytes + 2 * guard)) {
    std::cout << "seed " << seed_ << std::endl;
    for (size_t i = 0; i < bytes; ++i) sent_.push_back(static_cast<unsigned char>(i * 7 + i / 251));
    EXPECT_EQ(device::copy_now(0, source_, sent_.data(), bytes), Error::none);
  }

  struct Message {
    std::unique_ptr<RendezvousSend> send;
    std::unique_ptr<RendezvousGet> get;
    Rendezvous& slot;
    Error received = Error::not_ready;

    bool over() const { return received != Error::not_ready && send->finished(); }
    bool lost() const { return received == Error::failed || send->failed(); }
    void advance() {
      send->advance();
      if (received == Error::not_ready) received = get->advance();
    }
    void advance(int times) {
      for (int i = 0; i < times && !over(); ++i) advance();
    }
    void finish() {
      while (!over()) advance();
    }
  };

  // Null if there is no rendezvous left. It is offered in the source's memory first.
  std::unique_ptr<Message> message(int receiver) {
    rank(0).decision(0, 0, receiver).path = node::Path::unknown;
    std::vector<unsigned char> clean(bytes + 2 * guard, 0x5A);
    EXPECT_EQ(device::copy_now(0, target_, clean.data(), clean.size()), Error::none);
    auto send = RendezvousSend::open(rank(0), receiver, {{source_, bytes}, bytes, source_, bytes},
                                     device::classify(source_), RendezvousSend::Bytes::present);
    if (!send) return nullptr;
    auto get = std::make_unique<RendezvousGet>(rank(receiver), send->rts(),
                                               packing::View(target_ + guard, bytes), bytes, 0);
    Rendezvous& slot = rank(0).mine().rendezvous[send->rts().number];
    return std::unique_ptr<Message>(new Message{std::move(send), std::move(get), slot});
  }

  std::vector<unsigned char> received() {
    std::vector<unsigned char> found(bytes + 2 * guard);
    EXPECT_EQ(device::copy_now(0, found.data(), target_, found.size()), Error::none);
    return found;
  }
  void expect_nothing_outside() {
    const std::vector<unsigned char> found = received();
    const std::vector<unsigned char> untouched(guard, 0x5A);
    EXPECT_EQ(std::memcmp(found.data(), untouched.data(), guard), 0);
    EXPECT_EQ(std::memcmp(found.data() + guard + bytes, untouched.data(), guard), 0);
  }
  void expect_that_messages_pass() {
    for (int receiver : {0, 1}) {
      auto sound = message(receiver);
      ASSERT_TRUE(sound);
      sound->finish();
      EXPECT_EQ(sound->received, Error::none);
      EXPECT_FALSE(sound->send->failed());
      EXPECT_EQ(std::memcmp(received().data() + guard, sent_.data(), bytes), 0);
    }
    EXPECT_EQ(transport::staged_chunks_in_use(), 0u);
  }

  uint64_t number() {
    constexpr uint64_t edges[] = {0,  1,    2,       7,         8,          9,         63,
                                  64, 4096, 1 << 20, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    const uint64_t drawn = random_();
    return drawn % 2 ? edges[drawn / 2 % std::size(edges)] : random_() >> (random_() % 64);
  }
  // Overwrites 1, 2, 4 or 8 bytes of these.
  void damage(void* memory, size_t length) {
    const uint64_t value = number();
    const size_t width = size_t{1} << random_() % 4;
    std::memcpy(static_cast<char*>(memory) + random_() % (length / width) * width, &value, width);
  }

  const uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  std::vector<unsigned char> sent_;
  char* source_;
  char* target_;
};

// The others would take RTS headers with another nonce for bytes of the program.
TEST_F(Damage, of_the_nonce_reaches_no_rts_header) {
  node::SharedMemory segment = Node::create_segment(nonce, 1);
  std::memset(segment.data(), 0x5A, sizeof nonce);
  EXPECT_EQ(Node(std::move(segment), nonce, {0}, 0).nonce(), nonce);
}

TEST_F(Damage, is_not_there) {
  expect_that_messages_pass();
}

// A word that no correct process can have written ends the message at once, on the side that reads it.
TEST_F(Damage, of_one_word_loses_the_message) {
  struct Case {
    const char* what;
    int receiver;
    enum { fresh, streamed } when;
    std::function<void(Rendezvous&)> damage;
  };
  const auto state = [](uint32_t value) {
    return [=](Rendezvous& slot) { slot.state = static_cast<RendezvousState>(value); };
  };
  for (const Case& each : std::initializer_list<Case>{
           {"an unknown state", 1, Case::fresh, state(77)},
           {"an unknown state, to itself", 0, Case::fresh, state(77)},
           {"free", 1, Case::fresh, state(0)},
           {"claimed by nobody", 1, Case::fresh, state(2)},
           {"a put that nobody makes", 1, Case::fresh, state(9)},
           {"an unknown state of a stream", 1, Case::streamed, state(1000)},
           {"a stream that is none", 0, Case::fresh, state(6)},
           {"other bytes", 1, Case::fresh, [](Rendezvous& slot) { ++slot.bytes; }},
           {"a device beyond all", 1, Case::fresh,
            [](Rendezvous& slot) { slot.device = node::devices_per_rank; }},
           {"a device before all", 1, Case::fresh, [](Rendezvous& slot) { slot.device = -1; }},
           {"an offset beyond the memory", 1, Case::fresh,
            [](Rendezvous& slot) { slot.source.offset = UINT64_MAX; }},
           {"a shape of more bytes", 1, Case::fresh, [](Rendezvous& slot) { slot.shape.piece *= 2; }},
           {"more produced than there is", 1, Case::streamed, [](Rendezvous& slot) { slot.produced = 1000; }},
           {"more consumed than produced", 1, Case::streamed, [](Rendezvous& slot) { slot.consumed = 1000; }},
           {"less produced than there is", 1, Case::streamed, [](Rendezvous& slot) { slot.produced = 0; }},
           {"another medium", 1, Case::streamed, [](Rendezvous& slot) { slot.medium = node::Medium{9}; }},
           {"shorter chunks", 1, Case::streamed, [](Rendezvous& slot) { slot.chunk_bytes /= 2; }},
           {"no chunks", 1, Case::streamed, [](Rendezvous& slot) { slot.chunk_bytes = 0; }},
           {"chunks elsewhere", 1, Case::streamed,
            [](Rendezvous& slot) { std::fill(std::begin(slot.chunks), std::end(slot.chunks), UINT64_MAX); }},
       }) {
    SCOPED_TRACE(each.what);
    auto damaged = message(each.receiver);
    ASSERT_TRUE(damaged);
    if (each.when == Case::streamed) {
      damaged->received = damaged->get->advance();  // refused: it cannot be imported
      while (damaged->slot.produced == 0 || damaged->slot.produced < damaged->slot.chunk_count)
        damaged->send->advance();
    }
    each.damage(damaged->slot);
    damaged->finish();
    EXPECT_TRUE(damaged->lost());
    expect_nothing_outside();
  }
  expect_that_messages_pass();
}

// The bytes of a message to itself come from where the program has them, whatever the record says.
TEST_F(Damage, of_addresses_does_not_matter_to_a_message_to_itself) {
  auto damaged = message(0);
  ASSERT_TRUE(damaged);
  damaged->slot.source.base = 1;
  damaged->slot.first = INT64_MAX;
  damaged->slot.shape.piece = UINT64_MAX;
  damaged->finish();
  EXPECT_EQ(damaged->received, Error::none);
  EXPECT_EQ(std::memcmp(received().data() + guard, sent_.data(), bytes), 0);
}

// Words that lie may delay a message for ever, or put wrong bytes into it, but nothing else.
TEST_F(Damage, at_random_reaches_nothing_but_the_message) {
  expect_that_messages_pass();  // what is mapped once is mapped
  for (int i = 0; i < 400 && rendezvous_in_use() < node::rendezvous_per_rank / 2; ++i) {
    auto damaged = message(static_cast<int>(random_() % 2));
    ASSERT_TRUE(damaged);
    damaged->advance(static_cast<int>(random_() % 12));
    for (uint64_t words = 1 + random_() % 3; words > 0; --words) {
      damage(&damaged->slot, sizeof damaged->slot);
      damaged->advance(static_cast<int>(random_() % 4));
    }
    damaged->advance(100);
    expect_nothing_outside();
  }
  expect_that_messages_pass();
}

TEST_F(Damage, at_random_in_posted_buffers) {
  constexpr MessageKey first{7, 1};
  const device::Allocation memory = device::classify(target_);
  node::RankBlock& block = rank(0).mine();
  for (uint64_t i = 0; i < 200; ++i) {
    const MessageKey key{first.sequence, first.number + i};
    auto posted = PostedBuffer::post(rank(0), 1, key, memory, target_ + guard, bytes);
    ASSERT_TRUE(posted);
    damage(&block.posted[posted->index()], sizeof block.posted[0]);
    if (random_() % 2) damage(&block.posted_for, sizeof block.posted_for);
    EXPECT_FALSE(RendezvousPut::start(rank(1), 0, key, source_, bytes, 0)) << "its memory cannot be imported";
    if (random_() % 2) {
      EXPECT_TRUE(PostedBuffer::withdraw_from(rank(0), key)) << "nobody has claimed it";
    }
    EXPECT_TRUE(posted->withdraw()) << "nobody has claimed it";
  }
  for (auto& set : block.posted_for)
    for (auto& name : set) name = 0;
}

TEST_F(Damage, of_the_word_of_a_posted_buffer_is_found) {
  auto posted = PostedBuffer::post(rank(0), 1, {9, 1}, device::classify(target_), target_ + guard, bytes);
  ASSERT_TRUE(posted);
  node::NodeMemory::Range words = rank(1).memory().open(rank(0).mine().posted_words_offset, 4096);
  ASSERT_TRUE(words.data());
  uint32_t& word = reinterpret_cast<uint32_t*>(words.data())[posted->index()];
  const uint32_t before = word, turn = rank(0).mine().posted[posted->index()].turn;
  EXPECT_EQ(posted->state(), Error::not_ready);
  for (uint32_t wrong : {turn + 1, turn + 1000, uint32_t{1} << 31, UINT32_MAX}) {
    word = wrong;
    EXPECT_EQ(posted->state(), Error::failed) << wrong;
  }
  word = before;
  EXPECT_EQ(posted->state(), Error::not_ready);
  word = turn;
  EXPECT_EQ(posted->state(), Error::none);
}

}  // namespace
}  // namespace fairlead::p2p
