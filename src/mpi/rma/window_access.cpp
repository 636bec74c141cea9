// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/window_access.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/request.h"
#include "mpi/core/stream_check.h"
#include "mpi/datatype/reduction_types.h"
#include "mpi/datatype/type_origin.h"
#include "mpi/network/network.h"
#include "rma/dead_owner.h"

namespace fairlead::mpi {

using device::Error;
using rma::Combination;
using rma::Outcome;
using rma::Request;

// ---- Buffers of the program ----------------------------------------------------------------------------

bool OriginBuffer::open(const void* address, MPI_Count count, MPI_Datatype datatype, bool written) {
  layout_ = layout_of(count, datatype);
  if (layout_.bytes == 0) return true;
  void* user = const_cast<void*>(address);
  const void* first = first_data_byte(address, layout_);
  const device::Allocation memory =
      device::certainly_host(first) ? device::Allocation{} : device::classify(first);
  const bool on_device = memory.kind == device::MemoryKind::device;
  buffer_.device = on_device ? memory.device : -1;
  check_streams(buffer_.device, written ? BufferUse::received : BufferUse::sent);
  if (layout_.contiguous) {
    buffer_.view = {user, bytes()};
    return true;
  }
  if (layout_.plan) {
    buffer_.view = layout_.view(address);
    buffer_.by_blocks = on_device && !kernel_view(address, layout_, memory);
    return true;
  }
  packed_ = HostBuffer(bytes());
  if (!packed_.data()) return false;
  bool packed = true;
  if (written) {
    unpacked_ = {user, count, datatype};
    kept_.emplace(datatype, layout_);
  } else if (on_device) {
    packed = pack_from_device(address, count, datatype, layout_, memory.device, &packed_);
  } else {
    packed = pack_host(address, count, datatype, packed_.data(), layout_.bytes);
  }
  buffer_ = rma::host_buffer(packed_.data(), bytes());
  return packed;
}

bool OriginBuffer::finish() {
  if (!kept_) return true;
  const int device = device::device_at(first_data_byte(unpacked_.address, layout_));
  const bool done = device >= 0 ? unpack_to_device(packed_.data(), layout_.bytes, unpacked_.address,
                                                   unpacked_.count, kept_->get(), layout_, device)
                                : unpack_host(packed_.data(), layout_.bytes, unpacked_.address,
                                              unpacked_.count, kept_->get(), layout_);
  kept_.reset();
  return done;
}

// ---- Operations ------------------------------------------------------------------------------------------

namespace {

// The first component type that contributes bytes. Only structures have several component types, and some of
// those may contribute none.
MPI_Datatype part_of(const TypeContents& made) {
  const std::vector<MPI_Datatype>& types = made.types();
  for (size_t part = 0; types.size() > 1 && part < types.size(); ++part)
    if (made.number(1 + part) > 0 && packed_bytes(1, types[part]) > 0) return types[part];
  return types.front();
}

}  // namespace

MPI_Datatype element_of(MPI_Datatype datatype) {
  if (is_plain(datatype)) return datatype;
  TypeContents made(datatype);
  return made.combiner() == MPI_COMBINER_NAMED || made.types().empty() ? datatype : element_of(part_of(made));
}

bool combination_of(MPI_Op op, MPI_Datatype element, Combination* combination) {
  combination->element_bytes = static_cast<uint64_t>(packed_bytes(1, element));
  combination->extent = static_cast<uint64_t>(extent_of(element));
  if (combination->element_bytes == 0) return false;
  if (combination->extent != combination->element_bytes) combination->element = plan_of(element);
  combination->kind = op == MPI_REPLACE ? Combination::Kind::replace
                      : op == MPI_NO_OP ? Combination::Kind::none
                                        : Combination::Kind::combine;
  if (combination->kind != Combination::Kind::combine) return true;
  if (!is_allowed(op, element)) return false;
  combination->has_kernel = kernel_for(op, element, &combination->kernel_op, &combination->kernel_element);
  combination->on_host = [op, element](const void* from, void* into, uint64_t count) {
    constexpr uint64_t at_once = 1 << 24;
    const auto extent = static_cast<uint64_t>(extent_of(element));
    for (uint64_t at = 0; at < count; at += at_once) {
      const int some = static_cast<int>(std::min(at_once, count - at));
      if (real.Reduce_local(static_cast<const char*>(from) + at * extent,
                            static_cast<char*>(into) + at * extent, some, element, op) != MPI_SUCCESS)
        return false;
    }
    return true;
  };
  return true;
}

bool take_accumulate_lock(rma::AccumulateLock& accumulate_lock) {
  const uint64_t me = static_cast<uint64_t>(getpid());
  rma::DeadOwnerDetector detector;
  for (Backoff backoff; !accumulate_lock.take(me); backoff.pause()) {
    if (detector.owner_died(accumulate_lock)) return false;
    engine().progress();
  }
  return true;
}

// ---- Accesses ----------------------------------------------------------------------------------------

namespace {

// The number that identifies a predefined handle on all ranks.
#if defined(MPI_ABI_VERSION)
template <class Handle>
int number_of(Handle handle) {
  return static_cast<int>(reinterpret_cast<intptr_t>(handle));
}
int number_of_type(MPI_Datatype type) {
  return number_of(type);
}
int number_of_op(MPI_Op op) {
  return number_of(op);
}
#else
int number_of_type(MPI_Datatype type) {
  return PMPI_Type_c2f(type);
}
int number_of_op(MPI_Op op) {
  return PMPI_Op_c2f(op);
}
#endif

// Computes where the buffer begins, in bytes. False on overflow.
bool displace(MPI_Aint disp, int64_t unit, const Layout& layout, int64_t* at) {
  int64_t low, high;
  return !__builtin_mul_overflow(int64_t{disp}, unit, at) &&
         !__builtin_add_overflow(*at, layout.first, &low) && !__builtin_add_overflow(low, layout.span, &high);
}

}  // namespace

int Access::make(const AccessCall& call, const Window& window, std::shared_ptr<Access>* made) {
  auto access = std::make_shared<Access>();
  access->record_.begin();
  access->kind_ = call.kind;
  access->target_ = call.target_rank;
  access->in_request_ = call.request != nullptr;
  access->layout_ = layout_of(call.target_count, call.target_datatype);
  const Layout& layout = access->layout_;
  access->bytes_ = static_cast<uint64_t>(layout.bytes);
  if (!layout.contiguous && !layout.plan) {
    log_line(LogLevel::error, "the layout of the target's datatype has too many blocks, or is not known");
    return MPI_ERR_TYPE;
  }
  const Target& target = window.target(call.target_rank);
  const int64_t unit = window.dynamic() ? 1 : target.disp_unit;
  const bool somewhere = displace(call.target_disp, unit, layout, &access->at_target_);
  if (access->bytes_ > 0 &&
      (!somewhere || (!window.dynamic() && (access->low() < 0 || access->high() > target.size))))
    return MPI_ERR_RMA_RANGE;
  if (call.reads() && !access->origin_.open(call.origin_addr, call.origin_count, call.origin_datatype, false))
    return MPI_ERR_OTHER;
  if (call.writes() && !access->result_.open(call.result_addr, call.result_count, call.result_datatype, true))
    return MPI_ERR_OTHER;
  if ((call.reads() && access->origin_.bytes() != access->bytes_) ||
      (call.writes() && access->result_.bytes() != access->bytes_))
    return MPI_ERR_TYPE;
  if (call.kind >= AccessKind::accumulate && access->bytes_ > 0) {
    const MPI_Datatype element = element_of(call.target_datatype);
    const MPI_Op op = call.kind == AccessKind::compare_and_swap ? MPI_REPLACE : call.op;
    if (!combination_of(op, element, &access->combination_)) return MPI_ERR_OP;
    access->op_ = number_of_op(op);
    access->type_ = number_of_type(element);
  }
  if (call.kind == AccessKind::compare_and_swap &&
      !access->compare_.open(call.compare_addr, 1, call.target_datatype, false))
    return MPI_ERR_OTHER;
  if (access->bytes_ == 0) access->end();
  *made = std::move(access);
  return MPI_SUCCESS;
}

packing::View Access::layout_from(char* window) const {
  void* buffer =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(window) + static_cast<uintptr_t>(at_target_));
  return layout_.contiguous ? packing::View(buffer, bytes_) : layout_.view(buffer);
}

