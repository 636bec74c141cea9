// SPDX-License-Identifier: Apache-2.0

#include "mpi/stream/stream_collective.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/options.h"
#include "device/blocking_driver_calls.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "device/copies/copy.h"
#include "kernels/kernel_run.h"
#include "mpi/abi/host_support.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/argument_check.h"
#include "mpi/core/engine.h"
#include "mpi/core/error_handler.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"
#include "mpi/failures/failures.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/stream/cells.h"
#include "observe/statistics.h"
#include "transport/peer.h"

namespace fairlead::mpi {

using device::Error;
using kernels::Element;
using kernels::ReduceOp;

namespace {

constexpr unsigned blocks_at_most = 64;
static_assert(blocks_at_most <= kernels::exchange_units && coll::max_members <= blocks_at_most);

// The reductions that run in streams. Their kernels are loaded when the communicator is made, because loading
// waits for all streams, so these are the common ones.
constexpr ReduceOp ops[] = {ReduceOp::sum,  ReduceOp::prod, ReduceOp::min,  ReduceOp::max,
                            ReduceOp::land, ReduceOp::lor,  ReduceOp::band, ReduceOp::bor};
constexpr Element elements[] = {Element::int32,   Element::uint32,   Element::int64,   Element::uint64,
                                Element::float16, Element::bfloat16, Element::float32, Element::float64};
static_assert(std::size(ops) * std::size(elements) <= 64);

// 0: not in the table.
uint64_t bit_of(ReduceOp op, Element element) {
  const auto row = std::ranges::find(ops, op) - ops, column = std::ranges::find(elements, element) - elements;
  if (row == std::ssize(ops) || column == std::ssize(elements)) return 0;
  return uint64_t{1} << (row * std::ssize(elements) + column);
}

// While a device has work, its kernels cannot be loaded; the program's may end soon.
bool kernels_available(int device) {
  constexpr std::chrono::milliseconds patience{20};
  const auto start = std::chrono::steady_clock::now();
  while (!kernels::copies_available(device) || !kernels::meet_available(device)) {
    if (std::chrono::steady_clock::now() - start > patience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

uint64_t available_reductions(int device) {
  uint64_t found = 0;
  for (ReduceOp op : ops)
    for (Element element : elements)
      if (kernels::has_kernel(op, element) && kernels::reduce_available(device, op, element))
        found |= bit_of(op, element);
  return found;
}

}  // namespace

char* StreamCollective::place(char* scratch, int which) const {
  return scratch + kernels::exchange_header_bytes + kernels::meet_slots_bytes(ranks_, slot_bytes_) +
         which * most_;
}

// ---- What ranks do in each function --------------------------------------------------------------------

// Valid arguments give the same on all ranks.
bool StreamCollective::takes(const CollectiveCall& call) const {
  const CollectiveShape& shape = call.shape();
  if (call.root < 0 || call.root >= ranks_) return false;
  if (shape.sent == Blocks::none) return true;
  if (!shape.is_even()) return false;
  if (call.sendtype != MPI_DATATYPE_NULL && !call.in_place() && is_refused(call.sendcount, call.sendtype))
    return false;
  if (is_invalid(call.recvcount, call.recvtype) || is_refused(call.recvcount, call.recvtype)) return false;
  const auto unit = static_cast<uint64_t>(packed_bytes(call.recvcount, call.recvtype));
  if (unit == 0 || unit > most_ / (shape.has_a_block_for_each() ? ranks_ : 1)) return false;
  ReduceOp op;
  Element element;
  return !shape.reduces() ||
         (kernel_for(call.op, call.recvtype, &op, &element) && reductions_ & bit_of(op, element));
}

bool StreamCollective::is_direct(Buffer* buffer) const {
  if (buffer->bytes == 0) return true;
  if (!layout_of(buffer->count, buffer->datatype).contiguous) return false;
  const device::Allocation memory = device::classify(buffer->address);
  const bool direct = memory.kind == device::MemoryKind::device && memory.device == device_;
  if (direct) buffer->memory = memory.id;
  return direct;
}

// ---- The work in the stream ----------------------------------------------------------------------------

Error StreamCollective::run(device::Stream stream, const Plan& plan, Tells tells) const {
  uint64_t* const flag = tells == Tells::end ? passed_for_kernels_ : nullptr;
  if (is_in_parts(plan)) return run_in_parts(stream, plan, flag);
  const bool meets = this->meets(plan);
  const kernels::Meet meet = meets ? meeting(plan, flag) : kernels::Meet{};
  Error error = meets ? kernels::launch_meet(device_, stream, meet, true) : give(stream, plan);
  if (error == Error::none) error = wait(stream);
  if (error != Error::none) return error;
  return meets ? kernels::launch_meet(device_, stream, meet, false) : take(stream, plan, flag);
}

// The same on all ranks: the blocks have one length, and the reductions are common.
bool StreamCollective::meets(const Plan& plan) const {
  return !plan.by_blocks && plan.unit <= kernels::meet_block_bytes(slot_bytes_) &&
         (!plan.shape->reduces() || kernels::meets(plan.op, plan.element));
}

kernels::Meet StreamCollective::meeting(const Plan& plan, uint64_t* flag) const {
  kernels::Meet meet{scratches_.data(), me_, ranks_, slot_bytes_};
  meet.input = plan.unit && plan.input_bytes ? plan.input : nullptr;
  meet.result = plan.unit ? plan.result : nullptr;
  set_blocks(*plan.shape, plan.root, ranks_, plan.unit, &meet);
  meet.op = plan.op;
  meet.element = plan.element;
  meet.flag = flag;
  return meet;
}

Error StreamCollective::give(device::Stream stream, const Plan& plan) const {
  const kernels::Exchange exchange{&header()->turn[0], &header()->turn[1], most_,
                                   given_.data(),      given_.size(),      true};
  const device::CopyItem input{place(scratch_, 0), plan.input, plan.input_bytes};
  const device::CopyItem* items = plan.by_blocks ? plan.given.data() : &input;
  const size_t count = plan.by_blocks ? plan.given.size() : plan.input_bytes > 0;
  // The last block of each item may be shorter, which takes one more in all than there are to share.
  const unsigned blocks = blocks_at_most - (count > 1 ? static_cast<unsigned>(count) - 1 : 0);
  return kernels::launch_copies(device_, stream, items, count, blocks, {}, &exchange);
}

kernels::Exchange StreamCollective::taking() const {
  return {&header()->turn[1], &header()->turn[0], most_, taken_.data(), taken_.size(), false};
}

Error StreamCollective::wait(device::Stream stream) const {
  return device::runtime()->access_words(stream, waits_.data(), waits_.size());
}

// A part of the inputs of all ranks.
Error StreamCollective::reduce(device::Stream stream, const Plan& plan, const Span& part, void* result,
                               const kernels::Signal& signal) const {
  const kernels::Exchange exchange = taking();
  const void* from[coll::max_members];
  for (int rank = 0; rank < ranks_; ++rank)
    from[rank] = place(scratches_[static_cast<size_t>(rank)], 0) + part.first;
  return kernels::launch_reduce(device_, stream, plan.op, plan.element, from, ranks_, &result, 1,
                                part.bytes / kernels::element_bytes(plan.element), blocks_at_most, signal,
                                nullptr, &exchange);
}

Error StreamCollective::take(device::Stream stream, const Plan& plan, uint64_t* flag) const {
  const kernels::Exchange exchange = taking();
  const kernels::Signal signal{&header()->counter, flag};
  if (plan.by_blocks)
    return kernels::launch_copies(device_, stream, plan.taken.data(), plan.taken.size(), blocks_at_most,
                                  signal, &exchange);
  const CollectiveShape& shape = *plan.shape;
  const uint64_t mine = is_for_each(shape.sent) ? plan.unit * static_cast<uint64_t>(me_) : 0;
  auto source = [&](int rank) { return place(scratches_[static_cast<size_t>(rank)], 0) + mine; };
  if (shape.reduces() && plan.result) return reduce(stream, plan, {mine, plan.unit}, plan.result, signal);
  device::CopyItem items[coll::max_members];
  size_t count = 0;
  for (int rank = 0; rank < ranks_ && plan.result && plan.unit; ++rank)
    if (is_among(shape.gives, rank == plan.root))
      items[count++] = {
          static_cast<char*>(plan.result) + (is_for_each(shape.received) ? plan.unit * rank : 0),
          source(rank), plan.unit};
  return kernels::launch_copies(device_, stream, items, count, blocks_at_most, signal, &exchange);
}

// Where each rank would read the whole input of a rank, or of all: the same on all ranks.
bool StreamCollective::is_in_parts(const Plan& plan) const {
  // What it saves has to pass a link in more time than three further steps of the stream take.
  constexpr uint64_t worth_it = 4 << 20;
  if (plan.by_blocks || plan.shape->has_a_block_for_each()) return false;
  const auto ranks = static_cast<uint64_t>(ranks_);
  return plan.unit / ranks * (ranks - 1) * (ranks - 2) >= worth_it;
}

StreamCollective::Span StreamCollective::part_of(const Plan& plan, int rank) const {
  const auto ranks = static_cast<uint64_t>(ranks_);
  const uint64_t most = (plan.unit + ranks * granule - 1) / (ranks * granule) * granule;
  const uint64_t first = std::min(plan.unit, most * static_cast<uint64_t>(rank));
  return {first, std::min(most, plan.unit - first)};
}

// Two calls: each rank makes its part of the result, and gets those of the others.
Error StreamCollective::run_in_parts(device::Stream stream, const Plan& plan, uint64_t* flag) const {
  const kernels::Exchange exchange = taking();
  const Span mine = part_of(plan, me_);
  void* const part = (plan.result ? static_cast<char*>(plan.result) : moved()) + mine.first;
  const auto place_of = [&](int rank) { return place(scratches_[static_cast<size_t>(rank)], 0); };

  Error error = give(stream, plan);
  if (error == Error::none) error = wait(stream);
  if (error != Error::none) return error;
  if (plan.shape->reduces()) {
    error = reduce(stream, plan, mine, part, {});
  } else {
    const device::CopyItem item{part, place_of(plan.root) + mine.first, mine.bytes};
    error = kernels::launch_copies(device_, stream, &item, 1, blocks_at_most, {}, &exchange);
  }
  if (error != Error::none) return error;

  Plan parts = plan;
  parts.input = part;
  parts.input_bytes = mine.bytes;
  error = give(stream, parts);
  if (error == Error::none) error = wait(stream);
  if (error != Error::none) return error;
  device::CopyItem items[coll::max_members];
  size_t count = 0;
  for (int rank = 0; rank < ranks_ && plan.result; ++rank)
    if (const Span theirs = part_of(plan, rank); rank != me_)
      items[count++] = {static_cast<char*>(plan.result) + theirs.first, place_of(rank), theirs.bytes};
  return kernels::launch_copies(device_, stream, items, count, blocks_at_most, {&header()->counter, flag},
                                &exchange);
}

// A local collective: the only nonblocking function of MPI that moves bytes between two layouts.
EnqueuedWork StreamCollective::moving(const Buffer& from, const Buffer& to) const {
  return {[=, self = self_, from_type = std::make_shared<KeptType>(from.datatype),
           to_type = std::make_shared<KeptType>(to.datatype)](MPI_Request* request) {
    return MPI_Ialltoall(from.address, static_cast<int>(from.count), from_type->get(), to.address,
                         static_cast<int>(to.count), to_type->get(), self, request);
  }};
}

StreamCollective::Buffer StreamCollective::packed(char* address, uint64_t bytes) {
  return {{address, static_cast<MPI_Count>(bytes), MPI_BYTE, bytes}};
}

std::optional<int> StreamCollective::enqueue(const CollectiveCall& call, const ByCpu& by_cpu) {
  // Of a call that was enqueued in part the others do not know, so this rank gives nothing any more.
  if (broken_) return raise_error(call.comm, MPI_ERR_OTHER, "an enqueued collective after one that failed");
  const CollectiveShape& shape = call.shape();
  if (!shape.knows_lengths()) return enqueue_blocks(call, by_cpu);
  if (!takes(call)) return std::nullopt;
  const uint64_t unit =
      shape.sent == Blocks::none ? 0 : static_cast<uint64_t>(packed_bytes(call.recvcount, call.recvtype));
  Buffer input, result;
  if (unit && gives(call, position_)) input = {input_of(call, position_, unit)};
  if (unit && gets(call, position_)) result = {result_of(call, position_, unit)};
  const bool input_moves = !is_direct(&input), result_moves = !is_direct(&result);

  Plan plan{&shape, call.root, input_moves ? moved() : input.address, input.bytes, unit};
  plan.result = result_moves ? moved() : result.address;
  plan.memory[0] = input.memory;
  plan.memory[1] = result.memory;
  if (shape.reduces()) kernel_for(call.op, call.recvtype, &plan.op, &plan.element);

  std::vector<EnqueuedWork> before, after;
  if (input_moves) before.push_back(moving(input, packed(moved(), input.bytes)));
  if (result_moves) after.push_back(moving(packed(moved(), result.bytes), result));
  const int error = submit(plan, call.comm, by_cpu, std::move(before), std::move(after));
  if (error == MPI_SUCCESS) count(Traffic::collective_in_stream, std::max(input.bytes, result.bytes));
  return error;
}

int StreamCollective::submit(const Plan& plan, MPI_Comm comm, const ByCpu& by_cpu,
                             std::vector<EnqueuedWork> before, std::vector<EnqueuedWork> after) {
  begin_enqueuing();
  int mpi_error = before.empty() ? MPI_SUCCESS : by_cpu(std::move(before));
  Error error = Error::none;
  if (mpi_error == MPI_SUCCESS)
    error = stream_->submit([&](device::Stream stream, bool in_graph) {
      forbid_waiting_calls(in_graph);
      const device::Graph graph =
          in_graph ? nullptr : recorded_.find(plan, stream_->recording(), [&](device::Stream recording) {
            return run(recording, plan, Tells::end);
          });
      const Error state = graph ? device::runtime()->launch_graph(graph, stream)
                                : run(stream, plan, in_graph ? Tells::nothing : Tells::end);
      if (state == Error::none && !in_graph) number_ += is_in_parts(plan) ? 2 : 1;
      return state;
    });
  if (error == Error::none && mpi_error == MPI_SUCCESS && !after.empty())
    mpi_error = by_cpu(std::move(after));
  end_enqueuing();
  if (error == Error::none) return mpi_error;
  broken_ = true;
  log_line(LogLevel::error, "a collective cannot be enqueued: %s %s", device::to_string(error),
           device::runtime()->error_text());
  return raise_error(comm, MPI_ERR_OTHER, "an enqueued collective");
}

// ---- Its end -------------------------------------------------------------------------------------------

void StreamCollective::begin_enqueuing() {
  std::lock_guard lock(mutex_);
  ++enqueuing_;
}

void StreamCollective::end_enqueuing() {
  std::lock_guard lock(mutex_);
  --enqueuing_;
}

// The stream may wait for peers, which may wait for this process. Nobody knows when a graph is launched, nor,
// once calls are in graphs, when the stream has passed the others: then those count as if they were in one.
void StreamCollective::forbid_waiting_calls(bool captured) {
  std::lock_guard lock(mutex_);
  if (captured && !in_graphs_.exchange(true)) {
    device::BlockingDriverCalls::add_graph_wait();
    if (std::exchange(forbids_, false)) device::BlockingDriverCalls::allow();
  }
  if (!in_graphs_ && !std::exchange(forbids_, true)) device::BlockingDriverCalls::exclude();
}

void StreamCollective::permit_waiting_calls() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && enqueuing_ == 0 && forbids_ && ended() && std::exchange(forbids_, false))
    device::BlockingDriverCalls::allow();
}

bool StreamCollective::ended() const {
  if (broken_) return true;
  if (in_graphs_) return stream_->is_idle();
  const uint64_t passed = std::atomic_ref<uint64_t>(*passed_).load(std::memory_order_acquire);
  return static_cast<int32_t>(static_cast<uint32_t>(passed) - number_) >= 0;
}

// The copy may have to wait, and nobody knows for how long, so it is left alone after a while.
void StreamCollective::abandon() {
  // The host MPI ends it: other ranks may come to theirs in another order.
  messages_ = MPI_COMM_NULL;
  if (ended()) return;
  static constexpr auto enough = [] {
    std::array<uint32_t, coll::max_members> words{};
    words.fill(kernels::waits_are_lifted);
    return words;
  }();
  auto* copy = new device::Copy;
  bool copying = copy->start(device_, header()->given, enough.data(), sizeof enough) == Error::none;
  constexpr std::chrono::seconds patience{1};
  for (const auto start = std::chrono::steady_clock::now();
       !ended() && std::chrono::steady_clock::now() - start < patience;
       std::this_thread::sleep_for(std::chrono::microseconds(50)))
    if (copying) copying = copy->poll() == Error::not_ready;
  if (ended())
    delete copy;
  else
    broken_ = true;
}

StreamCollective::~StreamCollective() {
  if (forbids_) device::BlockingDriverCalls::allow();
  if (in_graphs_) device::BlockingDriverCalls::remove_graph_wait();
  for (MPI_Comm* comm : {&self_, &messages_}) free_own(comm);
  // The stream may still use all this.
  if (broken_) {
    for (device::MappedMemory& mapped : mapped_) new device::MappedMemory(std::move(mapped));
    recorded_.leave();
    return;
  }
  if (scratch_) device::pool_free(scratch_);
  give_back_cell(passed_);
}

// ---- How the ranks agree -------------------------------------------------------------------------------

// What a rank tells the others.
struct StreamCollective::Offer {
  const char* why_not;  // null: it can take part; means nothing to others
  int32_t device;
  device::DeviceInfo info;
  uint64_t most, reductions;
  device::RemoteMemory scratch;
  int8_t blocks;                  // that it sends to or receives from its neighbours; -1: too many
  int8_t sends;                   // of these, those that it sends,
  int8_t out[coll::max_members];  // and the ranks that get them
};
static_assert(coll::max_members <= 127);

void StreamCollective::prepare(MPI_Comm comm, Offer* offer) {
  const std::shared_ptr<CommunicatorState> state = communicator_state_of(comm);
  node::Node* node = engine().node();
  node_ranks_ = state->node_ranks();
  auto cannot = [&](const char* why) { offer->why_not = why; };
  const bool together = node_ranks_.size() == static_cast<size_t>(ranks_) &&
                        std::ranges::all_of(node_ranks_, [](int rank) { return rank >= 0; });
  const auto limit = static_cast<uint64_t>(options().stream_collective_limit);
  slot_bytes_ = kernels::meet_slot_bytes(ranks_);
  if (!node || !together) return cannot("not all ranks are on this node");
  if (!options().ipc || limit < granule) return cannot("it is switched off");
  if (!kernels_available(device_)) return cannot("no kernel can be loaded now");
  if (device::runtime()->device_info(device_, &offer->info) != Error::none)
    return cannot("its GPU is not known");
  offer->device = device_;
  offer->reductions = available_reductions(device_);
  const Neighbors& neighbors = position_.neighbors;
  const size_t blocks = std::max(neighbors.in.size(), neighbors.out.size());
  offer->blocks = blocks <= coll::max_members ? static_cast<int8_t>(blocks) : -1;
  for (size_t i = 0; offer->blocks > 0 && i < neighbors.out.size(); ++i)
    offer->out[offer->sends++] = static_cast<int8_t>(neighbors.out[i]);
  const size_t used_at_once = kernels::exchange_header_bytes + kernels::meet_slots_bytes(ranks_, slot_bytes_);
  // Others need the pool, too.
  const size_t room = device::pool_room(device_) / 2;
  most_ = std::min(limit, (room - std::min(room, used_at_once)) / places) / granule * granule;
  offer->most = most_;
  const size_t bytes = used_at_once + places * most_;
  passed_ = take_cell(device_);
  passed_for_kernels_ =
      static_cast<uint64_t*>(passed_ ? device::runtime()->address_for_kernels(device_, passed_) : nullptr);
  if (!most_ || !passed_for_kernels_) return cannot("the buffer pool has no memory for it");
  std::lock_guard lock(engine().mutex());
  scratch_ = static_cast<char*>(transport::make_scratch(*node, node_ranks_, device_, bytes, used_at_once,
                                                        &offer->scratch, &offer->why_not));
}

const char* StreamCollective::join(const std::vector<Offer>& offers) {
  node::Node* node = engine().node();
  const auto count = static_cast<size_t>(ranks_);
  for (const Offer& offer : offers) most_ = std::min(most_, offer.most), reductions_ &= offer.reductions;
  scratches_.resize(count);
  mapped_.resize(count);
  for (size_t rank = 0; rank < count; ++rank) {
    scratches_[rank] = scratch_;
    if (static_cast<int>(rank) == me_) continue;
    std::lock_guard lock(engine().mutex());
    if (!transport::reach_from(*node, node_ranks_[rank], offers[rank].device, device_, offers[rank].scratch,
                               &mapped_[rank]))
      return "a GPU cannot access the memory of another one";
    if (!device::runtime()->has_peer_atomics(device_, offers[rank].info))
      return "two GPUs have no atomic operations on each other's memory, or do not see each other";
    scratches_[rank] = static_cast<char*>(mapped_[rank].address());
    given_.push_back(&reinterpret_cast<kernels::ExchangeHeader*>(scratches_[rank])->given[me_]);
    taken_.push_back(&header()->given[rank]);
    waits_.push_back({true, taken_.back(), kernels::exchange_units});
  }
  connect(offers);
  return nullptr;
}

void StreamCollective::connect(const std::vector<Offer>& offers) {
  auto most = [&](int blocks) { return most_ / static_cast<uint64_t>(blocks) / granule * granule; };
  for (int rank = 0; rank < ranks_; ++rank) {
    to_all_.out.push_back(rank);
    to_all_.in.push_back({rank, me_});
  }
  to_all_.most = most(ranks_);
  int least = 0, blocks = 0;
  for (const Offer& offer : offers) {
    least = std::min<int>(least, offer.blocks);
    blocks = std::max<int>(blocks, offer.blocks);
  }
  if (least < 0 || blocks == 0) return;
  to_neighbors_.out = position_.neighbors.out;
  for (const auto& [rank, message] : position_.neighbors.in) {
    int number = 0;
    if (rank != MPI_PROC_NULL) {
      const Offer& offer = offers[static_cast<size_t>(rank)];
      for (int left = message; number < offer.sends && (offer.out[number] != me_ || left-- > 0);) ++number;
      // In a graph of MPI_Graph_create() a rank may name a neighbour that does not name it.
      if (number == offer.sends) return;
    }
    to_neighbors_.in.push_back({rank, number});
  }
  to_neighbors_.most = most(blocks);
}

std::unique_ptr<StreamCollective> StreamCollective::make(MPI_Comm comm, std::shared_ptr<GpuStream> stream) {
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  auto made = std::unique_ptr<StreamCollective>(new StreamCollective);
  PMPI_Comm_size(comm, &made->ranks_);
  PMPI_Comm_rank(comm, &made->me_);
  if (inter || made->ranks_ > coll::max_members) return nullptr;
  made->position_ = position_in(comm);
  made->device_ = stream->device();
  made->stream_ = std::move(stream);
  Offer mine{};
  made->prepare(comm, &mine);
  made->reductions_ = mine.reductions;
  std::vector<Offer> offers(static_cast<size_t>(made->ranks_));
  real.Allgather(&mine, sizeof mine, MPI_BYTE, offers.data(), sizeof mine, MPI_BYTE, comm);
  const bool all = std::ranges::all_of(offers, [](const Offer& offer) { return !offer.why_not; });
  if (all) mine.why_not = made->join(offers);
  int possible[] = {all && !mine.why_not, made->to_neighbors_.most > 0}, everywhere[2] = {};
  real.Allreduce(possible, everywhere, 2, MPI_INT, MPI_MIN, comm);
  if (!everywhere[1]) made->to_neighbors_.most = 0;
  if (everywhere[0]) {
    // Not by MPI_Comm_dup, which copies the program's attributes and assertions, too.
    const auto split = [](MPI_Comm parent, MPI_Comm* part) {
      return adopt(real.Comm_split(parent, 0, 0, part), part) == MPI_SUCCESS;
    };
    const bool made_both = split(MPI_COMM_SELF, &made->self_) && split(comm, &made->messages_);
    possible[0] = made_both;
    real.Allreduce(possible, everywhere, 1, MPI_INT, MPI_MIN, comm);
    if (everywhere[0]) return made;
    mine.why_not = "MPI has no communicator for it";
  }
  static std::atomic<const char*> told = nullptr;
  if (mine.why_not && told.exchange(mine.why_not) != mine.why_not)
    log_line(LogLevel::info,
             "collectives do not run in the streams of communicators, but are started by the CPU: %s",
             mine.why_not);
  return nullptr;
}

}  // namespace fairlead::mpi
