// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/nccl.h"

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "common/failure.h"

namespace fairlead::tools {
namespace {

constexpr int nccl_success = coll::nccl_result::success;

// That of NCCL_HOME, else the one that the loader finds.
const coll::NcclLibrary& library_for(const std::string& provider) {
  std::string name = provider == "rocm" ? "librccl.so.1" : "libnccl.so.2", why_not;
  const coll::NcclLibrary* library = nullptr;
  if (const char* home = std::getenv("NCCL_HOME"))
    library = coll::load_nccl(fmt::format("{}/lib/{}", home, name), &why_not);
  if (!library) library = coll::load_nccl(name, &why_not);
  if (!library)
    throw cannot_run(fmt::format(
        "--via nccl: {}; set NCCL_HOME to its prefix or add its folder to LD_LIBRARY_PATH", why_not));
  return *library;
}

}  // namespace

NcclRanks::NcclRanks(MPI_Comm members) : members_(members) {
  std::string provider = fairlead_device_provider();
  if (provider != "cuda" && provider != "rocm")
    throw cannot_run(fmt::format("--via nccl: NCCL needs CUDA or ROCm GPUs; the provider is {}", provider));
  // All ranks must have a library before any waits for another inside NCCL.
  std::string lacking;
  try {
    nccl = &library_for(provider);
  } catch (const Failure& failure) {
    lacking = failure.what();
  }
  int mine = lacking.empty(), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, members);
  if (!all) throw cannot_run(lacking.empty() ? "--via nccl: another rank has no NCCL library" : lacking);

  int rank = 0, size = 1;
  MPI_Comm_rank(members, &rank);
  MPI_Comm_size(members, &size);
  coll::NcclId id{};
  int got_id = rank == 0 ? nccl->unique_id(&id) : nccl_success;
  MPI_Bcast(&got_id, 1, MPI_INT, 0, members);
  require(got_id, "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, members);
  coll::NcclConfig config;
  require(nccl->init_rank(&comm, size, id, rank, &config), "ncclCommInitRankConfig");
}

NcclRanks::~NcclRanks() {
  for (const Symmetric& memory : symmetric_) {
    if (memory.window) nccl->deregister_window(comm, memory.window);
    if (memory.address) nccl->free(memory.address);
  }
  if (comm) nccl->destroy(comm);
}

std::string NcclRanks::name() const {
  return nccl->name;
}

void NcclRanks::require(int result, const char* call) const {
  if (result != nccl_success)
    throw cannot_run(fmt::format("--via nccl: {}: {}", call, nccl->describe(result)));
}

void NcclRanks::finish() const {
  if (fairlead_device_synchronize() != FAIRLEAD_DEVICE_SUCCESS)
    throw cannot_run(fmt::format("--via nccl: cannot wait for the device: {}", fairlead_device_error_text()));
}

void* NcclRanks::symmetric_memory(uint64_t bytes) {
  if (!nccl->allocate || !nccl->free || !nccl->register_window || !nccl->deregister_window)
    throw cannot_run(
        fmt::format("--symmetric: {} registers no windows; NCCL 2.27 or later is needed", nccl->name));
  bytes = std::max<uint64_t>(bytes, 1);
  MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_UINT64_T, MPI_MAX, members_);
  Symmetric& memory = symmetric_.emplace_back();
  int allocated = nccl->allocate(&memory.address, bytes), worst = 0;
  MPI_Allreduce(&allocated, &worst, 1, MPI_INT, MPI_MAX, members_);
  require(allocated, "ncclMemAlloc");
  require(worst, "ncclMemAlloc in another rank");
  require(nccl->register_window(comm, memory.address, bytes, &memory.window, coll::nccl_window_symmetric),
          "ncclCommWindowRegister");
  if (!memory.window)
    throw cannot_run(fmt::format("--symmetric: {} makes no symmetric windows of these GPUs", nccl->name));
  return memory.address;
}

}  // namespace fairlead::tools
