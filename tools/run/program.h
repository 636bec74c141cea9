// SPDX-License-Identifier: Apache-2.0
//
// Asks the dynamic loader which MPI a program is linked with in this environment (RPATH, RUNPATH,
// LD_LIBRARY_PATH, the loader's cache). No code of the program runs: a loader that a program brings along is
// code of the program, so the loader of this tool answers in its place.

#pragma once

#include <optional>
#include <string>

#include "common/words.h"

namespace fairlead::tools {

enum class ProgramKind {
  dynamic,      // an ELF program with a loader
  interpreter,  // a dynamic program that runs other programs: python, sh, julia...
  script,       // starts with #!
  other,        // statically linked, foreign, or no program
};

struct Program {
  std::string path;  // what will be executed
  ProgramKind kind = ProgramKind::other;
  std::string abi;             // "openmpi", "mpich", "abi"; "" where no MPI is linked
  std::string mpi_soname;      // "libmpi.so.40"
  std::string mpi_library;     // where the loader finds it; "" where it does not
  std::string device_library;  // libfairlead-device.so where it is linked, and where the loader finds it
  std::string missing;         // the first library that the loader does not find; "" where it finds all
};

// Beside Open MPI's library; the last one is Debian's.
inline constexpr const char* open_mpi_plugin_folders[] = {"openmpi", "openmpi3", "openmpi/lib/openmpi3"};

// Throws a usage Failure when there is no such program, or it links two MPIs at once. `folders`: as if
// LD_LIBRARY_PATH were this; "" for the environment as it is.
Program inspect_program(const std::string& name, const std::string& folders = {});

// An ELF library of this machine's processor; the loader would not load another file.
bool is_shared_library(const std::string& path);

// What the loader says it would load into the program at `path`, or with the library, a line each; "" where
// it has no loader.
std::string library_listing(const std::string& path);
// Reads such lines: the MPI among them, and what is missing.
void read_listing(const std::string& listing, Program* program);

// The MPI ABI a library belongs to by its name, such as libmpi.so.40; "" where it is no MPI library.
std::string abi_of_library(const std::string& soname);

// What a user installs for an MPI of this ABI, of any for "".
const char* what_brings_mpi(const std::string& abi);

// Is it a library of Cray MPICH, by its place or name?
bool is_cray_library(const std::string& path);

// A program was built with one MPI of its ABI. Another's library in `folder` takes its place where it bears
// the same name, or this tree has an alias for it (libmpich.so.12 of one MPICH is libmpi.so.12 of another):
// what LD_LIBRARY_PATH must be for that; "" where it does not, or is found anyway.
std::string path_to_mpi_in(const std::string& folder, const Program& program);

// The libraries of this ABI that `folder` holds, by their paths.
Words mpi_libraries_in(const std::string& folder, const std::string& abi);

// Said where a program uses one MPI library and another of its ABI was meant.
struct OtherMpi {
  std::string fact, remedy;
};
// Nothing where both are the same, or one is not known.
std::optional<OtherMpi> other_mpi(const std::string& used, const std::string& meant);

// A program may be linked with the libfairlead-device.so of another release, which its RPATH names. A process
// has one, and Fairlead needs that of its own release, which serves programs of earlier ones, too: its path,
// to be loaded before; "" where the program loads it or none. Throws a usage Failure where the program is of
// a later release.
std::string device_library_before(const Program& program);

// Throws a usage Failure when no library can be preloaded into this program, or the loader lacks one of its
// own. A script always passes: what it starts is not known.
void require_loadable(const Program& program);

}  // namespace fairlead::tools
