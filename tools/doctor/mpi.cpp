// SPDX-License-Identifier: Apache-2.0
//
// Area `mpi`: whether the MPI handles device memory itself.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "common/places.h"
#include "doctor/check.h"
#include "run/program.h"

namespace fairlead::tools::doctor {
namespace {

bool has_mpi(const Machine& machine) {
  return machine.mpi.found();
}

// Components of one of Open MPI's frameworks, as ompi_info lists them: "mca:accelerator:cuda:version:...".
std::set<std::string> components(const std::string& info, const std::string& framework) {
  std::set<std::string> names;
  std::string key = "mca:" + framework + ":";
  for (const std::string& line : lines_of(info)) {
    if (line.rfind(key, 0) != 0 || !holds(line, ":version:")) continue;
    names.insert(line.substr(key.size(), line.find(':', key.size()) - key.size()));
  }
  return names;
}

// The value of "...:built_with_cuda_support:value:true", whatever the prefix.
std::string parameter(const std::string& info, const std::string& name) {
  std::string key = ":param:" + name + ":value:";
  size_t at = info.find(key);
  if (at == std::string::npos) return {};
  size_t start = at + key.size();
  return info.substr(start, info.find('\n', start) - start);
}

// GTL is a library beside Cray MPICH; a program has it or not.
std::string gtl_in(const Machine& machine) {
  for (const std::string& line : lines_of(machine.mpi.linked))
    if (std::string words = trimmed(line); words.rfind("libmpi_gtl", 0) == 0) return words;
  return {};
}

Awareness of_open_mpi(const Mpi& mpi) {
  Awareness found;
  if (mpi.info.empty()) return found;
  found.known = true;
  std::set<std::string> accelerators = components(mpi.info, "accelerator");
  found.cuda = accelerators.count("cuda") > 0;
  found.rocm = accelerators.count("rocm") > 0;
  if (!accelerators.empty()) {
    found.evidence = fmt::format("accelerator components: {}", fmt::join(accelerators, ", "));
    return found;
  }
  // Before 5.0 there were no components, and ROCm was left to UCX.
  std::string built = parameter(mpi.info, "opal_built_with_cuda_support");
  found.cuda = built == "true";
  found.evidence =
      built.empty() ? "no accelerator component" : fmt::format("opal_built_with_cuda_support is {}", built);
  return found;
}

Awareness of_mpich(const Mpi& mpi) {
  Awareness found;
  if (mpi.configure.empty()) return found;
  found.known = true;
  // MVAPICH2 has --enable-cuda.
  auto asked = [&](const std::string& option) {
    return holds(mpi.configure, "--enable-" + option) ||
           (holds(mpi.configure, "--with-" + option) && !holds(mpi.configure, "--with-" + option + "=no"));
  };
  found.cuda = asked("cuda");
  found.rocm = asked("hip") || asked("rocm");
  found.evidence = found.cuda   ? "configured --with-cuda"
                   : found.rocm ? "configured --with-hip"
                                : "neither --with-cuda nor --with-hip in its configure line";
  return found;
}

Awareness of_cray(const Machine& machine) {
  Awareness found;
  std::string gtl = gtl_in(machine);
  found.known = !machine.mpi.linked.empty();
  bool loads = !gtl.empty() && !holds(gtl, "not found");
  found.cuda = loads && holds(gtl, "libmpi_gtl_cuda");
  found.rocm = loads && holds(gtl, "libmpi_gtl_hsa");
  found.evidence = gtl.empty() ? "no libmpi_gtl_* is linked" : gtl.substr(0, gtl.find(" ("));
  return found;
}

// "2021.18.1" is {2021, 18}; {0, 0} where the version is not known.
std::pair<int, int> numbers(const std::string& version) {
  int major = 0, minor = 0;
  std::sscanf(version.c_str(), "%d.%d", &major, &minor);
  return {major, minor};
}

// GPU support that an MPI derived from MPICH has, and a variable switches on or off.
struct Switch {
  const char* variable;
  bool on_by_default;
};
Switch switch_of(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  if (mpi.is_intel()) return {"I_MPI_OFFLOAD", false};
  if (!mpi.is_mvapich()) return {"MPIR_CVAR_ENABLE_GPU", true};
  if (numbers(mpi.version).first >= 3) return {"MVP_ENABLE_GPU", true};
  return {machine.gpus.vendor == Vendor::amd ? "MV2_USE_ROCM" : "MV2_USE_CUDA", false};
}
bool is_on(const System& system, const Switch& asked) {
  const std::string value = system.variable(asked.variable);
  return asked.on_by_default ? value.empty() || !is_off(value) : value == "1";
}

// Its documentation names CUDA since this version; no tool of its own tells.
Awareness of_intel(const Machine& machine) {
  constexpr std::pair<int, int> first_with_cuda = {2021, 12};
  const Switch offload = switch_of(machine);
  Awareness found;
  found.known = !machine.mpi.version.empty();
  const bool has = numbers(machine.mpi.version) >= first_with_cuda;
  found.cuda = has && is_on(machine.system, offload);
  found.evidence = !has         ? "versions before 2021.12 support Intel's GPUs only"
                   : found.cuda ? "I_MPI_OFFLOAD=1"
                                : "I_MPI_OFFLOAD is not 1, as by default";
  return found;
}

Finding which_mpi(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  if (mpi.meant_by.empty())
    return fail("no MPI: neither mpicc nor mpirun on PATH",
                fmt::format("install one ({}), load its module, or name a program: fairlead doctor ./program",
                            what_brings_mpi("")));
  if (!mpi.trouble.empty())
    return fail(
        mpi.trouble,
        holds(mpi.trouble, "libmpi.so.12, which") && !machine.system.variable("CRAY_MPICH_DIR").empty()
            ? "module load cray-mpich-abi, whose library has this name, or set LD_LIBRARY_PATH to "
              "$CRAY_MPICH_DIR/lib-abi-mpich"
        : holds(mpi.trouble, "not find")
            ? "set LD_LIBRARY_PATH to the folder of that MPI's libraries"
            : "name a program that is linked with MPI; for scripts and Python leave the program out");
  std::vector<std::string> details = {fmt::format("meant by: {}", mpi.meant_by)};
  if (!mpi.launcher.empty()) details.push_back(fmt::format("launcher on PATH: {}", mpi.launcher));
  std::string fact =
      fmt::format("{}{}{}, {}", mpi.name, mpi.version.empty() ? "" : " ", mpi.version,
                  mpi.library.empty() ? "whose library the loader does not find" : mpi.library);
  if (mpi.library.empty())
    return warn(fact, "set LD_LIBRARY_PATH to the folder of its libmpi, or name a program", details);
  return ok(fact, details);
}

Finding launcher_fits(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  if (mpi.launcher.empty())
    return skip("no mpirun, mpiexec, srun or flux on PATH", "put the MPI's bin folder on PATH");
  std::string name = mpi.launcher.substr(mpi.launcher.rfind('/') + 1);
  if (mpi.launcher_of.empty()) {
    if (name == "srun" || name == "flux") return ok(fmt::format("{} starts any MPI", mpi.launcher));
    return skip(fmt::format("{} does not report which MPI it belongs to (--version)", mpi.launcher));
  }
  if (std::count(mpi.launcher_abis.begin(), mpi.launcher_abis.end(), mpi.abi) > 0)
    return ok(fmt::format("{} is a launcher of {}", mpi.launcher, mpi.launcher_of));
  return warn(
      fmt::format("{} is {}'s, but {} means {}: each process that it starts would be a job of one rank",
                  mpi.launcher, mpi.launcher_of, mpi.meant_by, mpi.name),
      "start programs with `fairlead run`, which finds the launcher that belongs to them");
}

Finding abi_is_served(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  if (mpi.abi.empty())
    return skip("the ABI of this MPI is not known, so no library of Fairlead can be chosen");
  std::string file = fmt::format("libfairlead-{}.so", mpi.abi);
  if (!machine.system.live())
    return ok(fmt::format("the ABI of this MPI is {}, and Fairlead's library for it is {}", mpi.abi, file));
  std::string folder = library_folder(file);
  if (folder.empty())
    return fail(
        fmt::format("the ABI of this MPI is {}, but this Fairlead was built without {}", mpi.abi, file),
        what_adds(mpi.abi));
  return ok(fmt::format("the ABI of this MPI is {}, and the library for it is {}/{}", mpi.abi, folder, file));
}

Finding configured(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  if (mpi.configure.empty()) {
    if (mpi.is_cray() || mpi.is_intel())
      return skip(fmt::format("{} does not report how it was configured", mpi.name));
    return skip(fmt::format("how it was configured is not known: {} is not found, which would tell",
                            mpi.is_open_mpi() ? "ompi_info" : "mpichversion"),
                "install the MPI's tools, or put them on PATH");
  }
  std::vector<std::string> told;
  std::string device = mpi.told("Device:");
  if (!device.empty()) told.push_back("device " + device);
  for (const char* word : {"cuda", "rocm", "hip", "ucx", "libfabric", "ofi", "ucc"}) {
    for (std::string line = mpi.configure; holds(line, std::string("--with-") + word);) {
      size_t at = line.find(std::string("--with-") + word);
      std::string option = line.substr(at, line.find_first_of("' ", at) - at);
      std::string name = option.substr(0, option.find('='));
      bool exact = name == std::string("--with-") + word;
      if (exact && std::find(told.begin(), told.end(), option) == told.end()) told.push_back(option);
      line = line.substr(at + option.size());
    }
  }
  return ok(told.empty() ? "its configure line does not mention GPUs or networks"
                         : fmt::format("configured with {}", fmt::join(told, " ")),
            {mpi.info_tool + ": " + mpi.configure});
}

// From 580 on, NVIDIA's driver takes long over the query of a single attribute, which MPIs ask of each buffer
// (Open MPI issue 14337).
bool queries_pointers_slowly(const Gpus& gpus) {
  int major = 0;
  return gpus.vendor == Vendor::nvidia && std::sscanf(gpus.driver.c_str(), "%d", &major) == 1 && major >= 580;
}

Finding gpu_aware(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  Awareness found = awareness(machine);
  if (!found.known) {
    if (mpi.is_cray())
      return skip(
          "Cray MPICH is GPU-aware where its library GTL is linked into the program, and no program is named",
          "name one: fairlead doctor ./program");
    return skip(fmt::format("it is not known whether {} is GPU-aware: its tools are not found", mpi.name),
                "put ompi_info or mpichversion on PATH; the live checks below find out by trying");
  }
  if (handles_gpus(machine)) {
    const char* kind = found.cuda && found.rocm ? "CUDA and ROCm" : found.cuda ? "CUDA" : "ROCm";
    const std::string fact = fmt::format("{} handles {} memory itself: {}", mpi.name, kind, found.evidence);
    if (!queries_pointers_slowly(machine.gpus)) return ok(fact);
    return warn(
        fmt::format("{}; driver {} answers its queries of pointers slowly, for host memory too", fact,
                    machine.gpus.driver),
        "switch its GPU support off for programs that pass host memory only: the FAQ names the reports");
  }
  std::string other = found.cuda || found.rocm
                          ? fmt::format(" (it handles {}, these GPUs are {}'s)", found.cuda ? "CUDA" : "ROCm",
                                        to_string(machine.gpus.vendor))
                          : "";
  std::string fact = fmt::format("{} is not GPU-aware: {}{}", mpi.name, found.evidence, other);
  if (mpi.is_cray() && holds(found.evidence, "not found"))
    return fail(
        fmt::format("GTL, by which Cray MPICH handles GPU memory, cannot be loaded: {}", found.evidence),
        "load the ROCm or CUDA module of the version that GTL was built for, and relink");
  std::string rebuild =
      mpi.is_cray()       ? "link with the module craype-accel-* loaded (-lmpi_gtl_cuda, -lmpi_gtl_hsa)"
      : mpi.is_intel()    ? "for NVIDIA GPUs, export I_MPI_OFFLOAD=1 with version 2021.12 or later"
      : mpi.is_mvapich()  ? "take MVAPICH-Plus, whose builds for CUDA or ROCm handle GPU memory"
      : mpi.is_open_mpi() ? "build Open MPI with --with-cuda or --with-rocm, and a UCX that has them"
                          : "build MPICH with --with-cuda or --with-hip";
  std::string remedy = fmt::format(
      "start programs with `fairlead run -n N ./program`, which needs no other MPI; or {}", rebuild);
  return machine.preload ? warn(fact, remedy)
                         : fail(fact + ": a device pointer crashes it, or gives wrong data", remedy);
}

// Built with it is not yet switched on.
Finding switched_on(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  const System& system = machine.system;
  if (mpi.is_cray()) {
    std::string asked = system.variable("MPICH_GPU_SUPPORT_ENABLED");
    bool linked = handles_gpus(machine);
    if (asked == "1" && !linked && !mpi.linked.empty())
      return fail("MPICH_GPU_SUPPORT_ENABLED=1, but GTL, which that needs, is not linked: MPI_Init aborts",
                  "relink with the module craype-accel-* loaded, or unset MPICH_GPU_SUPPORT_ENABLED and "
                  "start the program with `fairlead run`");
    if (asked != "1" && linked)
      return warn(
          "GTL is linked, but MPICH_GPU_SUPPORT_ENABLED is not 1: without Fairlead, device pointers crash",
          "export MPICH_GPU_SUPPORT_ENABLED=1, or start programs with `fairlead run`");
    if (asked != "1")
      return skip(
          "this MPI handles host memory only, the default: MPICH_GPU_SUPPORT_ENABLED is not 1, and GTL is "
          "not known to be linked; Fairlead needs nothing else");
    return ok("GPU support is switched on: MPICH_GPU_SUPPORT_ENABLED=1");
  }
  const Switch asked = switch_of(machine);
  if (mpi.is_intel() && !is_on(system, asked))
    return skip("GPU support is off, as by default: I_MPI_OFFLOAD is not 1");
  if (!handles_gpus(machine)) return skip("this MPI has no GPU support that could be switched on or off");
  if (!mpi.is_open_mpi()) {
    const std::string name = asked.variable;
    if (is_on(system, asked))
      return ok(
          fmt::format("GPU support is switched on: {}{}", name, asked.on_by_default ? " is not 0" : "=1"));
    return asked.on_by_default
               ? warn(fmt::format("GPU support is switched off: {}={}", name, system.variable(name)),
                      "unset " + name)
               : warn(fmt::format("GPU support is off, {} is not 1: without Fairlead, device pointers crash",
                                  name),
                      fmt::format("export {}=1, or start programs with `fairlead run`", name));
  }
  std::string given = system.variable("OMPI_MCA_opal_cuda_support");
  std::string value = given.empty() ? parameter(mpi.info, "opal_cuda_support") : given;
  if (value == "false" || value == "0")
    return warn(fmt::format("GPU support is switched off: opal_cuda_support is {}{}", value,
                            given.empty() ? " by default" : ", from the environment"),
                "export OMPI_MCA_opal_cuda_support=true");
  std::string chosen = system.variable("OMPI_MCA_accelerator");
  if (chosen == "null")
    return warn("GPU support is switched off: OMPI_MCA_accelerator=null", "unset OMPI_MCA_accelerator");
  return ok(value.empty() ? "GPU support is on: the accelerator component is chosen when MPI starts"
                          : "GPU support is switched on: opal_cuda_support is true");
}

// The MPIs that Fairlead's rank tests run with, from version to version, and what to look at with others.
struct Tested {
  const char* mpi;
  std::pair<int, int> first, last;
};
constexpr Tested tested[] = {
    {"Open MPI", {4, 1}, {5, 0}}, {"MPICH", {4, 0}, {5, 0}}, {"Intel MPI", {2021, 18}, {2021, 18}}};
struct Untested {
  const char* mpi;
  const char* look_at;
};
constexpr Untested untested[] = {
    {"Cray MPICH",
     "MPICH_GPU_SUPPORT_ENABLED=1 only where GTL is linked; module cray-mpich-abi for programs that are "
     "linked with libmpi.so.12; srun or PALS as launcher"},
    {"MVAPICH",
     "MVP_ENABLE_GPU (MVAPICH2: MV2_USE_CUDA, MV2_USE_ROCM), by which MVAPICH-Plus handles GPU memory "
     "itself; its Hydra as launcher"},
};

Finding is_tested(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  const char* try_it =
      "the live checks try it; docs/reference/mpis.md of Fairlead's sources says what else to check";
  for (const Untested& row : untested)
    if (mpi.name == row.mpi)
      return skip(
          fmt::format("Fairlead's tests have not run with {}; its documentation names what matters: {}",
                      mpi.name, row.look_at),
          try_it);
  for (const Tested& row : tested) {
    if (mpi.name != row.mpi) continue;
    auto text = [](std::pair<int, int> version) {
      return fmt::format("{}.{}", version.first, version.second);
    };
    const std::string range =
        row.first == row.last ? text(row.first) : text(row.first) + " to " + text(row.last);
    if (mpi.version.empty()) return skip(fmt::format("the version of this {} is not known", mpi.name));
    const std::pair<int, int> version = numbers(mpi.version);
    if (version >= row.first && version <= row.last)
      return ok(fmt::format("Fairlead's tests run with {} {}", mpi.name, range));
    return skip(fmt::format("Fairlead's tests run with {} {}, not with {}", mpi.name, range, mpi.version),
                try_it);
  }
  return skip(fmt::format("Fairlead's tests have not run with {}", mpi.name), try_it);
}

// Acknowledgements that wait for room are sent with a length that nobody has set
// (https://github.com/open-mpi/ompi/commit/48490b95d6).
bool ob1_loses_messages(const Machine& machine) {
  int patch = -1;
  const Mpi& mpi = machine.mpi;
  return mpi.is_open_mpi() && std::sscanf(mpi.version.c_str(), "5.0.%d", &patch) == 1 && patch < 9;
}

// Does such a list of components, or of those that are excluded, "^ucx,cm", leave this one?
bool leaves(const std::string& list, const std::string& component) {
  const bool excludes = list.starts_with("^");
  return list.empty() || lists(list.substr(excludes ? 1 : 0), component) != excludes;
}

Finding messages_arrive(const Machine& machine) {
  auto chosen = [&](const std::string& framework) {
    const std::string variable = machine.system.variable("OMPI_MCA_" + framework);
    return variable.empty() ? parameter(machine.mpi.info, framework) : variable;
  };
  const std::string pml = chosen("pml"), btl = chosen("btl");
  // Without an adapter of NVIDIA, Open MPI prefers ob1 to UCX.
  bool adapter = !machine.system.list("/sys/class/cxi").empty(), adapter_for_ucx = false;
  for (const std::string& name : rdma_adapters(machine.system)) {
    adapter = true;
    adapter_for_ucx |= uses_ucx(machine) && name.starts_with("mlx");
  }
  if (!leaves(pml, "ob1") || (adapter_for_ucx && leaves(pml, "ucx")))
    return ok("messages do not go by ob1, which loses some");
  const bool sm = leaves(btl, "sm"), vader = leaves(btl, "vader");  // its name before Open MPI 5
  if (btl.starts_with("^") ? !(sm && vader) : !(sm || vader))
    return ok("messages do not go by shared memory, which loses some");
  return warn(fmt::format("Open MPI {} loses or damages messages in a node when hundreds of them wait{}",
                          machine.mpi.version, adapter ? ", if ob1 moves them" : ""),
              fmt::format("take Open MPI 5.0.9 or later; until then, export OMPI_MCA_{}",
                          adapter_for_ucx ? "pml=ucx" : "btl=self,tcp"));
}

}  // namespace

Awareness awareness(const Machine& machine) {
  if (!machine.mpi.found()) return {};
  if (machine.mpi.is_cray()) return of_cray(machine);
  if (machine.mpi.is_intel()) return of_intel(machine);
  return machine.mpi.is_open_mpi() ? of_open_mpi(machine.mpi) : of_mpich(machine.mpi);
}

bool handles_gpus(const Machine& machine) {
  Awareness found = awareness(machine);
  if (machine.gpus.vendor == Vendor::nvidia) return found.cuda;
  if (machine.gpus.vendor == Vendor::amd) return found.rocm;
  return found.cuda || found.rocm;
}

bool uses_ucx(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  if (mpi.is_open_mpi()) return components(mpi.info, "pml").count("ucx") > 0;
  return holds(mpi.told("Device:"), "ucx") || holds(mpi.configure, "--with-device=ch4:ucx");
}

bool uses_libfabric(const Machine& machine) {
  const Mpi& mpi = machine.mpi;
  if (mpi.is_cray() || mpi.is_intel()) return true;
  if (mpi.is_open_mpi()) return components(mpi.info, "mtl").count("ofi") > 0 && !uses_ucx(machine);
  return holds(mpi.told("Device:"), "ofi");
}

std::vector<Check> mpi_checks() {
  return {
      {"mpi.which",
       "The MPI that the named program is linked with, or that mpicc and mpirun on PATH belong to.", "",
       "Install an MPI, load its module, set LD_LIBRARY_PATH, or name a program.", always, which_mpi},
      {"mpi.launcher", "Whether mpirun on PATH belongs to that MPI.", "an MPI",
       "Start programs with `fairlead run`, which finds the launcher that belongs to them.", has_mpi,
       launcher_fits},
      {"mpi.abi", "The ABI of that MPI, and the Fairlead library for it.", "an MPI",
       "Build Fairlead with that MPI's mpicc.", has_mpi, abi_is_served},
      {"mpi.configured", "How it was configured, as far as GPUs and networks go.", "an MPI",
       "Put ompi_info or mpichversion on PATH.", has_mpi, configured},
      {"mpi.gpu",
       "Whether it handles device memory itself: accelerator components of Open MPI, the configure line of "
       "MPICH, "
       "GTL of Cray MPICH, I_MPI_OFFLOAD of Intel MPI.",
       "an MPI", "Start programs with `fairlead run`, or build the MPI for these GPUs.", has_mpi, gpu_aware},
      {"mpi.switch", "Whether GPU support that was built in is also switched on.", "an MPI",
       "Set the variable that the line names.", has_mpi, switched_on},
      {"mpi.tested",
       "Whether Fairlead's tests run with this MPI; for vendors' MPIs with which they have not run, what to "
       "check.",
       "an MPI", "Read docs/reference/mpis.md.", has_mpi, is_tested},
      {"mpi.messages", "Whether shared memory moves messages where this version loses some.",
       "Open MPI 5.0.0 to 5.0.8", "Take another version, or set the variable that the line names.",
       ob1_loses_messages, messages_arrive},
  };
}

}  // namespace fairlead::tools::doctor
