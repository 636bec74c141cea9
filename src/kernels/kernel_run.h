// SPDX-License-Identifier: Apache-2.0
//
// A kernel of this library in flight, and how the CPU learns of its end: the kernel stores a word in
// page-locked memory, which the CPU sees sooner than the driver would answer a query. Kernels run in a stream
// of high priority, one after the other in the order of their launches.
// Thread-safe; a KernelRun belongs to one thread at a time.

#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "base/attempt.h"
#include "base/system/processor.h"
#include "device/context.h"
#include "kernels/blocks.h"
#include "kernels/reduce.h"

namespace fairlead::kernels {

// Can this library's kernels run on the device now? Their code is loaded when the device is idle.
bool copies_run_on(int device);
bool moves_run_on(int device);
bool swaps_run_on(int device);
bool meetings_run_on(int device);
bool reductions_run_on(int device, ReduceOp op, Element element);
// Does it have what all kernels need besides their code?
bool kernels_run_on(int device);

struct KernelContext;
struct Meet;  // meet.h

// A word in page-locked memory, and where kernels find it.
struct EndWord {
  uint64_t* address = nullptr;
  uint64_t* for_kernels = nullptr;
  explicit operator bool() const { return address; }
};

// A page-locked word to which kernels of the device may store; null: none is left. It ends with the context
// of the device.
uint64_t* take_word_of_kernels(int device);
void give_back_word_of_kernels(int device, uint64_t* word);

class KernelRun {
 public:
  KernelRun() = default;
  ~KernelRun();
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

  // Before the start: the kernel stores `value` to `word` when it is over. Others may wait for that, too.
  void signal(const EndWord& word, uint64_t value) {
    word_ = word;
    value_ = value;
  }
  // Before the start: all that the kernel writes is memory of the GPU that runs it, apart from what carries
  // flags. Where a CPU may cache that, only a fence of the system's scope orders it before the signal.
  void writes_own_memory(bool it_does = true) { own_memory_ = it_does && !cpu_caches_device_memory; }
  // later: the stream is full of kernels; or the code, or what all kernels of the device need, cannot be
  // loaded or made now.
  Attempt reduce(int device, ReduceOp op, Element element, const void* const* from, int sources,
                 void* const* to, int targets, uint64_t count, void* old = nullptr);
  Attempt copy(int device, const device::CopyItem* items, size_t count, uint64_t bytes);
  Attempt swap(int device, void* target, const void* compare, const void* wanted, void* old, unsigned bytes);
  // The first kernel of a call that all CPUs have announced, or another one.
  Attempt meet(int device, const Meet& call, bool first);
  Attempt move(int device, const LaidOutBuffer& to, uint64_t to_at, const LaidOutBuffer& from,
               uint64_t from_at, uint64_t bytes);
  // A kernel that the function launches in the stream, with this signal.
  Attempt launch(int device, const std::function<device::Error(device::Stream, const Signal&)>& launch);
  // none: over, or never started.
  device::Error poll();

 private:
  template <class Launch>
  Attempt start(int device, Launch launch);

  KernelContext* context_ = nullptr;
  device::Context made_in_;
  EndWord word_;  // the flag of the device, unless the caller has given another one
  uint64_t value_ = 0;
  uint64_t sequence_ = 0;  // of the launches of the device
  bool own_memory_ = false;
  unsigned polls_ = 0;
  uint64_t since_ = 0;  // for the trace
  bool active_ = false;
};

// Makes what kernels that move bytes need and what cannot be made while streams wait
// (device/blocking_driver_calls.h).
void prepare_kernel_runs(int device);
// Called in MPI_Finalize.
void release_kernel_runs();

// As long as it exists, a thread loads the kernels that programs are most likely to need first, on the
// devices that are in use then: at least one kernel, if any device is. Must not outlast the MPI call that
// makes it, because between its calls the program may start a kernel that keeps the driver from returning
// (BlockingDriverCalls). The destructor waits for the kernel that is being loaded.
class EarlyLoading {
 public:
  EarlyLoading();
  ~EarlyLoading();
  EarlyLoading(const EarlyLoading&) = delete;
  EarlyLoading& operator=(const EarlyLoading&) = delete;

 private:
  void run();

  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace fairlead::kernels
