// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/layouts/layout_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

namespace fairlead::tools {
namespace {

using Json = nlohmann::ordered_json;
using Measured = std::optional<Distribution> LayoutMeasurement::*;

// What the JSON has the distribution of.
struct LayoutQuantity {
  const char* key;
  Measured values;
  bool steady;  // many measurements of one thing, which are not meant to differ
};
constexpr LayoutQuantity quantities[] = {
    {"pack_mb_s", &LayoutMeasurement::pack_mb_s, true},
    {"unpack_mb_s", &LayoutMeasurement::unpack_mb_s, true},
    {"copy_mb_s", &LayoutMeasurement::copy_mb_s, true},
    {"latency_us", &LayoutMeasurement::latency_us, true},
    {"contiguous_us", &LayoutMeasurement::contiguous_us, true},
    {"make_us", &LayoutMeasurement::make_us, false},
    {"first_us", &LayoutMeasurement::first_us, false},
    {"second_us", &LayoutMeasurement::second_us, false},
};

// A column of the table; those that follow from several quantities stand in the JSON as well.
struct LayoutColumn {
  const char* heading;
  std::optional<double> (*value)(const LayoutMeasurement& m);
  const char* key = nullptr;
};

template <Measured values>
std::optional<double> median(const LayoutMeasurement& m) {
  return m.*values ? std::optional((m.*values)->p50) : std::nullopt;
}

template <Measured values>
std::optional<double> gigabytes(const LayoutMeasurement& m) {
  return (m.*values)->p50 / 1e3;
}

template <Measured numerator, Measured denominator>
std::optional<double> ratio(const LayoutMeasurement& m) {
  const double below = (m.*denominator)->p50;
  return below > 0 ? std::optional((m.*numerator)->p50 / below) : std::nullopt;
}

std::optional<double> message_rate(const LayoutMeasurement& m) {
  return m.latency_us->p50 > 0 ? std::optional(double(m.bytes) / m.latency_us->p50 / 1e3) : std::nullopt;
}

// A first message that is faster is chance.
std::optional<double> plan(const LayoutMeasurement& m) {
  return m.second_us ? std::optional(std::max(m.first_us->p50 - m.second_us->p50, 0.0)) : std::nullopt;
}

using M = LayoutMeasurement;

struct LayoutTable {
  const char* first;  // heading of the names, and their key in the JSON
  const char* key;
  const char* says;
  bool sizes;
  std::vector<LayoutColumn> columns;
};

LayoutTable table_of(const BenchmarkKind& kind) {
  if (kind.id == Benchmark::pack)
    return {"# Block",
            "bytes",
            "# GB/s of packed bytes; copy: in the time of a copy that moves the same cache lines\n",
            false,
            {{"Pack", gigabytes<&M::pack_mb_s>},
             {"Unpack", gigabytes<&M::unpack_mb_s>},
             {"Copy", gigabytes<&M::copy_mb_s>},
             {"Pack/copy", ratio<&M::pack_mb_s, &M::copy_mb_s>, "pack_ratio"},
             {"Unpack/copy", ratio<&M::unpack_mb_s, &M::copy_mb_s>, "unpack_ratio"}}};
  if (kind.id == Benchmark::halo)
    return {"# Face",
            "face",
            "# us of an exchange; ratio: to that of contiguous messages\n",
            true,
            {{"Exchange", median<&M::latency_us>},
             {"Contiguous", median<&M::contiguous_us>},
             {"Ratio", ratio<&M::latency_us, &M::contiguous_us>, "ratio"}}};
  return {"# Type",
          "type",
          "# times in us; ratio: of the rate to that of a contiguous message\n"
          "# plan: what the first message of a new type takes longer than the second\n",
          true,
          {{"Latency", median<&M::latency_us>},
           {"GB/s", message_rate, "bandwidth_gb_s"},
           {"Ratio", ratio<&M::contiguous_us, &M::latency_us>, "ratio"},
           {"Make", median<&M::make_us>},
           {"First", median<&M::first_us>},
           {"Plan", plan, "plan_us"}}};
}

constexpr int name_width = 11, bytes_width = 11;

std::string cell(const char* heading, const std::string& text, Cell kind = Cell::number) {
  return fmt::format(" {:>{}}", text, narrow_width(heading, kind) - 1);
}

}  // namespace

LayoutReport::LayoutReport(const BenchArguments& arguments, const Context& context)
    : Report(arguments, context) {
  const BenchmarkKind& kind = *arguments.kind;
  json()["timeout_s"] = arguments.timeout_s;
  if (kind.id == Benchmark::pack) json()["stride"] = arguments.stride, json()["line"] = arguments.line;
  if (kind.id == Benchmark::halo) json()["edge"] = arguments.edge;
  if (kind.id == Benchmark::datatype) json()["rounds"] = arguments.rounds;
  if (!this->table()) return;
  const LayoutTable table = table_of(kind);
  std::cout << table.says;
  if (kind.id == Benchmark::pack)
    std::cout << fmt::format("# {} packed bytes a call, stride {} blocks, cache lines of {} bytes\n",
                             arguments.packed_bytes, arguments.stride, arguments.line);
  if (kind.id == Benchmark::halo)
    std::cout << fmt::format(
        "# cube of {0} x {0} x {0} doubles; a block of face i is a double, of j a row, of k all\n",
        arguments.edge);
  std::cout << fmt::format("{:<{}}", table.first, name_width);
  if (table.sizes) std::cout << fmt::format("{:>{}}", "Bytes", bytes_width);
  for (const LayoutColumn& column : table.columns) std::cout << cell(column.heading, column.heading);
  if (arguments.validate) std::cout << cell("Valid", "Valid", Cell::word);
  std::cout << std::endl;
}

void LayoutReport::add(const LayoutMeasurement& m) {
  const LayoutTable table = table_of(*arguments_.kind);
  const std::string name = m.block > 0 ? std::to_string(m.block) : m.name;
  Json row;
  // Pack is drawn against its blocks.
  if (m.block > 0)
    row = {{table.key, m.block}, {"packed_bytes", m.bytes}};
  else
    row = {{table.key, m.name}, {"bytes", m.bytes}};
  row["blocks"] = m.blocks;
  row["iterations"] = m.iterations;
  bool doubtful = false;
  for (const LayoutQuantity& quantity : quantities) {
    if (!(m.*quantity.values)) continue;
    const Distribution& d = *(m.*quantity.values);
    row[quantity.key] = to_json(d);
    if (quantity.steady)
      doubtful |= noise_.look(fmt::format("{} of {}", quantity.key, name), d, m.iterations);
  }
  for (const LayoutColumn& column : table.columns)
    if (std::optional<double> value = column.key ? column.value(m) : std::nullopt) row[column.key] = *value;
  if (m.cut_short) row["cut_short"] = true;
  add_row(std::move(row), m.valid, doubtful);
  if (!this->table()) return;
  std::string line = fmt::format("{:<{}}", name, name_width);
  if (table.sizes) line += fmt::format("{:>{}}", m.bytes, bytes_width);
  for (const LayoutColumn& column : table.columns) {
    std::optional<double> value = column.value(m);
    line += cell(column.heading, value ? narrow_number(*value) : "-");
  }
  if (m.valid) line += cell("Valid", *m.valid ? "Pass" : "Fail", Cell::word);
  std::cout << line << std::endl;  // a row at a time: some take long
}

}  // namespace fairlead::tools
