// SPDX-License-Identifier: Apache-2.0
//
// The only interface between Fairlead and a GPU: the contract that a provider (cuda/cuda.cpp and hip/hip.cpp,
// both over cuda_hip/; sim/sim.cpp) implements.
//
// Rules common to all functions:
//  - They are safe to call from any thread, including one that never used a GPU.
//  - They never throw. Success is Error::none; any other result leaves the outputs unchanged, and
//    error_text() returns the provider's message for the calling thread.
//  - Device ordinals are those that the application sees (after *_VISIBLE_DEVICES).
//  - Functions that take a device, stream or event make the necessary context current only during the call:
//    the caller's current device is the same before and after.
//  - Unless stated otherwise, a function may create the device's primary context. query() and in_use() never
//    do: Fairlead calls them for every pointer in every process, including processes without a GPU.
//  - Addresses are unified: the addresses determine the direction of a copy.
//  - Captures of graphs by the program and calls of the library do not concern each other, whichever thread
//    captures (guarded.h). Exceptions: query_device(), and calls that name a captured stream or event.
//  - What is made on a device belongs to its context, which ends when the program resets the device
//    (context_number()). A stream, event, graph or kernel of a context that has ended never reaches the
//    driver: calls that destroy it do nothing, and others fail (the simulated GPU ends the process). Memory
//    is known by its address only, so its owner must remember the context (context.h).

#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

namespace fairlead::device {

enum class Error : uint8_t {
  none,
  not_ready,        // the event or stream still has work in flight
  not_initialized,  // no driver, or nothing in the process has initialised it
  invalid_value,    // the provider refuses an argument
  out_of_memory,
  not_supported,     // this provider or this device cannot do it
  peer_unavailable,  // two devices cannot access each other's memory
  already_mapped,    // this process has already opened the IPC handle
  not_found,         // no such kernel
  failed,            // everything else
  capturing,         // refused while a stream is being captured; a later call may succeed
};
const char* to_string(Error error);

enum class MemoryKind : uint8_t {
  host,     // ordinary host memory, unknown to the driver
  pinned,   // host memory that is registered with the driver
  device,   // the host must not dereference it: memory of a device; virtual memory that the CPU cannot access
  managed,  // migrates between host and device; the host may dereference it
};
const char* to_string(MemoryKind kind);

inline constexpr int context_bit = 48;

// The driver's description of an address. For MemoryKind::host all other fields are zero.
struct Allocation {
  MemoryKind kind = MemoryKind::host;
  bool exportable = false;  // ipc_export() may succeed
  int device = -1;          // whose memory it is; if that has no access to it, one that has
  uintptr_t base = 0;       // start of the allocation that contains the address
  size_t size = 0;          // its length in bytes
  // Never reused within a process; distinguishes a new allocation at an old address. The bits from
  // context_bit on tell the context: memory at the same place of another one is never the same.
  uint64_t id = 0;
  bool ordinary = false;  // device memory as allocate() makes it: not managed, stream-ordered or virtual
  bool for_other_nodes = false;  // fabric_export() may succeed
};

struct DeviceInfo {
  char name[64];
  uint8_t uuid[16];  // identical in every process of the node, whichever devices it sees
  char pci[16];      // "0000:1b:00.0"
  size_t memory;     // bytes
  int multiprocessors;
};

// Sent by value between processes of one node.
struct IpcHandle {
  unsigned char bytes[64];
};

// GPUs of one cluster and clique reach each other's memory by NVLink, whichever node they are in. A cluster
// of zeros is none.
struct FabricDomain {
  unsigned char cluster[16];
  uint32_t clique;
  bool operator==(const FabricDomain&) const = default;
  explicit operator bool() const {
    return std::any_of(std::begin(cluster), std::end(cluster), [](unsigned char byte) { return byte != 0; });
  }
};

// What a stream does with a word: it waits, or writes.
struct WordAccess {
  bool waits;
  uint32_t* word;
  uint32_t value;
};

// One block, or several rows of equal length. Rows begin one pitch apart; a pitch is at least the row length.
struct CopyItem {
  void* to;
  const void* from;
  size_t bytes;
  size_t rows = 1, to_pitch = 0, from_pitch = 0;
  bool operator==(const CopyItem&) const = default;
};

// Whose work a stream carries. An application stream behaves like one from cudaStreamCreate or
// hipStreamCreate: it and the default stream synchronise with each other. Library streams never wait for
// application streams. Kernels on an urgent stream start as soon as any block of another kernel ends, rather
// than after all of them; only one thread at a time may launch them. A non-blocking stream is one that the
// application made to synchronise with no other: it shares no hardware queue with library streams.
enum class StreamKind : uint8_t { library, urgent, application, non_blocking };

using Stream = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using Kernel = struct OpaqueKernel*;
using Graph = struct OpaqueGraph*;  // ready to launch

// Whether a stream is being captured into a graph: work submitted to it then becomes part of the graph, and
// executes when the graph is launched.
struct Capture {
  enum class State : uint8_t { none, active, invalidated } state = State::none;
  uint64_t id = 0;  // of an active capture; never reused within a process
};

// While a stream is being captured, drivers refuse calls of a thread that could conflict with it, such as
// allocations and queries of any event, and invalidate the capture. A capture and a thread each have a mode.
// Calls of a thread conflict with captures that began in it, unless one of both modes is `relaxed`, and with
// those of other threads if both modes are `global`, the mode that a thread has at first.
enum class CaptureMode : uint8_t { global, thread, relaxed };

// Device code for each target of the build, embedded by cmake/DeviceCode.cmake. One entry per target.
struct CodeImage {
  const char* target;  // "ptx", "sm_90", "gfx90a", ...
  const unsigned char* bytes;
  size_t size;
};

// What the library may call at any time: these calls wait for no stream of the program, and no thread in a
// call of the driver delays them for long.
class PromptRuntime {
 public:
  virtual ~PromptRuntime() = default;

