// SPDX-License-Identifier: Apache-2.0
//
// The work of the simulated GPU: streams, copies, fills, events and kernels.

#include <time.h>

#include <cstring>
#include <string>
#include <system_error>

#include "base/options.h"
#include "device/sim/error.h"
#include "device/sim/sim.h"
#include "fairlead/kernel.h"

namespace fairlead::device::sim {
namespace {

void sleep_us(int64_t us) {
  if (us <= 0) return;
  timespec time{static_cast<time_t>(us / 1000000), static_cast<long>(us % 1000000 * 1000)};
  nanosleep(&time, nullptr);
}

struct Span {
  size_t width, height, to_pitch, from_pitch;
};

// CUDA says no more.
Error refuse_others(const BlockRef& block, int device) {
  if (!block || !block->is_of_one_device() || block->device == device) return Error::none;
  return fail(block->imported ? Error::peer_unavailable : Error::invalid_value,
              "memory of device %d alone is used by device %d", block->device, device);
}

}  // namespace

Failure failure_of(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

Failure freed_in_flight(const BlockRef& block) {
  return failure_of("memory of device " + std::to_string(block->device) + " at " +
                    std::to_string(block->base) + " was freed while work on it was in flight");
}

Error Simulator::make_queue(int device, StreamKind kind, QueueRef* queue, Stream* stream) {
  auto made = std::make_shared<WorkQueue>(device, kind);
  try {
    made->start();
  } catch (const std::system_error& error) {
    return fail(Error::out_of_memory, "cannot start a stream's thread: %s", error.what());
  }
  const Stream handle = streams_.add(made);
  if (stream) *stream = handle;
  *queue = made;
  return Error::none;
}

Error Simulator::create_stream(int device, Stream* stream, StreamKind kind) {
  QueueRef queue;
  await_launches();
  Error error = begin(device);
  return error != Error::none ? error : make_queue(device, kind, &queue, stream);
}

Error Simulator::look_up(Stream stream, QueueRef* queue) {
  if (Error error = usable(); error != Error::none) return error;
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  if (handle & adopted_bit) {
    const int device = static_cast<int>((handle & ~adopted_bit) >> device_shift);
    if (Error error = adopted_queue(device, handle & native_mask, queue); error != Error::none) return error;
  } else {
    *queue = streams_.find(stream);
  }
  return *queue ? Error::none : fail(Error::invalid_value, "no such stream, or it was destroyed");
}

Error Simulator::find_queue(Stream stream, QueueRef* queue) {
  Error error = look_up(stream, queue);
  return error != Error::none ? error : order_with_default(*queue);
}

Error Simulator::find_event(Event event, std::shared_ptr<RecordedEvent>* found) {
  if (Error error = usable(); error != Error::none) return error;
  *found = events_.find(event);
  return *found ? Error::none : fail(Error::invalid_value, "no such event, or it was destroyed");
}

Error Simulator::destroy_stream(Stream stream) {
  if (reinterpret_cast<uintptr_t>(stream) & adopted_bit) return usable();
  if (streams_.forget_ended(stream)) return Error::none;
  QueueRef queue;
  if (Error error = look_up(stream, &queue); error != Error::none) return error;
  queue->invalidate();
  // The queue stays in the table until its work is done, for threads that wait for all streams.
  queue->wait_idle();
  if (streams_.remove(stream)) queue->close();
  return Error::none;
}

Error Simulator::synchronize_stream(Stream stream) {
  QueueRef queue;
  Error error = begin_unsafe();
  if (error == Error::none) error = find_queue(stream, &queue);
  return error != Error::none ? error : queue->drain();
}

Error Simulator::query_stream(Stream stream) {
  QueueRef queue;
  Error error = begin_unsafe();
  if (error == Error::none) error = find_queue(stream, &queue);
  return error != Error::none ? error : queue->poll();
}

template <class Matches>
Error Simulator::query_streams(int device, Matches matches) {
  if (!valid(device)) return fail(Error::invalid_value, "no device %d: there are %d", device, device_total());
  if (Error error = usable(); error != Error::none) return error;
  for (const QueueRef& queue : streams_.all())
    if (queue->device == device && matches(queue->kind) && !queue->idle()) return Error::not_ready;
  return Error::none;
}

Error Simulator::query_application(int device) {
  return query_streams(device, [](StreamKind kind) { return kind == StreamKind::application; });
}

Error Simulator::query_device(int device) {
  if (Error error = begin_question(device); error != Error::none) return error;
  return query_streams(device, [](StreamKind) { return true; });
}

Error Simulator::resolve(const void* address, size_t bytes, End* end) {
  *end = {const_cast<char*>(static_cast<const char*>(address)), memory_.find(address)};
  if (!end->block) {
    if (memory_.in_region(address))
      return fail(Error::invalid_value, "%p is not memory of the GPU, or was freed", address);
    return Error::none;
  }
  size_t offset = reinterpret_cast<uintptr_t>(address) - end->block->base;
  if (bytes > end->block->size - offset)
    return fail(Error::invalid_value, "%zu bytes at %p: only %zu are left in the allocation", bytes, address,
                end->block->size - offset);
  end->bytes = end->block->at(address);
  return Error::none;
}

// Between two devices that have no access to each other, too, CUDA carries the bytes through pageable memory;
// of short copies this was not seen.
bool Simulator::is_pageable(const End& to, const End& from, size_t bytes) const {
  constexpr size_t short_bytes = size_t{32} << 10;
  if (!to.block || !from.block) return to.block != from.block;
  auto reaches_other = [this](const Block& one, const Block& other) {
    return one.kind != MemoryKind::device || reaches(one.device, other);
  };
  return bytes > short_bytes && !reaches_other(*to.block, *from.block) &&
         !reaches_other(*from.block, *to.block);
}

// Null: the copy waits for none of another stream.
std::shared_ptr<CopyQueues::Place> Simulator::place_of(const End& to, const End& from, WorkQueue& queue) {
  using enum CopyQueues::Direction;
  auto on_device = [](const End& end) { return end.block && end.block->kind == MemoryKind::device; };
  auto place = [&](CopyQueues::Direction direction) {
    return std::make_shared<CopyQueues::Place>(copy_queues_, queue.device, direction, &queue);
  };
  if (!has_copy_queues_) return nullptr;
  if (!on_device(to)) return place(out);
  if (!on_device(from)) return place(in);
  auto is_far = [](const Block& block) { return block.imported || block.location != block.device; };
  const bool peers = is_far(*to.block) || is_far(*from.block) || to.block->device != from.block->device;
  return peers ? place(to_peers) : nullptr;
}

// As CUDA does for a copy of pageable memory: in the call, with locks that other such copies and calls that
// make something need. (It also waits for the copy itself; here that is late.)
void Simulator::await_earlier_work(WorkQueue& queue, const std::shared_ptr<CopyQueues::Place>& place) {
  std::lock_guard copying(copying_pageable_);
  if (queue.idle() || queue.capture().state != Capture::State::none) return;
  std::lock_guard making(launching_);
  auto pass = [place]() -> Failure {
    place->await();
    place->leave();
    return nullptr;
  };
  if (place) (void)queue.submit(pass, [&place] { place->take(); });
  queue.wait_idle();
}

Error Simulator::copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, Stream stream) {
  QueueRef queue;
  if (Error error = find_queue(stream, &queue); error != Error::none) return error;
  if (!width || !height) return Error::none;
  if (height > 1 && (to_pitch < width || from_pitch < width))
    return fail(Error::invalid_value, "pitches %zu and %zu are below the width %zu", to_pitch, from_pitch,
                width);
  End target, source;
  if (Error error = resolve(to, (height - 1) * to_pitch + width, &target); error != Error::none) return error;
  if (Error error = resolve(from, (height - 1) * from_pitch + width, &source); error != Error::none)
    return error;
  for (const BlockRef& block : {target.block, source.block})
    if (Error error = refuse_others(block, queue->device); error != Error::none) return error;
  if (is_pageable(target, source, width * height))
    await_earlier_work(*queue, place_of(target, source, *queue));

  auto copy = [this, target, source, span = Span{width, height, to_pitch, from_pitch}]() -> Failure {
    sleep_us(static_cast<int64_t>(options().sim_faults("copy_us")));
    if (uint64_t number = number_of_failing(copies_, options().sim_faults("copies")))
      return failure_of("simulated fault: copy " + std::to_string(number) + " failed (FAIRLEAD_SIM_FAULTS)");
    const bool puts = target.block && target.block->imported;
    if (uint64_t number = puts ? number_of_failing(puts_, options().sim_faults("puts")) : 0)
      return failure_of("simulated fault: put " + std::to_string(number) + " failed (FAIRLEAD_SIM_FAULTS)");
    for (const BlockRef& block : {target.block, source.block})
      if (block && !block->live) return freed_in_flight(block);
    for (size_t row = 0; row < span.height; ++row)
      memmove(target.bytes + row * span.to_pitch, source.bytes + row * span.from_pitch, span.width);
    return nullptr;
  };
  const auto place = place_of(target, source, *queue);
  if (!place) return queue->submit(copy);
  auto copy_in_turn = [place, copy]() -> Failure {
    place->await();
    Failure failure = copy();
    place->leave();
    return failure;
  };
  return queue->submit(copy_in_turn, [&place] { place->take(); });
}

// CUDA returns once it has a copy of the few bytes of pageable memory, and waits for no copy inside a device.
Error Simulator::copy_as_program(void* to, const void* from, size_t bytes) {
  constexpr size_t copied_at_once = size_t{64} << 10;
  Stream stream = nullptr;
  int device = 0;
  QueueRef queue;
  End target, source;
  Error error = adopt_stream(nullptr, &stream, &device);
  if (error == Error::none) error = find_queue(stream, &queue);
  if (error == Error::none) error = resolve(to, bytes, &target);
  if (error == Error::none) error = resolve(from, bytes, &source);
  if (error != Error::none) return error;
  auto waits = [](const End& end) {
    return end.block && (end.block->synchronous || end.block->kind != MemoryKind::device);
  };
  for (const BlockRef& block : {target.block, source.block})
    if (error = refuse_others(block, queue->device); error != Error::none) return error;
  const bool pageable = !source.block && bytes <= copied_at_once;
  if (!target.block || waits(target) || waits(source) || !(source.block || pageable)) {
    error = copy(to, from, bytes, stream);
    return error == Error::none ? synchronize_stream(stream) : error;
  }
  if (!pageable && !queue->idle()) return copy(to, from, bytes, stream);
  std::vector<char> staged;
  if (pageable) {
    await_earlier_work(*queue, place_of(target, source, *queue));
    staged.assign(source.bytes, source.bytes + bytes);
  }
  queue->submit_late([target, source, bytes, staged = std::move(staged)]() -> Failure {
    for (const BlockRef& block : {target.block, source.block})
      if (block && !block->live) return freed_in_flight(block);
    memmove(target.bytes, staged.empty() ? source.bytes : staged.data(), bytes);
    return nullptr;
  });
  return Error::none;
}

Error Simulator::fill(void* to, int byte, size_t bytes, Stream stream) {
  QueueRef queue;
  if (Error error = find_queue(stream, &queue); error != Error::none) return error;
  if (!bytes) return Error::none;
  End target;
  if (Error error = resolve(to, bytes, &target); error != Error::none) return error;
  if (!target.block && !is_coherent())
    return fail(Error::invalid_value, "%p is pageable host memory, which a GPU cannot fill", to);
  if (Error error = refuse_others(target.block, queue->device); error != Error::none) return error;
  return queue->submit([target, byte, bytes]() -> Failure {
    if (target.block && !target.block->live) return freed_in_flight(target.block);
    memset(target.bytes, byte, bytes);
    return nullptr;
  });
}

Error Simulator::create_event(int device, Event* event) {
  await_launches();
  if (Error error = begin(device); error != Error::none) return error;
  *event = events_.add(std::make_shared<RecordedEvent>(device));
  return Error::none;
}

Error Simulator::destroy_event(Event event) {
  await_launches();
  if (Error error = usable(); error != Error::none) return error;
  if (events_.forget_ended(event) || events_.remove(event)) return Error::none;
  return fail(Error::invalid_value, "no such event, or it was destroyed");
}

Error Simulator::record_event(Event event, Stream stream) {
  QueueRef queue;
  std::shared_ptr<RecordedEvent> found;
  if (Error error = find_queue(stream, &queue); error != Error::none) return error;
  if (Error error = find_event(event, &found); error != Error::none) return error;
  found->record(queue->mark());
  return Error::none;
}

Error Simulator::query_event(Event event) {
  std::shared_ptr<RecordedEvent> found;
  Error error = begin_unsafe();
  if (error == Error::none) error = find_event(event, &found);
  return error != Error::none ? error : found->query();
}

Error Simulator::wait_event(Stream stream, Event event) {
  QueueRef queue;
  std::shared_ptr<RecordedEvent> found;
  if (Error error = find_queue(stream, &queue); error != Error::none) return error;
  if (Error error = find_event(event, &found); error != Error::none) return error;
  MomentRef moment = found->moment();
  return moment ? queue->wait_for(moment) : Error::none;
}

Error Simulator::find_kernel(int device, const CodeImage* images, size_t count, const char* name,
                             Kernel* kernel) {
  if (Error error = begin(device); error != Error::none) return error;
  if (Error error = begin_unsafe(); error != Error::none) return error;
  if (options().sim_faults("no_kernels"))
    return fail(Error::not_supported, "FAIRLEAD_SIM_FAULTS has no_kernels");
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(images[i].target, "cpu") != 0) continue;
    auto* found = *reinterpret_cast<const fairlead_cpu_kernel* const*>(images[i].bytes);
    for (; found; found = found->next)
      if (strcmp(found->name, name) == 0) {
        *kernel = kernels_.handle_of(
            [&](const LoadedKernel& known) { return known.code == found && known.device == device; });
        if (!*kernel) *kernel = kernels_.add(std::make_shared<LoadedKernel>(LoadedKernel{found, device}));
        return Error::none;
      }
  }
  return fail(Error::not_found, "no kernel %s in the code for the CPU", name);
}

