// SPDX-License-Identifier: Apache-2.0
//
// Facts about a machine that several checks need, determined once: its MPI, its GPUs, the UCX that its MPI
// uses, and the reports of two ranks that were started on it.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/hip/kfd_topology.h"
#include "doctor/live.h"
#include "doctor/system.h"

namespace fairlead::tools::doctor {

// The MPI that a program is linked with, that --mpi names, or that mpicc and mpirun on PATH belong to.
struct Mpi {
  std::string meant_by;  // "./program", "mpicc on PATH"; "" where there is none
  std::string name;      // "Open MPI", "MPICH", "Cray MPICH", "Intel MPI", "MVAPICH"
  std::string version;
  std::string abi;          // "openmpi", "mpich", "abi"; "" where it is not known
  std::string library;      // where the loader finds it
  std::string linked;       // the loader's list of the program's libraries; "" without a program
  std::string launcher;     // mpirun, mpiexec or srun of PATH
  std::string launcher_of;  // the MPI it belongs to; "" where it is not known, or starts any
  std::vector<std::string> launcher_abis;  // that it starts
  std::string launcher_to_use;             // that --mpi names; "" where the one near the library will do
  std::string configure;                   // the words it was configured with
  std::string info;  // what ompi_info or mpichversion prints; "" where there is no such program
  std::string info_tool;
  std::string trouble;  // why `meant_by` could not be read

  bool found() const { return !meant_by.empty() && trouble.empty(); }
  bool is_open_mpi() const { return name == "Open MPI"; }
  bool is_cray() const { return name == "Cray MPICH"; }
  bool is_mpich() const { return name == "MPICH"; }
  bool is_mvapich() const { return name == "MVAPICH"; }
  bool is_intel() const { return name == "Intel MPI"; }
  // What mpichversion says under this heading, as "Device:"; those derived from MPICH put their own names
  // before it.
  std::string told(const std::string& heading) const;
};
// `program` and `named`, what --mpi names, may be empty.
Mpi find_mpi(const System& system, const std::string& program, const std::string& named);

enum class Vendor { none, nvidia, amd };
const char* to_string(Vendor vendor);

struct Gpu {
  int index = 0;
  std::string name;
  std::string pci;           // "0000:1b:00.0", lower case
  std::string target;        // AMD: "gfx90a"
  std::string compute_mode;  // NVIDIA: "Default", "Exclusive_Process", "Prohibited"
  std::string mig, addressing;
  std::string cluster, clique;  // NVIDIA: whose GPUs NVLink connects, over nodes
  std::string
      ecc;  // "Enabled", "Disabled", "Host" where the memory is the processor's; "N/A" or "" where unknown
  uint64_t corrected = 0, uncorrected = 0;  // errors of its memory since the driver was loaded
  uint64_t uncorrected_ever = 0;            // NVIDIA: in the GPU's life
  uint64_t memory = 0, bar = 0;             // bytes; 0 where it is not known
  int numa = -1;
  int memory_node = -1;  // the NUMA node that its memory is
};

struct Gpus {
  Vendor vendor = Vendor::none;
  std::vector<Gpu> list;
  std::string driver, runtime;  // versions; "" where not known
  std::string source;           // which tool or file told
  std::string tool_words;       // what the tool said instead of a list, where it failed
  int on_bus = 0;               // GPUs that the kernel sees on the PCI bus, whether a tool lists them or not

  std::string summary() const;  // "8 x NVIDIA H200"
};
Gpus find_gpus(const System& system);
// The library by which programs and Fairlead reach GPUs of this vendor; "" where the loader finds none.
std::string driver_library(const System& system, Vendor vendor);
// AMD's as the kernel describes them.
std::vector<device::KfdGpu> kfd_gpus(const System& system);

struct Ucx {
  std::string library;              // libucp.so.0
  std::string version;              // "" where ucx_info is missing, or belongs to another UCX
  bool tool_is_of_another = false;  // ucx_info on PATH
  std::string build;                // ucx_info -v
  std::string modules;              // names in the module folder next to the library, blanks between
  std::string transports;           // ucx_info -d: names, blanks between and around
  std::string config;               // ucx_info -c
};
Ucx find_ucx(const System& system, const Mpi& mpi);
// InfiniBand, RoCE and EFA, by their names.
std::vector<std::string> rdma_adapters(const System& system);

struct Machine {
  const System& system;
  Mpi mpi;
  Gpus gpus;
  Ucx ucx;
  LiveReport live;
  bool preload = true;  // is it asked how programs fare with Fairlead, or without?
};

// The settings of the library that an MPI moves messages with.
bool uses_ucx(const Machine& machine);
bool uses_libfabric(const Machine& machine);

// Which GPUs this MPI was built to handle itself, as its own tools tell.
struct Awareness {
  bool known = false;
  bool cuda = false, rocm = false;
  std::string evidence;  // "accelerator components: null", "--with-cuda is in its configure line"
};
Awareness awareness(const Machine& machine);
// For this machine's GPUs; for any GPUs if it has none.
bool handles_gpus(const Machine& machine);

}  // namespace fairlead::tools::doctor
