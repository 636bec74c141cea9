// SPDX-License-Identifier: Apache-2.0
//
// The simulated GPU implements the device runtime contract on the CPU. It is as strict as a real GPU, so that
// code that works here works there. memory.h implements memory, stream.h implements streams. The Simulator
// combines them: it checks arguments, resolves addresses at submission, and creates the work.
//
// It is strict in these points, in addition to those of the two files: copies and kernels read their host
// sources late; work fails if its memory was freed; a kernel fails if its device could not access an address
// it was given (pageable host memory, freed memory, a peer without enabled access); imported memory is valid
// only for the device of the import; a forked child can use nothing. A call that submits work to a full queue
// waits, and if it is a launch, so do calls that make or free something. A copy of pageable memory, or
// a long one between two devices without peer access, waits for its stream's earlier work, and other such
// copies and calls that make something wait for it. Copies of more streams than there are queues wait for
// each other. A synchronous copy of the program that CUDA does not wait for is undone as long as nobody
// looks.

#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/options.h"
#include "device/runtime.h"
#include "device/sim/copy_queues.h"
#include "device/sim/error.h"
#include "device/sim/graph.h"
#include "device/sim/memory.h"
#include "device/sim/stream.h"

struct fairlead_cpu_kernel;

namespace fairlead::device::sim {

// One end of a copy: the provider's address of the bytes, and the block that keeps them alive, if any.
struct End {
  char* bytes;
  BlockRef block;
};

Failure failure_of(std::string text);
Failure freed_in_flight(const BlockRef& block);

// Every n-th of some events fails, none if n is 0: the number of this one if it does, else 0.
inline uint64_t number_of_failing(std::atomic<uint64_t>& events, uint64_t n) {
  const uint64_t number = ++events;
  return n > 0 && number % n == 0 ? number : 0;
}

// The arguments of a launch, copied at submission; pointers are translated to aliases.
struct Arguments {
  std::vector<std::vector<unsigned char>> values;
  std::vector<BlockRef> blocks;
  Failure failure;
};

class Simulator : public Runtime {
 public:
  explicit Simulator(bool as_cuda);

  const char* name() const override { return "sim"; }
  const char* error_text() const override { return last_error_text(); }
  int version() const override { return 0; }

  // ---- Process and devices -------------------------------------------------------------------------
  bool in_use() override { return used_.load(std::memory_order_relaxed); }
  Error initialize() override { return begin(); }
  Error device_count(int* count) override {
    *count = device_total();
    return Error::none;
  }
  Error device_info(int device, DeviceInfo* info) override;
  bool has_context(int device) override;
  uint32_t context_number(int device) const override { return numbers_[device]; }
  Error reset(int device) override;
  Error current_device(int* device) override;
  Error set_current_device(int device) override;
  Error run_on(int device, const std::function<void()>& work) override;
  Error synchronize(int device) override;
  Error can_access_peer(int device, int peer, bool* possible) override;
  bool processes_take_turns(int) override { return options().sim_faults("turns") != 0; }
  Error enable_peer(int device, int peer) override;

  // ---- Memory --------------------------------------------------------------------------------------
  Error query(const void* address, Allocation* allocation) override;
  void* memory_for_kernels(void* memory) override;
  Error allocate(int device, size_t bytes, void** address) override {
    return allocate_on(MemoryKind::device, Origin::plain, device, bytes, address);
  }
  Error allocate_managed(int device, size_t bytes, void** address) override {
    return allocate_on(MemoryKind::managed, Origin::plain, device, bytes, address);
  }
  Error allocate_from_pool(int device, size_t bytes, void** address) override {
    return allocate_on(MemoryKind::device, Origin::pool, device, bytes, address);
  }
  Error allocate_virtual_in(int location, int device, size_t bytes, void** address) override;
  Error free(void* address) override { return free_when_idle(address, false); }
  Error allocate_pinned(size_t bytes, void** address, int* device) override {
    int its = -1;
    Error error = begin_making_on_any(device, &its);
    return error != Error::none
               ? error
               : memory_.allocate(MemoryKind::pinned, Origin::plain, its, its, bytes, address);
  }
  Error free_pinned(void* address) override { return free_when_idle(address, true); }
  Error register_host(void* address, size_t bytes, int* device) override {
    int its = -1;
    Error error = begin_making_on_any(device, &its);
    return error != Error::none ? error : memory_.register_host(its, address, bytes);
  }
  Error unregister_host(void* address) override {
    Error error = begin_making();
    return error != Error::none ? error : memory_.unregister_host(address);
  }
  Error memory_info(int device, size_t* free_bytes, size_t* total_bytes) override;
  Error set_sync_memops(const void* address) override;
  Error copy_as_program(void* to, const void* from, size_t bytes) override;
  void* cpu_mapping(const void* address, size_t bytes) override;
  bool cpu_stores_are_ordered(int) override { return true; }
  bool kernels_reach_host(int) override { return is_coherent(); }

