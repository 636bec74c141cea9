// SPDX-License-Identifier: Apache-2.0

#include "device/program/accesses.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "device/program/accesses_patch.h"
#include "device/program/accesses_record.h"
#include "device/program/calls.h"
#include "device/program/not_the_program.h"
#include "device/program/sanitizer_abi.h"

namespace fairlead::device::program {
namespace {

using namespace sanitizer;

Functions api;

struct Context {
  bool has_patches = false;
  WatchedBytes watched = nullptr;  // what the record in the device's memory is for
  char* record = nullptr;
  char* bits = nullptr;  // in it
  size_t bytes_of_bits = 0;
  bool clear = false;
};

struct Recorder {
  std::mutex launching, patching;  // held while the library is called
  std::mutex mutex;                // of what follows
  std::map<const void*, Context> contexts;
  std::set<const void*> modules;  // with all patches

  Context& of(const void* context) {
    std::lock_guard lock(mutex);
    return contexts[context];
  }
};

// Never destroyed: threads of the program may go on.
Recorder& recorder() {
  static auto* made = new Recorder;
  return *made;
}

// Of the calling thread.
struct CurrentLaunch {
  bool under_way = false;
  WatchedBytes watched = nullptr;
  Context* context = nullptr;  // null: not recorded
  const void *of_context = nullptr, *stream = nullptr;
  unsigned kernels = 0, recorded = 0;
};
thread_local CurrentLaunch current;

bool worked(int error, const char* what) {
  static bool said = false;
  if (error != 0 && !said) {
    said = true;
    log_line(
        LogLevel::warn,
        "FAIRLEAD_CHECK=accesses judges some kernels by their parameters: NVIDIA's Sanitizer API does not "
        "%s (error %d)",
        what, error);
  }
  return error == 0;
}

bool load_patches(const void* context) {
  int error = 0;
  for (const PatchImage& image : patch_images())
    if ((error = api.add_patches(image.code, context)) == 0) return true;
  return worked(error, "load the patches");
}

constexpr struct {
  Instruction instruction;
  const char* name;
} patches[] = {{global_access, "fairlead_access"},
               {copy_to_shared, "fairlead_copy_to_shared"},
               {bulk_copy_to_shared, "fairlead_bulk_copy_to_shared"},
               {bulk_copy_from_shared, "fairlead_bulk_copy_from_shared"},
               {bulk_reduction_from_shared, "fairlead_bulk_reduction_from_shared"}};

bool patch(const void* module) {
  // GPUs that have no instructions of the other kinds need no patch for them.
  for (const auto& [instruction, name] : patches)
    if (const int error = api.patch_instructions(instruction, module, name);
        error != 0 && instruction == global_access)
      return worked(error, "patch accesses");
  return worked(api.patch_module(module), "patch a module");
}

// Those of this library are left as they are.
void module_was_loaded(const void* data) {
  const auto& [context, module] = *static_cast<const OfModule*>(data);
  if (NotTheProgram::here()) return;
  Recorder& all = recorder();
  std::lock_guard one_patches(all.patching);
  bool& has_patches = all.of(context).has_patches;
  if (!has_patches && !(has_patches = load_patches(context))) return;
  if (!patch(module)) return;
  std::lock_guard lock(all.mutex);
  all.modules.insert(module);
}

void module_is_unloaded(const void* data) {
  std::lock_guard lock(recorder().mutex);
  recorder().modules.erase(static_cast<const OfModule*>(data)->module);
}

void context_is_destroyed(const void* data) {
  std::lock_guard lock(recorder().mutex);
  recorder().contexts.erase(static_cast<const OfContext*>(data)->context);
}

size_t words_of(const Watched& bytes) {
  return (bytes.end + 31) / 32 - bytes.begin / 32;
}

// In the order of the stream.
bool make_record(const OfStream& to, const WatchedBytes& watched, Context* context) {
  if (context->record) (void)api.release(to.context, context->record);
  context->record = context->bits = nullptr;
  context->watched = nullptr;
  context->clear = false;
  std::vector<RecordedWindow> windows;
  size_t words = 0;
  for (const Watched& bytes : *watched) {
    windows.push_back({bytes.begin, bytes.end, words});
    words += words_of(bytes);
  }
  const AccessRecord head{0, static_cast<unsigned>(windows.size()), words};
  std::vector<char> beginning(sizeof head + windows.size() * sizeof windows[0]);
  std::memcpy(beginning.data(), &head, sizeof head);
  std::memcpy(beginning.data() + sizeof head, windows.data(), beginning.size() - sizeof head);
  const size_t bytes_of_bits = 2 * words * sizeof(uint32_t);
  void* memory = nullptr;
  if (!worked(api.allocate(to.context, &memory, beginning.size() + bytes_of_bits), "give memory"))
    return false;
  context->record = static_cast<char*>(memory);
  context->bits = context->record + beginning.size();
  context->bytes_of_bits = bytes_of_bits;
  return worked(api.to_device(memory, beginning.data(), beginning.size(), to.stream_handle), "copy");
}

bool clear_record(const OfStream& to, Context* context) {
  if (context->watched != current.watched && !make_record(to, current.watched, context)) return false;
  context->watched = current.watched;
  return context->clear ||
         (worked(api.fill(context->record, 0, sizeof AccessRecord::touched, to.stream_handle),
                 "clear memory") &&
          worked(api.fill(context->bits, 0, context->bytes_of_bits, to.stream_handle), "clear memory"));
}

void prepare(const OfStream& to) {
  if (!current.watched || current.watched->empty() || current.context) return;
  Context& context = recorder().of(to.context);
  if (!context.has_patches || !clear_record(to, &context)) return;
  current.context = &context;
  current.of_context = to.context;
  current.stream = to.stream_handle;
}

// Null: nothing is recorded. Without any, the library passes to kernels of graphs what comes.
void pass_record(const OfLaunch& to) {
  ++current.kernels;
  {
    std::lock_guard lock(recorder().mutex);
    if (!recorder().modules.contains(to.module)) return;
  }
  const bool recorded = current.context && current.of_context == to.on.context;
  if (worked(api.set_launch_data(to.launch, to.function, to.on.stream_handle,
                                 recorded ? current.context->record : nullptr),
             "pass data to patches") &&
      recorded)
    ++current.recorded;
}

void launch_has_begun(const void* data) {
  const auto& to = *static_cast<const OfLaunch*>(data);
  prepare(to.on);
  pass_record(to);
}

void graph_launch_has_begun(const void* data) {
  prepare(*static_cast<const OfStream*>(data));
}

void node_launch_has_begun(const void* data) {
  const auto& node = *static_cast<const OfNodeLaunch*>(data);
  if (node.type == kernel_node) pass_record(node.kernel);
}

// Many small runs become one with gaps.
void add_run(uintptr_t from, uintptr_t to, Access access, std::vector<Touched>* accessed) {
  constexpr size_t at_most = 4096;
  if (accessed->size() >= at_most && accessed->back().access == access && accessed->back().address < from) {
    accessed->back().bytes = to - accessed->back().address;
    accessed->back().with_gaps = true;
  } else {
    accessed->push_back({from, to - from, access});
  }
}

const uint32_t* add_runs(const uint32_t* word, const Watched& bytes, Access access,
                         std::vector<Touched>* accessed) {
  uintptr_t from = 0;
  for (uintptr_t at = bytes.begin / 32 * 32; at < bytes.end; at += 32, ++word) {
    if (*word == (from ? ~0u : 0u)) continue;
    for (unsigned bit = 0; bit < 32; ++bit) {
      const bool set = *word >> bit & 1;
      if (set == (from != 0)) continue;
      if (!set) add_run(from, at + bit, access, accessed);
      from = set ? at + bit : 0;
    }
  }
  if (from) add_run(from, bytes.end, access, accessed);
  return word;
}

// The first copy waits for the kernel.
bool read_record(Context* context, const void* stream, std::vector<Touched>* accessed) {
  AccessRecord head;
  context->clear = false;
  if (!worked(api.to_host(&head, context->record, sizeof head, stream), "copy the record")) return false;
  if (!head.touched) return context->clear = true;
  std::vector<uint32_t> bits(context->bytes_of_bits / sizeof(uint32_t));
  if (!worked(api.to_host(bits.data(), context->bits, context->bytes_of_bits, stream), "copy the record"))
    return false;
  const uint32_t* word = bits.data();
  for (const Access access : {Access::reads, Access::writes})
    for (const Watched& watched : *context->watched) word = add_runs(word, watched, access, accessed);
  return true;
}

}  // namespace

const AccessCallback access_callbacks[6] = {
    {domain_resource, context_ends, context_is_destroyed},
    {domain_resource, module_loaded, module_was_loaded},
    {domain_resource, module_unloads, module_is_unloaded},
    {domain_launch, launch_begin, launch_has_begun},
    {domain_graphs, graph_launch_begin, graph_launch_has_begun},
    {domain_graphs, node_launch_begin, node_launch_has_begun},
};

bool can_record_accesses(void* opened, const char** why_not) {
  *why_not = "libsanitizer-public.so is of another version";
  if (!find_function(opened, "sanitizerAddPatches", &api.add_patches) ||
      !find_function(opened, "sanitizerPatchInstructions", &api.patch_instructions) ||
      !find_function(opened, "sanitizerPatchModule", &api.patch_module) ||
      !find_function(opened, "sanitizerSetLaunchCallbackData", &api.set_launch_data) ||
      !find_function(opened, "sanitizerAlloc", &api.allocate) ||
      !find_function(opened, "sanitizerFree", &api.release) ||
      !find_function(opened, "sanitizerMemcpyHostToDeviceAsync", &api.to_device) ||
      !find_function(opened, "sanitizerMemcpyDeviceToHost", &api.to_host) ||
      !find_function(opened, "sanitizerMemset", &api.fill))
    return false;
  *why_not = "Fairlead was built without clang or NVIDIA's ptxas";
  return !patch_images().empty();
}

void launch_begins() {
  if (current.under_way) return;
  recorder().launching.lock();
  // Here, not within the driver: others ask the driver while they hold that lock.
  current = {.under_way = true, .watched = watched_bytes()};
}

void launch_ends(Work* work) {
  if (!current.under_way) return;
  std::vector<Touched> accessed;
  if (current.context && read_record(current.context, current.stream, &accessed) && work &&
      current.kernels > 0 && current.recorded == current.kernels) {
    work->watched = current.watched;
    work->accessed = std::move(accessed);
  }
  current = {};
  recorder().launching.unlock();
}

}  // namespace fairlead::device::program
