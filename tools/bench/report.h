// SPDX-License-Identifier: Apache-2.0
//
// What benchmarks print: a table like the OSU micro-benchmarks' (lines with # are context) or JSON with the
// same results and more. Tables show medians, as `fairlead plot` does; -f adds what theirs shows.

#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/distribution.h"
#include "bench/noise.h"
#include "bench/options/arguments.h"

namespace fairlead::tools {

// Who took part, as far as the benchmark program knows more than its arguments.
struct Context {
  std::string mpi_abi = {};      // "" without MPI
  std::string mpi_library = {};  // its own version string, first line
  bool preloaded = false;
  int ranks = 1, nodes = 1;
  std::string via = {};      // "MPI", "NCCL 2.28.3", "device copy"
  std::string devices = {};  // "0 -> 1"
};

// What a table of several quantities shows of their distributions in rows of its own: the median, and with -f
// the slow ones, which are the low bandwidths.
struct TableRow {
  const char* name;
  double Distribution::*time;
  double Distribution::*bandwidth;
};
std::vector<TableRow> table_rows(const BenchArguments& arguments);

inline constexpr int size_width = 12, value_width = 18, row_name_width = 5;

// A line of a table of many columns takes 80 at most: units stand above it, and values have the digits that
// fit.
inline constexpr int narrow_size_width = 10;
enum class Cell { number, word };
int narrow_width(std::string_view heading, Cell cell);
std::string narrow_number(double value);

// What every report says before its results, as JSON and as the table's first lines.
nlohmann::ordered_json context_json(const BenchArguments& arguments, const Context& context);
void print_context(const BenchArguments& arguments, const Context& context);
void print_statistics(const BenchArguments& arguments);  // what the columns are of their distributions
// Of what runs of other commands have measured: theirs, but the program and the command line are this one's.
nlohmann::ordered_json provenance_of_runs(const nlohmann::ordered_json& run, const BenchArguments& arguments);
nlohmann::ordered_json to_json(const Distribution& distribution);

// What the reports of all benchmarks share: the context before the first result, results as rows of JSON, and
// the verdict behind the last one. Each adds its own table.
class Report {
 public:
  // Ends the table and writes the JSON; exit_problem when bytes were wrong.
  int finish();

 protected:
  // Opens the JSON file, so that a bad name is found before anything is measured, and prints the context.
  Report(const BenchArguments& arguments, const Context& context);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  bool table() const { return arguments_.json != "-"; }
  nlohmann::ordered_json& json() { return *json_; }
  // `valid`: where that was checked.
  void add_row(nlohmann::ordered_json row, std::optional<bool> valid, bool doubtful);

  const BenchArguments arguments_;
  NoiseWatch noise_;

 private:
  std::unique_ptr<nlohmann::ordered_json> json_;
  bool valid_ = true;
};

// To a file, or to stdout for "-".
void write_json(const std::string& where, const nlohmann::ordered_json& json);
// Throws a usage Failure where write_json() would not succeed.
void check_json_target(const std::string& where);

inline constexpr const char* words_of_simulation = "simulated GPUs: results are valid, timings are not";

// With the sizes that the user left open: smaller ones on simulated GPUs, which are slow.
BenchArguments with_usual_sizes(BenchArguments arguments);

// Name of the provider, "none" without one; does not start a GPU unless the benchmark needs it.
std::string provider_of(const BenchArguments& arguments);

}  // namespace fairlead::tools