  // ---- Streams, copies, events ---------------------------------------------------------------------
  Error create_stream(int device, Stream* stream, StreamKind kind) override;
  Error adopt_stream(void* native, Stream* stream, int* device) override;
  Error destroy_stream(Stream stream) override;
  void* native(Stream stream) const override;
  Error synchronize_stream(Stream stream) override;
  Error query_stream(Stream stream) override;
  Error query_application(int device) override;
  Error query_device(int device) override;
  bool queries_all_streams() const override { return true; }
  Error copy(void* to, const void* from, size_t bytes, Stream stream) override {
    return copy_2d(to, bytes, from, bytes, bytes, 1, stream);
  }
  Error copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                Stream stream) override;
  Error fill(void* to, int byte, size_t bytes, Stream stream) override;
  Error create_event(int device, Event* event) override;
  Error destroy_event(Event event) override;
  Error record_event(Event event, Stream stream) override;
  Error query_event(Event event) override;
  Error wait_event(Stream stream, Event event) override;

  // ---- Words, host functions, graphs ---------------------------------------------------------------
  bool has_word_operations(int device) override;
  Error write_word(Stream stream, uint32_t* address, uint32_t value) override;
  Error wait_word(Stream stream, const uint32_t* address, uint32_t value) override;
  Error call_host(Stream stream, void (*function)(void*), void* argument) override;
  Error capture_of(Stream stream, Capture* capture) override;
  Error exchange_capture_mode(CaptureMode* mode) override;
  Error begin_capture(Stream stream, CaptureMode mode) override;
  Error end_capture(Stream stream, Graph* graph) override;
  Error keep_with_graph(Stream stream, std::shared_ptr<const void> object) override;
  Error launch_graph(Graph graph, Stream stream) override;
  Error destroy_graph(Graph graph) override;

  // ---- Memory of other processes -------------------------------------------------------------------
  Error ipc_export(const void* base, IpcHandle* handle, int* file) override;
  Error ipc_import(int device, const IpcHandle& handle, int file, void** base) override;
  Error fabric_domain(int device, FabricDomain* domain) override;
  Error fabric_export(const void* base, IpcHandle* handle) override;
  Error fabric_import(int device, const IpcHandle& handle, size_t bytes, void** base) override;
  Error ipc_close(int device, void* base) override {
    Error error = begin(device);
    if (error == Error::none) error = begin_unsafe();
    if (error != Error::none) return error;
    for (const QueueRef& queue : streams_.all())
      if (queue->device == device) queue->wait_idle();
    return memory_.ipc_close(device, base);
  }

  // ---- Kernels -------------------------------------------------------------------------------------
  Error find_kernel(int device, const CodeImage* images, size_t count, const char* name,
                    Kernel* kernel) override;
  Error launch(Kernel kernel, unsigned grid, unsigned block, void** arguments, Stream stream) override;

