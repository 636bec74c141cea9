// SPDX-License-Identifier: Apache-2.0
//
// What the program itself has submitted to GPU streams, and what of that the host has waited for, for
// FAIRLEAD_CHECK=streams. Sources are the functions of fairlead/device.h, with CUDA the driver's callbacks
// (cupti.h), and with ROCm HIP's tables of functions (hip_tables.h). Order is known by vector clocks (Fidge,
// 1988): each stream counts its work; what a wait for a stream, an event or a device orders is kept as one
// number for each stream. So the answer does not depend on how fast a GPU is. Thread-safe. All threads of the
// host count as one: a wait in any of them counts.
//
// A kernel is known by its parameters: it may access the allocations that they point into, from that address
// on. That makes a judgement certain, or only possible: see Verdict. With FAIRLEAD_CHECK=accesses it is known
// by what it has accessed, of the bytes that MPI has used before (accesses.h).

#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fairlead::device::program {

// Return addresses of the calling thread, the innermost first. To name them takes much longer than to keep
// them, so it is left to reports.
struct Frames {
  void* at[24];
  int depth = 0;
};
Frames frames_here();

// The driver's handle of a stream. One that stands for a default stream is that of the context.
struct StreamKey {
  const void* context = nullptr;
  const void* handle = nullptr;
  auto operator<=>(const StreamKey&) const = default;
};
enum class StreamSort : uint8_t {
  alone,      // synchronises with no other
  blocking,   // cudaStreamCreate(): with the legacy default stream of its context
  of_context  // that one
};

enum class Access : uint8_t { reads, writes, unknown };

// `bytes` bytes from `address` on; if that is 0, memory behind a pointer that a kernel got.
struct Touched {
  uintptr_t address = 0;
  size_t bytes = 0;
  Access access = Access::unknown;
  bool with_gaps = false;
};

// Buffers of MPI operations so far: in order, and apart. Null without FAIRLEAD_CHECK=accesses.
struct Watched {
  uintptr_t begin, end, allocation;
};
using WatchedBytes = std::shared_ptr<const std::vector<Watched>>;
WatchedBytes watched_bytes();

struct Work {
  std::string name;  // "kernel smooth", "a copy"
  std::vector<Touched> touched;
  bool tells_host = false;         // a function of the host, or a word that it may read
  bool host_waits = false;         // the call returns when it is over, except in a capture
  WatchedBytes watched = nullptr;  // of these bytes, `accessed` tells all that are touched
  std::vector<Touched> accessed = {};
};

Work copy(const void* to, const void* from, size_t bytes, bool with_gaps = false);
Work fill(const void* to, size_t bytes);
Work host_function();

// What an operation of MPI accesses.
struct Buffer {
  uintptr_t address = 0;
  size_t bytes = 0;  // from the first to the last, with any gaps
  bool with_gaps = false;
  bool written = false;  // by MPI: a receive
  uintptr_t allocation = 0;
  size_t allocation_bytes = 0;
};

// What the provider of GPUs answers.
struct Provider {
  const char* name;
  bool (*host_may_read)(const void* address);  // page-locked or managed memory
  bool (*is_pageable)(const void* address);    // host memory that the driver does not know
  bool (*is_busy)(const void* stream);         // by the program's handle
};
// Does FAIRLEAD_CHECK have streams or accesses, which includes it?
bool wanted();
// Called once a provider has been chosen.
void watch(const Provider& provider);
// Are all submissions of the program seen? Without, no question below has an answer.
bool seen();
// For the sources: is there anybody to report to, and does this thread act for the program?
bool reports();
// Also true as long as no provider has been chosen.
bool may_be_pageable(const void* address);
// From now on a source sees all calls of this provider, which has been chosen or may be.
void sees(const char* provider);
// ---- What the sources report, in the order of the program's calls ----------------------------------------

void stream_made(const StreamKey& stream, const void* context, StreamSort sort);
void stream_ended(const StreamKey& stream);
void submitted(const StreamKey& stream, Work work);
void recorded(const void* event, const StreamKey& stream);
void event_ended(const void* event);
void stream_waits(const StreamKey& stream, const void* event);
// The allocation has ended, in the order of a stream: its address may soon be that of another one.
void freed(const void* address, size_t bytes);
// The host knows that all work of these submitted so far is over.
void host_waited(const StreamKey& stream);
void host_waited_for_event(const void* event);
void host_waited_for_context(const void* context);  // null: for all
void capture_began(const StreamKey& stream);
void capture_ended(const StreamKey& stream, const void* graph);  // null: without any
void graph_instantiated(const void* executable, const void* graph);
void graph_ended(const void* graph);
void devices_reset();
// `recorded` has what its kernels have accessed, if that is known.
void graph_launched(const void* executable, const StreamKey& stream, Work recorded = {});

// ---- Questions ---------------------------------------------------------------------------------------

enum class Verdict : uint8_t {
  none,
  // The work got a pointer to other bytes of the allocation, or of more than the buffer: it may leave the
  // buffer alone, as a kernel does that updates the interior of a field while its edge is sent. Or a function
  // of the host, or a word that it can read, may have told that the work is over.
  possible,
  certain
};
struct Conflict {
  Verdict verdict = Verdict::none;
  std::string work, stream;  // "kernel smooth", "stream 0x5581c0"
  Frames submitted_by;
};
// With work that nobody has waited for, the last one first.
Conflict conflict_of(const Buffer& buffer);

// Buffers that an operation of MPI uses, from open() until close(): work that is submitted meanwhile is
// compared with them. `report` gets what is wrong, in the thread that submits, without locks.
using Report = void (*)(const Frames& opened_by, const Buffer& buffer, const Conflict& conflict);
class OpenBuffers {
 public:
  OpenBuffers() = default;
  ~OpenBuffers() { close(); }
  OpenBuffers(const OpenBuffers&) = delete;
  OpenBuffers& operator=(const OpenBuffers&) = delete;
  void open(const Buffer& buffer, Report report);
  void close() {
    if (any_) close_all();
  }

 private:
  void close_all();
  std::atomic<bool> any_{false};
};

}  // namespace fairlead::device::program
