// SPDX-License-Identifier: Apache-2.0
//
// Plays an MPI that handles device memory itself: a library preloaded behind Fairlead, in front of the host
// MPI. Device buffers of the calls Fairlead makes for its messages are copied to and from host memory here.
// Ends the job with an error if no device buffer came, because then nothing was proved. TEST_HOST makes it
// one that cannot do this, or not what it claims:
//
//   says_no            says that it does not handle device memory; a device buffer ends the job with an error
//   refuses            every call with a device buffer returns an error
//   lies               sends wrong bytes of device memory
//   lies_receiving     the last byte received into device memory is wrong
//   lies_when_large    sends wrong bytes from 64 KiB on
//   crashes            accesses device memory as if it were host memory

#include <dlfcn.h>
#include <mpi.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fairlead/device.h"

namespace {

// Host memory that stands for a device buffer, with the bytes of the whole span.
struct Copy {
  std::vector<char> host;
  char* device = nullptr;
  MPI_Aint first = 0;
  bool received = false;
  void* address() { return host.data() - first; }
};

std::mutex mutex;
auto& copies = *new std::map<MPI_Request, std::unique_ptr<Copy>>;
int device_buffers = 0;

// The addresses of the simulated GPU have no access rights: this process cannot read them.
bool is_device(const void* address) {
  char byte;
  iovec local = {&byte, 1}, remote = {const_cast<void*>(address), 1};
  return address != nullptr && process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1;
}

bool is(const char* kind) {
  static const char* const wanted = std::getenv("TEST_HOST");
  return wanted && std::string(wanted) == kind;
}

std::unique_ptr<Copy> copy_of(const void* buffer, int count, MPI_Datatype datatype, int peer) {
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
  if (is("says_no")) {
    std::fprintf(stderr, "a device buffer reached a host MPI that handles none\n");
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (is("crashes")) *const_cast<volatile char*>(copy->device) = 1;
  copy->host.resize(static_cast<size_t>(true_extent + (walk < 0 ? -walk : walk)));
  fairlead_device_copy(copy->host.data(), copy->device, copy->host.size());
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

void complete(std::unique_ptr<Copy> copy) {
  if (!copy || !copy->received) return;
  if (is("lies_receiving")) copy->host.back() ^= 1;
  fairlead_device_copy(copy->device, copy->host.data(), copy->host.size());
}

}  // namespace

#define SEND(Name)                                                                                           \
  extern "C" int MPI_##Name(const void* buf, int count, MPI_Datatype datatype, int dest, int tag,            \
                            MPI_Comm comm, MPI_Request* request) {                                           \
    auto copy = copy_of(buf, count, datatype, dest);                                                         \
    if (copy && is("refuses")) return MPI_ERR_BUFFER;                                                        \
    const int result = PMPI_##Name(copy ? copy->address() : buf, count, datatype, dest, tag, comm, request); \
    if (copy && result == MPI_SUCCESS) keep(*request, std::move(copy), false);                               \
    return result;                                                                                           \
  }

SEND(Isend)
SEND(Issend)
SEND(Irsend)

extern "C" int MPI_Irecv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  auto copy = copy_of(buf, count, datatype, source);
  if (copy && is("refuses")) return MPI_ERR_BUFFER;
  const int result = PMPI_Irecv(copy ? copy->address() : buf, count, datatype, source, tag, comm, request);
  if (copy && result == MPI_SUCCESS) keep(*request, std::move(copy), true);
  return result;
}

// Fairlead asks by this one, under its profiling name, whether a message has come.
extern "C" int PMPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  static const auto next =
      reinterpret_cast<int (*)(MPI_Request, int*, MPI_Status*)>(dlsym(RTLD_NEXT, "PMPI_Request_get_status"));
  const int result = next(request, flag, status);
  if (result == MPI_SUCCESS && *flag) complete(taken(request));
  return result;
}

extern "C" int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  auto copy = taken(*request);  // before another thread gets a request of the same handle
  const int result = PMPI_Wait(request, status);
  complete(std::move(copy));
  return result;
}

// What Fairlead asks for the simulated GPU, like the functions of other MPIs for CUDA and ROCm.
extern "C" int MPIX_Query_sim_support() {
  return !is("says_no");
}

extern "C" int MPI_Finalize() {
  if (device_buffers == 0 && !std::getenv("TEST_HOST")) {
    std::fprintf(stderr, "no device buffer reached the host MPI\n");
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }
  return PMPI_Finalize();
}
