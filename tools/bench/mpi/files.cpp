// SPDX-License-Identifier: Apache-2.0
//
// file: what files take and give. All ranks open one file, and each writes and reads back a block of its own:
// alone, by the calls with an offset, and together, by the collective ones. Bandwidth is that of all ranks,
// by the time of the slowest.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench/buffer.h"
#include "bench/distribution.h"
#include "bench/mpi/ranks.h"
#include "bench/timing.h"

namespace fairlead::tools {
namespace {

struct FileCall {
  const char* key;
  const char* heading;
  bool reads;
  int (*call)(MPI_File, MPI_Offset, void*, int);
};
constexpr FileCall file_calls[] = {
    {"write_mb_s", "Write", false,
     [](MPI_File file, MPI_Offset at, void* buffer, int bytes) {
       return MPI_File_write_at(file, at, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
     }},
    {"read_mb_s", "Read", true,
     [](MPI_File file, MPI_Offset at, void* buffer, int bytes) {
       return MPI_File_read_at(file, at, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
     }},
    {"write_all_mb_s", "Write all", false,
     [](MPI_File file, MPI_Offset at, void* buffer, int bytes) {
       return MPI_File_write_at_all(file, at, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
     }},
    {"read_all_mb_s", "Read all", true,
     [](MPI_File file, MPI_Offset at, void* buffer, int bytes) {
       return MPI_File_read_at_all(file, at, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
     }},
};
constexpr size_t calls = std::size(file_calls);

struct FileResult {
  uint64_t bytes;  // of a rank
  Distribution mb_s[calls];
  int64_t iterations = 0;
  std::optional<bool> valid = {};
};

class FileReport : public Report {
 public:
  FileReport(const BenchArguments& arguments, const Context& context) : Report(arguments, context) {
    json()["file"] = arguments.file;
    if (!table()) return;
    std::cout << fmt::format("# file: {}\n# bandwidth in MB/s, of all ranks\n{:<{}}", arguments.file,
                             "# Size", narrow_size_width);
    if (arguments.full) std::cout << fmt::format("{:>{}}", "", row_name_width);
    for (const FileCall& call : file_calls) std::cout << fmt::format("{:>{}}", call.heading, width);
    if (arguments.validate) std::cout << fmt::format("{:>{}}", "Valid", valid_width);
    std::cout << std::endl;
  }

  void add(const FileResult& r) {
    nlohmann::ordered_json row = {{"bytes", r.bytes}};
    bool doubtful = false;
    for (size_t i = 0; i < calls; ++i) {
      row[file_calls[i].key] = to_json(r.mb_s[i]);
      doubtful |= noise_.look(fmt::format("{} {}", file_calls[i].heading, r.bytes), r.mb_s[i], r.iterations);
    }
    add_row(std::move(row), r.valid, doubtful);
    if (!table()) return;
    for (const TableRow& of_size : table_rows(arguments_)) {
      std::string line = fmt::format("{:<{}}", r.bytes, narrow_size_width);
      if (arguments_.full) line += fmt::format("{:>{}}", of_size.name, row_name_width);
      for (const Distribution& d : r.mb_s) line += fmt::format("{:>{}.2f}", d.*of_size.bandwidth, width);
      if (r.valid) line += fmt::format("{:>{}}", *r.valid ? "Pass" : "Fail", valid_width);
      std::cout << line << std::endl;
    }
  }

 private:
  static constexpr int width = 13, valid_width = 7;  // 80 columns, with -f and -c
};

// The greatest error class of the ranks: codes mean nothing in other processes. Collective.
int worst_of(int error) {
  int mine = MPI_SUCCESS, worst = MPI_SUCCESS;
  if (error != MPI_SUCCESS) MPI_Error_class(error, &mine);
  MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return worst;
}

void require(int error, const BenchArguments& arguments, const char* what) {
  if (error == MPI_SUCCESS) return;
  throw AgreedFailure(exit_problem,
                      fmt::format("file: {}: {}: {}", arguments.file, what, text_of_error(error)));
}

// A new file, which rank 0 makes and deletes itself: where there is one already, Open MPI's MPI_File_open
// with MPI_MODE_EXCL and MPI_MODE_DELETE_ON_CLOSE fails, and deletes it.
class OwnFile {
 public:
  OwnFile(const BenchArguments& arguments, const Ranks& ranks) : name_(arguments.file) {
    ranks.together([&] {
      if (ranks.rank != 0) return;
      const int made = open(name_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
      if (made < 0)
        throw usage(fmt::format("file: --file: '{}' cannot be made: {}", name_, std::strerror(errno)));
      close(made);
      deletes_ = true;
    });
    const int mine = MPI_File_open(MPI_COMM_WORLD, name_.c_str(), MPI_MODE_RDWR, MPI_INFO_NULL, &file_);
    const int worst = worst_of(mine);
    if (worst == MPI_SUCCESS) return;
    close_and_delete();
    require(worst, arguments, "cannot open it");
  }
  ~OwnFile() { close_and_delete(); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  MPI_File get() const { return file_; }

 private:
  void close_and_delete() {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
    if (deletes_) unlink(name_.c_str());
  }

  const std::string name_;
  bool deletes_ = false;
  MPI_File file_ = MPI_FILE_NULL;
};

class FileBenchmark {
 public:
  FileBenchmark(const BenchArguments& arguments, const Ranks& ranks)
      : arguments_(arguments),
        ranks_(ranks),
        buffer_(place_of(letter(arguments, ranks)), arguments.largest) {}

  static char letter(const BenchArguments& arguments, const Ranks& ranks) {
    return arguments.placement[ranks.rank == 0 ? 0 : 1][0];
  }

  FileResult measure(MPI_File file, uint64_t bytes) {
    FileResult result{.bytes = bytes, .mb_s = {}};
    bool valid = true;
    for (size_t i = 0; i < calls; ++i) {
      const FileCall& call = file_calls[i];
      Repetitions wanted = repetitions(arguments_, bytes, usual_windows);
      const uint64_t seed = bytes + static_cast<uint64_t>(ranks_.rank);
      call.reads ? buffer_.clear(0, bytes) : buffer_.write_pattern(0, bytes, seed);
      time(call, file, bytes);  // the first costs more; the second tells how many there is time for
      const double seconds = time(call, file, bytes);
      wanted = within_budget(arguments_, wanted, seconds, is_simulated(arguments_));
      for (int64_t step = 2; step < wanted.warmup; ++step) time(call, file, bytes);
      std::vector<double> rates;
      for (int64_t step = 0; step < wanted.timed; ++step)
        rates.push_back(double(bytes) * ranks_.size / time(call, file, bytes) / 1e6);
      result.iterations = static_cast<int64_t>(rates.size());
      result.mb_s[i] = distribution(std::move(rates));
      if (call.reads && arguments_.validate) valid = valid && buffer_.holds_pattern(0, bytes, seed);
    }
    if (arguments_.validate) {
      int everywhere = valid;
      MPI_Allreduce(MPI_IN_PLACE, &everywhere, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
      result.valid = everywhere != 0;
    }
    return result;
  }

 private:
  // Of the slowest rank.
  double time(const FileCall& call, MPI_File file, uint64_t bytes) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    const auto at = static_cast<MPI_Offset>(bytes) * ranks_.rank;
    const int error = call.call(file, at, buffer_.address(), static_cast<int>(bytes));
    double slowest = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    require(worst_of(error), arguments_, call.reads ? "cannot read it" : "cannot write it");
    return slowest;
  }

  const BenchArguments& arguments_;
  const Ranks& ranks_;
  Buffer buffer_;
};

}  // namespace

int file_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  std::optional<FileBenchmark> benchmark;
  std::optional<FileReport> report;
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    if (FileBenchmark::letter(arguments, ranks) != 'H') ranks.take_device(arguments);
    benchmark.emplace(arguments, ranks);
  });
  const OwnFile file(arguments, ranks);
  ranks.open(report, arguments, "MPI", fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), ",")));
  for (uint64_t bytes : arguments.sizes()) {
    const FileResult result = benchmark->measure(file.get(), bytes);
    if (report) report->add(result);
  }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