  virtual const char* name() const = 0;        // "cuda", "rocm" or "sim"
  virtual const char* error_text() const = 0;  // provider's message for this thread's last error, "" if none
  virtual int version() const = 0;             // the driver's version number; 0 if it has none

  // ---- Process and devices -------------------------------------------------------------------------
  // Returns whether any code in this process has initialised the driver, so that device pointers can exist.
  // Costs a few nanoseconds once the result is true.
  virtual bool in_use() = 0;
  // Opens the driver's library if that was deferred; initialises nothing. Returns false and the reason if the
  // library is not available; a later call may succeed.
  virtual bool open(std::string*) { return true; }
  virtual Error initialize() = 0;  // initialises the driver; creates no context
  virtual Error device_count(int* count) = 0;
  virtual Error device_info(int device, DeviceInfo* info) = 0;
  // Returns the compilation target of the device, for example "gfx90a" or "sm_90"; "" if it is unknown.
  virtual std::string architecture(int) { return {}; }
  virtual bool has_context(int device) = 0;  // does not create one
  // How many contexts in which this process had made something have ended, by cudaDeviceReset(),
  // cuDevicePrimaryCtxReset(), hipDeviceReset() or the end of the driver. query() of device memory,
  // has_context(), calls that make something and calls that fail notice that; this function asks nobody.
  virtual uint32_t context_number(int device) const = 0;
  virtual Error current_device(int* device) = 0;
  virtual Error set_current_device(int device) = 0;  // for the application, not for the library
  // Calls `work` while `device` is this thread's current device, for libraries that use the current device.
  virtual Error run_on(int device, const std::function<void()>& work) = 0;
  virtual Error can_access_peer(int device, int peer, bool* possible) = 0;
  // Do the processes that use this device take turns on it, so that a kernel or a copy inside the device of
  // one waits while another one has its turn, be it idle? So it is on NVIDIA GPUs without MPS: the next turn
  // begins after 0.15 ms (H200, driver 580). Copies between the device and host memory do not wait (to the
  // device, from 32 KiB on).
  virtual bool processes_take_turns(int) { return false; }
  // May kernels of both change a word of either at once, by atomic operations? PCIe does not do that. The
  // peer may be hidden from this process; false if nothing tells then.
  virtual bool has_peer_atomics(int, const DeviceInfo&) { return true; }

