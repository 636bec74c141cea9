// SPDX-License-Identifier: Apache-2.0
//
// Plays an MPI that handles device memory itself: a library preloaded behind Fairlead, in front of the host
// MPI. Device buffers of the calls Fairlead makes for its messages are copied to and from host memory here.
// It is as strict as an MPI may be: no send from device memory completes without its receiver, every call
// moves all that has come, and device memory must not be passed to it in MPI_Finalize.
// Ends the job with an error if no rank passed a device buffer, because then nothing was proved. TEST_HOST
// makes it one that cannot do this, or not what it claims:
//
//   says_no            says that it does not handle device memory; a device buffer ends the job with an error
//   switched_off       says that it does, but its parameter says no; otherwise as says_no
//   needs_device       ends the job with an error in calls from threads with another current device
//   refuses            every call with a device buffer returns an error
//   lies               sends wrong bytes of device memory
//   lies_receiving     the last byte received into device memory is wrong
//   lies_when_large    sends wrong bytes from 64 KiB on
//   crashes            accesses device memory as if it were host memory

#include <dlfcn.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/runtime.h"
#include "fairlead/device.h"

namespace {

// Host memory that stands for a device buffer, with the bytes of the whole span.
struct Copy {
  std::vector<char> host;
  char* device = nullptr;
  MPI_Aint first = 0;
  bool received = false;
  // Of a receive whose bytes have come, until Fairlead asks.
  bool ended = false;
  int result = MPI_SUCCESS;
  MPI_Status status{};
  void* address() { return host.data() - first; }
};

std::mutex mutex;
auto& copies = *new std::map<MPI_Request, std::unique_ptr<Copy>>;
int device_buffers = 0;
std::atomic<bool> finalizing = false;

// The addresses of the simulated GPU have no access rights: the kernel cannot read them for this process.
bool is_device(const void* address) {
  static const int file = memfd_create("gpu-aware-host", MFD_CLOEXEC);
  return address != nullptr && pwrite(file, address, 1, 0) != 1;
}

bool is(const char* kind) {
  static const char* const wanted = std::getenv("TEST_HOST");
  return wanted && std::string(wanted) == kind;
}

[[noreturn]] void end_job(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  PMPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void require_device_of(const void* address) {
  fairlead::device::Allocation memory;
  int current = -1;
  fairlead::device::whole_runtime()->query(address, &memory);
  fairlead::device::whole_runtime()->current_device(&current);
  if (current != memory.device) end_job("a thread without the device of a buffer called the host MPI");
}

// Like an adapter, without a copy engine where there is a mapping. True if the bytes were moved.
bool write(void* to, const void* from, size_t bytes) {
  if (is("needs_device")) require_device_of(to);
  if (void* mapping = fairlead::device::whole_runtime()->cpu_mapping(to, bytes)) {
    std::memcpy(mapping, from, bytes);
    return true;
  }
  return fairlead_device_copy(to, from, bytes) == FAIRLEAD_DEVICE_SUCCESS;
}
bool read(void* to, const void* from, size_t bytes) {
  if (is("needs_device")) require_device_of(from);
  if (const void* mapping = fairlead::device::whole_runtime()->cpu_mapping(from, bytes)) {
    std::memcpy(to, mapping, bytes);
    return true;
  }
  return fairlead_device_copy(to, from, bytes) == FAIRLEAD_DEVICE_SUCCESS;
}

// Null for host memory. *result is an error if the buffer cannot be used.
std::unique_ptr<Copy> copy_of(const void* buffer, int count, MPI_Datatype datatype, int peer, int* result) {
  *result = MPI_SUCCESS;
  if (count == 0 || peer == MPI_PROC_NULL) return nullptr;
  MPI_Aint lower, extent, true_lower, true_extent;
  PMPI_Type_get_extent(datatype, &lower, &extent);
  PMPI_Type_get_true_extent(datatype, &true_lower, &true_extent);
  const MPI_Aint walk = extent * (count - 1);
  auto copy = std::make_unique<Copy>();
  copy->first = true_lower + (walk < 0 ? walk : 0);
  // From MPI_BOTTOM, the type alone tells where the bytes are.
  copy->device = static_cast<char*>(const_cast<void*>(buffer)) + copy->first;
  if (!is_device(copy->device)) return nullptr;
  if (is("says_no") || is("switched_off")) end_job("a device buffer reached a host MPI that handles none");
  if (finalizing) end_job("a device buffer reached the host MPI in MPI_Finalize");
  if (is("crashes")) *const_cast<volatile char*>(copy->device) = 1;
  // Open MPI 4.1 writes all of a long message that is too long for its receive.
  copy->host.reserve(static_cast<size_t>(4) << 20);
  copy->host.resize(static_cast<size_t>(true_extent + (walk < 0 ? -walk : walk)));
  if (is("refuses"))
    *result = MPI_ERR_BUFFER;
  else if (!read(copy->host.data(), copy->device, copy->host.size()))
    *result = MPI_ERR_OTHER;
  if (is("lies") || (is("lies_when_large") && copy->host.size() >= 64 << 10)) copy->host.back() ^= 1;
  return copy;
}

void keep(MPI_Request request, std::unique_ptr<Copy> copy, bool received) {
  std::lock_guard lock(mutex);
  ++device_buffers;
  copy->received = received;
  copies[request] = std::move(copy);
}

// Null if the request is not that of a device buffer.
std::unique_ptr<Copy> taken(MPI_Request request) {
  std::lock_guard lock(mutex);
  const auto found = copies.find(request);
  if (found == copies.end()) return nullptr;
  auto copy = std::move(found->second);
  copies.erase(found);
  return copy;
}

void complete(Copy* copy) {
  if (!copy->received) return;
  if (is("lies_receiving")) copy->host.back() ^= 1;
  if (!write(copy->device, copy->host.data(), copy->host.size())) copy->result = MPI_ERR_OTHER;
}

int query(MPI_Request request, int* flag, MPI_Status* status) {
  static const auto next =
      reinterpret_cast<int (*)(MPI_Request, int*, MPI_Status*)>(dlsym(RTLD_NEXT, "PMPI_Request_get_status"));
  return next(request, flag, status);
}

// Moves all that has come, whichever request the call is about.
void progress() {
  std::lock_guard lock(mutex);
  for (auto& [request, copy] : copies) {
    if (copy->ended) continue;
    int flag = 0;
    copy->result = query(request, &flag, &copy->status);
    copy->ended = flag || copy->result != MPI_SUCCESS;
    if (copy->ended && copy->result == MPI_SUCCESS) complete(copy.get());
  }
}

}  // namespace

#define SEND(Name, Called)                                                                        \
  extern "C" int MPI_##Name(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, \
                            MPI_Comm comm, MPI_Request* request) {                                \
    int result;                                                                                   \
    auto copy = copy_of(buf, count, datatype, dest, &result);                                     \
    if (result != MPI_SUCCESS) return result;                                                     \
    if (!copy) return PMPI_##Name(buf, count, datatype, dest, tag, comm, request);                \
    result = PMPI_##Called(copy->address(), count, datatype, dest, tag, comm, request);           \
    if (result == MPI_SUCCESS) keep(*request, std::move(copy), false);                            \
    return result;                                                                                \
  }

