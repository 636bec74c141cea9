// SPDX-License-Identifier: Apache-2.0

#include "mpi/stream/stream.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/options.h"
#include "device/blocking_driver_calls.h"
#include "device/buffer_pool.h"
#include "device/copies/copy.h"
#include "device/copies/small_copy.h"
#include "device/pinned_buffer.h"
#include "device/unused.h"
#include "kernels/handover/handover_run.h"
#include "mpi/abi/mutex.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/engine.h"
#include "mpi/core/operation.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/network/network.h"
#include "mpi/stream/cells.h"
#include "transport/peer.h"

namespace fairlead::mpi {

using device::Error;

namespace {

uint32_t load(uint32_t* word) {
  return std::atomic_ref<uint32_t>(*word).load(std::memory_order_acquire);
}
void store(uint32_t* word, uint32_t value) {
  std::atomic_ref<uint32_t>(*word).store(value, std::memory_order_release);
}

// Where numbers grow, an earlier wait for a word passes as well, so such words are used again as they are;
// the words of a graph, which begin at 0, are not.
struct Words {
  Mutex mutex;
  std::map<int, std::vector<uint32_t*>> used;  // by device
};
auto& words = *new Words;

uint32_t* take_unused_word(int device) {
  return reinterpret_cast<uint32_t*>(take_cell(device));
}

uint32_t* take_word(int device) {
  {
    std::lock_guard lock(words.mutex);
    for (auto& used = words.used[device]; !used.empty();) {
      uint32_t* word = used.back();
      used.pop_back();
      if (!cell_is_gone(word)) return word;
    }
  }
  return take_unused_word(device);
}

void give_back_unused(uint32_t* word) {
  give_back_cell(reinterpret_cast<uint64_t*>(word));
}

// ROCm waits for no number of more than 31 bits.
void give_back(int device, uint32_t* word) {
  constexpr uint32_t last = 1u << 30;
  if (!word || load(word) > last) return;
  std::lock_guard lock(words.mutex);
  words.used[device].push_back(word);
}

// While streams wait, progress can make no streams, events and memory (device/blocking_driver_calls.h), so
// what it needs is made before. More than this only makes it faster.
void prepare_progress(int device) {
  if (device::prepare_copies(device)) device::set_device_of_progress(device);
  device::prepare_copies_of_seen();
  (void)device::Slot::take();
  (void)device::pool_slab(device);
  if (node::Node* node = engine().node(); node && options().ipc) {
    std::lock_guard lock(engine().mutex());
    (void)transport::export_probe(*node, device);
  }
  kernels::prepare_kernel_runs(device);
  (void)kernels::handovers_run_on(device);
  if (!engine().spans_nodes()) return;
  constexpr int long_buffers = 4;
  std::vector<device::PinnedBuffer> buffers;
  buffers.reserve(long_buffers);
  for (int i = 0; i < long_buffers; ++i) buffers.emplace_back(network::chunk_bytes());
}

// What has just started it.
void note_call(Enqueued* operation) {
  if (const flight::Call* call = flight::last_call()) operation->call = *call;
}

// If so, stores its status and error. A request is tested only if that would succeed: a test makes a round of
// progress for all operations.
bool is_complete(Enqueued& enqueued, int* error) {
  if (enqueued.early) {
    if (!enqueued.early->complete()) return false;
    current_function = enqueued.function;  // for messages about errors
    *error = end_detached(std::exchange(enqueued.early, nullptr), &enqueued.result);
    return true;
  }
  const Operation* operation = engine().find(enqueued.request);
  if (operation && !operation->complete()) return false;
  int complete = 0;
  // No call of the program's, which would seem to go on.
  flight::Thread unread;
  flight::Thread* const recorded = std::exchange(flight::detail::thread, &unread);
  *error = MPI_Test(&enqueued.request, &complete, &enqueued.result);
  flight::detail::thread = recorded;
  return complete || *error != MPI_SUCCESS;
}

}  // namespace

std::unique_ptr<GpuStream> GpuStream::make(void* native, std::string* why_not) {
  device::PromptRuntime* gpu = device::runtime();
  auto made = std::unique_ptr<GpuStream>(new GpuStream);
  auto because = [&](const char* what) {
    *why_not = std::string(what) + (*gpu->error_text() ? ": " : "") + gpu->error_text();
    return nullptr;
  };
  if (gpu->adopt_stream(native, &made->stream_, &made->device_) != Error::none)
    return because("its value is not a stream of this process");
  if (!gpu->has_word_operations(made->device_)) return because("its GPU cannot wait for words in memory");
  prepare_progress(made->device_);
  made->reached_ = take_word(made->device_);
  if (!made->reached_) return because("there is no page-locked memory for it");
  made->enqueued_ = load(made->reached_);
  // Where it would be of no use, it must not take one of the few hardware queues.
  if (gpu->captures_words() &&
      device::BlockingDriverCalls::of_program()->create_stream(made->device_, &made->recording_,
                                                               device::StreamKind::library) != Error::none)
    made->recording_ = nullptr;
  static std::atomic<int> streams = 0;
  made->made_ = streams++;
  made->number_ = observe::number_of_program_stream(made->device_, made->made_);
  return made;
}

GpuStream::~GpuStream() {
  if (stream_) device::BlockingDriverCalls::of_what_is_gone()->destroy_stream(stream_);
  if (recording_)
    device::end_unused([stream = recording_](device::Runtime& driver) { driver.destroy_stream(stream); });
  // A later write of the stream's would mark operations of the word's next owner.
  if (reached_ && load(reached_) == enqueued_) give_back(device_, reached_);
  allow_blocking_calls(true);
  for (const Sequence& sequence : sequences_)
    for (size_t i = 0; i < sequence.operations.size(); ++i) progress_thread().end_enqueued(true);
}

bool GpuStream::is_captured() const {
  device::Capture capture;
  return device::runtime()->capture_of(stream_, &capture) != Error::none ||
         capture.state != device::Capture::State::none;
}

// False: there is no memory for them. The words of a graph are new, as they begin at 0.
bool GpuStream::take_words(const Operations& operations, uint64_t capture) {
  const bool captured = capture != 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    Enqueued& operation = *operations[i];
    operation.capture = capture;
    operation.done = captured ? take_unused_word(device_) : take_word(device_);
    operation.reached = captured ? take_unused_word(device_) : reached_;
    operation.number = captured ? 1 : enqueued_ + static_cast<uint32_t>(i) + 1;
    if (!operation.done || !operation.reached) return false;
    // Earlier waits for this word are for lower numbers.
    operation.round = captured ? 1 : load(operation.done) + 1;
  }
  return true;
}

