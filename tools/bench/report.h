// SPDX-License-Identifier: Apache-2.0
//
// What a benchmark prints: a table like the OSU micro-benchmarks' (lines with # are context) or JSON with the
// same results and more. The table shows medians, as `fairlead plot` does; -f adds what theirs shows.

#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/arguments.h"
#include "bench/distribution.h"
#include "bench/noise.h"

namespace fairlead::tools {

struct Measurement {
  uint64_t bytes = 0;
  int64_t iterations = 0;
  std::optional<Distribution> latency_us = {};
  std::optional<Distribution> bandwidth_mb_s = {};
  // copy: between pinned host memory and the device
  std::optional<Distribution> both_ways_mb_s = {};
  std::optional<Distribution> device_to_host_mb_s = {};
  std::optional<Distribution> host_to_device_mb_s = {};
  // first: over the rounds; `slowest` is the message after the second whose median is greatest
  std::optional<Distribution> allocate_us = {}, first_us = {}, second_us = {}, later_us = {}, slowest_us = {};
  int64_t slowest = 0;  // counted from 1
  // one-sided, with --raw: what the GPU itself takes; put_halo: the exchange by puts, and by MPI_Sendrecv
  std::optional<Distribution> raw_us = {}, raw_mb_s = {}, put_us = {}, sendrecv_us = {};
  std::optional<bool> valid = {};
};

// Who took part, as far as the benchmark program knows more than its arguments.
struct Context {
  std::string mpi_abi = {};      // "" without MPI
  std::string mpi_library = {};  // its own version string, first line
  bool preloaded = false;
  int ranks = 1;
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
nlohmann::ordered_json to_json(const Distribution& distribution);

class Report {
 public:
  // Opens the JSON file, so that a bad name is found before anything is measured, and prints the context.
  Report(const BenchArguments& arguments, const Context& context);
  ~Report();

  // first: what the first message of the job takes, before all rows.
  void note_job_first(double us);
  void add(const Measurement& measurement);
  // Writes the JSON; exit_problem when received bytes were wrong.
  int finish();

 private:
  struct Column {
    std::string heading, text;
    Cell cell = Cell::number;
  };
  bool table() const { return arguments_.json != "-"; }
  // Two quantities whose ratio is shown.
  bool compares() const { return arguments_.raw || arguments_.kind->id == Benchmark::put_halo; }
  // Of one row; headings alone where there is no measurement.
  std::vector<Column> columns(const TableRow& row, const Measurement* m) const;
  bool narrow() const;
  bool names_rows() const;
  void print_headings() const;

  BenchArguments arguments_;
  std::unique_ptr<nlohmann::ordered_json> json_;
  NoiseWatch noise_;
  bool valid_ = true;
};

// To a file, or to stdout for "-".
void write_json(const std::string& where, const nlohmann::ordered_json& json);
// Throws a usage Failure where write_json() would not succeed.
void check_json_target(const std::string& where);

// Name of the provider, "none" without one; does not start a GPU unless the benchmark needs it.
std::string provider_of(const BenchArguments& arguments);

}  // namespace fairlead::tools
