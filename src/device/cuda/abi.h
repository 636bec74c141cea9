// SPDX-License-Identifier: Apache-2.0
//
// The part of the CUDA driver's binary interface that Fairlead uses, declared here so that the build needs no
// CUDA toolkit. Handles are opaque, enumerations are int.

#pragma once

#include <cstring>

#include "device/cuda_hip/abi.h"

namespace fairlead::device {

struct CudaAbi {
  using Result = int;
  using Device = int;
  using Address = unsigned long long;
  using Context = struct CudaContext*;
  using Stream = struct CudaStream*;
  using Event = struct CudaEvent*;
  using Module = struct CudaModule*;
  using Function = struct CudaFunction*;
  using MemoryHandle = unsigned long long;
  struct Uuid {
    char bytes[16];
  };
  struct IpcMemory {
    char bytes[64];
  };
  struct Copy2d {
    struct Side {
      size_t x, y;
      int memory_type;
      const void* host;
      Address device;
      void* array;
      size_t pitch;
    };
    Side from, to;
    size_t width, height;
  };

  using Graph = struct CudaGraph*;
  using GraphNode = struct CudaGraphNode*;
  using RunnableGraph = struct CudaRunnableGraph*;
  using GraphObject = struct CudaGraphObject*;
  struct KernelNode {
    Function function;
    unsigned grid[3], block[3], shared_bytes;
    void** arguments;
    void** packed_arguments;
    void* kernel;
    Context context;
  };
  union NodeAttribute {
    int priority;
    char room[64];
  };
  static constexpr int attribute_priority = 8;

  // A graph of one kernel node, whose kernel and arguments are replaced before each launch.
  struct Launcher {
    Graph graph = nullptr;
    GraphNode node = nullptr;
    RunnableGraph runnable = nullptr;
    bool refused = false;
  };

  struct WordOperation {
    int kind;
    Address address;
    unsigned long long value;
    unsigned flags;
    Address alias;
    unsigned long long rest;
  };

  struct CopyAttributes {
    struct Location {
      int type, id;
    };
    int source_order;
    Location from, to;
    unsigned flags;
  };

  static constexpr int loads_at_first_launch = 2;
  static constexpr const char* module_loading = "CUDA_MODULE_LOADING";
  static constexpr const char* queues = "CUDA_DEVICE_MAX_CONNECTIONS";
  static constexpr int word_wait = 1, word_write = 2;
  static constexpr int source_order_stream = 1;
  static constexpr unsigned object_ends_unseen = 1, object_is_given = 1;
  static constexpr int memory_host = 1;
  static constexpr int memory_device = 2;
  static constexpr int memory_unified = 4;

  static constexpr int pointer_memory_type = 2;
  static constexpr int pointer_host_pointer = 4;
  static constexpr int pointer_is_managed = 8;
  static constexpr int pointer_device_ordinal = 9;
  static constexpr int pointer_legacy_ipc_capable = 10;
  static constexpr int pointer_range_start = 11;
  static constexpr int pointer_range_size = 12;
  static constexpr int pointer_handle_types = 14;
  static constexpr int pointer_mempool = 17;
  static constexpr int pointer_block_id = 20;

  static constexpr int device_multiprocessors = 16;
  static constexpr int device_reaches_host = 88;
  static constexpr int device_by_host_tables = 100;
  static constexpr int device_capability_major = 75;
  static constexpr int device_capability_minor = 76;
  static constexpr int peer_atomics = 3;
  static constexpr int handle_for_other_nodes = 8;  // fabric handles
  static constexpr int device_has_words = 123;
  static constexpr int device_shared_by_mps = 133;
  static constexpr unsigned ipc_lazy_peer_access = 1;
  static constexpr unsigned context_sync_memops = 0x80;

  static constexpr unsigned pinned_flags = driver_flag::pinned_portable;
  static constexpr bool streams_share_queues = false;  // only beyond more streams than a program has
  static constexpr bool uuids_repeat = false;
  static bool is_placeholder(const Uuid& uuid) {
    static constexpr Uuid none{};
    return std::memcmp(&uuid, &none, sizeof uuid) == 0;
  }

  static Address to_driver(const void* address) { return reinterpret_cast<Address>(address); }

#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...) DriverFunction<__VA_ARGS__> member{#name};
#define FAIRLEAD_DRIVER_OPTIONAL FAIRLEAD_DRIVER_FUNCTION
#include "device/cuda/functions.def"
#undef FAIRLEAD_DRIVER_FUNCTION
#undef FAIRLEAD_DRIVER_OPTIONAL

  // Returns null if every function that is not optional was found, else the missing symbol.
  const char* bind(void* library) {
#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...) \
  if (!member.bind(library)) return member.symbol;
#define FAIRLEAD_DRIVER_OPTIONAL(member, name, ...) member.bind(library);
#include "device/cuda/functions.def"
#undef FAIRLEAD_DRIVER_FUNCTION
#undef FAIRLEAD_DRIVER_OPTIONAL
    return nullptr;
  }
};

}  // namespace fairlead::device