void Access::note(Error error) {
  if (error == Error::none || error_ != MPI_SUCCESS) return;
  log_line(LogLevel::error, "a one-sided access failed: %s (%s)", device::to_string(error),
           device::runtime() ? device::runtime()->error_text() : "");
  error_ = MPI_ERR_OTHER;
}

void Access::fail(int error) {
  error_ = error;
  over_.store(true, std::memory_order_release);
}

void Access::end() {
  if (error_ == MPI_SUCCESS && !result_.finish()) error_ = MPI_ERR_OTHER;
  if (bytes_ > 0) {
    const Traffic path = by_messages_ ? Traffic::rma_by_messages : Traffic::rma_mapped;
    count(path, bytes_);
    record_.took(path, bytes_);
  }
  record_.end();
  over_.store(true, std::memory_order_release);
}

void Access::start(const rma::Buffer& target, bool alone) {
  const rma::Buffer& to = kind_ == AccessKind::put ? target : result_.buffer();
  const rma::Buffer& from = kind_ == AccessKind::put ? origin_.buffer() : target;
  const Error error = alone ? transfer_.start(to, 0, from, 0, bytes_) : transfer_.enqueue(to, from, bytes_);
  note(error);
  if (error != Error::none) end();
}

void Access::advance() {
  if (by_messages_ || over()) return;
  const Error error = transfer_.poll();
  if (error == Error::not_ready) return;
  note(error);
  end();
}