static void give_back_words(int device, const GpuStream::Operations& operations) {
  for (const auto& operation : operations) {
    if (operation->capture) {
      give_back_unused(std::exchange(operation->reached, nullptr));
      give_back_unused(std::exchange(operation->done, nullptr));
    } else {
      give_back(device, operation->done);
    }
  }
}

// The driver may have accepted a part of it, so the numbers count as used, no wait may last, and the words of
// a graph are not used again.
void GpuStream::skip(const Operations& operations) {
  if (operations.front()->capture) return;
  enqueued_ += static_cast<uint32_t>(operations.size());
  for (const auto& operation : operations) store(operation->done, operation->round);
  give_back_words(device_, operations);
}

Error GpuStream::enqueue(const Operations& operations, Waits waits, int* mpi_error) {
  std::lock_guard enqueuing(enqueuing_);
  device::Capture capture;
  Error error = device::runtime()->capture_of(stream_, &capture);
  if (error != Error::none) return error;
  const bool captured = capture.state == device::Capture::State::active;
  std::vector<device::WordAccess> accesses;
  if (!take_words(operations, captured ? capture.id : 0)) {
    give_back_words(device_, operations);
    return Error::out_of_memory;
  }
  // In a graph, the stream clears what the CPU wrote in the launch before. Otherwise the last number tells of
  // all operations.
  for (const auto& operation : operations) {
    if (captured) accesses.push_back({false, operation->done, 0});
    if (captured || operation == operations.back())
      accesses.push_back({false, operation->reached, operation->number});
  }
  if (waits == Waits::always || (captured && waits == Waits::in_graphs))
    for (const device::WordAccess& wait : waits_for(operations)) accesses.push_back(wait);
  error = device::runtime()->access_words(stream_, accesses.data(), accesses.size());
  if (error != Error::none) {
    skip(operations);
    return error;
  }
  if (captured) {
    keep_in_graph(operations, capture.id);
    return Error::none;
  }
  enqueued_ += static_cast<uint32_t>(operations.size());
  for (const auto& operation : operations)
    if (*mpi_error == MPI_SUCCESS)
      *mpi_error = begin(operation);
    else
      end_without_start(*operation);
  return Error::none;
}

