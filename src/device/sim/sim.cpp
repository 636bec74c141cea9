// SPDX-License-Identifier: Apache-2.0
//
// The process-wide part of the simulated GPU: devices, memory, memory of other processes.

#include "device/sim/sim.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "base/options.h"
#include "device/guarded.h"
#include "device/sim/error.h"

namespace fairlead::device {
namespace sim {
namespace {

thread_local std::string& error_words = *new std::string;  // never destroyed, as in api.cpp
thread_local int current = 0;

// A hash of machine properties that all processes of the node compute alike.
uint64_t node_hash() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text + host) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

}  // namespace

Simulator::Simulator(bool as_cuda)
    : has_copy_queues_(as_cuda),
      memory_(options().sim_limits("memory"), options().sim_limits("pinned"), as_cuda) {
  pthread_atfork(nullptr, nullptr, [] { forked_after_use_ = used_.load(); });
}

Error Simulator::usable() {
  if (over_) return fail(Error::not_initialized, "the driver has ended with the program");
  if (in_host_function_) return fail(Error::failed, "a host function cannot use the GPU");
  if (!forked_after_use_) return Error::none;
  return fail(Error::not_initialized,
              "this process was forked from one that used the GPU, whose threads it "
              "has not; use the GPU only after fork, or exec a program");
}

Error Simulator::begin() {
  static const bool ends_with_program = std::atexit([] { over_ = true; }) == 0;
  (void)ends_with_program;
  used_ = true;
  return usable();
}

bool Simulator::has_context(int device) {
  if (!valid(device)) return false;
  if (over_ && contexts_[device].exchange(false)) ++numbers_[device];
  return contexts_[device];
}

Error Simulator::begin(int device) {
  if (!valid(device)) return fail(Error::invalid_value, "no device %d: there are %d", device, device_total());
  if (Error error = begin(); error != Error::none) return error;
  contexts_[device] = true;
  return Error::none;
}

Error Simulator::device_info(int device, DeviceInfo* info) {
  if (!valid(device)) return fail(Error::invalid_value, "no device %d: there are %d", device, device_total());
  *info = {};
  snprintf(info->name, sizeof info->name, "simulated GPU %d", device);
  // A PCI domain that no machine uses, so that no tool mistakes it for a real slot.
  snprintf(info->pci, sizeof info->pci, "f1ea:%02x:00.0", device % max_devices);
  uint64_t words[2] = {node_hash(), static_cast<uint64_t>(device)};
  memcpy(info->uuid, words, sizeof info->uuid);
  info->memory = memory_.capacity();
  info->multiprocessors = 1;
  return Error::none;
}

Error Simulator::current_device(int* device) {
  *device = current;
  return Error::none;
}

Error Simulator::set_current_device(int device) {
  if (Error error = begin(device); error != Error::none) return error;
  current = device;
  return Error::none;
}

Error Simulator::begin_making_on_any(int* wanted, int* chosen) {
  *chosen = wanted && *wanted >= 0 ? *wanted : current;
  for (int other = 0; !(wanted && *wanted >= 0) && !contexts_[*chosen] && other < device_total(); ++other)
    if (contexts_[other]) *chosen = other;
  if (wanted) *wanted = *chosen;
  Error error = begin(*chosen);
  return error != Error::none ? error : begin_making();
}

// What is in flight completes first. What is there afterwards is as unknown as before the first use.
Error Simulator::reset(int device) {
  if (Error error = begin(device); error != Error::none) return error;
  ++numbers_[device];
  for (const QueueRef& queue : streams_.all()) {
    if (queue->device != device) continue;
    queue->invalidate();
    queue->wait_idle();
    queue->ended = true;
    queue->close();
  }
  streams_.end_all_of(device);
  events_.end_all_of(device);
  graphs_.end_all_of(device);
  kernels_.end_all_of(device);
  {
    std::lock_guard lock(default_mutex_);
    default_queues_[device] = nullptr;
  }
  memory_.end_all_of(device);
  for (auto& peers : peers_) peers &= ~(uint64_t{1} << device);
  peers_[device] = 0;
  contexts_[device] = false;
  return Error::none;
}

Error Simulator::run_on(int device, const std::function<void()>& work) {
  if (Error error = begin(device); error != Error::none) return error;
  const int before = std::exchange(current, device);
  work();
  current = before;
  return Error::none;
}

Error Simulator::synchronize(int device) {
  if (Error error = begin(device); error != Error::none) return error;
  if (Error error = begin_unsafe(); error != Error::none) return error;
  Error first = Error::none;
  for (const QueueRef& queue : streams_.all())
    if (queue->device == device)
      if (Error error = queue->drain(); first == Error::none) first = error;
  return first;
}

Error Simulator::can_access_peer(int device, int peer, bool* possible) {
  if (!valid(device) || !valid(peer))
    return fail(Error::invalid_value, "no devices %d and %d: there are %d", device, peer, device_total());
  *possible = device != peer && connected(device, peer);
  return Error::none;
}

Error Simulator::enable_peer(int device, int peer) {
  if (!valid(peer)) return fail(Error::invalid_value, "no device %d: there are %d", peer, device_total());
  if (Error error = begin(device); error != Error::none) return error;
  if (device == peer || !connected(device, peer))
    return fail(Error::peer_unavailable, "device %d cannot access device %d as a peer", device, peer);
  peers_[device] |= uint64_t{1} << peer;
  return Error::none;
}

Error Simulator::query(const void* address, Allocation* allocation) {
  if (forked_after_use_ && memory_.in_region(address)) return usable();
  BlockRef block = over_ ? nullptr : memory_.find(address);
  if (!block) {
    *allocation = {};
    return Error::none;
  }
  *allocation = block->describe(address);
  if (block->kind == MemoryKind::device) allocation->id += uint64_t{numbers_[block->device]} << context_bit;
  return Error::none;
}

void* Simulator::memory_for_kernels(void* memory) {
  const BlockRef block = over_ ? nullptr : memory_.find(memory);
  return block ? block->at(memory) : memory;
}

Error Simulator::free_when_idle(void* address, bool pinned) {
  if (Error error = begin_making(); error != Error::none) return error;
  // Like a GPU driver, free() waits for the work in flight.
  for (const QueueRef& queue : streams_.all()) queue->wait_idle();
  return memory_.free(address, pinned);
}

Error Simulator::allocate_virtual_in(int location, int device, size_t bytes, void** address) {
  if (location >= 0 && (!valid(location) || !connected(device, location)))
    return fail(Error::peer_unavailable, "device %d cannot access memory of device %d", device, location);
  Error error = begin(device);
  if (error == Error::none) error = begin_making();
  return error != Error::none
             ? error
             : memory_.allocate(MemoryKind::device, Origin::pieces, location, device, bytes, address);
}

Error Simulator::memory_info(int device, size_t* free_bytes, size_t* total_bytes) {
  if (Error error = begin(device); error != Error::none) return error;
  *total_bytes = memory_.capacity();
  *free_bytes = memory_.capacity() - memory_.used(device);
  return Error::none;
}

Error Simulator::set_sync_memops(const void* address) {
  if (Error error = begin(); error != Error::none) return error;
  BlockRef block = memory_.find(address);
  if (!block || block->kind == MemoryKind::pinned)
    return fail(Error::invalid_value, "%p is not device memory", address);
  return block->synchronous.exchange(true) ? Error::none : Error::not_ready;
}

void* Simulator::cpu_mapping(const void* address, size_t bytes) {
  if (forked_after_use_ || options().sim_bar == "off") return nullptr;
  BlockRef block = memory_.find(address);
  if (!block || block->kind != MemoryKind::device) return nullptr;
  char* mapping = block->at(address);
  if (bytes > block->size - static_cast<size_t>(mapping - block->alias)) return nullptr;
  if (is_coherent()) return block->host_may_access ? const_cast<void*>(address) : nullptr;
  return mapping;
}

// The number of the NVLink domain, 0 if there is none.
static uint64_t number_of_domain() {
  const std::string& name = options().sim_fabric;
  return name.empty() ? 0 : std::hash<std::string>()(name) | 1;
}

Error Simulator::fabric_domain(int device, FabricDomain* domain) {
  if (!valid(device)) return fail(Error::invalid_value, "no device %d: there are %d", device, device_total());
  const std::string& name = options().sim_fabric;
  if (name.empty())
    return fail(Error::not_supported, "simulated GPUs belong to no NVLink domain (FAIRLEAD_SIM_FABRIC)");
  *domain = {};
  sscanf(name.c_str(), "%15[^:]:%u", reinterpret_cast<char*>(domain->cluster), &domain->clique);
  return Error::none;
}

Error Simulator::share(const void* base, uint64_t domain, IpcHandle* handle, int* file) {
  if (Error error = begin(); error != Error::none) return error;
  if (options().sim_faults("no_export"))
    return fail(Error::not_supported, "simulated fault: exports are refused (FAIRLEAD_SIM_FAULTS)");
  return memory_.ipc_export(base, domain, handle, file);
}

Error Simulator::map_shared(int device, const IpcHandle& handle, uint64_t domain, int file, void** base) {
  if (Error error = begin(device); error != Error::none) return error;
  if (Error error = begin_unsafe(); error != Error::none) return error;
  if (options().sim_faults("no_import"))
    return fail(Error::not_supported, "simulated fault: imports are refused (FAIRLEAD_SIM_FAULTS)");
  if (uint64_t number = number_of_failing(imports_, options().sim_faults("imports")))
    return fail(Error::failed, "simulated fault: import %llu failed (FAIRLEAD_SIM_FAULTS)",
                static_cast<unsigned long long>(number));
  return memory_.ipc_import(device, handle, domain, file, base);
}

Error Simulator::ipc_export(const void* base, IpcHandle* handle, int* file) {
  return share(base, 0, handle, file);
}

Error Simulator::ipc_import(int device, const IpcHandle& handle, int file, void** base) {
  return map_shared(device, handle, 0, file, base);
}

Error Simulator::fabric_export(const void* base, IpcHandle* handle) {
  FabricDomain domain;
  int none = -1;
  const Error error = fabric_domain(0, &domain);
  return error == Error::none ? share(base, number_of_domain(), handle, &none) : error;
}

Error Simulator::fabric_import(int device, const IpcHandle& handle, size_t, void** base) {
  FabricDomain domain;
  const Error error = fabric_domain(device, &domain);
  return error == Error::none ? map_shared(device, handle, number_of_domain(), -1, base) : error;
}

Error fail(Error error, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  error_words = text;
  return error;
}

void die(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "simulated GPU: ");
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  abort();
}

const char* last_error_text() {
  return error_words.c_str();
}

}  // namespace sim

Runtime* make_sim(bool as_cuda) {
  if (as_cuda) return new Guarded<sim::Simulator>(as_cuda);
  return new sim::Simulator(as_cuda);
}

}  // namespace fairlead::device
