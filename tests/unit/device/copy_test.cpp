// SPDX-License-Identifier: Apache-2.0
// The library's copies end while streams of the program wait, with copies behind: they leave the program the
// queues of the hardware that it needs. Copies are slow here.

#include "device/copies/copy.h"

#include <chrono>
#include <deque>

#include "device/blocking_driver_calls.h"
#include "sim/sim_fixture.h"

namespace fairlead::device {
namespace {

using namespace std::chrono_literals;

class CopyBesideWaits : public SimTest {
 protected:
  static constexpr size_t bytes = 1000, most = 100;  // copies, each of memory of its own

  CopyBesideWaits() {
    word_ = reinterpret_cast<uint32_t*>(pinned_memory(sizeof *word_));
    *word_ = 0;
    here_ = device_memory(most * bytes);
    there_ = device_memory(most * bytes, 1);
    host_ = pinned_memory(most * bytes);
    EXPECT_EQ(gpu.enable_peer(0, 1), Error::none);
    EXPECT_TRUE(prepare_copies(0));
    EXPECT_TRUE(prepare_copies(1));
  }

  struct Ends {
    char *to, *from;
  };
  Ends out() const { return {host_, here_}; }
  Ends in() const { return {here_, host_}; }
  Ends get() const { return {here_, there_}; }
  Ends put() const { return {there_, here_}; }
  Ends next(Ends ends) {
    const size_t offset = used_++ % most * bytes;
    return {ends.to + offset, ends.from + offset};
  }

  // Streams that wait, each with such a copy behind.
  void wait_with(Ends ends, int streams) {
    BlockingDriverCalls::exclude();
    for (int i = 0; i < streams; ++i) {
      Stream on = waiting_.emplace_back(stream());
      ASSERT_EQ(gpu.wait_word(on, word_, 1), Error::none);
      const Ends mine = next(ends);
      ASSERT_EQ(gpu.copy(mine.to, mine.from, bytes, on), Error::none);
    }
  }
  void start(Ends ends) {
    const Ends mine = next(ends);
    ASSERT_EQ(copies_.emplace_back().start(0, mine.to, mine.from, bytes), Error::none);
  }
  void enqueue(Ends ends) {
    const Ends mine = next(ends);
    ASSERT_EQ(copies_.emplace_back().enqueue(0, mine.to, mine.from, bytes), Error::none);
  }
  // Copies that hang are let go.
  void expect_ends() {
    bool hang = false;
    const auto since = std::chrono::steady_clock::now();
    for (Copy& copy : copies_)
      while (!hang && copy.poll() == Error::not_ready) hang = std::chrono::steady_clock::now() - since > 20s;
    EXPECT_FALSE(hang) << "copies wait for those of the program";
    __atomic_store_n(word_, 1, __ATOMIC_RELEASE);
    for (Copy& copy : copies_) EXPECT_EQ(copy.wait(), Error::none);
    for (Stream on : waiting_) EXPECT_EQ(gpu.destroy_stream(on), Error::none);
    BlockingDriverCalls::allow();
    copies_.clear();
    waiting_.clear();
    *word_ = 0;
  }

 private:
  uint32_t* word_ = nullptr;
  size_t used_ = 0;
  char *here_ = nullptr, *there_ = nullptr, *host_ = nullptr;
  std::vector<Stream> waiting_;
  std::deque<Copy> copies_;
};

TEST_F(CopyBesideWaits, three_streams_may_wait_with_copies_of_one_direction) {
  const Ends all[] = {out(), in(), get(), put()};
  for (Ends waiting : all) {
    wait_with(waiting, 3);
    for (Ends first : all)
      for (Ends second : all) {
        start(first);
        start(second);
        enqueue(second);
        enqueue(first);
      }
    expect_ends();
  }
}

TEST_F(CopyBesideWaits, copies_that_began_before_hold_no_queues) {
  for (int earlier = 0; earlier < 6; ++earlier) {
    for (int i = 0; i < earlier; ++i) start(out());
    wait_with(out(), 3);
    start(out());
    expect_ends();
  }
}

}  // namespace
}  // namespace fairlead::device