SEND(Isend, Issend)
SEND(Issend, Issend)
SEND(Irsend, Irsend)

extern "C" int MPI_Irecv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  int result;
  auto copy = copy_of(buf, count, datatype, source, &result);
  if (result != MPI_SUCCESS) return result;
  result = PMPI_Irecv(copy ? copy->address() : buf, count, datatype, source, tag, comm, request);
  if (copy && result == MPI_SUCCESS) keep(*request, std::move(copy), true);
  return result;
}

// Fairlead asks by this one, under its profiling name, whether a message has come.
extern "C" int PMPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  progress();
  {
    std::lock_guard lock(mutex);
    if (const auto found = copies.find(request); found != copies.end()) {
      const Copy& copy = *found->second;
      *flag = copy.ended && copy.result == MPI_SUCCESS;
      const int result = copy.ended ? copy.result : MPI_SUCCESS;
      if (copy.ended && status != MPI_STATUS_IGNORE) *status = copy.status;
      if (copy.ended) copies.erase(found);
      return result;
    }
  }
  return query(request, flag, status);
}

extern "C" int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  auto copy = taken(*request);  // before another thread gets a request of the same handle
  const int result = PMPI_Wait(request, status);
  if (!copy || result != MPI_SUCCESS) return result;
  if (!copy->ended) complete(copy.get());
  return copy->result;
}

// What Fairlead asks for the simulated GPU, like the functions of other MPIs for CUDA and ROCm.
extern "C" int MPIX_Query_sim_support() {
  return !is("says_no");
}
extern "C" {
extern const bool sim_gpu_support;
const bool sim_gpu_support = !is("switched_off");
}

extern "C" int MPI_Finalize() {
  if (!std::getenv("TEST_HOST")) {
    // Which ranks exchange messages between nodes is random in some themes.
    int most = 0;
    PMPI_Allreduce(&device_buffers, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (most == 0) end_job("no device buffer reached the host MPI");
  }
  finalizing = true;
  return PMPI_Finalize();
}
