// SPDX-License-Identifier: Apache-2.0
//
// Which MPI is meant, and what its own tools tell of it.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "common/failure.h"
#include "common/places.h"
#include "common/process.h"
#include "doctor/machine.h"
#include "run/launcher.h"
#include "run/program.h"

namespace fairlead::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* accepted_names =
    "accepted: the path of a mpicc, a mpirun or a libmpi.so.*, or openmpi, mpich, abi";

// The name of an MPI from what one of its programs prints about itself.
struct Mark {
  const char* text;
  const char* name;
  const char* abi;
};
constexpr Mark marks[] = {
    {"Open MPI", "Open MPI", "openmpi"},   {"OpenRTE", "Open MPI", "openmpi"},
    {"CRAY MPICH", "Cray MPICH", "mpich"}, {"Intel(R) MPI", "Intel MPI", "mpich"},
    {"MVAPICH", "MVAPICH", "mpich"},       {"HYDRA", "MPICH", "mpich"},
    {"MPICH", "MPICH", "mpich"},
};

const Mark* mark_in(const std::string& text) {
  for (const Mark& mark : marks)
    if (holds(text, mark.text)) return &mark;
  return nullptr;
}

// "libmpi.so.40" of "libmpi.so.40.30.4".
std::string soname_in(const std::string& file) {
  size_t number = file.find(".so.");
  return number == std::string::npos ? file : file.substr(0, file.find('.', number + 4));
}

// Folders given by -L, in order.
std::vector<std::string> library_folders(const std::string& compiler_line) {
  std::vector<std::string> folders;
  for (const std::string& word : split(compiler_line))
    if (word.rfind("-L", 0) == 0 && word.size() > 2) folders.push_back(word.substr(2));
  return folders;
}

// The first library of this ABI in a folder, of any where it is ""; "" for none.
std::string library_in(const System& system, const std::string& folder, const std::string& abi) {
  for (const std::string& name : system.list(folder))
    if (std::string found = abi_of_library(name); !found.empty() && (abi.empty() || found == abi))
      return folder + "/" + name;
  return {};
}

std::string folder_beside(const std::string& program) {
  return (fs::path(program).parent_path().parent_path() / "lib").string();
}