  // ---- Memory --------------------------------------------------------------------------------------
  // For an unknown address the kind is MemoryKind::host and the result is no error.
  virtual Error query(const void* address, Allocation* allocation) = 0;
  // Where kernels of a device find memory that was given to register_host(); null if they do not.
  virtual void* address_for_kernels(int, void* registered) { return registered; }
  // The same for device memory whose address kernels find in memory, not among their parameters.
  virtual void* memory_for_kernels(void* memory) { return memory; }
  virtual Error memory_info(int device, size_t* free_bytes, size_t* total_bytes) = 0;
  // Returns whether copies into page-locked memory write each aligned 32-bit word atomically, so that the
  // host can poll for the data. True for transfers over PCIe and similar links.
  virtual bool writes_whole_words() const { return false; }
  // Returns whether kernels of the device access all host memory of the process, as malloc() returns it: on
  // GH200 and MI300A, and where the kernel keeps page tables of GPUs (HMM; XNACK on AMD GPUs). For tests: it
  // is host memory to the library in any case.
  virtual bool kernels_reach_host(int) { return false; }
  // Returns the address at which the CPU can load and store this device memory, or null; on coherent machines
  // that may be the address itself. A provider may return null for the first few calls. The address is valid
  // until the memory is freed or another mapping is requested.
  virtual void* cpu_mapping(const void* address, size_t bytes) = 0;
  // Returns whether kernels of the device launched later see the CPU's stores, once these are fenced and read
  // back.
  virtual bool cpu_stores_are_ordered(int) { return false; }

  // ---- Streams, copies, events ---------------------------------------------------------------------
  // Makes a Stream of the application's cudaStream_t or hipStream_t, which stays the application's:
  // destroy_stream() only forgets it. Accepts the handles 0 and 1 for the default stream of the current
  // device, and 2 for the per-thread default stream, which is that of whichever thread makes a call. Creates
  // no stream, may be called while the stream is being captured, and returns the stream's device.
  virtual Error adopt_stream(void* native, Stream* stream, int* device) = 0;
  virtual void* native(Stream stream) const = 0;  // cudaStream_t, hipStream_t
  virtual Error query_stream(Stream stream) = 0;  // Error::none or Error::not_ready
  // The same for all work of the application on this device that the driver tells of without submitting any:
  // with CUDA that of the default stream and of the streams that synchronise with it, with ROCm that of the
  // default stream, before 6.3 none (Error::not_supported). Drivers give no access to the application's other
  // streams, nor to contexts other than the primary one. Waits for nothing and creates no context.
  virtual Error query_application(int device) = 0;
  // The same for all work on this device, including the library's, if the driver can tell; otherwise
  // equivalent to query_application(). Takes up to 20 microseconds. Also Error::not_ready if the driver may
  // not be asked now. If it can tell, it invalidates captures in streams that do not synchronise with the
  // default stream; after it has done so, it is not asked for a second, then for two, four, up to 64.
  // ROCm returns Error::not_supported: Error::none must mean that a call which waits for the device returns.
  virtual Error query_device(int device) { return query_application(device); }
  // May a kernel be loaded, and launched for the first time, now? Error::none: that waits for no work of the
  // application. Only CUDA waits for the device then.
  virtual Error query_loading(int device) { return query_device(device); }
  virtual bool queries_all_streams() const { return false; }  // can the driver tell?
  // Returns how many copy streams run in parallel without disturbing the application's work.
  virtual int copy_streams() const { return 4; }
  virtual Error copy(void* to, const void* from, size_t bytes, Stream stream) = 0;  // asynchronous
  // Copies all items, in no particular order. Asynchronous if the driver has a batch call; this default
  // submits one after the other.
  virtual Error copy_batch(const CopyItem* items, size_t count, Stream stream) {
    Error error = Error::none;
    for (size_t i = 0; i < count && error == Error::none; ++i)
      error = copy(items[i].to, items[i].from, items[i].bytes, stream);
    return error;
  }
  virtual Error copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                        size_t height, Stream stream) = 0;
  virtual Error fill(void* to, int byte, size_t bytes, Stream stream) = 0;
  virtual Error record_event(Event event, Stream stream) = 0;
  virtual Error query_event(Event event) = 0;  // Error::none or Error::not_ready
  virtual Error wait_event(Stream stream, Event event) = 0;

