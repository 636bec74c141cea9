// SPDX-License-Identifier: Apache-2.0
//
// Very many messages that are under way at once: each arrives, whatever the order, and they take no more
// memory than their bytes.

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "harness/address_space.h"
#include "harness/harness.h"

using namespace ranks;

namespace {

constexpr int many = 800;
constexpr int first_tag = 100;

// A number each, in memory of this place.
class Numbers {
 public:
  Numbers(Place place, int first, size_t count = many) : memory_(place, count * sizeof(int)), values_(count) {
    std::iota(values_.begin(), values_.end(), first);
    memory_.write(values_.data(), memory_.bytes());
  }
  void* at(int index) const { return memory_.data() + static_cast<size_t>(index) * sizeof(int); }
  // How many do not hold first, first + 1 ...?
  int wrong(int first) {
    memory_.read(values_.data(), memory_.bytes());
    int wrong = 0;
    for (int value : values_) wrong += value != first++;
    return wrong;
  }

 private:
  Memory memory_;
  std::vector<int> values_;
};

// How messages tell which receive is theirs.
enum class Tags { own, one, few };

int tag_of(Tags tags, int message) {
  return first_tag + (tags == Tags::own ? message : tags == Tags::one ? 0 : message % 7);
}

// In an order in which those of one tag keep theirs.
std::vector<int> order_of(Tags tags) {
  std::vector<int> order(many);
  std::iota(order.begin(), order.end(), 0);
  if (tags != Tags::one)
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return tag_of(tags, a) > tag_of(tags, b); });
  return order;
}

void wait_in_turn(std::vector<MPI_Request>& requests, unsigned seed) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  const size_t singly = order.size() / 3;
  for (size_t i = 0; i < singly; ++i) MUST(MPI_Wait(&requests[order[i]], MPI_STATUS_IGNORE));
  for (size_t i = 0; i < 100; ++i) {
    int index = MPI_UNDEFINED;
    MUST(MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &index, MPI_STATUS_IGNORE));
    EXPECT(index != MPI_UNDEFINED, "no request is active");
  }
  MUST(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

}  // namespace

RANK_TEST(completion, M1_very_many_receives_are_posted_before_their_messages, 2) {
  const int peer = partner();
  for (Place to : host_and_device)
    for (Tags tags : {Tags::own, Tags::one, Tags::few}) {
      if (peer == MPI_PROC_NULL) continue;
      Numbers out(Place::device, 10000 * rank), in(to, -many);
      std::vector<MPI_Request> receives(many), sends(many);
      for (int i = 0; i < many; ++i)
        MUST(MPI_Irecv(in.at(i), 1, MPI_INT, peer, tag_of(tags, i), MPI_COMM_WORLD,
                       &receives[static_cast<size_t>(i)]));
      // None of the messages is there before all are posted.
      MUST(exchange_nothing(peer, 1));
      for (int i : order_of(tags))
        MUST(MPI_Isend(out.at(i), 1, MPI_INT, peer, tag_of(tags, i), MPI_COMM_WORLD,
                       &sends[static_cast<size_t>(i)]));
      wait_in_turn(receives, 1);
      wait_in_turn(sends, 2);
      EXPECT(in.wrong(10000 * peer) == 0, "in %s memory %d of %d are wrong", to_string(to),
             in.wrong(10000 * peer), many);
    }
}

// The requests are given away while nothing has arrived.
RANK_TEST(completion, M8_very_many_requests_are_freed_while_active, 2) {
  const int peer = partner();
  if (peer == MPI_PROC_NULL) return;
  Numbers out(Place::device, 10000 * rank), in(Place::device, -many);
  MPI_Request request;
  for (int i = 0; i < many; ++i) {
    MUST(MPI_Irecv(in.at(i), 1, MPI_INT, peer, first_tag, MPI_COMM_WORLD, &request));
    MUST(MPI_Request_free(&request));
  }
  // Behind them, in order: when it has come, so have they.
  int last = 0;
  MUST(MPI_Irecv(&last, 1, MPI_INT, peer, first_tag, MPI_COMM_WORLD, &request));
  for (int i = 0; i < many; ++i) MUST(MPI_Send(out.at(i), 1, MPI_INT, peer, first_tag, MPI_COMM_WORLD));
  MUST(MPI_Send(&rank, 1, MPI_INT, peer, first_tag, MPI_COMM_WORLD));
  MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT(last == peer, "the last message is from %d", last);
  for (int turns = 0; turns < 100000 && in.wrong(10000 * peer) > 0; ++turns) {
    int found;
    MUST(MPI_Iprobe(peer, first_tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
    MUST(MPI_Test(&request, &found, MPI_STATUS_IGNORE));
  }
  EXPECT(in.wrong(10000 * peer) == 0, "%d of %d are wrong", in.wrong(10000 * peer), many);
}

RANK_TEST(completion, receives_take_the_address_space_of_their_messages, 2) {
  constexpr int some = many / 4;  // a call looks at each of them
  const int peer = partner();
  for (Place to : host_and_device) {
    if (peer == MPI_PROC_NULL) continue;
    Numbers out(Place::device, 10000 * rank, some), in(to, -many, some);
    std::vector<MPI_Request> receives(some);
    const size_t before = address_space_in_use();
    for (int i = 0; i < some; ++i)
      MUST(MPI_Irecv(in.at(i), 1, MPI_INT, peer, tag_of(Tags::own, i), MPI_COMM_WORLD,
                     &receives[static_cast<size_t>(i)]));
    // The MPI may give memory back meanwhile.
    const size_t after = address_space_in_use(), taken = after - std::min(before, after);
    EXPECT(taken < size_t{256} << 20, "%d receives of an int in %s memory take %zu MiB of address space",
           some, to_string(to), taken >> 20);
    for (int i = 0; i < some; ++i)
      MUST(MPI_Send(out.at(i), 1, MPI_INT, peer, tag_of(Tags::own, i), MPI_COMM_WORLD));
    MUST(MPI_Waitall(some, receives.data(), MPI_STATUSES_IGNORE));
    EXPECT(in.wrong(10000 * peer) == 0, "%d of %d are wrong", in.wrong(10000 * peer), some);
  }
}
