// SPDX-License-Identifier: Apache-2.0

#include "harness/random_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

namespace ranks::plan {

namespace {

constexpr int tags_per_source = 3;
constexpr double largest = 1 << 20;

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  // 0 .. n-1. Not std::uniform_int_distribution, which may differ between ranks' standard libraries.
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T, size_t N>
  T pick(const T (&values)[N]) {
    return values[below(static_cast<int>(N))];
  }
  double unit() { return static_cast<double>(random_() >> 11) / 9007199254740992.0; }

 private:
  std::mt19937_64 random_;
};

size_t random_size(Dice& dice) {
  constexpr size_t edges[] = {0, 1, 64, 95, 96, 97, 127, 128, 129, 4096, 65535, 65536, 65537};
  if (dice.chance(35)) return dice.pick(edges);
  return static_cast<size_t>(std::exp(dice.unit() * std::log(largest)));
}

Place random_place(Dice& dice) {
  // Device memory is the subject; the other kinds are its company.
  constexpr Place places[] = {Place::device, Place::device,        Place::device, Place::other_device,
                              Place::pool,   Place::host,          Place::host,   Place::managed,
                              Place::pinned, Place::virtual_memory};
  return dice.pick(places);
}

size_t random_offset(Dice& dice) {
  return dice.chance(70) ? 0 : static_cast<size_t>(dice.below(300));
}

using Stream = std::tuple<Lane, int, int, int>;  // lane, source, destination, tag where it matters

Stream stream_of(const Message& m) {
  const bool by_tag = m.lane == Lane::tagged || m.lane == Lane::reversed;
  return {m.lane, m.source, m.destination, by_tag ? m.tag : 0};
}

void choose_kinds(Message& m, Dice& dice, int steps) {
  constexpr SendKind nonblocking_sends[] = {SendKind::isend, SendKind::isend,  SendKind::issend,
                                            SendKind::bsend, SendKind::ibsend, SendKind::persistent};
  constexpr SendKind all_sends[] = {SendKind::send,  SendKind::send,  SendKind::ssend,  SendKind::bsend,
                                    SendKind::isend, SendKind::isend, SendKind::issend, SendKind::persistent};
  constexpr ReceiveKind any_time[] = {ReceiveKind::irecv, ReceiveKind::irecv, ReceiveKind::persistent};
  constexpr ReceiveKind after_send[] = {
      ReceiveKind::recv,         ReceiveKind::recv,           ReceiveKind::irecv,
      ReceiveKind::irecv,        ReceiveKind::probe_recv,     ReceiveKind::iprobe_recv,
      ReceiveKind::mprobe_mrecv, ReceiveKind::improbe_imrecv, ReceiveKind::persistent};
  const bool to_self = m.source == m.destination;
  // A rank posts its receives of a step before its send, so a receive from itself must not block then.
  const bool may_block_in_send = m.post <= m.id && m.lane != Lane::wild;
  const bool may_block_in_receive = m.post >= m.id && !(to_self && m.post == m.id);
  m.send_kind = may_block_in_send ? dice.pick(all_sends) : dice.pick(nonblocking_sends);
  m.receive_kind = may_block_in_receive ? dice.pick(after_send) : dice.pick(any_time);
  m.send_wait = m.lane == Lane::wild ? steps - 1 : dice.between(std::max(m.id, m.post), steps - 1);
  m.receive_wait = dice.between(std::max(m.id, m.post), steps - 1);
  if (dice.chance(30)) m.send_wait = m.receive_wait = steps - 1;  // large sets to complete at the end
}

}  // namespace

Program make_program(uint64_t seed, int ranks) {
  Dice dice(seed);
  Program program;
  const int count = dice.between(4, 40);
  const int steps = count + 2;  // room for the twin of an exchange made last
  std::map<Stream, int> last_post;
  std::vector<size_t> wild_capacity(ranks, 0);
  const auto random_message = [&](int id) {
    Message m{};
    m.id = id;
    m.source = dice.below(ranks);
    m.destination = dice.below(ranks);
    m.lane = static_cast<Lane>(dice.below(lane_count));
    m.tag = m.source * tags_per_source + dice.below(tags_per_source);
    m.bytes = random_size(dice);
    m.capacity = dice.chance(50) ? m.bytes : m.bytes + static_cast<size_t>(dice.below(5000));
    m.from = random_place(dice);
    m.to = random_place(dice);
    m.from_offset = random_offset(dice);
    m.to_offset = random_offset(dice);
    m.name_source = dice.chance(60);
    m.twin = -1;
    m.key = key_of(seed, static_cast<uint64_t>(id));
    return m;
  };
  while (static_cast<int>(program.messages.size()) < count) {
    const int id = static_cast<int>(program.messages.size());
    Message m = random_message(id);
    int& posted = last_post[stream_of(m)];
    if (dice.chance(12) && m.lane != Lane::wild && m.source != m.destination && posted <= id) {
      Message back = random_message(id + 1);
      back.source = m.destination;
      back.destination = m.source;
      back.lane = m.lane;
      back.tag = back.source * tags_per_source + dice.below(tags_per_source);
      int& back_posted = last_post[stream_of(back)];
      if (back_posted <= id) {
        const bool blocking = dice.chance(50);
        m.send_kind = back.send_kind = blocking ? SendKind::sendrecv : SendKind::isendrecv;
        m.receive_kind = back.receive_kind = blocking ? ReceiveKind::sendrecv : ReceiveKind::isendrecv;
        m.receive_wait = dice.between(id, steps - 1);
        back.receive_wait = dice.between(id, steps - 1);
        m.post = back.post = posted = back_posted = id;
        m.twin = id + 1;
        back.twin = id;
        program.messages.push_back(m);
        program.messages.push_back(back);
        continue;
      }
    }
    const int earliest = m.lane == Lane::wild ? id : std::max(0, id - 6);
    m.post = std::max(posted, dice.between(earliest, std::min(id + 6, count - 1)));
    if (dice.chance(30)) m.post = std::max(posted, id);
    posted = m.post;
    choose_kinds(m, dice, steps);
    if (m.lane == Lane::wild) wild_capacity[m.destination] = std::max(wild_capacity[m.destination], m.bytes);
    program.messages.push_back(m);
  }
  for (Message& m : program.messages) {
    if (m.lane == Lane::wild) m.capacity = wild_capacity[m.destination];  // it may get any of them
    m.send_wait = std::min(m.send_wait, program.steps() - 1);
    m.receive_wait = std::min(m.receive_wait, program.steps() - 1);
  }
  return program;
}

std::string describe(const Message& m) {
  static const char* const lanes[] = {"tagged", "reversed", "any_tag", "wild"};
  static const char* const sends[] = {"send",   "ssend",      "bsend",    "isend",    "issend",
                                      "ibsend", "persistent", "sendrecv", "isendrecv"};
  static const char* const receives[] = {"recv",         "probe+recv",     "iprobe+recv",
                                         "mprobe+mrecv", "improbe+imrecv", "irecv",
                                         "persistent",   "sendrecv",       "isendrecv"};
  char text[256];
  snprintf(text, sizeof(text),
           "message %d: %d to %d, lane %s, tag %d, %zu of %zu bytes, %s %s to %s %s, post %d", m.id, m.source,
           m.destination, lanes[static_cast<int>(m.lane)], m.tag, m.bytes, m.capacity, to_string(m.from),
           sends[static_cast<int>(m.send_kind)], to_string(m.to), receives[static_cast<int>(m.receive_kind)],
           m.post);
  return text;
}

}  // namespace ranks::plan
