// SPDX-License-Identifier: Apache-2.0

#include "options.h"

#include <charconv>
#include <climits>
#include <cstdio>
#include <cstring>

#include "grid.h"
#include "variants.h"

namespace ghost {
namespace {

constexpr const char* usage =
    "ghost_exchange [options]: blurs a field again and again, in parts whose ghost\n"
    "cells GPUs exchange\n"
    "  -x N -y N       process grid: N columns, N rows (default: as square as can be)\n"
    "  -i N -j N       cells of the field: N columns, N rows (default: 1024, 1024)\n"
    "  -h N            width of the halo (default: 1)\n"
    "  -c              exchange corners, too\n"
    "  -I N            iterations (default: 100)\n"
    "  -t              a barrier before each exchange, so that its time holds no\n"
    "                  waiting for late neighbours\n"
    "  -p              print the arrays, with their ghost cells, before and after\n"
    "  -o FILE.npy     write the field, for numpy.load and fairlead plot\n"
    "  --json FILE     write the timings, for fairlead plot\n"
    "  --variant NAME  how ghost cells are exchanged (default: device):\n";

struct Number {
  const char* flag;
  int Options::*value;
  int least, greatest;
};
constexpr Number numbers[] = {
    {"-x", &Options::process_columns, 1, 1 << 20}, {"-y", &Options::process_rows, 1, 1 << 20},
    {"-i", &Options::columns, 1, 1 << 17},         {"-j", &Options::rows, 1, 1 << 17},
    {"-h", &Options::halo, 1, 1 << 10},            {"-I", &Options::iterations, 1, 1 << 30},
};
constexpr struct {
  const char* flag;
  bool Options::*value;
} switches[] = {{"-c", &Options::corners}, {"-t", &Options::barriers}, {"-p", &Options::print}};
constexpr struct {
  const char* flag;
  std::string Options::*value;
} texts[] = {{"--variant", &Options::variant}, {"-o", &Options::field_file}, {"--json", &Options::json_file}};

int read_number(const Number& number, const char* text) {
  int value = 0;
  const char* end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < number.least || value > number.greatest)
    throw Refused{std::string(number.flag) + ": '" + text + "' is not accepted; accepted: a number from " +
                  std::to_string(number.least) + " to " + std::to_string(number.greatest)};
  return value;
}

void print_help() {
  std::fputs(usage, stdout);
  for (const Variant& variant : variants()) std::printf("      %-16s  %s\n", variant.name, variant.summary);
}

}  // namespace

bool read_options(int argc, char** argv, MPI_Comm comm, Options* options) {
  for (int n = 1; n < argc; ++n) {
    std::string flag = argv[n];
    if (flag == "--help") {
      int rank;
      MPI_Comm_rank(comm, &rank);
      if (rank == 0) print_help();
      return false;
    }
    bool known = false;
    auto value = [&] {
      if (n + 1 == argc) throw Refused{flag + " needs a value; see --help"};
      return argv[++n];
    };
    for (const auto& number : numbers)
      if (flag == number.flag) options->*number.value = read_number(number, value()), known = true;
    for (const auto& text : texts)
      if (flag == text.flag) options->*text.value = value(), known = true;
    for (const auto& each : switches)
      if (flag == each.flag) options->*each.value = known = true;
    if (!known) throw Refused{"'" + flag + "' is not accepted; see --help"};
  }
  if (!find_variant(options->variant)) {
    std::string accepted;
    for (const Variant& variant : variants()) accepted += std::string(accepted.empty() ? "" : ", ") + variant.name;
    throw Refused{"--variant: '" + options->variant + "' is not accepted; accepted: " + accepted};
  }
  fit_to(comm, options);
  return true;
}

int thread_level(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  for (int n = 1; n + 1 < argc; ++n)
    if (!std::strcmp(argv[n], "--variant"))
      if (const Variant* variant = find_variant(argv[n + 1])) level = variant->thread_level;
  return level;
}

void fit_to(MPI_Comm comm, Options* options) {
  int ranks;
  MPI_Comm_size(comm, &ranks);
  int& rows = options->process_rows;
  int& columns = options->process_columns;
  auto grid = [&] { return std::to_string(columns) + " by " + std::to_string(rows); };
  bool divides = !(rows && ranks % rows) && !(columns && ranks % columns);
  if (divides && !(rows && columns)) {
    int shape[] = {rows, columns};
    MPI_Dims_create(ranks, 2, shape);
    rows = shape[0];
    columns = shape[1];
  }
  if (!divides || static_cast<long>(rows) * columns != ranks)
    throw Refused{"a process grid of " + grid() + " (-x by -y, 0: not given) does not make " +
                  std::to_string(ranks) + " ranks; accepted: numbers whose product that is"};
  if (options->columns / columns < options->halo || options->rows / rows < options->halo)
    throw Refused{"a field of " + std::to_string(options->columns) + " by " + std::to_string(options->rows) +
                  " cells (-i by -j) is too small for " + grid() + " ranks with a halo of " +
                  std::to_string(options->halo) + "; each rank needs as many cells as the halo is wide"};
  if (!options->field_file.empty() && static_cast<long>(options->columns) * options->rows > INT_MAX)
    throw Refused{"-o: the field has too many cells to be gathered; accepted: -i and -j whose product is at most " +
                  std::to_string(INT_MAX)};
}

}  // namespace ghost
