// SPDX-License-Identifier: Apache-2.0
//
// The one seam between Fairlead and a GPU: what a provider (cuda.cpp, hip.cpp, sim.cpp) must offer.
//
// Rules common to all functions:
//  - Safe to call from any thread, also one that never touched a GPU.
//  - They never throw. Success is Error::none; anything else leaves the outputs untouched and
//    error_text() of the calling thread tells the provider's own words.
//  - Device ordinals are those the application sees (after *_VISIBLE_DEVICES).
//  - Functions that take a device, stream or event make the context they need current for the time of
//    the call only: the caller's current device is the same before and after.
//  - Except where said, a function may create the device's primary context. query() and in_use() never
//    do: they are asked about every pointer of every process, also in processes that own no GPU.
//  - Addresses are unified: a copy's direction follows from its addresses.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fairlead::device {

enum class Error : uint8_t {
  none,
  not_ready,        // the event or stream still has work in flight
  not_initialized,  // no driver, or the process never initialised it
  invalid_value,    // an argument the provider refuses
  out_of_memory,
  not_supported,     // this provider or this device cannot do it
  peer_unavailable,  // two devices cannot reach each other
  already_mapped,    // the IPC handle is open in this process already
  not_found,         // no such kernel
  failed,            // everything else
};
const char* to_string(Error error);

enum class MemoryKind : uint8_t {
  host,     // plain host memory, unknown to the driver
  pinned,   // host memory the driver knows
  device,   // device memory: the host must not dereference it
  managed,  // migrates; the host may dereference it
};
const char* to_string(MemoryKind kind);

// What the driver knows of an address. For MemoryKind::host all other fields are zero.
struct Allocation {
  MemoryKind kind = MemoryKind::host;
  bool exportable = false;  // ipc_export() may be tried
  int device = -1;
  uintptr_t base = 0;  // start of the allocation the address lies in
  size_t size = 0;     // its length in bytes
  uint64_t id = 0;     // never reused within a process: tells a new allocation at an old address
};

struct DeviceInfo {
  char name[64];
  uint8_t uuid[16];  // the same on every process of the node, whatever it sees
  char pci[16];      // "0000:1b:00.0"
  size_t memory;     // bytes
  int multiprocessors;
};

// Travels between processes of one node, by value.
struct IpcHandle {
  unsigned char bytes[64];
};

// One block, or rows of so many bytes each that begin a pitch apart, which is at least a row.
struct CopyItem {
  void* to;
  const void* from;
  size_t bytes;
  size_t rows = 1, to_pitch = 0, from_pitch = 0;
};

// Whose work a stream carries. An application's stream is one as cudaStreamCreate and hipStreamCreate make
// them: it and the default stream wait for each other. The library's never wait for an application's. Kernels
// of an urgent one start as soon as any block of another kernel ends, not behind all of them; one thread at a
// time launches them.
enum class StreamKind : uint8_t { library, urgent, application };

using Stream = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using Kernel = struct OpaqueKernel*;

// Device code for every target a build made, embedded by cmake/DeviceCode.cmake. One entry a target.
struct CodeImage {
  const char* target;  // "ptx", "gfx90a", ...
  const unsigned char* bytes;
  size_t size;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual const char* name() const = 0;        // "cuda", "rocm" or "sim"
  virtual const char* error_text() const = 0;  // provider's words for this thread's last error, "" if none
  virtual int version() const = 0;             // the driver's own number; 0 where it has none

  // ---- Process and devices -------------------------------------------------------------------------
  // Has anybody in this process initialised the driver, so that device pointers can exist? Costs a few
  // nanoseconds once the answer is yes.
  virtual bool in_use() = 0;
  // Opens the driver's library where that was put off; initialises nothing. False, and why, where there is
  // none; there may be one later.
  virtual bool open(std::string*) { return true; }
  virtual Error initialize() = 0;  // initialise the driver; creates no context
  virtual Error device_count(int* count) = 0;
  virtual Error device_info(int device, DeviceInfo* info) = 0;
  // The target that device code is compiled for, "gfx90a"; "" where it is not known, or any PTX will do.
  virtual std::string architecture(int) { return {}; }
  virtual bool has_context(int device) = 0;  // without creating one
  virtual Error current_device(int* device) = 0;
  virtual Error set_current_device(int device) = 0;  // for the application's use, not the library's
  // Calls `work`, of a library that sees the current device of this thread, while `device` is that.
  virtual Error run_on(int device, const std::function<void()>& work) = 0;
  virtual Error synchronize(int device) = 0;
  virtual Error can_access_peer(int device, int peer, bool* possible) = 0;
  virtual Error enable_peer(int device, int peer) = 0;  // none as well when it was enabled already