// The library a wrapper compiler would link: in its folders, else where the loader looks.
void library_of_wrapper(const System& system, const std::string& line, Mpi* mpi) {
  if (holds(line, "-lmpi_abi")) mpi->abi = "abi";  // mpicc_abi of an MPI that has another ABI as well
  for (const std::string& folder : library_folders(line))
    if (const std::string found = library_in(system, folder, mpi->abi); !found.empty()) {
      mpi->library = found;
      mpi->abi = abi_of_library(fs::path(found).filename().string());
      return;
    }
  for (const char* soname : {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1"})
    if (abi_of_library(soname) == mpi->abi && mpi->library.empty()) mpi->library = system.library(soname);
}

// A program of the MPI that the library belongs to: in bin/ of its prefix, which is /usr for /lib too, else
// one on PATH that has no library of this ABI beside it, and so belongs to no other MPI.
std::string companion(const System& system, const Mpi& mpi, const std::vector<std::string>& names) {
  const std::string library = mpi.library.rfind("/lib", 0) == 0 ? "/usr" + mpi.library : mpi.library;
  for (fs::path folder = fs::path(library).parent_path(); folder.has_relative_path();
       folder = folder.parent_path())
    for (const std::string& name : names)
      if (std::string path = system.program((folder / "bin" / name).string()); !path.empty()) return path;
  for (const std::string& name : names)
    if (std::string path = system.program(name);
        !path.empty() && library_in(system, folder_beside(path), mpi.abi).empty())
      return path;
  return {};
}

// "4.0.2" in "MPICH Version:    4.0.2", "CRAY MPICH version 8.1.29.8 (ANL base 3.4a2)".
std::string version_in(const std::string& text, const std::string& behind) {
  size_t at = lower(text).find(lower(behind));
  if (at == std::string::npos) return {};
  size_t start = text.find_first_of("0123456789", at + behind.size());
  if (start == std::string::npos) return {};
  return text.substr(start, text.find_first_not_of("0123456789.abrc", start) - start);
}

void read_open_mpi(const System& system, Mpi* mpi) {
  mpi->info_tool = companion(system, *mpi, {"ompi_info"});
  if (mpi->info_tool.empty()) return;
  mpi->info = system.run({mpi->info_tool, "--parsable", "--all"}).value_or("");
  mpi->version = value_of(mpi->info, "ompi:version:full:");
  mpi->configure = value_of(mpi->info, "config:cli:");
}

// impi_info tells no version, the launcher beside it does.
void read_intel(const System& system, Mpi* mpi) {
  mpi->name = "Intel MPI";
  mpi->info_tool = (fs::path(mpi->info_tool).parent_path() / "mpiexec.hydra").string();
  mpi->info = system.run({mpi->info_tool, "--version"}).value_or("");
  mpi->version = version_in(mpi->info, "Version");
}

void read_mpich(const System& system, Mpi* mpi) {
  mpi->info_tool = companion(system, *mpi, {"mpichversion", "impi_info"});
  if (mpi->info_tool.empty()) return;
  if (fs::path(mpi->info_tool).filename() == "impi_info") return read_intel(system, mpi);
  mpi->info = system.run({mpi->info_tool}).value_or("");
  if (const Mark* mark = mark_in(mpi->info); mark && mpi->name != "Cray MPICH") mpi->name = mark->name;
  mpi->version = version_in(mpi->info, mpi->is_cray() ? "CRAY MPICH version" : "Version:");
  mpi->configure = mpi->told("configure:");
}

void read_cray(const System& system, Mpi* mpi) {
  // /opt/cray/pe/mpich/8.1.29/ofi/gnu/12.3/lib; the modules set CRAY_MPICH_VERSION too.
  std::string version = system.variable("CRAY_MPICH_VERSION");
  mpi->version = version.empty() ? version_in(mpi->library, "/mpich/") : version;
  mpi->configure = {};
}

void meant_by_program(const System& system, const std::string& program, Mpi* mpi) {
  mpi->meant_by = program;
  std::string path = system.program(program);
  if (path.empty()) throw usage(why_no_program(program));
  Program linked;
  linked.path = path;
  mpi->linked = system.libraries_of(path);
  try {
    read_listing(mpi->linked, &linked);
  } catch (const Failure& failure) {
    mpi->trouble = failure.what();
    return;
  }
  mpi->abi = linked.abi;
  mpi->library = linked.mpi_library;
  if (linked.abi.empty())
    mpi->trouble = path + (system.live() && inspect_program(path).kind == ProgramKind::other
                               ? " is not a dynamically linked program of this machine"
                               : " is not linked with an MPI library");
  if (!linked.abi.empty() && linked.mpi_library.empty())
    mpi->trouble =
        fmt::format("{} is linked with {}, which the loader does not find", path, linked.mpi_soname);
}

// Open MPI's wrapper compilers know one option, MPICH's and its kin's another.
void recognise_wrapper(const System& system, const std::string& wrapper, Mpi* mpi) {
  for (const char* option : {"--showme:version", "-v"})
    if (const Mark* mark = mark_in(system.run({wrapper, option}).value_or(""))) {
      mpi->name = mark->name;
      mpi->abi = mark->abi;
      return;
    }
}

// The library of the loader's for this ABI, else that beside the launcher.
void library_of_launcher(const System& system, const std::string& launcher, Mpi* mpi) {
  library_of_wrapper(system, "-L" + folder_beside(launcher), mpi);
}

// What --mpi names: an ABI, a library, a launcher or a compiler wrapper.
void meant_by_name(const System& system, const std::string& named, Mpi* mpi) {
  mpi->meant_by = "--mpi " + named;
  const fs::path file(named);
  const std::string path = system.program(named);
  if (is_mpi_abi(named)) {
    mpi->abi = named;
    library_of_wrapper(system, "", mpi);
    if (mpi->library.empty() && !mpi->launcher.empty())
      mpi->library = library_in(system, folder_beside(mpi->launcher), mpi->abi);
  } else if (std::string abi = abi_of_library(soname_in(file.filename().string())); !abi.empty()) {
    mpi->abi = abi;
    Words names = system.list(file.parent_path().empty() ? "." : file.parent_path().string());
    if (std::find(names.begin(), names.end(), file.filename()) != names.end()) mpi->library = named;
  } else if (path.empty()) {
    throw usage(fmt::format(
        "--mpi: {}", fs::exists(file) ? why_no_program(named)
                                      : fmt::format("'{}' is not accepted; {}", named, accepted_names)));
  } else if (const Mark* mark = mark_in(system.run({path, "--version"}).value_or(""))) {
    mpi->name = mark->name;
    mpi->abi = mark->abi;
    mpi->launcher_to_use = path;
    library_of_launcher(system, path, mpi);
  } else {
    recognise_wrapper(system, path, mpi);
    if (mpi->abi.empty())
      throw usage(fmt::format("--mpi: {} does not say of which MPI it is; {}", path, accepted_names));
    library_of_wrapper(system, system.run({path, "-show"}).value_or(""), mpi);
  }
  if (mpi->library.empty())
    throw usage(fmt::format("--mpi: no library of {} is found; {}", named, accepted_names));
}

// `mpicc`, as it says what it would do, else `mpirun` by its version.
void meant_by_path(const System& system, Mpi* mpi) {
  for (const char* wrapper : {"mpicc", "cc"}) {
    if (system.program(wrapper).empty()) continue;
    std::string line =
        system.run({wrapper, wrapper[0] == 'm' ? "-show" : "--cray-print-opts=libs"}).value_or("");
    // `cc` is every compiler; only Cray's knows that option.
    if (wrapper[0] == 'c' && !holds(line, "-lmpi")) continue;
    mpi->meant_by = std::string(wrapper) + " on PATH";
    if (wrapper[0] == 'm') recognise_wrapper(system, wrapper, mpi);
    library_of_wrapper(system, line, mpi);
    if (!mpi->library.empty()) return;
  }
  if (mpi->launcher.empty()) {
    if (!mpi->meant_by.empty()) mpi->trouble = "mpicc does not say which library it links (mpicc -show)";
    return;
  }
  if (mpi->launcher_of.empty()) return;
  mpi->meant_by = "mpirun on PATH";
  mpi->abi = mpi->launcher_abis.front();
  mpi->name = mpi->launcher_of;
  library_of_launcher(system, mpi->launcher, mpi);
}

}  // namespace

std::string Mpi::told(const std::string& heading) const {
  for (const char* prefix : {"MPICH ", "MVAPICH ", "MVAPICH2 "})
    if (std::string value = value_of(info, prefix + heading); !value.empty()) return value;
  return {};
}

Mpi find_mpi(const System& system, const std::string& program, const std::string& named) {
  Mpi mpi;
  for (const char* name : {"mpirun", "mpiexec", "srun", "flux"})
    if (mpi.launcher.empty()) mpi.launcher = system.program(name);
  if (!mpi.launcher.empty())
    if (const std::string text = system.run({mpi.launcher, "--version"}).value_or("");
        const Mark* mark = mark_in(text)) {
      mpi.launcher_of = mark->name;
      const LauncherKind* kind = kind_of_launcher(text);
      for (const std::string& abi : kind ? kind->abis : Words{mark->abi})
        if (!kind || !std::count(kind->own_abis.begin(), kind->own_abis.end(), abi) ||
            !library_in(system, folder_beside(mpi.launcher), abi).empty())
          mpi.launcher_abis.push_back(abi);
    }
  if (!program.empty())
    meant_by_program(system, program, &mpi);
  else if (!named.empty())
    meant_by_name(system, named, &mpi);
  else
    meant_by_path(system, &mpi);
  if (!mpi.found()) return mpi;
  if (is_cray_library(mpi.library))
    mpi.name = "Cray MPICH";
  else if (mpi.abi == "openmpi")
    mpi.name = "Open MPI";
  else if (mpi.name.empty() || mpi.name == "Open MPI")
    mpi.name = mpi.abi == "mpich" ? "MPICH" : "an MPI of the standard ABI";
  if (mpi.is_cray())
    read_cray(system, &mpi);
  else if (mpi.is_open_mpi())
    read_open_mpi(system, &mpi);
  else
    read_mpich(system, &mpi);
  return mpi;
}

}  // namespace fairlead::tools::doctor
