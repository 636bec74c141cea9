// SPDX-License-Identifier: Apache-2.0
//
// How programs order the work of the simulated GPU: the streams of the application, words in memory, host
// functions, and graphs.

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "base/options.h"
#include "device/sim/error.h"
#include "device/sim/sim.h"

namespace fairlead::device::sim {
namespace {

// Yields at first, then sleeps, up to half a millisecond at a time.
class Pauses {
 public:
  void next() {
    constexpr int yields = 100;
    constexpr long longest_ns = 500000;
    if (++count_ <= yields) {
      sched_yield();
      return;
    }
    timespec time{0, ns_};
    nanosleep(&time, nullptr);
    ns_ = std::min(2 * ns_, longest_ns);
  }

 private:
  int count_ = 0;
  long ns_ = 1000;
};

}  // namespace

// ---- The application's streams -------------------------------------------------------------------------

Error Simulator::adopt_stream(void* native, Stream* stream, int* device) {
  if (Error error = begin(); error != Error::none) return error;
  const auto handle = reinterpret_cast<uintptr_t>(native);
  int owner = 0;
  if (handle <= thread_stream) {
    current_device(&owner);
    if (Error error = begin(owner); error != Error::none) return error;
  } else if (QueueRef queue = streams_.find(static_cast<Stream>(native))) {
    owner = queue->device;
  } else {
    return fail(Error::invalid_value, "no such stream, or it was destroyed");
  }
  *device = owner;
  *stream = reinterpret_cast<Stream>(adopted_bit | static_cast<uintptr_t>(owner) << device_shift | handle);
  return Error::none;
}

void* Simulator::native(Stream stream) const {
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  return handle & adopted_bit ? reinterpret_cast<void*>(handle & native_mask) : stream;
}

// The streams of a thread that has ended stay.
Error Simulator::adopted_queue(int device, uintptr_t native, QueueRef* queue) {
  thread_local auto& queues_of_thread = *new std::map<int, QueueRef>;
  QueueRef* found = queue;
  if (native == thread_stream) {
    found = &queues_of_thread[device];
  } else if (native > thread_stream) {
    *queue = streams_.find(reinterpret_cast<Stream>(native));
    return Error::none;
  }
  std::lock_guard lock(default_mutex_);
  if (native != thread_stream) found = &default_queues_[device];
  if (!*found || (*found)->ended)
    if (Error error = make_queue(device, StreamKind::application, found); error != Error::none) return error;
  if (native != thread_stream) has_default_queue_ = true;
  *queue = *found;
  return Error::none;
}

QueueRef Simulator::default_queue(int device) {
  if (!has_default_queue_) return nullptr;
  std::lock_guard lock(default_mutex_);
  return default_queues_[device];
}

Error Simulator::order_with_default(const QueueRef& queue) {
  if (queue->kind != StreamKind::application) return Error::none;
  const QueueRef standard = default_queue(queue->device);
  if (!standard) return Error::none;
  if (queue != standard) {
    if (queue->capture().state == Capture::State::none && !standard->idle())
      queue->wait_for(standard->mark());
    return Error::none;
  }
  for (const QueueRef& other : streams_.all()) {
    if (other == standard || other->device != queue->device || other->kind != StreamKind::application)
      continue;
    if (other->invalidate())
      return fail(Error::failed,
                  "the default stream would wait for a captured stream; the capture is "
                  "invalid now");
    if (!other->idle()) standard->wait_for(other->mark());
  }
  return Error::none;
}

// ---- Words and host functions --------------------------------------------------------------------------

bool Simulator::has_word_operations(int device) {
  return valid(device) && !options().sim_faults("no_words");
}

Error Simulator::find_word(Stream stream, const void* address, QueueRef* queue, End* word) {
  if (Error error = find_queue(stream, queue); error != Error::none) return error;
  if (options().sim_faults("no_words")) return fail(Error::not_supported, "FAIRLEAD_SIM_FAULTS has no_words");
  if (reinterpret_cast<uintptr_t>(address) % sizeof(uint32_t))
    return fail(Error::invalid_value, "%p is not aligned to four bytes", address);
  if (Error error = resolve(address, sizeof(uint32_t), word); error != Error::none) return error;
  if (!word->block || word->block->kind == MemoryKind::managed)
    return fail(Error::invalid_value, "%p is neither device memory nor page-locked", address);
  if (reaches((*queue)->device, *word->block)) return Error::none;
  return fail(Error::peer_unavailable, "device %d has no access to memory of device %d", (*queue)->device,
              word->block->device);
}

Error Simulator::write_word(Stream stream, uint32_t* address, uint32_t value) {
  QueueRef queue;
  End word;
  if (Error error = find_word(stream, address, &queue, &word); error != Error::none) return error;
  return queue->submit([word, value, here = std::weak_ptr(queue)]() -> Failure {
    if (const QueueRef own = here.lock(); own && own->has_failed()) return nullptr;
    if (!word.block->live) return freed_in_flight(word.block);
    __atomic_store_n(reinterpret_cast<uint32_t*>(word.bytes), value, __ATOMIC_SEQ_CST);
    return nullptr;
  });
}

Error Simulator::wait_word(Stream stream, const uint32_t* address, uint32_t value) {
  QueueRef queue;
  End word;
  if (Error error = find_word(stream, address, &queue, &word); error != Error::none) return error;
  return queue->submit([word, value]() -> Failure {
    for (Pauses pauses;; pauses.next()) {
      if (!word.block->live) return freed_in_flight(word.block);
      const uint32_t now = __atomic_load_n(reinterpret_cast<const uint32_t*>(word.bytes), __ATOMIC_SEQ_CST);
      if (static_cast<int32_t>(now - value) >= 0) return nullptr;
    }
  });
}

Error Simulator::call_host(Stream stream, void (*function)(void*), void* argument) {
  QueueRef queue;
  if (Error error = find_queue(stream, &queue); error != Error::none) return error;
  if (!function) return fail(Error::invalid_value, "a function is needed, not null");
  return queue->submit([function, argument] {
    in_host_function_ = true;
    function(argument);
    in_host_function_ = false;
    return Failure();
  });
}

// ---- Graphs --------------------------------------------------------------------------------------------

Error Simulator::capture_of(Stream stream, Capture* capture) {
  QueueRef queue;
  if (Error error = look_up(stream, &queue); error != Error::none) return error;
  if (queue == default_queue(queue->device))
    for (const QueueRef& other : streams_.all())
      if (other->device == queue->device && other->kind == StreamKind::application &&
          other->capture().state != Capture::State::none)
        return fail(Error::failed, "the default stream would wait for a captured stream");
  *capture = queue->capture();
  return Error::none;
}

Error Simulator::exchange_capture_mode(CaptureMode* mode) {
  std::swap(*mode, capture_mode_);
  return Error::none;
}

Error Simulator::begin_unsafe() {
  if (Error error = begin(); error != Error::none) return error;
  return end_captures([](WorkQueue& queue) { return queue.captured_against(capture_mode_); });
}

template <class Matches>
Error Simulator::end_captures(Matches matches) {
  if (!CaptureSequence::active) return Error::none;
  bool ended = false;
  for (const QueueRef& queue : streams_.all())
    if (matches(*queue)) ended |= queue->invalidate();
  if (!ended) return Error::none;
  return fail(Error::capturing,
              "this call is refused while a stream is being captured; the capture is invalid now");
}

// As cuStreamIsCapturing() of the default stream and cuCtxRecordEvent() do.
Error Simulator::begin_question(int device) {
  for (const QueueRef& queue : streams_.all())
    if (queue->device == device && queue->kind == StreamKind::application &&
        queue->capture().state != Capture::State::none)
      return Error::not_ready;
  return end_captures([device](WorkQueue& queue) { return queue.device == device; });
}

Error Simulator::begin_capture(Stream stream, CaptureMode mode) {
  QueueRef queue;
  if (Error error = look_up(stream, &queue); error != Error::none) return error;
  if (queue == default_queue(queue->device))
    return fail(Error::failed, "the default stream cannot be captured");
  return queue->begin_capture(mode);
}

Error Simulator::end_capture(Stream stream, Graph* graph) {
  QueueRef queue;
  if (Error error = look_up(stream, &queue); error != Error::none) return error;
  std::vector<Node> nodes;
  KeptObjects kept;
  size_t lanes = 0;
  if (Error error = queue->end_capture(&nodes, &kept, &lanes); error != Error::none) return error;
  try {
    *graph =
        graphs_.add(std::make_shared<CapturedGraph>(queue->device, std::move(nodes), std::move(kept), lanes));
  } catch (const std::system_error& error) {
    return fail(Error::out_of_memory, "cannot start a graph's threads: %s", error.what());
  }
  return Error::none;
}

// It is released as a driver does it: in a thread that can use no GPU.
Error Simulator::keep_with_graph(Stream stream, std::shared_ptr<const void> object) {
  QueueRef queue;
  if (Error error = look_up(stream, &queue); error != Error::none) return error;
  return queue->keep_with_graph({nullptr, [object](auto) mutable {
                                   const bool was = std::exchange(in_host_function_, true);
                                   object = nullptr;
                                   in_host_function_ = was;
                                 }});
}

Error Simulator::launch_graph(Graph graph, Stream stream) {
  QueueRef queue;
  if (Error error = find_queue(stream, &queue); error != Error::none) return error;
  const auto found = graphs_.find(graph);
  if (!found) return fail(Error::invalid_value, "no such graph, or it was destroyed");
  queue->wait_for_room(found->work(), launching_);
  return found->launch(queue);
}

Error Simulator::destroy_graph(Graph graph) {
  if (Error error = usable(); error != Error::none) return error;
  if (graphs_.forget_ended(graph) || graphs_.remove(graph)) return Error::none;
  return fail(Error::invalid_value, "no such graph, or it was destroyed");
}

}  // namespace fairlead::device::sim
