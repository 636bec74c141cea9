// SPDX-License-Identifier: Apache-2.0
//
// Where Fairlead's own files are, relative to this program, so that a build tree, an install tree and a
// moved install tree all work: bin/fairlead, libexec/fairlead/{bench,probe}-<abi>,
// libexec/fairlead/plot, libexec/fairlead/alias, lib/libfairlead-<abi>.so,
// share/fairlead/openmpi/{cuda,rocm}/{bin,include}. The variable FAIRLEAD_HOME names another tree, which must
// be of the same release.

#pragma once

#include <string>
#include <vector>

namespace fairlead::tools {

// The MPI ABIs Fairlead knows, in the order of preference where nothing else decides.
inline const std::vector<std::string> mpi_abis = {"openmpi", "mpich", "abi"};
bool is_mpi_abi(const std::string& text);

// What programs link for fairlead/device.h, and every libfairlead-<abi>.so of the same release needs.
inline constexpr const char* device_soname = "libfairlead-device.so.0";

std::string own_path();
std::string home_folder();                            // of this tree: FAIRLEAD_HOME, else what bin/ is in
std::string preload_library(const std::string& abi);  // throws a usage Failure where this tree has none
std::string bench_program(const std::string& abi);    // empty where this tree has none
std::string probe_program(const std::string& abi);    // the same
std::string drawing_program();  // what `fairlead plot` starts; throws a usage Failure where it is missing

// What an MPI of this ABI is to tell programs on the provider's GPUs: `kind` is "bin" or "include". Empty
// where this tree has none.
std::string told_folder(const std::string& abi, const std::string& provider, const std::string& kind);

// The release that a libfairlead-device.so belongs to, "0.2.0"; "" where the file is none.
std::string release_of_library(const std::string& path);

// The folder of this tree that holds the file; empty where none does.
std::string library_folder(const std::string& file);

// What a refusal says of FAIRLEAD_HOME, where that is set: "FAIRLEAD_HOME is /x, which holds no <what>; ...".
std::string home_remedy(const std::string& what);

// What adds an MPI that this tree was built without: the rest of its build, or another one.
std::string what_adds(const std::string& abi);

// The folder of this tree with a library named `name` that loads `other`, a library of the same ABI; empty
// where it has none.
std::string alias_folder(const std::string& name, const std::string& other);

// ABIs whose benchmark program exists here.
std::vector<std::string> bench_abis();

// LD_PRELOAD with Fairlead's libraries taken out and `library` (may be empty) put in front.
std::string preload_with(const std::string& library);

}  // namespace fairlead::tools
