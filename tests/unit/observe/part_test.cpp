// SPDX-License-Identifier: Apache-2.0
//
// What processes have recorded that were killed is found in the file that another one keeps.

#include "observe/part.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "base/small_file.h"

namespace fairlead::observe {
namespace {

constexpr uint64_t job = 77;
const char* name_of(int function) {
  return function == 0 ? "MPI_Send" : "MPI_Recv";
}

// Sends twice in a phase, and is killed while it receives.
[[noreturn]] void record_and_die(int file, int rank) {
  open_part(file);
  own_part().ranks = 3;
  own_part().job = job;
  own_part().started = own_part().start_of_trace = now();
  own_part().rank = rank;
  count(Traffic::peer, 100);
  count(Fallback{});
  open_trace(1 << 20, rank);
  open(2, name_of);
  begin_phase("outer");
  for (int i = 0; i < 2; ++i) {
    if (i == 1) begin_phase("inner");  // behind the first events
    begin_call(0, reinterpret_cast<uintptr_t>(&record_and_die));
    current_call()->bytes = 8;
    add({0, Traffic::peer}, 50, 10);
    end_call();
  }
  end_phase();
  begin_call(1, 0x1234);
  raise(SIGKILL);
  _exit(0);
}

void run(int file, int rank) {
  const pid_t child = fork();
  if (child == 0) record_and_die(file, rank);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
}

// The processes are forked from one that knows no phases yet: a process notes a name when it is new.
struct Parts : testing::Test {
  static void SetUpTestSuite() {
    file = make_kept_file(64);
    run(file, 2);
    run(file, 0);
  }
  static void TearDownTestSuite() { ::close(file); }
  inline static int file = -1;
};

TEST_F(Parts, have_all_until_the_process_was_killed) {
  const std::vector<Part> parts = parts_in(file, now()).parts;
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(std::pair(parts[0].rank, parts[1].rank), std::pair(0, 2));
  for (const Part& part : parts) {
    EXPECT_EQ(part.job, job);
    EXPECT_FALSE(part.reported);
    EXPECT_EQ(part.messages[static_cast<size_t>(Traffic::peer)], 1u);
    EXPECT_EQ(part.bytes[static_cast<size_t>(Traffic::peer)], 100u);
    EXPECT_EQ(part.fallbacks[0], 1u);
    ASSERT_EQ(part.tallies.size(), 3u);
    EXPECT_EQ(part.tallies.at({0, calls}).count, 2u);
    EXPECT_EQ(part.tallies.at({0, calls}).bytes, 16u);
    EXPECT_EQ(part.tallies.at({0, Traffic::peer}).bytes, 100u);
    EXPECT_EQ(part.tallies.at({1, calls}).count, 1u);  // in progress
    EXPECT_EQ(part.sites.begin()->first.place, place_of_code(reinterpret_cast<uintptr_t>(&record_and_die)));
    ASSERT_EQ(part.logs.size(), 1u);
    EXPECT_EQ(part.logs[0].events.size(), 2u + 1 + 2);  // two calls, two phases, a call in progress
    const Phase& outer = part.phases.inner.at(0);
    EXPECT_EQ(std::pair(outer.name, outer.count), std::pair(std::string("outer"), uint64_t{1}));
    EXPECT_EQ(outer.inner.at(0).name, "inner");
  }
}

TEST_F(Parts, are_joined_to_a_report_and_a_trace) {
  const std::vector<Part> parts = parts_in(file, now()).parts;
  const Report report = joined(parts, now());
  EXPECT_EQ(report.missing, std::vector<int>{1});
  EXPECT_EQ(report.tallies.at({0, calls}).count, 4u);
  EXPECT_EQ(report.spreads.at(0).count.most, 2u);
  EXPECT_EQ(report.in_mpi.least_rank + report.in_mpi.most_rank, 2);
  EXPECT_NE(as_json(report, Provenance(), name_of).find("\"missing_ranks\": [1]"), std::string::npos);
  const std::string path = testing::TempDir() + "joined-" + std::to_string(getpid());
  EXPECT_EQ(write_joined_trace(parts, path, name_of), "");
  std::string trace;
  EXPECT_EQ(read_small_file(path, &trace), "");
  for (const char* text :
       {"\"MPI_Recv\"", "\"outer\"", "\"inner\"", "\"rank 2 on ", "\"missing_ranks\": [1]"})
    EXPECT_NE(trace.find(text), std::string::npos) << text;
  unlink(path.c_str());
}

TEST_F(Parts, may_be_damaged) {
  constexpr size_t bytes = (size_t{1} << 16) + 4 * kept_chunk;
  auto* const words =
      static_cast<uint32_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(static_cast<void*>(words), MAP_FAILED);
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    // Where the records are: in the first pages of the chunks.
    const size_t at = (size_t{1} << 16) / 4 + random() % 2 * kept_chunk / 4 + random() % 8192;
    words[at] = random() % 2 ? random() : random() % 1024;
    const std::vector<Part> parts = parts_in(file, now()).parts;
    if (parts.empty()) continue;
    as_json(joined(parts, now()), Provenance(), name_of);
    EXPECT_EQ(write_joined_trace(parts, "/dev/null", name_of), "");
  }
  munmap(words, bytes);
}

TEST(Part, is_in_ordinary_memory_without_a_file) {
  open_part(-1);
  count(Traffic::put, 5);
  EXPECT_EQ(own_part().traffic[static_cast<size_t>(Traffic::put)].bytes, 5u);
  EXPECT_TRUE(parts_in(-1, now()).parts.empty());
}

}  // namespace
}  // namespace fairlead::observe
