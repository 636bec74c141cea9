// SPDX-License-Identifier: Apache-2.0
//
// Histograms and the percentiles read from them, what threads record, and the words and JSON of a report.

#include "observe/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "observe/json/json.h"

namespace fairlead::observe {
namespace {

TEST(Histogram, buckets_follow_each_other) {
  int previous = -1;
  for (uint64_t value = 0; value < 5000; ++value) {
    int bucket = bucket_of(value);
    EXPECT_TRUE(bucket == previous || bucket == previous + 1) << value;
    previous = bucket;
  }
  EXPECT_EQ(bucket_of(UINT64_MAX), histogram_buckets - 1);
}

TEST(Histogram, the_middle_of_a_bucket_is_within_7_percent_of_its_values) {
  for (uint64_t value = 8; value < uint64_t{1} << 43; value += 1 + value / 13)
    EXPECT_NEAR(middle_of(bucket_of(value)) / static_cast<double>(value), 1, 0.07) << value;
  for (uint64_t value = 0; value < 8; ++value)
    EXPECT_EQ(middle_of(bucket_of(value)), static_cast<double>(value));
}

TEST(Histogram, percentiles_are_near_those_of_the_values) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> distribution(9, 2);
  std::vector<uint64_t> values;
  Tally tally;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<uint64_t>(distribution(random)) + 8);
    tally.add(1, values.back());
  }
  std::sort(values.begin(), values.end());
  for (double fraction : {0.01, 0.5, 0.9, 0.99}) {
    double exact = static_cast<double>(values[static_cast<size_t>(fraction * 20000) - 1]);
    EXPECT_NEAR(percentile(tally.histogram, fraction, tally.longest) / exact, 1, 0.08) << fraction;
  }
  EXPECT_EQ(tally.count, 20000u);
  EXPECT_EQ(tally.bytes, 20000u);
  EXPECT_EQ(tally.longest, values.back());
}

TEST(Histogram, percentiles_do_not_exceed_the_longest) {
  Tally tally;
  tally.add(0, 1025);
  EXPECT_LE(percentile(tally.histogram, 0.99, tally.longest), 1025);
  EXPECT_EQ(percentile(Histogram{}, 0.5, 0), 0);
}

TEST(Recorder, threads_add_up_and_outlive_themselves) {
  open(3, [](int) { return "MPI_Send"; });
  auto work = [](int function) {
    for (int i = 0; i < 1000; ++i) {
      begin_call(function);
      current_call()->bytes = 10;
      add({function, Traffic::peer}, 4, 100);
      end_call();
    }
  };
  for (int round = 0; round < 3; ++round) {
    std::thread one(work, 0), other(work, 1);
    one.join();
    other.join();
  }
  close();
  Tallies all = tallies();
  ASSERT_EQ(all.size(), 4u);
  for (int function : {0, 1}) {
    const Tally& call = all[{function, calls}];
    EXPECT_EQ(call.count, 3000u);
    EXPECT_EQ(call.bytes, 30000u);
    const Tally& message = all[{function, Traffic::peer}];
    EXPECT_EQ(message.count, 3000u);
    EXPECT_EQ(message.bytes, 12000u);
    EXPECT_EQ(message.nanoseconds, 300000u);
  }
}

TEST(Recorder, calls_count_for_the_place_that_they_return_to) {
  const Sites before = sites();
  open(3, [](int) { return "MPI_Send"; });
  auto call = [](int function, uintptr_t site) {
    begin_call(function, site);
    current_call()->bytes = 10;
    end_call();
  };
  // More than there are chains.
  for (uintptr_t site = 1; site <= 600; ++site) std::thread(call, 0, site).join();
  for (uintptr_t site = 1; site <= 600; ++site) call(0, site);
  call(1, 600);
  close();
  Sites all = sites();
  for (uintptr_t site = 1; site <= 600; ++site) EXPECT_EQ(all[(Site{0, {"", site}})].count, 2u) << site;
  EXPECT_EQ(all[(Site{1, {"", 600}})].bytes, 10u);
  EXPECT_EQ(all.size(), before.size() + 601);
  Tallies sums = tallies();
  for (const auto& [site, tally] : all) {
    Tally& sum = sums[{site.function, calls}];
    sum.count -= tally.count;
    sum.nanoseconds -= tally.nanoseconds;
  }
  for (const auto& [key, sum] : sums)
    if (key.path == calls) {
      EXPECT_EQ(std::pair(sum.count, sum.nanoseconds), std::pair(uint64_t{0}, uint64_t{0}));
    }
}

TEST(Recorder, calls_nest) {
  open(3, [](int) { return "MPI_Send"; });
  EXPECT_EQ(current_call(), nullptr);
  for (int depth = 0; depth < 40; ++depth) begin_call(depth == 0 ? 2 : 1);
  EXPECT_EQ(current_call()->function, 1);
  for (int depth = 39; depth > 0; --depth) end_call();
  EXPECT_EQ(current_call()->function, 2);
  end_call();
  EXPECT_EQ(current_call(), nullptr);
  close();
}

