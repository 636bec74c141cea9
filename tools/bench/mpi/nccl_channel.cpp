// SPDX-License-Identifier: Apache-2.0
//
// NCCL, or AMD's RCCL with the same interface, opened at run time. Works on the device's default stream and
// waits for the device, so no stream of either vendor is needed here.

#include <dlfcn.h>
#include <fairlead/device.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "bench/mpi/channel.h"

namespace fairlead::tools {
namespace {

// The few declarations of NCCL 2 used here.
struct NcclId {
  char bytes[128];
};
using NcclComm = struct OpaqueNcclComm*;
using NcclStream = void*;
constexpr int nccl_success = 0;
constexpr int nccl_bytes = 0;  // ncclInt8

struct Nccl {
  int (*GetVersion)(int*);
  const char* (*GetErrorString)(int);
  int (*GetUniqueId)(NcclId*);
  int (*CommInitRank)(NcclComm*, int, NcclId, int);
  int (*CommDestroy)(NcclComm);
  int (*Send)(const void*, size_t, int, int, NcclComm, NcclStream);
  int (*Recv)(void*, size_t, int, int, NcclComm, NcclStream);
  int (*GroupStart)();
  int (*GroupEnd)();
};

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
  return nccl;
}

class NcclChannel : public Channel {
 public:
  NcclChannel(const Ranks& ranks, const Nccl& nccl) : nccl_(nccl), partner_(1 - ranks.rank) {
    NcclId id{};
    int got_id = ranks.rank == 0 ? nccl_.GetUniqueId(&id) : nccl_success;
    MPI_Bcast(&got_id, 1, MPI_INT, 0, ranks.pair);
    require(got_id, "ncclGetUniqueId");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, ranks.pair);
    require(nccl_.CommInitRank(&comm_, 2, id, ranks.rank), "ncclCommInitRank");
  }

  ~NcclChannel() override {
    if (comm_) nccl_.CommDestroy(comm_);
  }

  std::string name() const override {
    int version = 0;
    nccl_.GetVersion(&version);
    return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  void send(const void* from, uint64_t bytes) override {
    require(nccl_.Send(from, bytes, nccl_bytes, partner_, comm_, nullptr), "ncclSend");
    finish();
  }

  void receive(void* to, uint64_t bytes) override {
    require(nccl_.Recv(to, bytes, nccl_bytes, partner_, comm_, nullptr), "ncclRecv");
    finish();
  }

  void window(const void* from, void* to, uint64_t bytes, int messages) override {
    require(nccl_.GroupStart(), "ncclGroupStart");
    for (int i = 0; i < messages; ++i) {
      if (to) require(nccl_.Recv(to, bytes, nccl_bytes, partner_, comm_, nullptr), "ncclRecv");
      if (from) require(nccl_.Send(from, bytes, nccl_bytes, partner_, comm_, nullptr), "ncclSend");
    }
    require(nccl_.GroupEnd(), "ncclGroupEnd");
    finish();
  }

 private:
  void require(int result, const char* call) const {
    if (result != nccl_success)
      throw cannot_run(fmt::format("--via nccl: {}: {}", call, nccl_.GetErrorString(result)));
  }
  void finish() const {
    if (fairlead_device_synchronize() != FAIRLEAD_DEVICE_SUCCESS)
      throw cannot_run(
          fmt::format("--via nccl: cannot wait for the device: {}", fairlead_device_error_text()));
  }

  Nccl nccl_;
  int partner_;
  NcclComm comm_ = nullptr;
};

}  // namespace

std::unique_ptr<Channel> make_nccl_channel(const Ranks& ranks) {
  std::string provider = fairlead_device_provider();
  if (provider != "cuda" && provider != "rocm")
    throw cannot_run(fmt::format("--via nccl: NCCL needs CUDA or ROCm GPUs; the provider is {}", provider));
  // Both ranks must have a library before either waits for the other inside NCCL.
  std::string lacking;
  Nccl nccl{};
  try {
    nccl = load(provider);
  } catch (const Failure& failure) {
    lacking = failure.what();
  }
  int mine = lacking.empty(), both = 0;
  MPI_Allreduce(&mine, &both, 1, MPI_INT, MPI_MIN, ranks.pair);
  if (!both) throw cannot_run(lacking.empty() ? "--via nccl: the partner has no NCCL library" : lacking);
  return std::make_unique<NcclChannel>(ranks, nccl);
}

}  // namespace fairlead::tools
