// SPDX-License-Identifier: Apache-2.0
//
// Areas `ucx` and `libfabric`: whether the library that the MPI moves bytes with was built for these GPUs,
// and the settings known to make it slow.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "doctor/check.h"
#include "run/program.h"

namespace fairlead::tools::doctor {
namespace {

namespace fs = std::filesystem;

// "cuda" or "rocm", as UCX names its modules and transports.
const char* stack_of(const Machine& machine) {
  return machine.gpus.vendor == Vendor::amd ? "rocm" : "cuda";
}

bool mpi_uses_ucx(const Machine& machine) {
  return uses_ucx(machine);
}
bool mpi_uses_libfabric(const Machine& machine) {
  return uses_libfabric(machine);
}

bool built_for(const Machine& machine, const std::string& stack) {
  if (holds(machine.ucx.modules, " libuct_" + stack)) return true;
  std::string option = "--with-" + stack;
  for (size_t at = machine.ucx.build.find(option); at != std::string::npos;
       at = machine.ucx.build.find(option, at + 1))
    if (machine.ucx.build.compare(at + option.size(), 3, "=no") != 0) return true;
  return false;
}

Finding ucx_found(const Machine& machine) {
  const Ucx& ucx = machine.ucx;
  if (ucx.library.empty() && ucx.version.empty())
    return fail("the loader does not find libucp.so.0, which this MPI needs for its messages",
                "install UCX, or set LD_LIBRARY_PATH to its folder");
  if (ucx.version.empty())
    return ok(fmt::format("UCX is {}; its version is not known {}", ucx.library,
                          ucx.tool_is_of_another ? "to ucx_info on PATH, which belongs to another UCX"
                                                 : "without ucx_info on PATH"));
  std::string told = value_of(ucx.build, "# Library path:");
  std::string at = told.empty() ? ucx.library : told;
  return ok(fmt::format("UCX {}{}{}", ucx.version, at.empty() ? "" : ", ", at), {trimmed(ucx.build)});
}

Finding ucx_gpu(const Machine& machine) {
  const Ucx& ucx = machine.ucx;
  if (ucx.modules.empty() && ucx.build.empty())
    return skip(
        "it is not known what UCX was built with: neither ucx_info nor UCX's folder of modules is found",
        "put ucx_info on PATH");
  bool cuda = built_for(machine, "cuda"), rocm = built_for(machine, "rocm");
  bool fits = machine.gpus.vendor == Vendor::nvidia ? cuda
              : machine.gpus.vendor == Vendor::amd  ? rocm
                                                    : cuda || rocm;
  std::string has = cuda && rocm ? "CUDA and ROCm" : cuda ? "CUDA" : rocm ? "ROCm" : "";
  if (fits) return ok(fmt::format("UCX was built with {}", has));
  std::string fact = has.empty() ? "UCX was built with neither CUDA nor ROCm: it handles host memory only"
                                 : fmt::format("UCX was built with {}, not for {} GPUs", has,
                                               to_string(machine.gpus.vendor));
  std::string remedy =
      "nothing for `fairlead run`, which hands UCX host memory; for a GPU-aware MPI a UCX configured "
      "--with-cuda or --with-rocm";
  // An MPI that believes to handle device memory would hand it to this UCX; one that does not never will.
  if (machine.preload && awareness(machine).known && !handles_gpus(machine))
    return ok(fact + ", which is all that this MPI hands it");
  return handles_gpus(machine) ? fail(fact + ", but its MPI hands it device memory", remedy)
                               : warn(fact, remedy);
}

Finding ucx_transports(const Machine& machine) {
  const Ucx& ucx = machine.ucx;
  if (ucx.transports.empty())
    return skip("UCX's transports are not known: ucx_info, which lists them (ucx_info -d), is not on PATH");
  std::string stack = stack_of(machine);
  std::vector<std::string> all = {stack + "_copy", stack + "_ipc"}, there, missing;
  for (const std::string& name : all)
    (holds(ucx.transports, " " + name + " ") ? there : missing).push_back(name);
  if (stack == "cuda" && holds(ucx.transports, " gdr_copy ")) there.push_back("gdr_copy");
  if (missing.empty())
    return ok(fmt::format("UCX has its transports for these GPUs: {}", fmt::join(there, " ")));
  if (!built_for(machine, stack))
    return skip(fmt::format("UCX was built without {}, so it has no {}", stack == "cuda" ? "CUDA" : "ROCm",
                            fmt::join(missing, " ")));
  return warn(
      fmt::format("UCX has no {}, although it was built with {}", fmt::join(missing, " and no "),
                  stack == "cuda" ? "CUDA" : "ROCm"),
      fmt::format("run ucx_info -d in a job: the driver's library must be found there (ldd of libuct_{}.so)",
                  stack));
}

// A setting of UCX as it is in force: from the environment, else the default that ucx_info -c prints.
std::string setting(const Machine& machine, const std::string& name) {
  std::string given = machine.system.variable(name);
  return given.empty() ? value_of(machine.ucx.config, name + "=") : given;
}

Finding ucx_slow(const Machine& machine) {
  std::vector<std::string> facts, remedies;
  std::string tls = setting(machine, "UCX_TLS"), stack = stack_of(machine);
  bool chosen = !tls.empty() && tls != "all" && tls[0] != '^';
  if (chosen && !lists(tls, stack) && !lists(tls, stack + "_copy")) {
    facts.push_back(
        fmt::format("UCX_TLS={} leaves {}_copy out: device memory is not even recognised", tls, stack));
    remedies.push_back(fmt::format("add {}_copy,{}_ipc to UCX_TLS", stack, stack));
  } else if (chosen && !lists(tls, stack) && !lists(tls, stack + "_ipc")) {
    facts.push_back(fmt::format("UCX_TLS={} leaves {}_ipc out: no peer-to-peer copies", tls, stack));
    remedies.push_back(fmt::format("add {}_ipc to UCX_TLS", stack));
  }
  if (has_nvidia(machine)) {
    std::string dmabuf = setting(machine, "UCX_CUDA_COPY_DMABUF");
    bool adapters = !rdma_adapters(machine.system).empty();
    if (!dmabuf.empty() && !is_off(dmabuf)) {
      facts.push_back(
          fmt::format("UCX_CUDA_COPY_DMABUF={}: UCX may make a dma-buf for each message", dmabuf));
      remedies.push_back(adapters ? "export UCX_CUDA_COPY_DMABUF=no where nvidia-peermem serves the adapters"
                                  : "export UCX_CUDA_COPY_DMABUF=no: no adapter here needs one");
    }
    if (std::string mnnvl = setting(machine, "UCX_CUDA_IPC_ENABLE_MNNVL");
        lower(mnnvl) == "y" || lower(mnnvl) == "yes") {
      facts.push_back("UCX_CUDA_IPC_ENABLE_MNNVL=" + mnnvl +
                      ": handles for NVLink between nodes are tried first");
      remedies.push_back("export UCX_CUDA_IPC_ENABLE_MNNVL=n unless NVLink joins nodes");
    }
  }
  if (facts.empty()) {
    if (machine.ucx.config.empty() && tls.empty())
      return skip(
          "UCX's settings are not known: none is set here, and ucx_info -c, which tells the defaults, is not "
          "on PATH");
    return ok("no setting of UCX that is known to make it slow");
  }
  return warn(fmt::format("{}", fmt::join(facts, "; ")), fmt::format("{}", fmt::join(remedies, "; ")));
}

Finding ucx_cache(const Machine& machine) {
  std::string cache = setting(machine, "UCX_MEMTYPE_CACHE");
  if (cache.empty())
    return skip("UCX_MEMTYPE_CACHE is not set, and ucx_info -c, which tells its default, is not on PATH");
  if (is_off(cache))
    return ok(fmt::format("UCX_MEMTYPE_CACHE={}: UCX asks the driver about every buffer", cache));
  if (lower(cache) == "try")
    return ok("UCX_MEMTYPE_CACHE=try: UCX remembers kinds of memory where it can watch allocations");
  return warn(fmt::format("UCX_MEMTYPE_CACHE={}: device memory from allocators that UCX does not see is "
                          "taken for host memory",
                          cache),
              "export UCX_MEMTYPE_CACHE=n");
}

// Providers that `fi_info` lists with these arguments.
std::set<std::string> providers(const System& system, const Words& command) {
  std::set<std::string> names;
  for (const std::string& line : lines_of(system.run(command).value_or("")))
    if (std::string words = trimmed(line); words.rfind("provider:", 0) == 0)
      names.insert(trimmed(words.substr(9)));
  return names;
}

Finding libfabric_gpu(const Machine& machine) {
  if (machine.system.program("fi_info").empty())
    return skip("libfabric's providers are not known: fi_info, which lists them, is not on PATH",
                "install it (Debian: libfabric-bin)");
  std::string version = value_of(machine.system.run({"fi_info", "--version"}).value_or(""), "libfabric:");
  if (version.empty()) {
    const auto said = lines_of(trimmed(machine.system.run({"fi_info"}).value_or("")));
    return skip(fmt::format("libfabric's providers are not known: fi_info, which lists them, does not run{}",
                            said.empty() ? "" : ": " + said.back()));
  }
  std::set<std::string> all = providers(machine.system, {"fi_info"});
  std::set<std::string> device = providers(machine.system, {"fi_info", "-c", "FI_HMEM"});
  if (all.empty())
    return fail("libfabric finds no provider", "run fi_info, and look for the adapter's driver");
  std::string fact = fmt::format("libfabric {} has the providers {}", version, fmt::join(all, " "));
  if (!device.empty())
    return ok(fmt::format("{}; device memory is handled by {}", fact, fmt::join(device, " ")));
  std::string remedy =
      "nothing for `fairlead run`, which passes host memory to libfabric; for a GPU-aware MPI a libfabric "
      "configured --with-cuda or --with-rocr";
  return warn(fact + "; none handles device memory (fi_info -c FI_HMEM)", remedy);
}

Finding libfabric_settings(const Machine& machine) {
  const System& system = machine.system;
  if (machine.mpi.is_mpich() && handles_gpus(machine) &&
      system.variable("MPIR_CVAR_CH4_OFI_ENABLE_HMEM") != "1")
    return warn(
        "MPIR_CVAR_CH4_OFI_ENABLE_HMEM is not 1, its default: device messages between nodes are staged by "
        "MPICH",
        "export MPIR_CVAR_CH4_OFI_ENABLE_HMEM=1 where the provider handles device memory");
  if (system.variable("FI_HMEM_CUDA_USE_GDRCOPY") == "1" && !system.exists("/sys/module/gdrdrv"))
    return warn("FI_HMEM_CUDA_USE_GDRCOPY=1, but gdrdrv is not loaded",
                "modprobe gdrdrv, or unset the variable");
  if (!machine.preload && machine.mpi.is_cray() && system.variable("MPICH_GPU_IPC_ENABLED") == "0")
    return warn("MPICH_GPU_IPC_ENABLED=0: messages inside a node go through host memory",
                "unset MPICH_GPU_IPC_ENABLED");
  return ok("no setting of libfabric that is known to make it slow");
}

// The libucp that the loader takes for this MPI, whose libraries may name a folder of their own (RPATH): that
// of its library, or of Open MPI's plugin beside it. Wheels give it a longer name.
std::string ucx_of(const System& system, const Mpi& mpi) {
  if (mpi.library.empty()) return {};
  Words users = {mpi.library};
  if (mpi.is_open_mpi())
    for (const char* folder : open_mpi_plugin_folders)
      users.push_back((fs::path(mpi.library).parent_path() / folder / "mca_pml_ucx.so").string());
  for (const std::string& user : users)
    for (const std::string& line : lines_of(system.libraries_of(user)))
      if (size_t arrow = line.find(" => /");
          trimmed(line).rfind("libucp", 0) == 0 && arrow != std::string::npos)
        return line.substr(arrow + 4, line.find(' ', arrow + 4) - arrow - 4);
  return {};
}

bool same_folder(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return a.parent_path() == b.parent_path() || fs::equivalent(a.parent_path(), b.parent_path(), error);
}

}  // namespace

Ucx find_ucx(const System& system, const Mpi& mpi) {
  Ucx ucx;
  const std::string usual = system.library("libucp.so.0"), own = ucx_of(system, mpi);
  ucx.library = own.empty() ? usual : own;
  const std::string build =
      system.program("ucx_info").empty() ? "" : system.run({"ucx_info", "-v"}).value_or("");
  const std::string told = value_of(build, "# Library path:");
  ucx.tool_is_of_another =
      !same_folder(ucx.library, usual) && !told.empty() && !same_folder(ucx.library, told);
  if (!build.empty() && !ucx.tool_is_of_another) {
    ucx.build = build;
    ucx.version = value_of(ucx.build, "# Library version:");
    ucx.config = system.run({"ucx_info", "-c"}).value_or("");
    for (const std::string& line : lines_of(system.run({"ucx_info", "-d"}).value_or("")))
      if (size_t at = line.find("Transport:"); at != std::string::npos)
        ucx.transports += " " + trimmed(line.substr(at + 10)) + " ";
  }
  // The library's own word on where it lies is worth more than the loader's: ucx_info may belong to another.
  if (!ucx.library.empty())
    for (const std::string& name : system.list((fs::path(ucx.library).parent_path() / "ucx").string()))
      ucx.modules += " " + name;
  return ucx;
}

std::vector<Check> transport_checks() {
  return {
      {"ucx.found", "The UCX that this MPI moves its messages with.", "an MPI that uses UCX",
       "Install UCX, or set LD_LIBRARY_PATH.", mpi_uses_ucx, ucx_found},
      {"ucx.gpu", "Whether it was built with CUDA or ROCm.", "an MPI that uses UCX",
       "Nothing for `fairlead run`; else a UCX configured for these GPUs.", mpi_uses_ucx, ucx_gpu},
      {"ucx.transports", "Whether its transports for these GPUs are available at run time.",
       "an MPI that uses UCX, and a GPU", "Find out why libuct_cuda.so or libuct_rocm.so cannot be loaded.",
       [](const Machine& machine) { return uses_ucx(machine) && has_gpu(machine); }, ucx_transports},
      {"ucx.slow",
       "Settings known to make it slow: UCX_TLS without the GPU's transports, a dma-buf for each message.",
       "an MPI that uses UCX, and a GPU", "Set the variable that the line names.",
       [](const Machine& machine) { return uses_ucx(machine) && has_gpu(machine); }, ucx_slow},
      {"ucx.cache", "UCX_MEMTYPE_CACHE, by which UCX may take device memory for host memory.",
       "a GPU-aware MPI that uses UCX", "export UCX_MEMTYPE_CACHE=n.",
       [](const Machine& machine) { return uses_ucx(machine) && handles_gpus(machine); }, ucx_cache},
      {"libfabric.gpu", "Whether a provider of libfabric handles device memory.",
       "an MPI that uses libfabric", "Nothing for `fairlead run`; else a libfabric built for these GPUs.",
       mpi_uses_libfabric, libfabric_gpu},
      {"libfabric.slow", "Settings known to make it slow.", "an MPI that uses libfabric",
       "Set the variable that the line names.", mpi_uses_libfabric, libfabric_settings},
  };
}

}  // namespace fairlead::tools::doctor
