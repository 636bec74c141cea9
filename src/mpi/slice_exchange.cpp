// SPDX-License-Identifier: Apache-2.0

#include "mpi/slice_exchange.h"

#include <algorithm>

#include "base/log.h"
#include "device/classify.h"
#include "kernels/parameters.h"
#include "mpi/reduction_types.h"
#include "mpi/request.h"

namespace fairlead::mpi {
namespace {

// Elements that are not taken apart: whole cache lines of every type.
constexpr uint64_t part_grain = 256;

// Can kernels on this device read and write the buffers?
bool kernels_reach(int device, std::initializer_list<const device::PinnedBuffer*> buffers) {
  return coll::kernels_run_on(device) &&
         std::all_of(buffers.begin(), buffers.end(), [](auto* buffer) { return buffer->pinned(); });
}

}  // namespace

SliceExchange::SliceExchange(Levels& levels, const Slice& slice)
    : Operation(levels.spreading.comm),
      levels_(levels),
      slice_(slice),
      slice_copy_(slice.bytes),
      parts_(is_reduction() ? levels.nodes() * part_bytes(levels.my_node()) : 0) {
  spreading_turn_ = levels_.spreading.turns.take();
  if (is_reduction()) collecting_turn_ = levels_.collecting.turns.take();
}

uint64_t SliceExchange::element_bytes() const {
  MPI_Count size = 0;
  PMPI_Type_size_x(slice_.datatype, &size);
  return static_cast<uint64_t>(size);
}

// Equal parts of whole elements, the last ones shorter.
uint64_t SliceExchange::part_begin(int node) const {
  uint64_t grain = part_grain * element_bytes(), nodes = static_cast<uint64_t>(levels_.nodes());
  uint64_t part = (slice_.bytes / nodes / grain + 1) * grain;
  return std::min(static_cast<uint64_t>(node) * part, slice_.bytes);
}

int SliceExchange::start() {
  if (!slice_copy_.data() || (is_reduction() && part_bytes(levels_.my_node()) && !parts_.data()))
    return MPI_ERR_NO_MEM;
  std::lock_guard lock(engine().mutex());
  begin();
  step_ = Step::leaving;
  error_ = MPI_SUCCESS;
  if (is_reduction() || is_root())
    note(copy_.start(device::device_at(slice_.from), slice_copy_.data(), slice_.from, slice_.bytes));
  advance();
  return MPI_SUCCESS;
}

void SliceExchange::advance() {
  while (step()) {
  }
}

// Makes one step if that is possible now. After an error, too: the other nodes count on it.
bool SliceExchange::step() {
  switch (step_) {
    case Step::leaving:
      if (!note(copy_.poll())) return false;
      step_ = Step::before_spreading;
      return true;
    case Step::before_spreading:
      if (!levels_.spreading.turns.has_come(spreading_turn_)) return false;
      note_host(spread());
      levels_.spreading.turns.pass();
      step_ = Step::spreading;
      return true;
    case Step::spreading:
      if (!arrived()) return false;
      if (is_reduction()) reduce();
      step_ = is_reduction() ? Step::reducing : Step::collecting;
      return true;
    case Step::reducing:
      if (!note(kernel_.poll())) return false;
      step_ = Step::before_collecting;
      return true;
    case Step::before_collecting:
      if (!levels_.collecting.turns.has_come(collecting_turn_)) return false;
      note_host(collect());
      levels_.collecting.turns.pass();
      step_ = Step::collecting;
      return true;
    case Step::collecting:
      if (!arrived()) return false;
      if (wants_result())
        note(copy_.start(device::device_at(slice_.to), slice_.to, slice_copy_.data(), slice_.bytes));
      step_ = Step::landing;
      return true;
    case Step::landing:
      if (!note(copy_.poll())) return false;
      step_ = Step::over;
      complete_.store(true, std::memory_order_release);
      return false;
    case Step::over:
      return false;
  }
  return false;
}

// MPI_Bcast from the root node; else each node gets its part from all.
int SliceExchange::spread() {
  MPI_Comm comm = levels_.spreading.comm;
  if (!is_reduction())
    return real.Ibcast(slice_copy_.data(), static_cast<int>(slice_.bytes), MPI_BYTE, slice_.root_node, comm,
                       &message_);
  int mine = static_cast<int>(part_bytes(levels_.my_node()));
  for (int node = 0; node < levels_.nodes(); ++node) {
    counts_.push_back(static_cast<int>(part_bytes(node)));
    offsets_.push_back(static_cast<int>(part_begin(node)));
    arriving_counts_.push_back(mine);
    arriving_offsets_.push_back(node * mine);
  }
  return real.Ialltoallv(slice_copy_.data(), counts_.data(), offsets_.data(), MPI_BYTE, parts_.data(),
                         arriving_counts_.data(), arriving_offsets_.data(), MPI_BYTE, comm, &message_);
}

// The parts of all nodes, in their order, to the place of this node's part in the slice.
void SliceExchange::reduce() {
  uint64_t bytes = part_bytes(levels_.my_node()), count = bytes / element_bytes();
  if (count == 0) return;
  unsigned char* to = slice_copy_.data() + part_begin(levels_.my_node());
  int nodes = levels_.nodes(),
      device = std::max(device::device_at(slice_.from), device::device_at(slice_.to));
  kernels::ReduceOp op;
  kernels::Element element;
  if (nodes <= static_cast<int>(kernels::reduce_buffers) && kernels_reach(device, {&slice_copy_, &parts_}) &&
      kernel_for(slice_.op, slice_.datatype, &op, &element)) {
    std::vector<const void*> from;
    for (int node = 0; node < nodes; ++node)
      from.push_back(parts_.data() + static_cast<uint64_t>(node) * bytes);
    void* target = to;
    if (kernel_.reduce(device, op, element, from.data(), nodes, &target, 1, count) == device::Error::none)
      return;
  }
  std::copy_n(parts_.data(), bytes, to);
  for (int node = 1; node < nodes; ++node)
    note_host(real.Reduce_local(parts_.data() + static_cast<uint64_t>(node) * bytes, to,
                                static_cast<int>(count), slice_.datatype, slice_.op));
}

int SliceExchange::collect() {
  MPI_Comm comm = levels_.collecting.comm;
  unsigned char* slice = slice_copy_.data();
  if (slice_.kind == ExchangeKind::allreduce)
    return real.Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, slice, counts_.data(), offsets_.data(), MPI_BYTE, comm,
                            &message_);
  const void* own = is_root() ? MPI_IN_PLACE : slice + part_begin(levels_.my_node());
  return real.Igatherv(own, static_cast<int>(part_bytes(levels_.my_node())), MPI_BYTE, slice, counts_.data(),
                       offsets_.data(), MPI_BYTE, slice_.root_node, comm, &message_);
}

// Is it over?
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

// Is what the host MPI was given last over?
bool SliceExchange::arrived() {
  if (message_ == MPI_REQUEST_NULL) return true;
  int here = 0;
  int result = real.Test(&message_, &here, MPI_STATUS_IGNORE);
  note_host(result);
  return here || result != MPI_SUCCESS;
}

int SliceExchange::finish(MPI_Status* status) {
  set_empty(status);
  return error_;
}

void SliceExchange::describe(MPI_Status* status) {
  set_empty(status);
}

}  // namespace fairlead::mpi
