// SPDX-License-Identifier: Apache-2.0
//
// Clocks that are translated into each other, flows that are drawn or left out, and what a trace keeps.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "observe/phases.h"
#include "observe/trace_file.h"

namespace fairlead::observe {
namespace {

constexpr uint64_t hour = 3600ull * 1'000'000'000;

// The other clock at the time `t` of this one.
uint64_t other_clock(uint64_t t) {
  return t - 5 * hour + t / 100'000;  // 10 us faster in each second
}

ClockReading exact_reading(uint64_t here) {
  return {here, static_cast<int64_t>(other_clock(here) - here)};
}

TEST(Clock, offset_and_drift_are_taken_out) {
  ClockFit fit{exact_reading(10 * hour), exact_reading(11 * hour)};
  for (uint64_t here : {9 * hour, 10 * hour, 10 * hour + hour / 3, 11 * hour, 12 * hour})
    EXPECT_NEAR(static_cast<double>(fit.translate(here)) - static_cast<double>(other_clock(here)), 0, 4000);
}

TEST(Clock, one_reading_gives_the_offset) {
  ClockFit fit{exact_reading(10 * hour), exact_reading(10 * hour)};
  EXPECT_EQ(fit.translate(10 * hour), other_clock(10 * hour));
}

TEST(Clock, equal_clocks_stay_exact) {
  ClockFit fit{{5, 0}, {hour, 0}};
  for (uint64_t here : {uint64_t{3}, uint64_t{5}, hour, 7 * hour + 1}) EXPECT_EQ(fit.translate(here), here);
}

TEST(Clock, the_answer_came_half_way) {
  ClockReading reading = reading_of(1000, 50, 3000);
  EXPECT_EQ(reading.here, 2000u);
  EXPECT_EQ(reading.ahead, -1950);
}

size_t lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Flows, messages_that_are_alike_are_paired_in_order) {
  uint64_t same = flow_of(0, 1, 7, 100);
  Flows flows =
      draw_flows({{same, 200, 0, 0, 1}, {same, 500, 1, 2, 0}, {same, 100, 0, 0, 1}, {same, 300, 1, 1, 0}});
  EXPECT_EQ(flows.drawn, 2u);
  EXPECT_EQ(flows.left_out, 0u);
  ASSERT_EQ(lines(flows.lines), 4u);
  size_t first = flows.lines.find("\"ts\": 0.100"), second = flows.lines.find("\"ts\": 0.300"),
         third = flows.lines.find("\"ts\": 0.200"), fourth = flows.lines.find("\"ts\": 0.500");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_LT(third, fourth);
  EXPECT_NE(fourth, std::string::npos);
}

TEST(Flows, where_an_end_is_missing_none_of_its_kind_is_drawn) {
  uint64_t lost = flow_of(0, 1, 7, 100), whole = flow_of(0, 1, 8, 100);
  Flows flows = draw_flows(
      {{lost, 1, 0, 0, 1}, {lost, 2, 0, 0, 1}, {lost, 3, 1, 0, 0}, {whole, 1, 0, 0, 1}, {whole, 2, 1, 0, 0}});
  EXPECT_EQ(flows.drawn, 1u);
  EXPECT_EQ(flows.left_out, 3u);
}

TEST(Flows, differ_in_all_that_both_ends_know) {
  uint64_t one = flow_of(0, 1, 7, 100);
  for (uint64_t other :
       {flow_of(1, 0, 7, 100), flow_of(0, 2, 7, 100), flow_of(0, 1, 8, 100), flow_of(0, 1, 7, 101)})
    EXPECT_NE(one, other);
  open_trace(1024, 3);
  uint64_t exact = next_flow();
  EXPECT_NE(exact, next_flow());
  EXPECT_TRUE(is_exact(exact));
  EXPECT_FALSE(is_exact(one));
  close_trace();
  EXPECT_EQ(next_flow(), 0u);
}

TEST(Trace, keeps_no_more_than_the_limit_and_counts_the_rest) {
  open_trace(2048, 0);
  for (uint64_t i = 0; i < 5000; ++i) trace({EventKind::call, 1, 10 * i, 10 * i + 5, 0});
  close_trace();
  uint64_t dropped = 0, kept = 0;
  for (const Log& log : traced(&dropped)) kept += log.events.size();
  EXPECT_EQ(kept, 2048u);
  EXPECT_EQ(dropped, 5000u - 2048u);
}

TEST(TraceFile, names_are_escaped_and_times_exact) {
  open(1, [](int) { return "MPI_Send"; });
  begin_phase("a \"phase\"\n");
  end_phase();
  close();
  Log log{1,
          {{EventKind::phase, 0, 1'000'001, 1'002'002, 0},
           {EventKind::copy, number_of_stream(2, 3), 999'999, 1'000'000, 64},
           {EventKind::enqueued, number_of_program_stream(2, 1), 999'999, 1'000'000, 8, 5}}};
  TraceOfRank rank{4, "node", {}, 1'000'000};
  std::string text;
  write_events(
      rank, {log}, [](int function) { return function == 5 ? "MPI_Isend" : "MPI_Send"; },
      [&](const std::string& piece) { text += piece; });
  EXPECT_NE(text.find("\"name\": \"rank 4 on node\""), std::string::npos);
  EXPECT_NE(text.find("\"name\": \"GPU 2, stream 3\""), std::string::npos);
  EXPECT_NE(text.find("\"name\": \"GPU 2, program's stream 1\""), std::string::npos);
  EXPECT_NE(text.find("\"dur\": 0.001, \"name\": \"MPI_Isend\", \"args\": {\"bytes\": 8}"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\"ts\": 0.001, \"dur\": 2.001, \"name\": \"a \\\"phase\\\" \""), std::string::npos)
      << text;
  EXPECT_NE(text.find("\"ts\": -0.001, \"dur\": 0.001, \"name\": \"copy\", \"args\": {\"bytes\": 64}"),
            std::string::npos)
      << text;
}

// Viewers drop a bar that overlaps another one of its track without lying inside.
TEST(TraceFile, bars_of_a_track_do_not_overlap) {
  const int stream = number_of_program_stream(0, 0), other = number_of_program_stream(1, 0);
  auto bar = [](int of, uint64_t begin, uint64_t end) {
    return Event{EventKind::enqueued, of, begin, end, 0, 1};
  };
  const std::vector<Log> logs = {{0, {bar(stream, 10, 30), bar(stream, 40, 50), bar(other, 20, 25)}},
                                 {1, {bar(stream, 20, 40), bar(stream, 25, 60), bar(stream, 45, 55)}}};
  const detail::Tracks tracks(logs);
  EXPECT_EQ(tracks.of_streams(), (std::map<int, int>{{stream, 3}, {other, 1}}));
  std::map<std::pair<int, int>, std::vector<const Event*>> bars;
  for (const Log& log : logs)
    for (const Event& event : log.events) bars[{event.what, tracks.of(event)}].push_back(&event);
  for (auto& [track, events] : bars) {
    std::ranges::sort(events, {}, &Event::begin);
    for (size_t i = 1; i < events.size(); ++i) EXPECT_LE(events[i - 1]->end, events[i]->begin);
  }
  std::string text;
  write_events(
      TraceOfRank{0, "node", {}, 0}, logs, [](int) { return "MPI_Isend"; },
      [&](const std::string& piece) { text += piece; });
  EXPECT_NE(text.find("\"name\": \"GPU 0, program's stream 0 (3)\""), std::string::npos) << text;
}

// The receive that ends next in the thread has received it, in whichever of the stream's tracks that is.
TEST(TraceFile, a_flow_event_ends_in_the_receive_that_was_enqueued) {
  const int stream = number_of_program_stream(0, 0);
  auto bar = [&](uint64_t begin, uint64_t end) {
    return Event{EventKind::enqueued, stream, begin, end, 0, 1};
  };
  const Event in_call{EventKind::received, 0, 15, 7, 0};
  const Event first{EventKind::received, stream + 1, 30, 8, 0};
  const Event second{EventKind::received, stream + 1, 45, 9, 0};
  const std::vector<Log> logs = {{0, {bar(10, 50), in_call, bar(20, 31), first, second}}};
  const detail::Tracks tracks(logs);
  std::map<uint64_t, int> found;
  for (const FlowEnd& end : flow_ends(TraceOfRank{0, "node", {}, 0}, logs)) found[end.flow_event] = end.track;
  EXPECT_EQ(found[7], 1);  // the thread's
  EXPECT_EQ(tracks.of(logs[0].events[2]), 1);
  EXPECT_EQ(found[8], found[9] + 1);
  EXPECT_GT(found[9], 1);
}

TEST(TraceFile, no_piece_is_empty) {
  static const std::string long_name(size_t{1} << 20, 'x');  // fills a piece by itself
  Log log{0, {{EventKind::call, 0, 1, 2, 0}}};
  size_t pieces = 0;
  write_events(
      TraceOfRank{0, "node", {}, 0}, {log}, [](int) { return long_name.c_str(); },
      [&](const std::string& piece) {
        ++pieces;
        EXPECT_FALSE(piece.empty());
      });
  EXPECT_EQ(pieces, 1u);
}

TEST(Phases, trees_of_ranks_add_up) {
  std::string one = "1\t2\t100\touter\n2\t1\t30\tinner\n1\t1\t5\tlast\n";
  std::string other = "1\t1\t300\touter\n2\t4\t50\tother\n";
  Phase sum = add_up({one, other});
  ASSERT_EQ(sum.inner.size(), 2u);
  Phase* outer = sum.find_or_add("outer");
  EXPECT_EQ(outer->count, 3u);
  EXPECT_EQ(outer->nanoseconds, 400u);
  EXPECT_EQ(outer->self(), 320u);
  EXPECT_EQ(outer->least, 100u);
  EXPECT_EQ(outer->most, 300u);
  EXPECT_EQ(outer->find_or_add("inner")->least, 0u);  // the other rank was never in it
  EXPECT_EQ(outer->find_or_add("other")->least, 0u);
  EXPECT_EQ(outer->find_or_add("other")->most, 50u);
  EXPECT_EQ(encode(add_up({one})), one);
}

TEST(Phases, ends_without_a_begin_are_ignored) {
  open(1, [](int) { return "MPI_Send"; });
  end_phase();
  begin_phase("again");
  begin_phase(nullptr);
  end_phase();
  end_phase();
  close();
  begin_phase("not recorded");
  end_phase();
  Phase phases = own_phases();
  EXPECT_EQ(phases.find_or_add("again")->count, 1u);
  for (const Phase& phase : phases.inner) EXPECT_NE(phase.name, "not recorded");
}

}  // namespace
}  // namespace fairlead::observe