  // ---- Words, host functions, graphs ---------------------------------------------------------------
  // A word is four aligned bytes of device memory, or of host memory that register_host() or
  // allocate_pinned() made known; managed memory cannot be used. Other streams, other devices, the CPU and
  // other processes that share the memory may write it and wait for it, too. The driver does not know the
  // order that words establish: work on which a wait depends must not be submitted behind that wait, neither
  // to the same stream nor, on ROCm, to one that shares its hardware queue.
  //
  // Returns whether the two functions below work on this device; without, they return Error::not_supported.
  // ROCm also returns it, in the cases that hip.cpp explains, while the stream is being captured, and for
  // values from 2^31 on; the caller uses another way for that word from then on.
  virtual bool has_word_operations(int device) = 0;
  virtual bool captures_words() const { return true; }
  // How many streams of this process may wait for words at a time without delaying its other streams: drivers
  // give streams that have work a few queues of the hardware, and a stream that waits keeps its own. The
  // setting that allows more, for messages.
  virtual int most_waiting_streams(int) { return 1000; }
  virtual const char* setting_of_waiting_streams() const { return ""; }
  // Where the driver loads each kernel at its first launch: the setting that makes it load all when it loads
  // the program, unless the user has chosen. Such a launch waits for all streams, and the work of others that
  // is submitted later waits for it, so it must not be behind a wait for a word.
  virtual const char* setting_of_early_kernels() { return nullptr; }
  // Stores `value` once all work submitted before has completed, but not while a failure of that work is to
  // be reported. Who sees the value, sees what that work wrote.
  virtual Error write_word(Stream stream, uint32_t* address, uint32_t value) = 0;
  // Delays work submitted later until int32_t(*address - value) >= 0, and shows it what was written before
  // the word. CUDA holds no multiprocessor meanwhile; ROCm holds one wavefront.
  virtual Error wait_word(Stream stream, const uint32_t* address, uint32_t value) = 0;
  // Several of these in their order. CUDA does them at once, in less time.
  virtual Error access_words(Stream stream, const WordAccess* accesses, size_t count) {
    Error error = Error::none;
    for (size_t i = 0; i < count && error == Error::none; ++i) {
      const auto& [waits, word, value] = accesses[i];
      error = waits ? wait_word(stream, word, value) : write_word(stream, word, value);
    }
    return error;
  }
  // Calls the function on a thread of the driver's between earlier and later work of the stream. It must not
  // use the GPU, and should not block: the driver may have one thread for all streams.
  virtual Error call_host(Stream stream, void (*function)(void*), void* argument) = 0;

  virtual Error capture_of(Stream stream, Capture* capture) = 0;
  // With that of the calling thread. Other calls cost less in a thread of the library if its mode is
  // `relaxed`.
  virtual Error exchange_capture_mode(CaptureMode* mode) = 0;
  // Releases the object when the graph that the stream is being captured into, its copies and all that was
  // instantiated from them have been destroyed and no launch of them is left; that may be in any thread,
  // which may hold locks of the driver, so a destructor must neither use the GPU nor block. After an error at
  // once.
  virtual Error keep_with_graph(Stream, std::shared_ptr<const void>) { return Error::not_supported; }
  virtual Error launch_graph(Graph graph, Stream stream) = 0;  // any number of times, one after the other

