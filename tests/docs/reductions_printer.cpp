// SPDX-License-Identifier: Apache-2.0
//
// Prints docs/reference/reductions.md: which operation runs on which element on the GPU, by
// src/kernels/reduce.h.

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "kernels/reduce.h"

int main() {
  using namespace fairlead::kernels;
  std::vector<std::string> sets;  // of operations, in the order of their first elements
  std::map<std::string, std::string> elements_of;
  for (const ElementTraits& element : elements) {
    std::string ops;
    for (size_t op = 0; op < op_count; ++op)
      if (has_kernel(static_cast<ReduceOp>(op), element.element))
        ops += (ops.empty() ? "" : ", ") + std::string(op_names[op]);
    std::string& row = elements_of[ops];
    if (row.empty()) sets.push_back(ops);
    row +=
        (row.empty() ? "`" : ", `") + std::string(element.name) + "` (" + std::to_string(element.bytes) + ")";
  }
  std::printf(
      "# Reductions on the GPU\n\n"
      "Which predefined operation runs on which type of element on the GPU: all that MPI 4.1 allows "
      "(sections 6.9.2 and 6.9.4) for types that GPUs have.\n"
      "`reductions_printer` makes this page from `src/kernels/reduce.h`.\n\n"
      "| Elements (bytes) | Operations |\n| --- | --- |\n");
  for (const std::string& ops : sets) std::printf("| %s | %s |\n", elements_of[ops].c_str(), ops.c_str());
  std::printf(
      "\n"
      "- The result is that of the ranks in their order, `((v0 op v1) op v2) ...`: the same bits on every "
      "rank, in "
      "every run, on any number of GPU blocks.\n"
      "- `float16` and `bfloat16` are computed in `float` and rounded to nearest even after each operation.\n"
      "  MPI has no names for them: they are `MPIX_C_FLOAT16` of MPICH and Open MPI, and `MPIX_BFLOAT16` of "
      "MPICH.\n"
      "- Integers wrap around when they overflow.\n"
      "- Complex products are the four plain ones; infinities and NaNs get no special care.\n"
      "- The minimum or maximum of a NaN and a number is either of them.\n"
      "- Of equal values, `minloc` and `maxloc` take the lower index. Padding inside pairs is never "
      "written.\n"
      "- `boolean` is `bool` of C and C++, `logicalN` is Fortran's `LOGICAL` of N bits: zero is false, all "
      "else is "
      "true, and true is stored as 1.\n"
      "- `float_float` and `double_double` are Fortran's `2REAL` and `2DOUBLE PRECISION`.\n"
      "- `replace` is `MPI_REPLACE`: the last rank's value.\n");
}
