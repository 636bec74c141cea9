// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/message_collective.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/memory/dummy_memory.h"
#include "base/options.h"
#include "mpi/check/stream_check.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/algorithm_log.h"
#include "mpi/coll/staging.h"
#include "mpi/core/communicator.h"
#include "mpi/network/host_capability.h"
#include "mpi/network/network.h"
#include "observe/statistics.h"

namespace fairlead::mpi {
namespace {

// Up to this length a block inside a node is staged with others: 64 KiB by default.
uint64_t short_block() {
  return static_cast<uint64_t>(node_limits().segment) / 64;
}

// A run of this length is copied while others are on their way.
constexpr uint64_t long_run = uint64_t{64} << 10;
constexpr uint64_t alignment = 16;

bool on_device(const UserBuffer& buffer) {
  return buffer.found.memory.kind == device::MemoryKind::device;
}

int rank_of(const CollectiveBlock& block) {
  return static_cast<int>(block.index);
}

}  // namespace

MessageCollective::MessageCollective(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call,
                                     Regions regions, Form form, std::shared_ptr<MPI_Comm> messages)
    : Operation(call.comm),
      state_(std::move(state)),
      question_(call.asks ? state_->questions().back() : nullptr),
      messages_(std::move(messages)),
      tag_(form == Form::persistent),
      call_(call),
      regions_(std::move(regions)) {
  if (form != Form::blocking) kept_.emplace(call.comm, call.op, types_in(regions_));
}

// A block has the index of its rank, or of its neighbour.
void MessageCollective::find_parts() {
  const CommPosition& position = state_->position();
  const Neighbors& neighbors = position.neighbors;
  // In place, a rank's own block is where it belongs.
  const bool own_stays = call_.in_place() || call_.recvbuf == MPI_IN_PLACE;
  device::Allocation memory;  // that contains the last block
  const auto add = [&](Side& side, const Region& region, const CollectiveBlock& block, int peer,
                       int number = 0) {
    if (peer == MPI_PROC_NULL || (own_stays && peer == position.rank)) return;
    const Layout layout = layout_of(block.count, block.datatype);
    const void* first = first_data_byte(region.address, layout, block.offset);
    if (reinterpret_cast<uintptr_t>(first) - memory.base >= memory.size)
      memory = device::certainly_host(first) ? device::Allocation{} : device::classify(first);
    side.parts.push_back(
        {peer,
         number,
         layout,
         {at_offset(region.address, block.offset), block.count, block.datatype, {first, memory}}});
  };
  out_ = {};
  in_ = {};
  const bool to_all = call_.gathers_from_neighbors(), to_root = call_.shape().gets == Who::root;
  const Region& read = call_.in_place() && !to_root ? regions_.written : regions_.read;
  for (const CollectiveBlock& block : read.blocks) {
    if (to_all)
      for (int peer : neighbors.out) add(out_, read, block, peer);
    else if (call_.among_neighbors())
      add(out_, read, block, neighbors.out[block.index]);
    else
      add(out_, read, block, to_root ? call_.root : rank_of(block));
  }
  for (const CollectiveBlock& block : regions_.written.blocks) {
    if (call_.among_neighbors()) {
      const Neighbors::Source& source = neighbors.in[block.index];
      add(in_, regions_.written, block, source.rank, source.message);
    } else {
      add(in_, regions_.written, block, call_.shape().gives == Who::root ? call_.root : rank_of(block));
    }
  }
  std::ranges::stable_sort(in_.parts, {}, &Part::number);
}

// Between nodes, messages up to the length of a chunk are staged in any case.
bool MessageCollective::is_short(const Part& part) const {
  const auto bytes = static_cast<uint64_t>(part.layout.bytes);
  const std::vector<int>& node_ranks = state_->node_ranks();
  if (!node_ranks.empty() && node_ranks[static_cast<size_t>(part.peer)] >= 0) return bytes <= short_block();
  return bytes <= std::max(network::chunk_bytes(), short_block()) &&
         !network::native(part.buffer.found.memory, bytes);
}

// In place, all that is sent is staged, because it must not be overwritten before it is sent.
void MessageCollective::stage() {
  for (Part& part : out_.parts) part.staged = call_.in_place() || (on_device(part.buffer) && is_short(part));
  for (Part& part : in_.parts) part.staged = on_device(part.buffer) && is_short(part);
  staged_bytes_ = 0;
  make_runs(out_, &staged_bytes_);
  make_runs(in_, &staged_bytes_);
  staging_ = device::PinnedBuffer(staged_bytes_);
  if (staging_.data() || staged_bytes_ == 0) return;
  if (call_.in_place()) note(MPI_ERR_OTHER);
  staged_bytes_ = 0;
  for (Side* side : {&out_, &in_}) {
    side->runs.clear();
    for (Part& part : side->parts) part.staged = false;
  }
}

void MessageCollective::make_runs(Side& side, uint64_t* bytes) {
  const Part* last = nullptr;
  for (size_t i = 0; i < side.parts.size(); ++i) {
    Part& part = side.parts[i];
    if (!part.staged) continue;
    const bool follows = last && side.runs.back().end == i && side.runs.back().bytes < long_run &&
                         last->layout.contiguous && part.layout.contiguous && on_device(part.buffer) &&
                         last->buffer.found.memory.base == part.buffer.found.memory.base &&
                         at_offset(last->buffer.address, last->layout.bytes) == part.buffer.address;
    if (!follows) {
      *bytes = (*bytes + alignment - 1) / alignment * alignment;
      side.runs.emplace_back().begin = i;
    }
    part.at = *bytes;
    *bytes += static_cast<uint64_t>(part.layout.bytes);
    side.runs.back().end = i + 1;
    side.runs.back().bytes += static_cast<uint64_t>(part.layout.bytes);
    last = &part;
  }
}

// Starts to copy a run out of the program's buffer, or into it.
void MessageCollective::move(const Side& side, Run& run, bool out) {
  const Part& part = side.parts[run.begin];
  const auto& [address, count, datatype, found] = part.buffer;
  const int device = found.memory.device;
  unsigned char* staged = staging_.data() + part.at;
  if (!on_device(part.buffer)) {
    run.failed = !pack_host(address, count, datatype, staged, part.layout.bytes, part.layout);
    return;
  }
  std::optional<packing::View> buffer;
  if (part.layout.contiguous)
    buffer.emplace(address, run.bytes);
  else
    buffer = kernel_view(address, part.layout, found.memory);
  if (buffer) {
    const packing::View packed(staged, run.bytes);
    run.failed = run.move.enqueue(device, out ? packed : *buffer, out ? *buffer : packed, run.bytes) !=
                 device::Error::none;
  } else if (out) {
    HostBuffer packed;
    run.failed = !pack_from_device(address, count, datatype, part.layout, device, &packed);
    if (!run.failed) std::memcpy(staged, packed.data(), run.bytes);
  } else {
    run.failed = !unpack_to_device(staged, part.layout.bytes, address, count, datatype, part.layout, device);
  }
}

// Waits for the end of a copy out of the program's buffer.
bool MessageCollective::moved(Run& run) {
  run.failed |= run.move.wait() != device::Error::none;
  return !run.failed;
}

int MessageCollective::start() {
  check_streams(regions_, &checked_);
  begin();
  report_timer_.restart();
  error_ = MPI_SUCCESS;
  waits_ = false;
  sent_ = host_sent_ = arrived_ = storing_ = stored_ = 0;
  if (question_) {
    std::lock_guard lock(engine().mutex());
    state_->joined();
    number_ = state_->begin_call();
    asked_ = false;
  }
  find_parts();
  stage();
  if (logs_algorithms(state_->position()))
    log_algorithm(call_, state_->position(), regions_, "by messages", "between nodes");
  if (state_->position().rank == 0)
    log_line(LogLevel::trace, "collective %u of %d ranks by messages", static_cast<unsigned>(call_.function),
             state_->position().size);
  for (Run& run : out_.runs) move(out_, run, true);
  device::start_enqueued();
  if (call_.in_place())
    for (Run& run : out_.runs) moved(run);
  for (const Part& part : in_.parts) receive(part);
  auto run = out_.runs.begin();
  for (size_t i = 0; i < out_.parts.size(); ++i) {
    const Part& part = out_.parts[i];
    if (!part.staged) {
      send(part);
      continue;
    }
    if (i >= run->end) ++run;
    const bool readable = moved(*run);
    if (!readable) note(MPI_ERR_OTHER);
    send_from_host(staging_.data() + part.at, readable ? part.layout.bytes : 0, MPI_BYTE, part.peer);
  }
  return MPI_SUCCESS;
}

void MessageCollective::receive(const Part& part) {
  UserBuffer buffer = part.buffer;
  if (part.staged) {
    unsigned char* staged = staging_.data() + part.at;
    buffer = {staged, part.layout.bytes, MPI_BYTE, {staged, {}}};
  }
  if (post(buffer, part.peer)) return;
  // A header in place of the block must be found as it came.
  const auto bytes = std::max(part.layout.bytes, MPI_Count{p2p::rts_bytes});
  unsigned char* dummy = dummy_memory_for_block(static_cast<size_t>(bytes));
  if (!dummy) return note(end_for_lack_of_addresses(comm_));
  ++dummies_;
  arrivals_.pop_back();
  post({dummy, bytes, MPI_BYTE, {dummy, {}}}, part.peer);
}

bool MessageCollective::post(const UserBuffer& buffer, int peer) {
  Arrival& arrival = arrivals_.emplace_back(buffer, peer, tag_, *messages_);
  const int result = arrival.receive.start();
  note(result);
  arrival.posted = result == MPI_SUCCESS;
  if (arrival.posted) engine().add(&arrival.receive);
  return arrival.posted;
}

void MessageCollective::send(const Part& part) {
  if (!on_device(part.buffer))
    return send_from_host(part.buffer.address, part.buffer.count, part.buffer.datatype, part.peer);
  Send& send = sends_.emplace_back(SendMode::standard, part.buffer, part.peer, tag_, *messages_);
  const int result = send.start();
  if (result == MPI_SUCCESS) return engine().add(&send);
  note(result);
  sends_.pop_back();
  send_from_host(this, 0, MPI_BYTE, part.peer);
}

void MessageCollective::send_from_host(const void* address, MPI_Count count, MPI_Datatype datatype,
                                       int peer) {
  begin_flow(count, datatype, peer, tag_, *messages_);
  MPI_Request& request = host_sends_.emplace_back(MPI_REQUEST_NULL);
  const int result =
      start_host_send(SendMode::standard, address, count, datatype, peer, tag_, *messages_, &request);
  note(result);
  if (result != MPI_SUCCESS)
    start_host_send(SendMode::standard, this, 0, MPI_BYTE, peer, tag_, *messages_, &request);
}

void MessageCollective::ask_in_turn() {
  if (asked_ || !state_->has_turn(number_)) return;
  question_->ask(state_->comm(), regions_.hold_no_host_memory());
  asked_ = true;
  state_->clear(number_);
  state_->end_call(number_);
}

void MessageCollective::advance() {
  if (complete()) return;
  ask_in_turn();
  if (!waits_ && waiting_since_.load(std::memory_order_relaxed) != never) {
    waits_ = true;
    for (Send& send : sends_) send.start_waiting();
  }
  while (sent_ < sends_.size() && sends_[sent_].complete()) ++sent_;
  for (; host_sent_ < host_sends_.size(); ++host_sent_) {
    int sent = 0;
    const int result = real.Test(&host_sends_[host_sent_], &sent, MPI_STATUS_IGNORE);
    note(result);
    if (!sent && result == MPI_SUCCESS) break;
  }
  while (arrived_ < arrivals_.size() && arrivals_[arrived_].over()) ++arrived_;
  for (; storing_ < in_.runs.size() && in_.runs[storing_].end <= arrived_; ++storing_)
    move(in_, in_.runs[storing_], false);
  for (; stored_ < storing_; ++stored_) {
    const device::Error state = in_.runs[stored_].move.poll();
    if (state == device::Error::not_ready) break;
    if (state != device::Error::none || in_.runs[stored_].failed) note(MPI_ERR_OTHER);
  }
  report_stall();
  if (sent_ == sends_.size() && host_sent_ == host_sends_.size() && arrived_ == arrivals_.size() &&
      stored_ == in_.runs.size() && asked_ && (!question_ || question_->answered()))
    complete_.store(true, std::memory_order_release);
}

void MessageCollective::report_stall() {
  const int seconds = arrived_ == arrivals_.size() ? 0 : report_timer_.due();
  if (seconds == 0) return;
  const int late = rank_in_world(*messages_, arrivals_[arrived_].receive.source());
  log_line(LogLevel::warn,
           "a collective over several nodes has been waiting for %d s; nothing has arrived from rank %d",
           seconds, late);
}

int MessageCollective::finish(MPI_Status* status) {
  MPI_Status its;
  its.MPI_ERROR = MPI_SUCCESS;
  for (size_t i = 0; i < arrivals_.size(); ++i) {
    if (!arrivals_[i].posted) continue;
    engine().remove(&arrivals_[i].receive);
    const int result = arrivals_[i].receive.finish(&its);
    note(result == MPI_SUCCESS && byte_count(its) != in_.parts[i].layout.bytes ? MPI_ERR_OTHER : result);
  }
  for (Send& send : sends_) {
    engine().remove(&send);
    note(send.finish(&its));
  }
  arrivals_.clear();
  for (; dummies_ > 0; --dummies_) give_back_dummy_block();
  sends_.clear();
  host_sends_.clear();
  out_ = {};
  in_ = {};
  staging_ = {};
  if (staged_bytes_ > 0) {
    if (error_ == MPI_SUCCESS) count(Traffic::collective_staged, staged_bytes_);
    record_.set_path(Traffic::collective_staged, staged_bytes_);
  }
  record_.end();
  set_empty(status);
  return error_ == MPI_SUCCESS ? MPI_SUCCESS : raise(error_of_collective(comm_, error_));
}

}  // namespace fairlead::mpi