bool Simulator::reaches(int device, const Block& block) const {
  if (block.kind != MemoryKind::device || block.device == device) return true;
  return !block.is_of_one_device() && peers_[device] >> block.device & 1;
}

Arguments Simulator::take_arguments(const fairlead_cpu_kernel& kernel, void** arguments, int device) {
  Arguments taken;
  taken.values.resize(kernel.parameter_count);
  for (unsigned i = 0; i < kernel.parameter_count; ++i) {
    const auto* bytes = static_cast<const unsigned char*>(arguments[i]);
    taken.values[i].assign(bytes, bytes + kernel.parameters[i].size);
    for (unsigned pointer = 0; pointer < kernel.parameters[i].pointers; ++pointer) {
      unsigned char* place = taken.values[i].data() + pointer * sizeof(void*);
      void* address;
      memcpy(&address, place, sizeof address);
      if (!address) continue;
      std::string parameter = std::string("kernel ") + kernel.name + ": parameter " + std::to_string(i);
      BlockRef block = memory_.find(address);
      if (!block && is_coherent() && !memory_.in_region(address)) continue;
      if (!block) {
        taken.failure = failure_of(parameter + " is an address that the GPU cannot reach");
      } else if (!reaches(device, *block)) {
        taken.failure = failure_of(parameter + " is memory of device " + std::to_string(block->device) +
                                   ", to which device " + std::to_string(device) + " has no peer access");
      } else {
        address = block->at(address);
        memcpy(place, &address, sizeof address);
        taken.blocks.push_back(block);
      }
    }
  }
  return taken;
}

Error Simulator::launch(Kernel kernel, unsigned grid, unsigned block, void** arguments, Stream stream) {
  QueueRef queue;
  if (Error error = find_queue(stream, &queue); error != Error::none) return error;
  const std::shared_ptr<LoadedKernel> loaded = kernels_.find(kernel);
  if (!loaded || !grid || !block || block > 1024)
    return fail(Error::invalid_value, "a grid of %u blocks of %u threads; accepted: from 1, 1 to 1024", grid,
                block);
  const fairlead_cpu_kernel& code = *loaded->code;
  queue->wait_for_room(1, launching_);
  return queue->submit(
      [&code, grid, block, taken = take_arguments(code, arguments, queue->device)]() mutable {
        if (taken.failure) return taken.failure;
        for (const BlockRef& used_block : taken.blocks)
          if (!used_block->live) return freed_in_flight(used_block);
        std::vector<void*> addresses;
        for (auto& value : taken.values) addresses.push_back(value.data());
        code.run(grid, block, addresses.data());
        return Failure();
      });
}

}  // namespace fairlead::device::sim
