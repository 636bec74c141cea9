// SPDX-License-Identifier: Apache-2.0
//
// `fairlead doctor`: is this MPI GPU-aware, and if not, why not and what to do.

#pragma once

#include <string>

#include "common/words.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct DoctorArguments {
  std::string program;  // whose MPI is meant; "" for that of PATH
  std::string mpi;      // the same by an ABI, a compiler wrapper, a launcher or a library
  bool verbose = false;
  bool json = false;
  bool markdown = false;
  bool preload = true;
  bool launch = true;
  int sim = 0;
  std::string from, record;
};

void define_doctor(CLI::App& app, DoctorArguments& arguments);
int doctor_command(const Words& words);

}  // namespace fairlead::tools