void Access::accumulate(const rma::Buffer& target, rma::AccumulateLock& accumulate_lock) {
  if (!take_accumulate_lock(accumulate_lock)) return fail(MPI_ERR_OTHER);
  if (kind_ == AccessKind::compare_and_swap) {
    note(rma::compare_and_swap(target, compare_.buffer(), origin_.buffer(), result_.buffer()));
  } else {
    const bool fetches = kind_ == AccessKind::fetch;
    note(rma::accumulate(combination_, target, 0, origin_.buffer(), 0, fetches ? &result_.buffer() : nullptr,
                         0, bytes_));
  }
  accumulate_lock.give_back();
  end();
}

// ---- Active-message targets --------------------------------------------------------------------------

rma::Header Access::header() const {
  rma::Header header;
  header.kind = kind_ == AccessKind::put          ? Request::put
                : kind_ == AccessKind::get        ? Request::get
                : kind_ == AccessKind::accumulate ? Request::accumulate
                : kind_ == AccessKind::fetch      ? Request::fetch
                                                  : Request::compare_and_swap;
  header.first = static_cast<int64_t>(reinterpret_cast<uintptr_t>(layout_from(nullptr).address()));
  header.low = low();
  header.high = high();
  header.op = op_;
  header.type = type_;
  return header;
}

bool Access::ask(WindowService& service, const std::shared_ptr<Access>& self) {
  uint64_t piece = network::chunk_bytes();
  if (accumulates())
    piece = std::max(piece / combination_.element_bytes, uint64_t{1}) * combination_.element_bytes;
  while (asked_ < bytes_ && service.may_ask(target_)) {
    const uint64_t at = asked_, length = std::min(piece, bytes_ - asked_);
    const bool reads = origin_.bytes() > 0;
    const uint64_t payload = (reads ? length : 0) + compare_.bytes();
    rma::Message request = rma::make_request(header(), layout_from(nullptr), at, length, payload);
    Error error = request.memory.data() ? Error::none : Error::out_of_memory;
    if (error == Error::none && reads)
      error = rma::transfer_now(rma::host_buffer(request.payload(), length), 0, origin_.buffer(), at, length);
    if (error == Error::none && compare_.bytes() > 0)
      error = rma::transfer_now(rma::host_buffer(request.payload() + length, compare_.bytes()), 0,
                                compare_.buffer(), 0, compare_.bytes());
    asked_ += length;
    note(error);
    if (error != Error::none) {
      answered_ += length;
      continue;
    }
    service.ask(target_, std::move(request),
                [self, at, length](const rma::Message& answer) { self->take_answer(answer, at, length); });
  }
  if (asked_ == bytes_ && answered_ == bytes_ && !over()) end();
  return asked_ == bytes_;
}

void Access::take_answer(const rma::Message& answer, uint64_t at, uint64_t bytes) {
  answered_ += bytes;
  if (answer.header().outcome == Outcome::out_of_range)
    error_ = MPI_ERR_RMA_RANGE;
  else if (answer.header().outcome == Outcome::failed ||
           (result_.bytes() > 0 && answer.size < sizeof(rma::Header) + bytes))
    error_ = MPI_ERR_OTHER;
  else if (result_.bytes() > 0)
    note(rma::transfer_now(result_.buffer(), at, rma::host_buffer(answer.payload(), bytes), 0, bytes));
  if (answered_ == bytes_) end();
}

// ---- The calls ---------------------------------------------------------------------------------------

