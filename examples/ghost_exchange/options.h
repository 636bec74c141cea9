// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <mpi.h>

#include <string>

namespace ghost {

struct Options {
  int process_columns = 0, process_rows = 0;  // 0: as MPI_Dims_create says
  int columns = 1024, rows = 1024;
  int halo = 1;
  int iterations = 100;
  bool corners = false;
  bool barriers = false;
  bool print = false;
  std::string variant = "device";
  std::string field_file, json_file;  // empty: none
};

struct Refused {
  std::string line;  // what was wrong, and what is accepted
};

// Throws Refused on all ranks. Returns false after it has printed --help.
bool read_options(int argc, char** argv, MPI_Comm comm, Options* options);

// The level of threads of the variant that the options name: MPI_Init_thread() needs it before the rest is read.
int thread_level(int argc, char** argv);

// Completes the process grid and checks that the problem fits it; throws Refused.
void fit_to(MPI_Comm comm, Options* options);

}  // namespace ghost
