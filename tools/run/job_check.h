// SPDX-License-Identifier: Apache-2.0
//
// Finds out before MPI starts whether the launcher of this process starts ranks of its program's MPI. Under
// another MPI's launcher, or a scheduler's without the PMI that the MPI knows, each process would be a job of
// one rank.

#pragma once

#include <string>

namespace fairlead::tools {

struct Program;

struct Launched {
  bool ranks = true;    // of one job, as far as can be told before MPI_Init
  std::string mistake;  // where they certainly are not: what is wrong, and what to do
};

// The program may not tell its MPI; `abi` is what else is known of it, "" for nothing.
Launched judge_launcher(const Program& program, const std::string& abi);

// Throws a usage Failure in each of several processes, which would all start a job of their own.
// `remedy` says what else to do.
void refuse_in_ranks(const std::string& remedy);

}  // namespace fairlead::tools
