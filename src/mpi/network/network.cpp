// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/network.h"

#include <algorithm>
#include <climits>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/options.h"
#include "base/system/processor.h"
#include "device/pinned_buffer.h"
#include "mpi/abi/real.h"
#include "mpi/core/engine.h"
#include "mpi/core/forwarded_receives.h"
#include "mpi/core/hooks.h"
#include "mpi/core/operation.h"
#include "mpi/failures/failures.h"
#include "mpi/network/fabric.h"
#include "mpi/network/host_capability.h"
#include "mpi/network/pipelined_send.h"

namespace fairlead::mpi::network {
namespace {

constexpr int pipelines_at_once = 4;
constexpr uint64_t largest_chunk = uint64_t{1} << 30;  // host MPI counts are int
constexpr int control_tag = 0;                         // of no chunk
constexpr unsigned rounds_between_looks = 16;
constexpr std::chrono::microseconds between_looks{40};
constexpr uint64_t staged_bytes_per_us = 8'000;
constexpr size_t tests_in_a_round = 8;

MPI_Comm comm = MPI_COMM_NULL;
int own_rank = 0, ranks = 1;
int highest_tag = 0, next_tag = 0;
uint64_t largest_chunk_of_any = 0, smallest_chunk_of_any = 0;
auto& bounce_buffer_of_all = *new HostBuffer;
auto& tags_in_use = *new std::set<std::pair<int, int>>;  // (receiver, tag)
using Peer = std::pair<Direction, int>;
auto& last_progress = *new std::map<Peer, Time>;
auto& turns = *new std::map<Peer, std::list<const Turn*>>;

struct ControlMessage {
  ControlContent content;
  MPI_Request request;
};
auto& control_messages = *new std::list<ControlMessage>;  // on their way
// Between ranks of different nodes: may the sender send RTS headers to the receiver?
enum class Permission : uint8_t { unasked, asked, overdue, given };
auto& permissions = *new std::vector<Permission>;  // by receiver
bool gives_answers = true;
auto& askers = *new std::vector<int>;                    // that have no answer yet
auto& permitted = *new std::set<int>;                    // senders that have got one
auto& lookers = *new std::map<int, int>;                 // messages that a receiver is looking into
auto& only_probed = *new std::set<std::pair<int, int>>;  // (receiver, tag)
unsigned rounds = 0;

struct HostMessage {
  HostBuffer bytes;
  MPI_Request request;
  MPI_Comm comm;
};
auto& kept_pipelines = *new std::list<std::unique_ptr<PipelinedSend>>;
auto& kept_messages = *new std::list<HostMessage>;

}  // namespace

void open() {
  adopt(real.Comm_dup(MPI_COMM_WORLD, &comm), &comm);
  PMPI_Comm_rank(comm, &own_rank);
  PMPI_Comm_size(comm, &ranks);
  // The greatest complement is that of the smallest.
  const uint64_t own_chunk[] = {chunk_bytes(), ~chunk_bytes()};
  uint64_t greatest[2] = {};
  real.Allreduce(own_chunk, greatest, 2, MPI_UINT64_T, MPI_MAX, comm);
  largest_chunk_of_any = greatest[0];
  smallest_chunk_of_any = ~greatest[1];
  bounce_buffer_of_all = HostBuffer(largest_chunk_of_any);
  int* bound = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
  highest_tag = found ? *bound : 32767;
  permissions.assign(static_cast<size_t>(ranks), Permission::unasked);
  longest_unasked = ranks > 1 ? static_cast<MPI_Count>(smallest_chunk_of_any) : LLONG_MAX;
}

void close() {
  kept_pipelines.clear();
  close_capability();
  close_fabric();
  free_own(&comm);
  ranks = 1;
  gives_answers = true;
  permitted.clear();
  lookers.clear();
  only_probed.clear();
  expect_rts_from_outside(false);
  longest_unasked = LLONG_MAX;
  if (device::runtime()) device::release_pinned();
}

void forget_kept() {
  for (HostMessage& message : kept_messages) real.Request_free(&message.request);
  kept_messages.clear();
}

bool reaches(int world_rank) {
  if (world_rank < 0 || world_rank == own_rank) return false;
  return !engine().node() || engine().node()->node_rank_of_world(world_rank) < 0;
}

bool exists() {
  return ranks > (engine().node() ? engine().node()->size() : 1);
}

uint64_t chunk_bytes() {
  static const uint64_t chunk = std::min(options().pieces("network"), largest_chunk);
  return chunk;
}

uint64_t smallest_chunk() {
  return smallest_chunk_of_any;
}

p2p::RtsLimits rts_limits() {
  return {engine().node() ? engine().node()->size() : 0, ranks, highest_tag, largest_chunk_of_any};
}

MPI_Comm communicator() {
  return comm;
}

int take_tag(int receiver) {
  do next_tag = next_tag == highest_tag ? control_tag + 1 : next_tag + 1;
  while (!tags_in_use.insert({receiver, next_tag}).second);
  return next_tag;
}

void give_back_tag(int receiver, int tag) {
  tags_in_use.erase({receiver, tag});
  only_probed.erase({receiver, tag});
}

void note_progress(Direction direction, int peer) {
  last_progress[{direction, peer}] = std::chrono::steady_clock::now();
}

std::chrono::microseconds timeout() {
  return std::chrono::microseconds(100 * options().eager_timeout_us);
}

bool timed_out(Direction direction, int peer, Time waiting_since) {
  Time since = std::max(waiting_since, last_progress[{direction, peer}]);
  return std::chrono::steady_clock::now() - since > timeout();
}

std::chrono::microseconds staging_time(uint64_t bytes) {
  return std::chrono::microseconds(bytes / staged_bytes_per_us);
}

Turn::Turn(Direction direction, int peer)
    : direction_(direction), peer_(peer), since_(std::chrono::steady_clock::now()) {
  turns[{direction, peer}].push_back(this);
}

bool Turn::has_come() const {
  const auto& queue = turns[{direction_, peer_}];
  int position = 0;
  for (const Turn* turn : queue) {
    if (turn == this) return true;
    if (++position == pipelines_at_once) break;
  }
  return timed_out(direction_, peer_, since_);
}

void Turn::end() {
  if (!ended_) turns[{direction_, peer_}].remove(this);
  ended_ = true;
}

void keep(std::unique_ptr<PipelinedSend> stream) {
  kept_pipelines.push_back(std::move(stream));
  engine().keep_busy(1);
}

void keep(HostBuffer bytes, MPI_Request message, MPI_Comm on) {
  kept_messages.push_back({std::move(bytes), message, on});
  engine().keep_busy(1);
}

static bool keeps_messages_on(MPI_Comm on) {
  std::lock_guard lock(engine().mutex());
  return std::any_of(kept_messages.begin(), kept_messages.end(),
                     [on](const HostMessage& message) { return message.comm == on; });
}

bool keeps_messages() {
  std::lock_guard lock(engine().mutex());
  return !kept_messages.empty();
}

// Synchronous, so that none is left when all ranks have joined the barrier of MPI_Finalize.
void send_control(int receiver, const ControlContent& content) {
  ControlMessage& message = control_messages.emplace_back(ControlMessage{content, MPI_REQUEST_NULL});
  real.Issend(&message.content, sizeof message.content, MPI_BYTE, receiver, control_tag, comm,
              &message.request);
}

static void take_control(int sender, const ControlContent& content) {
  switch (content.kind) {
    case Control::asks:
      expect_rts_from_outside(true);
      if (gives_answers) askers.push_back(sender);
      return;
    case Control::permits:
      permissions[static_cast<size_t>(sender)] = Permission::given;
      return;
    case Control::looks:
      ++lookers[sender];
      return;
    case Control::looked_at_rts:
      // A receive may have taken the message since.
      if (std::pair rts{sender, static_cast<int>(content.number)}; tags_in_use.count(rts))
        only_probed.insert(rts);
      [[fallthrough]];
    case Control::looked:
      --lookers[sender];
      return;
    default:
      take_fabric_control(sender, content);
  }
}

static void answer_askers() {
  if (askers.empty() || holds_off_rts()) return;
  for (int asker : askers) {
    permitted.insert(asker);
    send_control(asker, {Control::permits});
  }
  askers.clear();
}

static void look_for_control() {
  for (;;) {
    int found = 0;
    MPI_Status status;
    ControlContent content{};
    PMPI_Iprobe(MPI_ANY_SOURCE, control_tag, comm, &found, &status);
    if (!found) break;
    real.Recv(&content, sizeof content, MPI_BYTE, status.MPI_SOURCE, control_tag, comm, MPI_STATUS_IGNORE);
    take_control(status.MPI_SOURCE, content);
  }
  answer_askers();
}

static void look_after_long_receive() {
  if (!exists()) return;
  static uint64_t last_look = 0;
  const uint64_t now = ticks();
  if (now - last_look < ticks_in(between_looks) && askers.empty()) return;
  last_look = now;
  // A thread that makes progress looks as well.
  if (std::unique_lock lock(engine().mutex(), std::try_to_lock); lock) look_for_control();
}

static void ask(int receiver) {
  Permission& permission = permissions[static_cast<size_t>(receiver)];
  if (permission != Permission::unasked) return;
  permission = Permission::asked;
  send_control(receiver, {Control::asks});
}

void ask_early(int receiver) {
  std::lock_guard lock(engine().mutex());
  ask(receiver);
}

bool note_looking(int sender) {
  if (sender < 0) return false;
  std::lock_guard lock(engine().mutex());
  if (!permitted.contains(sender)) return false;
  send_control(sender, {Control::looks});
  return true;
}

void note_looked(int sender, const p2p::RtsHeader* rts) {
  std::lock_guard lock(engine().mutex());
  if (rts && rts->kind == p2p::RtsKind::pipelined)
    send_control(sender, {Control::looked_at_rts, rts->number});
  else
    send_control(sender, {Control::looked});
}

bool is_only_probed(int receiver, uint32_t number) {
  look_for_control();
  return lookers[receiver] > 0 || only_probed.count({receiver, static_cast<int>(number)}) > 0;
}

bool may_pipeline(int receiver, uint64_t bytes) {
  const Permission& permission = permissions[static_cast<size_t>(receiver)];
  std::unique_lock lock(engine().mutex());
  if (permission == Permission::given) return true;
  ask(receiver);
  const bool waits = permission == Permission::asked;
  const Time end = std::chrono::steady_clock::now() + staging_time(bytes);
  for (Backoff backoff;;) {
    look_for_control();
    if (permission == Permission::given) return true;
    if (!waits || std::chrono::steady_clock::now() > end) break;
    lock.unlock();
    engine().progress();
    backoff.pause();
    lock.lock();
  }
  permissions[static_cast<size_t>(receiver)] = Permission::overdue;
  return false;
}

// Tests a few, in turn: many may be on their way to a rank that makes no progress.
static void test_control_messages() {
  for (size_t tests = std::min(control_messages.size(), tests_in_a_round); tests > 0; --tests) {
    int sent = 0;
    real.Test(&control_messages.front().request, &sent, MPI_STATUS_IGNORE);
    if (sent)
      control_messages.pop_front();
    else
      control_messages.splice(control_messages.end(), control_messages, control_messages.begin());
  }
}

static void advance_transfers() {
  if (comm != MPI_COMM_NULL && exists()) {
    test_control_messages();
    const bool looks = rounds++ % rounds_between_looks == 0;
    if (looks || awaits_fabric_control())
      look_for_control();
    else
      answer_askers();
    if (looks && gives_answers) look_for_freed_memory();
  }
  size_t ended = std::erase_if(kept_pipelines, [](auto& stream) {
    stream->advance();
    return stream->finished();
  });
  ended += std::erase_if(kept_messages, [](HostMessage& message) {
    int sent = 0;
    real.Test(&message.request, &sent, MPI_STATUS_IGNORE);
    return sent != 0;
  });
  if (ended) engine().keep_busy(-static_cast<int>(ended));
}

[[maybe_unused]] static const bool hooked = add_hooks({.advance = advance_transfers,
                                                       .has_messages_on = keeps_messages_on,
                                                       .received_long = look_after_long_receive});

void stop_answering() {
  std::lock_guard lock(engine().mutex());
  gives_answers = false;
  askers.clear();
}

size_t control_messages_in_flight() {
  std::lock_guard lock(engine().mutex());
  return control_messages.size();
}

bool all_received() {
  std::lock_guard lock(engine().mutex());
  return tags_in_use.empty() && control_messages.empty();
}

unsigned char* nowhere() {
  return bounce_buffer_of_all.data();
}

void discard_unclaimed() {
  for (;;) {
    int found = 0;
    MPI_Message message;
    MPI_Status status;
    real.Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &message, &status);
    if (!found) return;
    if (status.MPI_TAG == control_tag) {
      ControlContent content{};
      real.Mrecv(&content, sizeof content, MPI_BYTE, &message, MPI_STATUS_IGNORE);
      std::lock_guard lock(engine().mutex());
      take_control(status.MPI_SOURCE, content);
      continue;
    }
    int bytes = static_cast<int>(byte_count(status));
    real.Mrecv(nowhere(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    log_line(LogLevel::debug, "%d bytes of a message from rank %d that was never received are discarded",
             bytes, status.MPI_SOURCE);
  }
}

}  // namespace fairlead::mpi::network