namespace {

// What error messages say about an access. It composes the text only on request: requests keep it, and few of
// them fail.
class AccessName {
 public:
  explicit AccessName(const AccessCall& call)
      : bytes_(call.target_count >= 0 && call.target_datatype != MPI_DATATYPE_NULL
                   ? packed_bytes(call.target_count, call.target_datatype)
                   : -1),
        rank_(call.target_rank),
        disp_(call.target_disp) {}
  // "an access of 8 bytes to rank 1 at displacement 64"
  std::string in_words() const {
    return "an access of " + (bytes_ >= 0 ? bytes_in_words(bytes_) : "no valid bytes") + " to rank " +
           std::to_string(rank_) + " at displacement " + std::to_string(disp_);
  }

 private:
  MPI_Count bytes_;
  int rank_;
  MPI_Aint disp_;
};

// The class of the error for the arguments that the host MPI would check before the memory.
int error_of_arguments(const AccessCall& call, const Window& window) {
  if (call.target_rank != MPI_PROC_NULL && (call.target_rank < 0 || call.target_rank >= window.size()))
    return MPI_ERR_RANK;
  int error = error_of_elements(call.target_count, call.target_datatype);
  if (error == MPI_SUCCESS && call.reads())
    error = error_of_elements(call.origin_count, call.origin_datatype);
  if (error == MPI_SUCCESS && call.writes())
    error = error_of_elements(call.result_count, call.result_datatype);
  return error;
}

// True if the host MPI may refuse the type. An access of one element needs a predefined type, and a swap
// needs an integer, a logical or a byte.
bool has_doubtful_type(const AccessCall& call) {
  if (!call.of_one_element) return false;
  return !is_plain(call.target_datatype) ||
         (call.kind == AccessKind::compare_and_swap && !can_be_swapped(call.target_datatype));
}

// Makes the same access to MPI_PROC_NULL in the host MPI. An error that it returns has already gone through
// the program's error handler.
int ask_host(const AccessCall& call) {
  return call.kind == AccessKind::compare_and_swap
             ? real.Compare_and_swap(call.origin_addr, call.compare_addr, call.result_addr,
                                     call.target_datatype, MPI_PROC_NULL, 0, call.win)
             : real.Fetch_and_op(call.origin_addr, call.result_addr, call.target_datatype, MPI_PROC_NULL, 0,
                                 call.op, call.win);
}

// An access whose request the program holds.
class RequestedAccess : public Operation {
 public:
  RequestedAccess(std::shared_ptr<Window> window, std::shared_ptr<Access> access, const AccessName& name)
      : Operation(window->comm()), window_(std::move(window)), access_(std::move(access)), name_(name) {}
  int start() override {
    begin();
    const int error = access_ ? window_->start(access_) : MPI_SUCCESS;
    return error == MPI_SUCCESS ? error : window_->raise(error, name_.in_words());
  }
  void advance() override {
    if (access_) access_->advance();
    if (!access_ || access_->over()) complete_.store(true, std::memory_order_release);
  }
  void quiesce() override {}
  int finish(MPI_Status* status) override {
    describe(status);
    record_.end();
    const int error = access_ ? access_->error() : MPI_SUCCESS;
    return error == MPI_SUCCESS ? error : window_->raise(error, name_.in_words());
  }
  void describe(MPI_Status* status) override { set_empty(status); }
  std::string in_words() const override { return name_.in_words(); }

 private:
  std::shared_ptr<Window> window_;
  std::shared_ptr<Access> access_;
  AccessName name_;
};

}  // namespace

int detail::access_ours(const AccessCall& call, const std::shared_ptr<Window>& window) {
  if (int error = error_of_arguments(call, *window); error != MPI_SUCCESS)
    return window->raise(error, AccessName(call).in_words());
  if (has_doubtful_type(call))
    if (int refused = ask_host(call); refused != MPI_SUCCESS) return refused;
  std::shared_ptr<Access> access;
  if (call.target_rank != MPI_PROC_NULL)
    if (int error = Access::make(call, *window, &access); error != MPI_SUCCESS)
      return window->raise(error, AccessName(call).in_words());
  if (call.request)
    return hand_out(std::make_unique<RequestedAccess>(window, access, AccessName(call)), call.request);
  const int error = access ? window->start(access) : MPI_SUCCESS;
  return error == MPI_SUCCESS ? error : window->raise(error, AccessName(call).in_words());
}

}  // namespace fairlead::mpi