TEST(Recorder, the_oldest_call_is_known_to_other_threads) {
  open(3, [](int) { return "MPI_Send"; });
  EXPECT_LT(oldest_call().function, 0);
  begin_call(2);
  const uint64_t since = current_call()->since;
  std::thread([since] {
    begin_call(1);
    begin_call(0);
    EXPECT_EQ(oldest_call().function, 2);
    EXPECT_EQ(oldest_call().since, since);
    end_call();
    end_call();
  }).join();
  end_call();
  EXPECT_LT(oldest_call().function, 0);
  close();
}

TEST(Report, a_line_tells_what_was_done_since_the_one_before) {
  auto name_of = [](int function) { return function == 1 ? "MPI_Recv" : "MPI_Send"; };
  Report before, report;
  before.tallies[{0, calls}].count = 10;
  before.bytes = {1024, 0};
  report.whose = "rank 0 of 4";
  report.seconds = 3661.5;
  report.tallies = {
      {{0, calls}, {.count = 12}}, {{1, calls}, {.count = 5}}, {{0, Traffic::peer}, {.count = 9}}};
  report.bytes = {2048, 1024};
  EXPECT_EQ(as_line(report, before, {}, name_of),
            "fairlead 1:01:01 rank 0 of 4: 17 MPI calls (+7), 3.00 KiB of device messages (+2.00 KiB)\n");
  report.phases.find_or_add("setup");
  EXPECT_NE(as_line(report, before, {}, name_of).find("), in its first setup\n"), std::string::npos);
  report.phases.find_or_add("setup")->count = 1;
  report.phases.find_or_add("step")->count = 40;
  std::string line = as_line(report, before, {1, now() - 12'000'000'000}, name_of);
  EXPECT_NE(line.find(", step 40 times, in MPI_Recv for 12.0 s\n"), std::string::npos) << line;
  EXPECT_EQ(as_line(report, before, {1, now()}, name_of).find("MPI_Recv"), std::string::npos);
}

TEST(Report, the_table_leaves_out_what_did_not_happen) {
  auto name_of = [](int) { return "MPI_Send"; };
  Report report;
  report.whose = "2 ranks";
  report.messages.resize(static_cast<size_t>(Traffic::rows));
  report.bytes = report.messages;
  EXPECT_EQ(as_table(report, name_of), "fairlead statistics over 2 ranks, 0.000 s\nno device messages\n");
  report.messages[static_cast<size_t>(Traffic::peer)] = 3;
  report.bytes[static_cast<size_t>(Traffic::peer)] = 3072;
  report.messages[static_cast<size_t>(Traffic::buffered_device)] = 2;
  report.bytes[static_cast<size_t>(Traffic::buffered_device)] = 512;
  EXPECT_EQ(as_table(report, name_of),
            "fairlead statistics over 2 ranks, 0.000 s\n"
            "device messages                count    bytes\n"
            "peer copies                        3 3.00 KiB\n"
            "  buffered in device memory        2    512 B\n");
}

TEST(Report, the_sites_of_ranks_are_added_up_and_the_first_are_in_the_table) {
  const Sites one = {{{1, {"/a program", 0x30}},
                      {.count = 2, .bytes = 8, .nanoseconds = 5000, .longest = 4000}},
                     {{1, {"/a program", 0x10}}, {.count = 1, .nanoseconds = 1000}},
                     {{1, {"", 0x77}}, {.count = 1, .nanoseconds = 500}},
                     {{0, {"/a program", 0x20}}, {.count = 9, .nanoseconds = 9000}}},
              other = {
                  {{1, {"/a program", 0x30}}, {.count = 1, .bytes = 4, .nanoseconds = 8000, .longest = 8000}},
                  {{1, {"/lib/b.so", 0x10}}, {.count = 1, .nanoseconds = 3000}}};
  Report report;
  report.sites = listed(add_up_sites({encode(one), "", encode(other)}), false);
  ASSERT_EQ(report.sites.size(), 5u);
  const Tally& sum = report.sites[1].tally;
  EXPECT_EQ((std::vector{sum.count, sum.bytes, sum.nanoseconds, sum.longest}),
            (std::vector<uint64_t>{3, 12, 13000, 8000}));
  report.seconds = 100e-6;
  report.tallies = {{{1, calls}, {.count = 6, .bytes = 12, .nanoseconds = 17500, .longest = 8000}}};
  auto name_of = [](int) { return "MPI_Send"; };
  EXPECT_NE(as_table(report, name_of)
                .find("\n         3 13.0 us  13.0 %  at a program+0x30\n"
                      "         1 3.00 us   3.0 %  at b.so+0x10\n"
                      "         1 1.00 us   1.0 %  at a program+0x10\n"
                      "  and at 1 other place\n"),
            std::string::npos)
      << as_table(report, name_of);
  const std::string json = as_json(report, Provenance(), name_of);
  EXPECT_NE(
      json.find("\"sites\": [\n  {\"site\": \"a program+0x30\", \"count\": 3, \"bytes\": 12, \"seconds\": "
                "0.000013000, \"max_us\": 8.000},\n  {\"site\": \"b.so+0x10\""),
      std::string::npos)
      << json;
  EXPECT_NE(json.find("\"site\": \"0x77\""), std::string::npos) << json;
}

TEST(Spread, names_the_ranks_of_the_least_and_the_most) {
  auto expect = [](std::vector<uint64_t> of_ranks, const Spread& expected) {
    Spread found = spread_of(of_ranks);
    EXPECT_EQ(found.least, expected.least);
    EXPECT_EQ(found.median, expected.median);
    EXPECT_EQ(found.most, expected.most);
    EXPECT_EQ(found.least_rank, expected.least_rank);
    EXPECT_EQ(found.most_rank, expected.most_rank);
  };
  expect({7}, {7, 7, 7, 0, 0});
  expect({9, 2}, {2, 5, 9, 1, 0});
  expect({5, 9, 1}, {1, 5, 9, 2, 1});
  expect({8, 2, 4, 90}, {2, 6, 90, 1, 3});
  expect({3, 3, 3}, {3, 3, 3, 0, 0});
  expect({0, 0, 5, 5, 0}, {0, 0, 5, 0, 2});
  expect({UINT64_MAX, UINT64_MAX}, {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, 0});
  std::vector<uint64_t> of_many_ranks(1001, 10);
  of_many_ranks[700] = 1, of_many_ranks[31] = 12;
  expect(of_many_ranks, {1, 10, 12, 700, 31});
}

TEST(Spread, the_table_has_it_for_several_ranks_and_the_json_always) {
  auto name_of = [](int function) { return function == 0 ? "MPI_Barrier" : "MPI_Send"; };
  Report report;
  report.whose = "300 ranks";
  report.ranks = 300;
  report.tallies = {
      {{0, calls}, {.count = 900}}, {{1, calls}, {.count = 5}}, {{1, Traffic::peer}, {.count = 5}}};
  report.seconds = 10;
  report.tallies[{0, calls}].nanoseconds = 300'000'000'000;
  report.in_mpi = {0, 2'000'000, 4'000'000'000, 255, 299};
  report.spreads = {{0, {{1000, 2'000'000, 3'000'000, 255, 7}, {3, 3, 3, 0, 0}}},
                    {1, {{0, 0, 4'000'000'000, 0, 299}, {0, 0, 5, 0, 299}}}};
  const std::string table = as_table(report, name_of);
  EXPECT_NE(table.find("time in MPI calls, by rank    least  rank  median    most  rank          calls\n"
                       "MPI_Send                       0 ns     0    0 ns  4.00 s   299         0 to 5\n"
                       "MPI_Barrier                 1.00 us   255 2.00 ms 3.00 ms     7              3\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("10.0 % of the time in MPI: least 0.0 % on rank 255, most 40.0 % on rank 299\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("MPI_Barrier                      900        -   300 s  10.0 %"), std::string::npos)
      << table;
  const std::string json = as_json(report, Provenance(), name_of);
  EXPECT_NE(
      json.find(
          "\"by_rank\": {\"seconds\": {\"min\": 0.000001000, \"min_rank\": 255, \"median\": 0.002000000, "
          "\"max\": 0.003000000, \"max_rank\": 7}, \"count\": {\"min\": 3, \"min_rank\": 0, \"median\": 3, "
          "\"max\": 3, \"max_rank\": 0}}"),
      std::string::npos)
      << json;
  EXPECT_EQ(json.find("by_rank", json.rfind("by_rank") + 1), std::string::npos);
  report.ranks = 1;
  EXPECT_EQ(as_table(report, name_of).find("by rank"), std::string::npos);
  EXPECT_NE(as_json(report, Provenance(), name_of).find("by_rank"), std::string::npos);
}

TEST(Words, figures_have_three_digits_and_a_unit) {
  EXPECT_EQ(in_words_of_time(0), "0 ns");
  EXPECT_EQ(in_words_of_time(999), "999 ns");
  EXPECT_EQ(in_words_of_time(1500), "1.50 us");
  EXPECT_EQ(in_words_of_time(12'345'678), "12.3 ms");
  EXPECT_EQ(in_words_of_time(5e12), "5000 s");
  EXPECT_EQ(in_words_of_size(1023), "1023 B");
  EXPECT_EQ(in_words_of_size(uint64_t{3} << 39), "1.50 TiB");
}

TEST(Words, json_texts_are_escaped) {
  EXPECT_EQ(json_string("a \"b\" \\ \n\x01"), "\"a \\\"b\\\" \\\\ \\u000a\\u0001\"");
  EXPECT_EQ(json_string("größer"), "\"größer\"");
}

}  // namespace
}  // namespace fairlead::observe