  // ---- Memory of other processes -------------------------------------------------------------------
  // `base` must be the start of an allocation that query() reports as exportable. Some memory (virtual
  // memory) is shared by a file descriptor, which the importer needs in addition to the handle. The caller
  // closes `*file`; it is -1 if the handle is sufficient.
  virtual Error ipc_export(const void* base, IpcHandle* handle, int* file) = 0;
  // Returns whether handles tell which memory they denote. Equal handles then denote the same memory, even
  // after it was freed and allocated again. Handles that differ in one 64-bit word only, which is the length
  // of each allocation, denote allocations that began at the same place of one block (seen with driver 580).
  virtual bool ipc_handles_tell_memory() const { return true; }
  // May copies of device memory write to this mapping of another process's memory? Kernels always may.
  virtual bool copies_may_write(const void*) { return true; }
  // `file` is a descriptor of the same file, or -1; the caller keeps ownership. The mapping is valid for work
  // on `device`; another device needs an import of its own.
  virtual Error ipc_import(int device, const IpcHandle& handle, int file, void** base) = 0;

  // ---- Memory of other nodes -----------------------------------------------------------------------
  // The domain of the device; Error::not_supported, and what the driver says, if it belongs to none. May take
  // as long as an initialisation of the driver's.
  virtual Error fabric_domain(int, FabricDomain*) { return Error::not_supported; }
  // The same as ipc_export() and ipc_import() for processes on any node of the domain. Only virtual memory
  // that was made for it can be exported. `bytes` is the length of the allocation; ipc_close() ends an
  // import.
  virtual Error fabric_export(const void*, IpcHandle*) { return Error::not_supported; }
  virtual Error fabric_import(int, const IpcHandle&, size_t, void**) { return Error::not_supported; }

  // ---- Kernels -------------------------------------------------------------------------------------
  virtual Error launch(Kernel kernel, unsigned grid, unsigned block, void** arguments, Stream stream) = 0;
};

// The whole contract. The other calls may wait for the program's streams, or for a thread that is in such a
// call; the library makes them by BlockingDriverCalls (blocking_driver_calls.h) only.
class Runtime : public PromptRuntime {
 public:
  // ---- Process and devices -------------------------------------------------------------------------
  virtual Error reset(int device) = 0;  // for the application, not for the library
  virtual Error synchronize(int device) = 0;
  virtual Error enable_peer(int device, int peer) = 0;  // Error::none also if it was enabled before
  // ---- Memory --------------------------------------------------------------------------------------
  virtual Error allocate(int device, size_t bytes, void** address) = 0;
  // Memory that kernels of other devices may write while a stream of this one waits for it (on ROCm, where
  // the L2 cache may keep old content of other memory, fine-grained memory). Not every GPU has such memory.
  virtual Error allocate_for_peers(int device, size_t bytes, void** address) {
    return allocate(device, bytes, address);
  }
  virtual Error allocate_managed(int device, size_t bytes, void** address) = 0;
  // Stream-ordered memory of the device's default pool (cudaMallocAsync, hipMallocAsync).
  virtual Error allocate_from_pool(int device, size_t bytes, void** address) = 0;
  // Virtual memory: pieces of physical memory that can be shared by file descriptor and, where the driver
  // permits it, with other nodes, mapped contiguously, like the expandable segments of an application's
  // allocator. query() describes one piece.
  Error allocate_virtual(int device, size_t bytes, void** address) {
    return allocate_virtual_in(device, device, bytes, address);
  }
  // The same with physical memory of device `location`, or of the host (-1). `device` has access to it, and
  // neither other devices nor the CPU have.
  virtual Error allocate_virtual_in(int location, int device, size_t bytes, void** address) = 0;
  virtual Error free(void* address) = 0;  // frees memory from any function above
  // Page-locked memory is usable by every device, but ends with the context of one: that of `*device`, or if
  // that is -1 of any device in use, which is returned. Null: the caller need not know.
  virtual Error allocate_pinned(size_t bytes, void** address, int* device = nullptr) = 0;
  virtual Error free_pinned(void* address) = 0;
  virtual Error register_host(void* address, size_t bytes, int* device = nullptr) = 0;
  virtual Error unregister_host(void* address) = 0;
  // The synchronous functions of CUDA and HIP return while some of what they were asked to do is still in
  // flight: fills, copies inside a device and, with CUDA, short copies of pageable host memory. From now on
  // those on this allocation complete before they return; where the driver offers that for all memory of a
  // device only, those on the device. not_ready: those that were called before may be in flight; none: they
  // were complete already.
  virtual Error set_sync_memops(const void* address) = 0;
  // What cudaMemcpy() and hipMemcpy() do, in the calling thread's current device.
  virtual Error copy_as_program(void* to, const void* from, size_t bytes) = 0;