 private:
  Error share(const void* base, uint64_t domain, IpcHandle* handle, int* file);
  Error map_shared(int device, const IpcHandle& handle, uint64_t domain, int file, void** base);
  template <class Matches>
  Error query_streams(int device, Matches matches);
  static int device_total() { return static_cast<int>(options().sim_devices); }
  static bool valid(int device) { return device >= 0 && device < device_total(); }
  static Error usable();
  static Error begin();              // first use of the driver
  Error begin(int device);           // first use of a device as well: creates its context
  Error begin_unsafe();              // for calls that are refused during a capture
  Error begin_question(int device);  // for those that are refused whatever the mode
  template <class Matches>
  Error end_captures(Matches matches);  // Error::capturing if there is one
  // For calls that make or free something.
  void await_launches() { std::lock_guard lock(launching_); }
  Error begin_making() {  // of memory
    await_launches();
    return begin_unsafe();
  }
  // Chooses the device that is wanted, else the thread's current one if it is in use, else another one that
  // is.
  Error begin_making_on_any(int* wanted, int* chosen);
  // What a copy waits for besides its stream.
  void await_earlier_work(WorkQueue& queue, const std::shared_ptr<CopyQueues::Place>& place);
  bool is_pageable(const End& to, const End& from, size_t bytes) const;
  std::shared_ptr<CopyQueues::Place> place_of(const End& to, const End& from, WorkQueue& queue);
  Error look_up(Stream stream, QueueRef* queue);
  // The same for a stream that is about to be used: any use of the default stream makes it and application
  // streams wait for each other.
  Error find_queue(Stream stream, QueueRef* queue);
  Error order_with_default(const QueueRef& queue);
  Error make_queue(int device, StreamKind kind, QueueRef* queue, Stream* stream = nullptr);
  QueueRef default_queue(int device);
  Error adopted_queue(int device, uintptr_t native, QueueRef* queue);
  Error find_word(Stream stream, const void* address, QueueRef* queue, End* word);
  Error find_event(Event event, std::shared_ptr<RecordedEvent>* found);
  Error resolve(const void* address, size_t bytes, End* end);
  Error allocate_on(MemoryKind kind, Origin origin, int device, size_t bytes, void** address) {
    Error error = begin(device);
    if (error == Error::none) error = begin_making();
    return error != Error::none ? error : memory_.allocate(kind, origin, device, device, bytes, address);
  }
  Error free_when_idle(void* address, bool pinned);
  Arguments take_arguments(const fairlead_cpu_kernel& kernel, void** arguments, int device);
  bool reaches(int device, const Block& block) const;

  // The handle of an adopted stream is the application's handle with this bit and the device.
  static constexpr uintptr_t adopted_bit = uintptr_t{1} << 63;
  static constexpr int device_shift = 48;
  static constexpr uintptr_t native_mask = (uintptr_t{1} << device_shift) - 1;
  enum SpecialHandle : uintptr_t { default_stream = 0, legacy_stream = 1, thread_stream = 2 };

  static inline std::atomic<bool> used_{false}, forked_after_use_{false};
  static inline std::atomic<bool> over_{false};  // as a driver ends with the program, after main()
  static inline thread_local bool in_host_function_ = false;
  static inline thread_local CaptureMode capture_mode_ = CaptureMode::global;

  const bool has_copy_queues_;
  CopyQueues copy_queues_;
  std::mutex copying_pageable_;
  std::mutex launching_;  // held by launches that wait for room in their queue
  Memory memory_;
  HandleTable<Stream, WorkQueue> streams_{thread_stream};
  HandleTable<Event, RecordedEvent> events_;
  HandleTable<Graph, CapturedGraph> graphs_;
  struct LoadedKernel {
    const fairlead_cpu_kernel* code;
    int device;
  };
  HandleTable<Kernel, LoadedKernel> kernels_;
  std::mutex default_mutex_;
  std::atomic<bool> has_default_queue_{false};
  QueueRef default_queues_[max_devices];
  std::atomic<bool> contexts_[max_devices] = {};
  std::atomic<uint32_t> numbers_[max_devices] = {};  // of contexts that have ended
  std::atomic<uint64_t> peers_[max_devices] = {};    // bit p of entry d: d may access p
  std::atomic<uint64_t> copies_{0}, puts_{0}, imports_{0};
};

}  // namespace fairlead::device::sim
