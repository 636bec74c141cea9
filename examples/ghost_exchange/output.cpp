// SPDX-License-Identifier: Apache-2.0

#include "output.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>

#include "../gpu.h"

namespace ghost {
namespace {

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, CloseFile>;

void say_unwritable(const std::string& name) {
  std::fprintf(stderr, "ghost_exchange: cannot write %s: %s\n", name.c_str(), std::strerror(errno));
}

bool written(const std::string& name, const std::string& content) {
  File file(std::fopen(name.c_str(), "wb"));
  if (file && std::fwrite(content.data(), 1, content.size(), file.get()) == content.size() &&
      std::fflush(file.get()) == 0)
    return true;
  say_unwritable(name);
  return false;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The quantile: a fraction `share` of the values does not exceed it.
double percentile(std::vector<double> values, double share) {
  auto place = values.begin() + static_cast<long>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double slowest(MPI_Comm comm, double value) {
  double greatest;
  MPI_Allreduce(&value, &greatest, 1, MPI_DOUBLE, MPI_MAX, comm);
  return greatest;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(text, &length);
  std::string line(text, std::find_if(text, text + length, [](char c) { return c == '\n' || c == ','; }));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

}  // namespace

std::vector<double> gather_field(const std::vector<double>& array, const Grid& grid, const Options& options) {
  std::vector<double> mine;
  for (int j = 0; j < grid.jsize; ++j)
    mine.insert(mine.end(), &array[grid.at(j, 0)], &array[grid.at(j, 0)] + grid.isize);

  // Rank 0 computes the parts of all ranks by the same rule.
  struct Part {
    int jbegin, jend, ibegin, iend;
  };
  std::vector<Part> parts;
  std::vector<int> counts, places;
  for (int row = 0; row < options.process_rows; ++row)
    for (int column = 0; column < options.process_columns; ++column) {
      Part part = {part_begin(grid.rows, options.process_rows, row),
                   part_begin(grid.rows, options.process_rows, row + 1),
                   part_begin(grid.columns, options.process_columns, column),
                   part_begin(grid.columns, options.process_columns, column + 1)};
      places.push_back(counts.empty() ? 0 : places.back() + counts.back());
      counts.push_back((part.jend - part.jbegin) * (part.iend - part.ibegin));
      parts.push_back(part);
    }
  bool root = grid.rank == 0;
  std::vector<double> all(root ? static_cast<size_t>(grid.rows) * grid.columns : 0), field(all.size());
  MPI_Gatherv(mine.data(), static_cast<int>(mine.size()), MPI_DOUBLE, all.data(), counts.data(), places.data(),
              MPI_DOUBLE, 0, grid.comm);
  const double* next = all.data();
  for (size_t n = 0; root && n < parts.size(); ++n)
    for (int j = parts[n].jbegin; j < parts[n].jend; ++j) {
      int width = parts[n].iend - parts[n].ibegin;
      std::copy_n(next, width, &field[static_cast<size_t>(j) * grid.columns + parts[n].ibegin]);
      next += width;
    }
  return field;
}

void print_arrays(const char* when, const std::vector<double>& array, const Grid& grid) {
  std::string text = "rank " + std::to_string(grid.rank) + ", " + when + ":\n";
  char number[16];
  for (int j = grid.jsize + grid.halo - 1; j >= -grid.halo; --j) {
    std::snprintf(number, sizeof number, "%4d:", j);
    text += number;
    for (int i = -grid.halo; i < grid.isize + grid.halo; ++i) {
      std::snprintf(number, sizeof number, " %6.1f", array[grid.at(j, i)]);
      text += number;
    }
    text += '\n';
  }
  // Rank 0 prints the lines of all ranks, so that they do not mix.
  int length = static_cast<int>(text.size());
  if (grid.rank != 0) {
    MPI_Send(text.data(), length, MPI_CHAR, 0, 0, grid.comm);
    return;
  }
  std::fputs(text.c_str(), stdout);
  for (int rank = 1; rank < grid.ranks; ++rank) {
    MPI_Status status;
    MPI_Probe(rank, 0, grid.comm, &status);
    MPI_Get_count(&status, MPI_CHAR, &length);
    text.resize(length);
    MPI_Recv(text.data(), length, MPI_CHAR, rank, 0, grid.comm, MPI_STATUS_IGNORE);
    std::fputs(text.c_str(), stdout);
  }
}

bool can_write(MPI_Comm comm, const Options& options) {
  int rank, good = 1;
  MPI_Comm_rank(comm, &rank);
  for (const std::string& name : {options.field_file, options.json_file})
    if (rank == 0 && !name.empty() && !File(std::fopen(name.c_str(), "ab"))) say_unwritable(name), good = 0;
  MPI_Bcast(&good, 1, MPI_INT, 0, comm);
  return good;
}

bool report(MPI_Comm comm, const Options& options, const Times& times) {
  int rank, ranks;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const struct {
    const char* name;
    const std::vector<double>& seconds;
  } phases[] = {{"stencil", times.stencil}, {"boundary_condition", times.boundary}, {"ghost_cell", times.ghost_cell}};

  double totals[3];
  std::string numbers;
  for (int n = 0; n < 3; ++n) {
    totals[n] = slowest(comm, sum(phases[n].seconds));
    char text[200];
    std::snprintf(text, sizeof text, "    \"%s\": {\"total_s\": %.9f, \"median_us\": %.3f, \"p99_us\": %.3f},\n",
                  phases[n].name, totals[n], 1e6 * slowest(comm, percentile(phases[n].seconds, 0.5)),
                  1e6 * slowest(comm, percentile(phases[n].seconds, 0.99)));
    numbers += text;
  }
  double total = slowest(comm, times.total);
  if (rank != 0) return true;

  bool good = true;
  if (!options.json_file.empty()) {
    auto number = [](auto value) { return std::to_string(value); };
    auto pair = [](int x, int y) { return "[" + std::to_string(x) + ", " + std::to_string(y) + "]"; };
    numbers += "    \"total_s\": " + number(total);
    good = written(options.json_file,
                   "{\n  \"program\": \"ghost_exchange\",\n  \"runs\": [{\n    \"variant\": " + quoted(options.variant) +
                       ",\n    \"provider\": " + quoted(gpuProvider) + ",\n    \"mpi\": " + quoted(mpi_version()) +
                       ",\n    \"ranks\": " + number(ranks) +
                       ",\n    \"process_grid\": " + pair(options.process_columns, options.process_rows) +
                       ",\n    \"cells\": " + pair(options.columns, options.rows) +
                       ",\n    \"halo\": " + number(options.halo) +
                       ",\n    \"corners\": " + (options.corners ? "true" : "false") +
                       ",\n    \"barriers\": " + (options.barriers ? "true" : "false") +
                       ",\n    \"iterations\": " + number(options.iterations) + ",\n" + numbers + "\n  }]\n}\n");
  }
  std::printf("GhostExchange_ArrayAssign_%s Timing is stencil %f boundary condition %f ghost cell %f total %f\n",
              gpuProvider, totals[0], totals[1], totals[2], total);
  return good;
}

// The format of numpy.save(): a line of text, then the numbers.
bool write_field(const Options& options, const std::vector<double>& field) {
  std::string shape = "(" + std::to_string(options.rows) + ", " + std::to_string(options.columns) + ")";
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }";
  constexpr size_t before = 10;  // magic, version, and the header's length in two bytes
  header.resize((before + header.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
  header += '\n';
  std::string content("\x93NUMPY\x01\x00", 8);
  content += static_cast<char>(header.size() & 255);
  content += static_cast<char>(header.size() >> 8);
  content += header;
  content.append(reinterpret_cast<const char*>(field.data()), field.size() * sizeof(double));
  return written(options.field_file, content);
}

}  // namespace ghost