  // ---- Streams, copies, events ---------------------------------------------------------------------
  // If the driver has no memory for another stream, returns the default stream, which waits for the
  // application's.
  virtual Error create_stream(int device, Stream* stream, StreamKind kind = StreamKind::library) = 0;
  virtual Error destroy_stream(Stream stream) = 0;
  virtual Error synchronize_stream(Stream stream) = 0;
  virtual Error create_event(int device, Event* event) = 0;
  virtual Error destroy_event(Event event) = 0;

  // ---- Words, host functions, graphs ---------------------------------------------------------------
  // What is submitted to the stream becomes part of a graph until end_capture(). A stream that waits for an
  // event recorded in the capture joins it, and must be waited for in turn before end_capture(). Queries and
  // synchronisation of a captured stream or event fail and invalidate the capture.
  virtual Error begin_capture(Stream stream, CaptureMode mode = CaptureMode::global) = 0;
  virtual Error end_capture(Stream stream, Graph* graph) = 0;
  virtual Error destroy_graph(Graph graph) = 0;

  // ---- Memory of other processes -------------------------------------------------------------------
  // `device` is the device of the import. Waits until it has completed all work of all streams.
  virtual Error ipc_close(int device, void* base) = 0;

  // ---- Kernels -------------------------------------------------------------------------------------
  // Loads the image that fits the device, once per device and image set, and finds `name` in it. The address
  // of a set identifies it, so it must stay valid: a different set at the same address would be mistaken for
  // it.
  virtual Error find_kernel(int device, const CodeImage* images, size_t count, const char* name,
                            Kernel* kernel) = 0;
};

// Returns the provider of this process, selected by option FAIRLEAD_DEVICE (auto, cuda, rocm, sim, none).
// auto selects CUDA, else ROCm, if a driver and a device are found, else the simulated GPU. Returns null for
// none. Never initialises a driver beyond what the choice requires.
PromptRuntime* runtime();
// The same with all of its calls: for the program's own calls, BlockingDriverCalls, tools and tests.
Runtime* whole_runtime();

// The same for callers that need a GPU, like the functions of fairlead/device.h: returns a provider whose
// library can be opened. If AMD's driver is present but no HIP runtime is, auto switches to the simulated
// GPU, which runtime() then returns as well. Returns null, and logs the reason, for an unavailable provider
// that was requested by name.
PromptRuntime* required_runtime();

// Why simulated GPUs take the place of real ones, "no CUDA (...), no ROCm (...)"; "" if they do not.
std::string why_simulated();

// Sets the driver's environment variables that a program needs if its streams wait for words; keeps values
// that the user has set. Must be called before the program initialises the driver. See
// setting_of_early_kernels(). That of most_waiting_streams() is left to the user: with it each end of GPU
// work is noticed later.
void prepare_drivers();

// Constructors of the providers; each returns null and the reason if its library cannot be opened.
Runtime* make_cuda(const char** why_not);
Runtime* make_hip(const char** why_not);
// `as_cuda`: small allocations share objects, and copies the queues of the hardware. Without, it is the
// driver below another provider, which guards its calls itself (guarded.h).
Runtime* make_sim(bool as_cuda = true);

}  // namespace fairlead::device