  // ---- Memory --------------------------------------------------------------------------------------
  // Unknown addresses are MemoryKind::host and no error.
  virtual Error query(const void* address, Allocation* allocation) = 0;
  virtual Error allocate(int device, size_t bytes, void** address) = 0;
  virtual Error allocate_managed(int device, size_t bytes, void** address) = 0;
  // Stream-ordered memory of the device's default pool (cudaMallocAsync, hipMallocAsync).
  virtual Error allocate_from_pool(int device, size_t bytes, void** address) = 0;
  // Virtual memory: pieces of physical memory that can be shared by file descriptor, mapped one behind the
  // other, as the expandable segments of an application's allocator are. query() describes one piece.
  virtual Error allocate_virtual(int device, size_t bytes, void** address) = 0;
  virtual Error free(void* address) = 0;  // whatever the functions above gave
  virtual Error allocate_pinned(size_t bytes, void** address) = 0;
  virtual Error free_pinned(void* address) = 0;
  virtual Error register_host(void* address, size_t bytes) = 0;  // usable by every device
  virtual Error unregister_host(void* address) = 0;
  virtual Error memory_info(int device, size_t* free_bytes, size_t* total_bytes) = 0;
  // Makes the driver finish its own memory operations on this allocation before they return.
  virtual Error set_sync_memops(const void* address) = 0;
  // Do copies into page-locked memory write each aligned 32-bit word at once, so that the host may watch them
  // arrive? True of transfers over PCIe and its kin.
  virtual bool writes_whole_words() const { return false; }
  // Where the CPU can load and store this device memory directly, or null; a provider may want to be asked a
  // few times before it maps anything. Valid until the memory is freed or another mapping is asked for.
  virtual void* cpu_mapping(const void* address, size_t bytes) = 0;
  // Does every kernel launched afterwards see what was stored there, once it is fenced and read back?
  virtual bool cpu_stores_are_ordered() const { return false; }

  // ---- Streams, copies, events ---------------------------------------------------------------------
  // A driver without memory for another one gives the default stream, which waits for the application's.
  virtual Error create_stream(int device, Stream* stream, StreamKind kind = StreamKind::library) = 0;
  virtual Error destroy_stream(Stream stream) = 0;
  virtual void* native(Stream stream) const = 0;  // cudaStream_t, hipStream_t
  virtual Error synchronize_stream(Stream stream) = 0;
  virtual Error query_stream(Stream stream) = 0;  // none or not_ready
  // The same about all work of the application on this device: in the default stream and in those that wait
  // for it. (Its other streams escape a driver, and so do contexts besides the primary one.) Waits for
  // nothing, and creates no context.
  virtual Error query_application(int device) = 0;
  // The same about all work on this device, the library's included, where a driver tells; else the above.
  // Takes up to 20 microseconds, and ends what another thread captures into a graph at that moment.
  virtual Error query_device(int device) { return query_application(device); }
  // As many streams for copies as run side by side, and keep out of the way of the application's work.
  virtual int copy_streams() const { return 4; }
  virtual Error copy(void* to, const void* from, size_t bytes, Stream stream) = 0;  // returns at once
  // All of them, in no order among themselves. At once where the driver can; here, one after the other.
  virtual Error copy_batch(const CopyItem* items, size_t count, Stream stream) {
    Error error = Error::none;
    for (size_t i = 0; i < count && error == Error::none; ++i)
      error = copy(items[i].to, items[i].from, items[i].bytes, stream);
    return error;
  }
  virtual Error copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                        size_t height, Stream stream) = 0;
  virtual Error fill(void* to, int byte, size_t bytes, Stream stream) = 0;
  virtual Error create_event(int device, Event* event) = 0;
  virtual Error destroy_event(Event event) = 0;
  virtual Error record_event(Event event, Stream stream) = 0;
  virtual Error query_event(Event event) = 0;  // none or not_ready
  virtual Error wait_event(Stream stream, Event event) = 0;

  // ---- Memory of other processes -------------------------------------------------------------------
  // `base` must be the start of an allocation that query() called exportable. Some memory (virtual memory) is
  // shared by a file descriptor, which must reach the importer besides the handle: it is the caller's to
  // close, and -1 where the handle alone will do.
  virtual Error ipc_export(const void* base, IpcHandle* handle, int* file) = 0;
  // Does an equal handle mean the same memory, also after it was freed and allocated again?
  virtual bool ipc_handles_tell_memory() const { return true; }
  // `file` is a descriptor of the same file, or -1; it stays the caller's. The mapping serves work on
  // `device`; for another device the same memory is imported again.
  virtual Error ipc_import(int device, const IpcHandle& handle, int file, void** base) = 0;
  // The device it was imported for. Waits until that has done all work it was given, of whatever stream.
  virtual Error ipc_close(int device, void* base) = 0;

  // ---- Kernels -------------------------------------------------------------------------------------
  // Loads the image that fits the device, once per device and image set; finds `name` in it. A set is known
  // by its address and stays there: another one in its place would be taken for it.
  virtual Error find_kernel(int device, const CodeImage* images, size_t count, const char* name,
                            Kernel* kernel) = 0;
  virtual Error launch(Kernel kernel, unsigned grid, unsigned block, void** arguments, Stream stream) = 0;
};

// The provider of this process, by option FAIRLEAD_DEVICE (auto, cuda, rocm, sim, none).
// auto takes CUDA, then ROCm, where a driver and a device are found, else the simulated GPU.
// Null for none. Never initialises a driver beyond what choosing needs.
Runtime* runtime();

// The same for callers that need a GPU themselves, as those of fairlead/device.h do: one whose library can be
// opened. Where AMD's driver is there and no HIP runtime, auto takes the simulated GPU now, which runtime()
// then gives, too. Null, and the log says why, for a provider that was asked for by name.
Runtime* required_runtime();

// What each provider file offers to runtime(); null when its library cannot be opened, with the reason.
Runtime* make_cuda(const char** why_not);
Runtime* make_hip(const char** why_not);
Runtime* make_sim();

}  // namespace fairlead::device
