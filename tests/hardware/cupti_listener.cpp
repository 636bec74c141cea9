// SPDX-License-Identifier: Apache-2.0
//
// A profiler of NVIDIA's CUPTI, on which Nsight Systems builds: what CUPTI reports of a process with
// FAIRLEAD_RANGES, that is, the NVTX ranges by name and the copies and kernels by the name of their stream.
// The driver loads it into a process (CUDA_INJECTION64_PATH); at exit it prints one line for each name:
//
//   cupti range MPI_Send 4
//   cupti stream Fairlead copies 0: 12 copies, 0 kernels
//
// under-cupti compiles and uses it. It is no target of the build, which needs no CUDA.

#include <cupti.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

constexpr size_t buffer_bytes = size_t{4} << 20;

struct Work {
  int copies = 0, kernels = 0;
};
using StreamId = std::pair<uint32_t, uint32_t>;  // context, stream

std::mutex mutex;
auto& ranges = *new std::map<std::string, int>;
auto& names = *new std::map<StreamId, std::string>;
auto& work = *new std::map<StreamId, Work>;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* records) {
  *bytes = buffer_bytes;
  *records = 0;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, buffer_bytes));
}

void note(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_MARKER: {
      auto marker = reinterpret_cast<const CUpti_ActivityMarker2*>(record);
      if (marker->name && marker->flags & CUPTI_ACTIVITY_FLAG_MARKER_START) ++ranges[marker->name];
      break;
    }
    case CUPTI_ACTIVITY_KIND_NAME: {
      auto name = reinterpret_cast<const CUpti_ActivityName*>(record);
      if (name->objectKind == CUPTI_ACTIVITY_OBJECT_STREAM)
        names[{name->objectId.dcs.contextId, name->objectId.dcs.streamId}] = name->name;
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      auto copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
      ++work[{copy->contextId, copy->streamId}].copies;
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      auto copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(record);
      ++work[{copy->contextId, copy->streamId}].copies;
      break;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      auto kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      ++work[{kernel->contextId, kernel->streamId}].kernels;
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) note(record);
  std::free(buffer);
}

void print() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::lock_guard lock(mutex);
  for (const auto& [name, count] : ranges) std::fprintf(stderr, "cupti range %s %d\n", name.c_str(), count);
  for (const auto& [stream, done] : work) {
    auto name = names.find(stream);
    std::fprintf(stderr, "cupti stream %s: %d copies, %d kernels\n",
                 name == names.end() ? "without a name" : name->second.c_str(), done.copies, done.kernels);
  }
}

}  // namespace

extern "C" int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return 0;
  for (CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_NAME, CUPTI_ACTIVITY_KIND_MARKER, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL})
    if (CUptiResult result = cuptiActivityEnable(kind); result != CUPTI_SUCCESS)
      std::fprintf(stderr, "cupti cannot record activities of kind %d: %d\n", kind, result);
  std::atexit(print);
  return 1;
}
