// SPDX-License-Identifier: Apache-2.0
//
// posted: what it costs to have very many receives outstanding. Rank 0 posts them, each with a tag of its
// own, before rank 1 sends any of their messages, and then waits for all.

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench/buffer.h"
#include "bench/distribution.h"
#include "bench/mpi/ranks.h"

namespace fairlead::tools {
namespace {

constexpr size_t message_bytes = 8;

// Times of one message, in us.
struct PostedResult {
  uint64_t messages;
  Distribution receives, sends, arrival;
};

struct Column {
  const char* key;
  const char* heading;
  Distribution PostedResult::*of;
};
constexpr Column columns[] = {{"post_receive_us", "MPI_Irecv (us)", &PostedResult::receives},
                              {"post_send_us", "MPI_Isend (us)", &PostedResult::sends},
                              {"arrival_us", "Arrival (us)", &PostedResult::arrival}};

class PostedReport : public Report {
 public:
  PostedReport(const BenchArguments& arguments, const Context& context) : Report(arguments, context) {
    json()["message_bytes"] = message_bytes;
    if (!table()) return;
    std::cout << fmt::format("# times of one message of {} bytes\n{:<{}}", message_bytes, "# Messages",
                             size_width);
    for (const Column& column : columns) std::cout << fmt::format("{:>{}}", column.heading, value_width);
    std::cout << std::endl;
  }

  void add(const PostedResult& result) {
    nlohmann::ordered_json row = {{"messages", result.messages}};
    for (const Column& column : columns) row[column.key] = to_json(result.*column.of);
    add_row(std::move(row), std::nullopt, false);
    if (!table()) return;
    std::string line = fmt::format("{:<{}}", result.messages, size_width);
    for (const Column& column : columns)
      line += fmt::format("{:>{}.2f}", (result.*column.of).p50, value_width);
    std::cout << line << std::endl;
  }
};

// Of the calling rank, for all messages of one iteration.
struct Times {
  double posting = 0, waiting = 0;
};

class Posted {
 public:
  Posted(const BenchArguments& arguments, int rank)
      : arguments_(arguments),
        rank_(rank),
        buffer_(place_of(arguments.placement[static_cast<size_t>(rank)][0]),
                arguments.largest * message_bytes),
        requests_(arguments.largest) {}

  // In both ranks; the result counts in rank 0.
  PostedResult measure(uint64_t messages) {
    std::vector<double> receives, sends, arrival;
    for (int64_t i = -1; i < arguments_.iterations; ++i) {  // the first is not counted
      const Times times = exchange(messages);
      double posting_sends = times.posting;
      MPI_Bcast(&posting_sends, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
      if (i < 0) continue;
      const double us = 1e6 / static_cast<double>(messages);
      receives.push_back(times.posting * us);
      sends.push_back(posting_sends * us);
      arrival.push_back(times.waiting * us);
    }
    return {messages, distribution(receives), distribution(sends), distribution(arrival)};
  }

 private:
  void post(int message) {
    void* at = static_cast<char*>(buffer_.address()) + static_cast<size_t>(message) * message_bytes;
    MPI_Request* request = &requests_[static_cast<size_t>(message)];
    if (rank_ == 0)
      MPI_Irecv(at, message_bytes, MPI_BYTE, 1, message, MPI_COMM_WORLD, request);
    else
      MPI_Isend(at, message_bytes, MPI_BYTE, 0, message, MPI_COMM_WORLD, request);
  }

  Times exchange(uint64_t messages) {
    const int count = static_cast<int>(messages);
    if (rank_ == 1) MPI_Barrier(MPI_COMM_WORLD);  // all receives are posted
    const double start = MPI_Wtime();
    for (int message = 0; message < count; ++message) post(message);
    const double posted = MPI_Wtime();
    if (rank_ == 0) MPI_Barrier(MPI_COMM_WORLD);
    const double ready = MPI_Wtime();
    MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE);
    return {posted - start, MPI_Wtime() - ready};
  }

  const BenchArguments& arguments_;
  int rank_;
  Buffer buffer_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

int posted_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  std::optional<Posted> posted;
  std::optional<PostedReport> report;
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    if (arguments.needs_device()) ranks.take_device(arguments);
    posted.emplace(arguments, ranks.rank);
  });
  const std::vector<std::string> devices = ranks.devices(MPI_COMM_WORLD);
  ranks.open(report, arguments, "MPI", fmt::format("{} -> {}", devices[1], devices[0]));
  for (uint64_t messages : arguments.sizes()) {
    const PostedResult result = posted->measure(messages);
    if (report) report->add(result);
  }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
