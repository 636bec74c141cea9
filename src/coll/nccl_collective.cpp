// SPDX-License-Identifier: Apache-2.0

#include "coll/nccl_collective.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <set>

#include "base/log.h"
#include "device/blocking_driver_calls.h"
#include "device/copies/submit_copies.h"
#include "device/unused.h"
#include "observe/ranges.h"

namespace fairlead::coll {
namespace {

using device::Error;
using Result = NcclLibrary::Result;

// A communicator that this rank has finalized; other members may not have done so yet.
struct Leaving {
  int device;
  device::Context context;
  NcclLibrary::Communicator communicator;
  device::Stream stream;
  std::vector<device::Event> events;
  const std::atomic<uint32_t>* failed;  // on another member, which then does not finalize
};
auto& leaving = *new std::list<Leaving>;
auto& members = *new std::set<NcclMember*>;
// The one for whose collectives NCCL is reserved in this process.
NcclMember* holder = nullptr;

bool is_error(Result result) {
  return result != nccl_result::success && result != nccl_result::in_progress;
}

// Makes a call that NCCL requires to be made while the device is current.
template <class Call>
Result call_on(int device, Call call) {
  Result result = nccl_result::system_error;
  device::runtime()->run_on(device, [&] { result = call(); });
  return result;
}

Result state_of(NcclLibrary::Communicator communicator) {
  Result state = nccl_result::success;
  Result asked = nccl()->state(communicator, &state);
  return asked == nccl_result::success ? state : asked;
}

std::string words(const char* symbol, Result result) {
  return std::string(symbol) + ": " + nccl()->describe(result);
}
template <class Function>
std::string words(const Function& function, Result result) {
  return words(function.symbol, result);
}

void free_stream(device::Stream stream, std::vector<device::Event> events) {
  device::end_unused([stream, events = std::move(events)](device::Runtime& driver) {
    for (device::Event event : events) driver.destroy_event(event);
    if (stream) driver.destroy_stream(stream);
  });
}

void end_those_that_all_have_left(bool wait_for_no_rank = false) {
  std::erase_if(leaving, [=](const Leaving& one) {
    if (one.context.is_gone_now()) {
      free_stream(one.stream, one.events);
      return true;
    }
    Result state = state_of(one.communicator);
    if (state == nccl_result::in_progress && !wait_for_no_rank && !*one.failed) return false;
    call_on(one.device, [&] {
      return state == nccl_result::success ? nccl()->destroy(one.communicator)
                                           : nccl()->abort(one.communicator);
    });
    free_stream(one.stream, one.events);
    return true;
  });
}

// Exchanges blocks of call.count bytes between all members.
Result exchange_blocks(const NcclCall& call, int ranks, NcclLibrary::Communicator communicator,
                       void* stream) {
  Result first = nccl()->group_start();
  auto note = [&first](Result result) {
    if (!is_error(first)) first = result;
  };
  for (int member = 0; member < ranks && !is_error(first); ++member) {
    uint64_t offset = static_cast<uint64_t>(member) * call.count;
    note(nccl()->send(static_cast<const char*>(call.from) + offset, call.count, call.type, member,
                      communicator, stream));
    note(nccl()->receive(static_cast<char*>(call.to) + offset, call.count, call.type, member, communicator,
                         stream));
  }
  note(nccl()->group_end());
  return first;
}

}  // namespace

NcclMember::NcclMember(CollectiveSlot& slot) : slot_(slot) {
  members.insert(this);
}

NcclMember::~NcclMember() {
  give_back();
  members.erase(this);
  if (holder == this) holder = nullptr;
}

bool NcclMember::reserve(uint64_t number, int device) {
  if (!nccl() || step_ == Step::never || (holder && holder != this) || number <= reserved_up_to_)
    return false;
  // NCCL has no way to leave a communicator whose GPU was reset, so the other members abandon theirs.
  if (context_.is_gone()) slot_.slot().nccl_failed.store(1, std::memory_order_release);
  if (slot_.slot().nccl_failed.load(std::memory_order_acquire)) {
    abandon();
    return false;
  }
  const bool has_device = step_ != Step::none || !reserved_.empty();
  if (has_device && device != device_) return false;
  // The first one for which all members decide makes the communicator.
  if (!communicator_) {
    device::DeviceInfo info;
    if (device::runtime()->device_info(device, &info) != Error::none) return false;
    Record& record = slot_.record(slot_.me(), number);
    static_assert(sizeof record.gpu == sizeof info.uuid);
    std::memcpy(record.gpu, info.uuid, sizeof info.uuid);
    device_ = device;
  }
  holder = this;
  reserved_.push_back(number);
  reserved_up_to_ = number;
  return true;
}

void NcclMember::release(uint64_t number) {
  std::erase(reserved_, number);
  free_if_idle();
}

void NcclMember::free_if_idle() {
  if (holder == this && reserved_.empty() && flights_.empty()) holder = nullptr;
}

Progress NcclMember::advance(uint64_t number, const NcclCall& call) {
  if (has_launched(number)) return run(number);
  if (step_ == Step::never)
    return slot_.slot().nccl_failed.load(std::memory_order_acquire) ? Progress::failed : Progress::refused;
  if (reserved_.front() != number) return Progress::waiting;
  if (step_ == Step::none) {
    if (!gpus_serve(number)) {
      step_ = Step::never;
      return Progress::refused;
    }
    tell_id(number);
  }
  if (step_ == Step::learning_id) begin_making(number);
  if (step_ == Step::making) go_on_making(number);
  if (step_ == Step::agreeing && all_have_made(number) && step_ == Step::never) return Progress::refused;
  if (step_ == Step::ready) return start(number, call);
  if (step_ == Step::starting) return go_on_starting(number, call);
  return Progress::waiting;
}

// ---- The communicator ---------------------------------------------------------------------------------

NcclMember::Stage NcclMember::stage_of(int member, uint64_t number) {
  uint64_t word = slot_.record(member, number).nccl.load(std::memory_order_acquire);
  return word / 4 == number ? static_cast<Stage>(word % 4) : Stage::none;
}

void NcclMember::signal(uint64_t number, Stage stage) {
  slot_.record(slot_.me(), number)
      .nccl.store(number * 4 + static_cast<uint64_t>(stage), std::memory_order_release);
}

bool NcclMember::gpus_serve(uint64_t number) {
  if (nccl_shares_gpus()) return true;
  for (int one = 0; one < slot_.members(); ++one)
    for (int other = 0; other < one; ++other)
      if (std::memcmp(slot_.record(one, number).gpu, slot_.record(other, number).gpu, sizeof Record::gpu) ==
          0) {
        if (slot_.me() == 0)
          log_line(LogLevel::info,
                   "NCCL is not used: ranks %d and %d of %d share a GPU, which NCCL 2.30 or later allows if "
                   "NCCL_MULTI_RANK_GPU_ENABLE=1 is set on all ranks",
                   other, one, slot_.members());
        return false;
      }
  return true;
}

void NcclMember::tell_id(uint64_t number) {
  step_ = Step::learning_id;
  end_those_that_all_have_left();
  if (slot_.me() != 0) return;
  Result result = call_on(device_, [&] { return nccl()->unique_id(&slot_.slot().nccl_id); });
  if (is_error(result)) return cannot_make(number, words(nccl()->unique_id, result));
  signal(number, Stage::told_id);
}

void NcclMember::begin_making(uint64_t number) {
  Stage first = stage_of(0, number);
  if (first == Stage::none) return;
  if (first == Stage::not_made) {
    signal(number, Stage::not_made);
    step_ = Step::agreeing;
    return;
  }
  device::PromptRuntime& runtime = *device::runtime();
  device::Event event = nullptr;
  Error error = Error::none;
  {
    const device::BlockingDriverCalls calls;
    if (!calls.may_allocate()) return;  // later
    context_ = device::Context(device_);
    error = calls->create_stream(device_, &stream_, device::StreamKind::urgent);
    if (error == Error::none) error = calls->create_event(device_, &event);
  }
  if (error != Error::none) return cannot_make(number, runtime.error_text());
  spare_.push_back(event);
  observe::name_stream(runtime.name(), runtime.native(stream_), "Fairlead NCCL");
  NcclConfig config;
  config.blocking = 0;
  Result result = call_on(device_, [&] {
    return nccl()->init_rank(&communicator_, slot_.members(), slot_.slot().nccl_id, slot_.me(), &config);
  });
  if (is_error(result)) return cannot_make(number, words(nccl()->init_rank, result));
  step_ = Step::making;
}

// Creating the communicator needs all members. A member that gives up announces this, because the others
// would wait forever.
void NcclMember::go_on_making(uint64_t number) {
  Result state = state_of(communicator_);
  if (is_error(state)) return cannot_make(number, words(nccl()->init_rank, state));
  bool hopeless = false;
  for (int member = 0; member < slot_.members(); ++member)
    hopeless |= stage_of(member, number) == Stage::not_made;
  if (state == nccl_result::in_progress && !hopeless) return;
  signal(number, hopeless ? Stage::not_made : Stage::made);
  step_ = Step::agreeing;
}

void NcclMember::cannot_make(uint64_t number, const std::string& why) {
  log_line(LogLevel::warn,
           "NCCL cannot create a communicator of %d ranks: %s; its collectives use other algorithms",
           slot_.members(), why.c_str());
  signal(number, Stage::not_made);
  step_ = Step::agreeing;
}

// True when all members have announced whether they created the communicator: creation is then over,
// successful or not.
bool NcclMember::all_have_made(uint64_t number) {
  bool all = true;
  for (int member = 0; member < slot_.members(); ++member) {
    Stage stage = stage_of(member, number);
    if (stage != Stage::made && stage != Stage::not_made) return false;
    all &= stage == Stage::made;
  }
  if (!all) {
    abandon();
    return true;
  }
  step_ = Step::ready;
  if (slot_.me() == 0)
    log_line(LogLevel::info, "%s runs collectives of %d ranks", nccl()->name.c_str(), slot_.members());
  return true;
}

void NcclMember::give_back() {
  if (!communicator_) return;
  if (context_.is_gone_now()) slot_.slot().nccl_failed.store(1, std::memory_order_release);
  if (slot_.slot().nccl_failed.load(std::memory_order_acquire)) return abandon();
  call_on(device_, [&] { return nccl()->finalize(communicator_); });
  leaving.push_back(
      {device_, context_, communicator_, stream_, std::move(spare_), &slot_.slot().nccl_failed});
  communicator_ = nullptr;
  stream_ = nullptr;
  spare_.clear();
  step_ = Step::never;
  end_those_that_all_have_left();
}

void NcclMember::abandon_for_all() {
  slot_.slot().nccl_failed.store(1, std::memory_order_release);
  abandon();
}

// Work that still runs on the communicator ends, in whatever state. NCCL's part of a context that
// has ended is left alone. Another member's failure may come before anything here has noticed the reset.
void NcclMember::abandon() {
  const bool gone = context_.is_gone_now();
  if (communicator_ && !gone) call_on(device_, [&] { return nccl()->abort(communicator_); });
  if (stream_ && !gone) (void)device::wait_by_queries(stream_);
  for (const Flight& flight : flights_) spare_.push_back(flight.event);
  free_stream(stream_, spare_);
  communicator_ = nullptr;
  context_ = {};
  stream_ = nullptr;
  spare_.clear();
  flights_.clear();
  reserved_.clear();
  free_if_idle();
  step_ = Step::never;
}

bool release_nccl(bool a_rank_has_failed) {
  for (NcclMember* member : members) member->give_back();
  end_those_that_all_have_left(a_rank_has_failed);
  return leaving.empty();
}

// ---- One collective ------------------------------------------------------------------------------------

// There is at least one event. If there is none for this collective, one before it has it.
Progress NcclMember::start(uint64_t number, const NcclCall& call) {
  if (spare_.empty()) {
    device::Event event = nullptr;
    const device::BlockingDriverCalls calls;
    if (!calls.may_allocate() || calls->create_event(device_, &event) != Error::none)
      return Progress::waiting;
    spare_.push_back(event);
  }
  const NcclLibrary& library = *nccl();
  const char* what = nullptr;
  Result result = call_on(device_, [&] {
    void* stream = device::runtime()->native(stream_);
    auto made = [&](const auto& function, auto... arguments) {
      what = function.symbol;
      return function(arguments..., communicator_, stream);
    };
    switch (call.family) {
      case Family::allreduce:
        return made(library.all_reduce, call.from, call.to, call.count, call.type, call.op);
      case Family::reduce:
        return made(library.reduce, call.from, call.to, call.count, call.type, call.op, call.root);
      case Family::bcast:
        return made(library.broadcast, call.from, call.to, call.count, call.type, call.root);
      case Family::allgather:
        return made(library.all_gather, call.from, call.to, call.count, call.type);
      case Family::reduce_scatter:
        return made(library.reduce_scatter, call.from, call.to, call.count, call.type, call.op);
      default:
        what = library.group_end.symbol;
        return exchange_blocks(call, slot_.members(), communicator_, stream);
    }
  });
  if (is_error(result)) return failed(words(what, result));
  step_ = Step::starting;
  return go_on_starting(number, call);
}

// Until NCCL reports success, its work may not be in the stream yet, and nothing may be enqueued behind it.
Progress NcclMember::go_on_starting(uint64_t number, const NcclCall& call) {
  if (Result state = state_of(communicator_); state != nccl_result::success) return check();
  device::PromptRuntime& runtime = *device::runtime();
  Error error = Error::none;
  if (call.afterwards.bytes)
    error = runtime.copy(call.afterwards.to, call.afterwards.from, call.afterwards.bytes, stream_);
  if (error == Error::none) error = runtime.record_event(spare_.back(), stream_);
  flights_.push_back({number, spare_.back()});
  spare_.pop_back();
  if (error != Error::none) return failed(runtime.error_text());
  reserved_.erase(reserved_.begin());
  launched_up_to_ = number;
  step_ = Step::ready;
  return run(number);
}

// The stream runs them in their order.
Progress NcclMember::run(uint64_t number) {
  while (number > over_up_to_) {
    if (flights_.empty()) return Progress::failed;  // abandoned
    const Flight first = flights_.front();
    Error state = device::runtime()->query_event(first.event);
    if (state == Error::not_ready) return rare_look_.due() ? check() : Progress::waiting;
    if (state != Error::none) return failed(device::runtime()->error_text());
    flights_.erase(flights_.begin());
    spare_.push_back(first.event);
    over_up_to_ = first.number;
    free_if_idle();
  }
  return Progress::over;
}

// Fails if NCCL reports an error or has failed on another member.
Progress NcclMember::check() {
  if (Result state = state_of(communicator_); is_error(state)) return failed(words(nccl()->state, state));
  if (slot_.slot().nccl_failed.load(std::memory_order_acquire)) return failed("it failed on another rank");
  return Progress::waiting;
}

Progress NcclMember::failed(const std::string& why) {
  log_line(LogLevel::error, "a collective by NCCL failed: %s; this communicator no longer uses NCCL",
           why.c_str());
  slot_.slot().nccl_failed.store(1, std::memory_order_release);
  abandon();
  return Progress::failed;
}

}  // namespace fairlead::coll