// Each launch of a graph that holds an object takes 4 us longer (two H200), so those of programs that capture
// a few graphs hold none: their operations are kept.
constexpr size_t sequences_that_may_stay = 64;

void GpuStream::keep_in_graph(const Operations& operations, uint64_t capture) {
  const auto is_first = [&] { return sequences_.empty() || sequences_.back().capture != capture; };
  std::unique_lock lock(mutex_);
  if (is_first()) {
    std::shared_ptr<std::atomic<bool>> ended;
    if (sequences_.size() >= sequences_that_may_stay) {
      lock.unlock();
      ended = std::make_shared<std::atomic<bool>>(false);
      if (device::runtime()->keep_with_graph(stream_, {nullptr, [ended](auto) { *ended = true; }}) !=
          Error::none)
        ended = nullptr;
      lock.lock();
    }
    sequences_.push_back({capture, {}, 0, std::move(ended)});
  }
  for (const auto& operation : operations) {
    sequences_.back().operations.push_back(operation);
    progress_thread().keep_in_graph();
  }
}

int GpuStream::begin(const std::shared_ptr<Enqueued>& operation) {
  if (operation->start_early && may_start_early()) {
    const ProgressThread::CallsHost calls_host(progress_thread());
    const int result = operation->start_early({operation->reached, operation->number}, &operation->early);
    operation->function = current_function;
    note_call(operation.get());
    if (result != MPI_SUCCESS && result != Operation::cannot_be_early) {
      end_without_start(*operation);
      return result;
    }
  }
  std::lock_guard lock(mutex_);
  waiting_.push_back(operation);
  messages_waiting_ += operation->is_message && !operation->early;
  return MPI_SUCCESS;
}

Error GpuStream::submit(const std::function<Error(device::Stream, bool captured)>& work) {
  std::lock_guard enqueuing(enqueuing_);
  device::Capture capture;
  const Error error = device::runtime()->capture_of(stream_, &capture);
  return error == Error::none ? work(stream_, capture.state == device::Capture::State::active) : error;
}

Error GpuStream::run_alone(std::vector<device::WordAccess> accesses, std::function<bool()>* ended) {
  std::lock_guard enqueuing(enqueuing_);
  device::Capture capture;
  Error error = device::runtime()->capture_of(stream_, &capture);
  if (error != Error::none) return error;
  const bool captured = capture.state == device::Capture::State::active;
  exclude_blocking_calls(captured);
  if (captured) {
    *ended = nullptr;
  } else {
    accesses.push_back({false, reached_, ++enqueued_});
    *ended = [self = shared_from_this(), number = enqueued_] {
      return static_cast<int32_t>(load(self->reached_) - number) >= 0;
    };
  }
  error = device::runtime()->access_words(stream_, accesses.data(), accesses.size());
  if (error == Error::none) return error;
  log_line(LogLevel::error, "an operation cannot be enqueued: %s %s", device::to_string(error),
           device::runtime()->error_text());
  if (!captured) (void)device::runtime()->write_word(stream_, reached_, enqueued_);
  return error;
}

// Driver calls that wait for all streams are excluded from before it is enqueued until it has been passed.
// The exclusion may wait for such a call, which may wait for progress.
void GpuStream::exclude_blocking_calls(bool captured) {
  if (!captured) device::BlockingDriverCalls::exclude();
  std::lock_guard lock(mutex_);
  if (captured) {
    if (!std::exchange(waits_in_graphs_, true)) device::BlockingDriverCalls::add_graph_wait();
    return;
  }
  if (waits_until_) device::BlockingDriverCalls::allow();
  waits_until_ = enqueued_ + 1;
}

bool GpuStream::may_wait_alone() {
  std::lock_guard lock(mutex_);
  return waits_until_.has_value();
}

