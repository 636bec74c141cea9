// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/slice_exchange.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/log.h"
#include "base/options.h"
#include "device/classify.h"
#include "kernels/parameters.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/requests/request.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"

namespace fairlead::mpi {
namespace {

// Slices are divided in units of this many elements: whole cache lines for every type.
constexpr uint64_t part_grain = 256;

coll::Slices parts_of(ExchangeKind kind, uint64_t bytes, uint64_t element, int nodes) {
  const uint64_t elements = bytes / element, parts = static_cast<uint64_t>(nodes);
  return {elements, parts, kind == ExchangeKind::reduce_scatter ? elements / parts : part_grain};
}

}  // namespace

ExchangeMemory::ExchangeMemory(ExchangeKind kind, uint64_t bytes, uint64_t element, int nodes)
    : parts_bytes(is_reduction(kind) ? static_cast<uint64_t>(nodes) *
                                           parts_of(kind, bytes, element, nodes).longest() * element
                                     : 0),
      slices(kind == ExchangeKind::allgather ? static_cast<uint64_t>(nodes) * bytes : bytes),
      parts(parts_bytes) {}

SliceExchange::SliceExchange(NodeHierarchy& hierarchy, ExchangeMemory& room, const Slice& slice)
    : Operation(hierarchy.spreading.comm),
      hierarchy_(hierarchy),
      room_(room),
      slice_(slice),
      element_(static_cast<uint64_t>(extent_of(slice.datatype))),
      parts_(parts_of(slice.kind, slice.bytes, element_, hierarchy.nodes())) {}

unsigned char* SliceExchange::own_slice() const {
  uint64_t before = slice_.kind == ExchangeKind::allgather ? static_cast<uint64_t>(hierarchy_.my_node()) : 0;
  return room_.slices.data() + before * slice_.bytes;
}

int SliceExchange::start() {
  std::lock_guard lock(engine().mutex());
  spreading_turn_ = hierarchy_.spreading.turns.take();
  if (reduces() && !scatters()) collecting_turn_ = hierarchy_.collecting.turns.take();
  if (slice_.kind != ExchangeKind::bcast || is_root())
    note(leaving_.start(device::device_at(slice_.from), own_slice(), slice_.from, slice_.bytes));
  advance();
  return MPI_SUCCESS;
}

void SliceExchange::advance() {
  while (step()) {
  }
}

// Makes the next step if that is possible now. It does so after an error, too, because the other nodes depend
// on it.
bool SliceExchange::step() {
  switch (step_) {
    case Step::leaving:
      if (!note(leaving_.poll())) return false;
      step_ = Step::before_spreading;
      return true;
    case Step::before_spreading:
      if (!hierarchy_.spreading.turns.has_come(spreading_turn_)) return false;
      note_host(spread());
      hierarchy_.spreading.turns.pass();
      step_ = Step::spreading;
      return true;
    case Step::spreading:
      if (!arrived()) return false;
      if (reduces()) reduce();
      step_ = reduces() ? Step::reducing : Step::collecting;
      return true;
    case Step::reducing:
      if (!note(kernel_.poll())) return false;
      step_ = scatters() ? Step::collecting : Step::before_collecting;
      return true;
    case Step::before_collecting:
      if (!hierarchy_.collecting.turns.has_come(collecting_turn_)) return false;
      note_host(collect());
      hierarchy_.collecting.turns.pass();
      step_ = Step::collecting;
      return true;
    case Step::collecting:
      if (!arrived()) return false;
      copy_back();
      step_ = Step::landing;
      return true;
    case Step::landing:
      if (!copied_back()) return false;
      step_ = Step::over;
      complete_.store(true, std::memory_order_release);
      return false;
    case Step::over:
      return false;
  }
  return false;
}

// Broadcasts and all-gathers are over after this; in a reduction each node gets its part from all nodes.
int SliceExchange::spread() {
  MPI_Comm comm = hierarchy_.spreading.comm;
  unsigned char* slices = room_.slices.data();
  int bytes = static_cast<int>(slice_.bytes), mine = static_cast<int>(part_bytes(hierarchy_.my_node()));
  if (slice_.kind == ExchangeKind::bcast)
    return real.Ibcast(slices, bytes, MPI_BYTE, slice_.root_node, comm, &message_);
  if (slice_.kind == ExchangeKind::allgather)
    return real.Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, slices, bytes, MPI_BYTE, comm, &message_);
  for (int node = 0; node < hierarchy_.nodes(); ++node) {
    counts_.push_back(static_cast<int>(part_bytes(node)));
    offsets_.push_back(static_cast<int>(part_begin(node)));
    arriving_counts_.push_back(mine);
    arriving_offsets_.push_back(node * mine);
  }
  return real.Ialltoallv(slices, counts_.data(), offsets_.data(), MPI_BYTE, room_.parts.data(),
                         arriving_counts_.data(), arriving_offsets_.data(), MPI_BYTE, comm, &message_);
}

