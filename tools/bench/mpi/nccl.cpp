// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/nccl.h"

#include <dlfcn.h>
#include <fairlead/device.h>
#include <fmt/format.h>

#include <cstdlib>

#include "common/failure.h"

namespace fairlead::tools {
namespace {

constexpr int nccl_success = 0;

void* open_library(const std::string& provider) {
  std::string name = provider == "rocm" ? "librccl.so.1" : "libnccl.so.2";
  if (const char* home = std::getenv("NCCL_HOME"))
    if (void* library = dlopen(fmt::format("{}/lib/{}", home, name).c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw cannot_run(fmt::format(
        "--via nccl: {}; set NCCL_HOME to its prefix or add its folder to LD_LIBRARY_PATH", dlerror()));
  return library;
}

template <class Function>
void bind(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (!*function)
    throw cannot_run(fmt::format("--via nccl: this library has no {}; NCCL 2.7 or later is needed", name));
}

Nccl load(const std::string& provider) {
  void* library = open_library(provider);
  Nccl nccl{};
  bind(library, "ncclGetVersion", &nccl.GetVersion);
  bind(library, "ncclGetErrorString", &nccl.GetErrorString);
  bind(library, "ncclGetUniqueId", &nccl.GetUniqueId);
  bind(library, "ncclCommInitRank", &nccl.CommInitRank);
  bind(library, "ncclCommDestroy", &nccl.CommDestroy);
  bind(library, "ncclSend", &nccl.Send);
  bind(library, "ncclRecv", &nccl.Recv);
  bind(library, "ncclGroupStart", &nccl.GroupStart);
  bind(library, "ncclGroupEnd", &nccl.GroupEnd);
  bind(library, "ncclAllReduce", &nccl.AllReduce);
  bind(library, "ncclReduce", &nccl.Reduce);
  bind(library, "ncclReduceScatter", &nccl.ReduceScatter);
  bind(library, "ncclAllGather", &nccl.AllGather);
  bind(library, "ncclBroadcast", &nccl.Broadcast);
  return nccl;
}

}  // namespace

NcclRanks::NcclRanks(MPI_Comm members) {
  std::string provider = fairlead_device_provider();
  if (provider != "cuda" && provider != "rocm")
    throw cannot_run(fmt::format("--via nccl: NCCL needs CUDA or ROCm GPUs; the provider is {}", provider));
  // All ranks must have a library before any waits for another inside NCCL.
  std::string lacking;
  try {
    nccl = load(provider);
  } catch (const Failure& failure) {
    lacking = failure.what();
  }
  int mine = lacking.empty(), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, members);
  if (!all) throw cannot_run(lacking.empty() ? "--via nccl: another rank has no NCCL library" : lacking);

  int rank = 0, size = 1;
  MPI_Comm_rank(members, &rank);
  MPI_Comm_size(members, &size);
  NcclId id{};
  int got_id = rank == 0 ? nccl.GetUniqueId(&id) : nccl_success;
  MPI_Bcast(&got_id, 1, MPI_INT, 0, members);
  require(got_id, "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, members);
  require(nccl.CommInitRank(&comm, size, id, rank), "ncclCommInitRank");
}

NcclRanks::~NcclRanks() {
  if (comm) nccl.CommDestroy(comm);
}

std::string NcclRanks::name() const {
  int version = 0;
  nccl.GetVersion(&version);
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void NcclRanks::require(int result, const char* call) const {
  if (result != nccl_success)
    throw cannot_run(fmt::format("--via nccl: {}: {}", call, nccl.GetErrorString(result)));
}

void NcclRanks::finish() const {
  if (fairlead_device_synchronize() != FAIRLEAD_DEVICE_SUCCESS)
    throw cannot_run(fmt::format("--via nccl: cannot wait for the device: {}", fairlead_device_error_text()));
}

}  // namespace fairlead::tools