void GpuStream::allow_blocking_calls(bool at_end) {
  if (waits_until_ && (at_end || static_cast<int32_t>(load(reached_) - *waits_until_) >= 0)) {
    waits_until_.reset();
    device::BlockingDriverCalls::allow();
  }
  if (at_end && std::exchange(waits_in_graphs_, false)) device::BlockingDriverCalls::remove_graph_wait();
}

// Not before messages that have not started yet. A graph may have been launched, and its messages start when
// the stream has come to them.
bool GpuStream::may_start_early() {
  std::lock_guard lock(mutex_);
  return messages_waiting_ == 0 && sequences_.empty();
}

// The stream waits for it already. The caller returns the error.
void GpuStream::end_without_start(Enqueued& operation) {
  operation.status = MPI_STATUS_IGNORE;
  std::lock_guard lock(mutex_);
  end(operation, MPI_SUCCESS);
}

std::vector<device::WordAccess> GpuStream::waits_for(const Operations& operations) {
  std::vector<device::WordAccess> waits;
  std::lock_guard lock(mutex_);
  for (const auto& operation : operations)
    if (operation->done && (operation->capture || !operation->ended))
      waits.push_back({true, operation->done, operation->round});
  return waits;
}

Error GpuStream::wait(const Operations& operations) {
  const auto is_captured = [](const auto& operation) { return operation->capture != 0; };
  if (std::ranges::any_of(operations, is_captured)) {
    device::Capture now;
    (void)device::runtime()->capture_of(stream_, &now);
    std::lock_guard lock(mutex_);
    for (const auto& operation : operations) operation->waited_for_outside |= operation->capture != now.id;
  }
  const std::vector<device::WordAccess> waits = waits_for(operations);
  return device::runtime()->access_words(stream_, waits.data(), waits.size());
}

void GpuStream::store_status(Enqueued& operation, MPI_Status* status) {
  std::lock_guard lock(mutex_);
  if (operation.ended)
    *status = operation.result;
  else
    operation.status = status;
}

// The next operation that the stream has come to, with the mark of it removed.
std::shared_ptr<Enqueued> GpuStream::next_reached() {
  auto take_waiting = [&]() -> std::shared_ptr<Enqueued> {
    if (waiting_.empty() || static_cast<int32_t>(load(reached_) - waiting_.front()->number) < 0)
      return nullptr;
    auto operation = std::move(waiting_.front());
    waiting_.pop_front();
    return operation;
  };
  if (auto operation = take_waiting()) return operation;
  for (size_t i = 0; i < sequences_.size();) {
    Sequence& sequence = sequences_[i];
    const bool graph_ended = sequence.graph_ended && *sequence.graph_ended;
    auto operation = sequence.operations[sequence.next];
    if (operation->under_way || load(operation->reached) == 0) {
      if (graph_ended && is_over(sequence))
        forget(i);
      else
        ++i;
      continue;
    }
    // The stream may have passed others on its way there since they were looked at.
    if (auto earlier = take_waiting()) return earlier;
    store(operation->reached, 0);
    sequence.next = (sequence.next + 1) % sequence.operations.size();
    return operation;
  }
  return nullptr;
}

// The last launch of an ended graph may have left operations that no stream has waited for.
bool GpuStream::is_over(const Sequence& sequence) {
  return std::ranges::none_of(sequence.operations, [](const auto& operation) {
    return operation->under_way || operation->waited_for_outside;
  });
}

void GpuStream::forget(size_t sequence) {
  const Operations operations = std::move(sequences_[sequence].operations);
  sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(sequence));
  give_back_words(device_, operations);
  for (size_t i = 0; i < operations.size(); ++i) progress_thread().end_enqueued(true);
}

void GpuStream::end(Enqueued& operation, int error) {
  operation.errors->note(error);
  operation.under_way = false;
  operation.ended = true;
  operation.request = MPI_REQUEST_NULL;
  if (operation.status != MPI_STATUS_IGNORE) *operation.status = operation.result;
  if (observe::tracing() && operation.came)
    observe::trace({observe::EventKind::enqueued, number_, operation.came, observe::now(), operation.bytes,
                    static_cast<int>(operation.function)});
  --operation.errors->outstanding;
  if (operation.done) store(operation.done, operation.round);
  if (operation.capture) return;
  give_back(device_, operation.done);
  progress_thread().end_enqueued(false);
}