// Reduces the parts of all nodes, in the order of the nodes, into this node's part of the slice.
void SliceExchange::reduce() {
  uint64_t bytes = part_bytes(hierarchy_.my_node()), count = bytes / element_;
  if (count == 0) return;
  unsigned char *to = room_.slices.data() + part_begin(hierarchy_.my_node()), *parts = room_.parts.data();
  const auto nodes = static_cast<size_t>(hierarchy_.nodes());
  int device = device::device_at(slice_.from);
  kernels::ReduceOp op;
  kernels::Element element;
  if (nodes <= kernels::reduce_buffers && room_.slices.pinned() && room_.parts.pinned() &&
      kernel_for(slice_.op, slice_.datatype, &op, &element) &&
      kernels::reductions_run_on(device, op, element)) {
    std::vector<const void*> from;
    for (size_t node = 0; node < nodes; ++node) from.push_back(parts + node * bytes);
    void* target = to;
    if (kernel_.reduce(device, op, element, from.data(), static_cast<int>(nodes), &target, 1, count) ==
        Attempt::made)
      return;
  }
  std::copy_n(parts, bytes, to);
  for (size_t node = 1; node < nodes; ++node)
    note_host(
        real.Reduce_local(parts + node * bytes, to, static_cast<int>(count), slice_.datatype, slice_.op));
}

// All nodes, or the root node, get the reduced parts of all nodes.
int SliceExchange::collect() {
  MPI_Comm comm = hierarchy_.collecting.comm;
  unsigned char* slice = room_.slices.data();
  if (slice_.kind == ExchangeKind::allreduce)
    return real.Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, slice, counts_.data(), offsets_.data(), MPI_BYTE, comm,
                            &message_);
  const void* own = is_root() ? MPI_IN_PLACE : slice + part_begin(hierarchy_.my_node());
  return real.Igatherv(own, static_cast<int>(part_bytes(hierarchy_.my_node())), MPI_BYTE, slice,
                       counts_.data(), offsets_.data(), MPI_BYTE, slice_.root_node, comm, &message_);
}

void SliceExchange::copy_back() {
  const int my_node = hierarchy_.my_node();
  const unsigned char* from = room_.slices.data() + (scatters() ? part_begin(my_node) : 0);
  const uint64_t bytes = scatters() ? part_bytes(my_node) : slice_.bytes;
  for (void* to : slice_.to) {
    note(landing_.emplace_back().start(device::device_at(to), to, from, bytes));
    from += bytes;
  }
}

bool SliceExchange::copied_back() {
  bool over = true;
  for (device::Copy& copy : landing_) over &= note(copy.poll());
  return over;
}

// True unless the copy or kernel is still in progress.
bool SliceExchange::note(device::Error state) {
  if (state == device::Error::not_ready) return false;
  if (state != device::Error::none && error_ == MPI_SUCCESS) {
    log_line(LogLevel::error, "a part of a collective cannot be moved between device and host memory: %s",
             device::runtime() ? device::runtime()->error_text() : "no device");
    error_ = MPI_ERR_OTHER;
  }
  return true;
}

void SliceExchange::note_host(int result) {
  if (error_ == MPI_SUCCESS) error_ = result;
}

// Is the last operation of the host MPI complete?
bool SliceExchange::arrived() {
  if (message_ == MPI_REQUEST_NULL) return true;
  int here = 0;
  int result = real.Test(&message_, &here, MPI_STATUS_IGNORE);
  note_host(result);
  if (here || result != MPI_SUCCESS) return true;
  complain_of_missing();
  return false;
}

// The host MPI does not tell which of these ranks is missing.
void SliceExchange::complain_of_missing() {
  const int seconds = report_timer_.due();
  if (seconds == 0) return;
  std::vector<int> ranks;
  for (int node = 0; node < hierarchy_.nodes(); ++node) {
    if (node == hierarchy_.my_node()) continue;
    ranks.push_back(hierarchy_.members(node)[static_cast<size_t>(hierarchy_.my_local_rank())]);
  }
  log_line(LogLevel::warn,
           "a collective between %d nodes has been waiting for %d s; not arrived yet: some of %s in its "
           "communicator, or of the others in their nodes",
           hierarchy_.nodes(), seconds, ranks_in_words(ranks).c_str());
}

int SliceExchange::finish(MPI_Status* status) {
  set_empty(status);
  return error_;
}

void SliceExchange::describe(MPI_Status* status) {
  set_empty(status);
}

}  // namespace fairlead::mpi