bool GpuStream::advance() {
  bool happened = false;
  {
    std::lock_guard lock(mutex_);
    allow_blocking_calls(false);
  }
  for (;;) {
    std::shared_ptr<Enqueued> operation;
    {
      std::lock_guard lock(mutex_);
      operation = postponed_ ? std::exchange(postponed_, nullptr) : next_reached();
      if (!operation) break;
      const bool counted = std::exchange(operation->under_way, true);
      if (operation->capture && !counted) ++operation->errors->outstanding;
      if (observe::tracing() && !counted) operation->came = observe::now();
    }
    // Without the lock: a call that enqueues need not wait for this one.
    set_empty(&operation->result);
    int error = MPI_SUCCESS;
    if (operation->early) {
      engine().add(operation->early);
    } else {
      const StartedByStream no_check;
      const ActsFor program(operation->site);
      error = operation->start(&operation->request);
      operation->function = current_function;
      note_call(operation.get());
    }
    // The stream waits as MPI_Wait does: a send whose receiver is late is buffered.
    if (Operation* started = operation->early ? operation->early : engine().find(operation->request)) {
      started->start_waiting();
      operation->bytes = started->bytes();
    }
    std::lock_guard lock(mutex_);
    if (error == try_again) {
      postponed_ = std::move(operation);
      break;
    }
    happened = true;
    if (!operation->capture) messages_waiting_ -= operation->is_message && !operation->early;
    if (!operation->early && (error != MPI_SUCCESS || operation->request == MPI_REQUEST_NULL))
      end(*operation, error);
    else
      under_way_.push_back(std::move(operation));
  }
  const observe::FlowsEndOnStream flows(number_);
  for (size_t i = 0;; ++i) {
    std::shared_ptr<Enqueued> operation;
    {
      std::lock_guard lock(mutex_);
      if (i >= under_way_.size()) break;
      operation = under_way_[i];
    }
    int error = MPI_SUCCESS;
    if (!is_complete(*operation, &error)) continue;
    happened = true;
    std::lock_guard lock(mutex_);
    end(*operation, error);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  if (happened) {
    std::lock_guard lock(mutex_);
    note_first();
  }
  if (happened || under_way_.empty())
    stalled_.restart();
  else if (const int seconds = stalled_.due())
    report_stall(seconds);
  return happened;
}

// The others may wait for it.
void GpuStream::note_first() const {
  flight::note_stream(made_, under_way_.empty() ? nullptr : &under_way_.front()->call);
}

// Names the first operation.
void GpuStream::report_stall(int seconds) {
  std::lock_guard lock(mutex_);
  const Enqueued& first = *under_way_.front();
  const Operation* operation = first.early ? first.early : engine().find(first.request);
  log_line(
      LogLevel::warn,
      "a GPU stream has been waiting for %d s for %s; causes besides a late partner: docs/use/streams.md, "
      "\"What can hang\"",
      seconds, operation ? operation->description().c_str() : "an operation of the host MPI");
}

bool GpuStream::is_in_graphs() {
  std::lock_guard lock(mutex_);
  return !sequences_.empty();
}

bool GpuStream::is_idle() const {
  return !is_captured() && device::runtime()->query_stream(stream_) != Error::not_ready;
}

void GpuStream::abandon(bool idle) {
  std::lock_guard lock(mutex_);
  allow_blocking_calls(true);
  auto pass = [](const auto& operations) {
    for (const auto& operation : operations) {
      store(operation->done, operation->round);
      progress_thread().end_enqueued(operation->capture != 0);
    }
  };
  if (postponed_) under_way_.push_back(std::exchange(postponed_, nullptr));
  pass(waiting_);
  for (const Sequence& sequence : sequences_) {
    pass(sequence.operations);
    if (idle) give_back_words(device_, sequence.operations);
  }
  std::erase_if(under_way_, [](const auto& operation) { return operation->capture != 0; });
  pass(under_way_);
  waiting_.clear();
  sequences_.clear();
  under_way_.clear();
  note_first();
}

}  // namespace fairlead::mpi
