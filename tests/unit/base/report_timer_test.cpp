// SPDX-License-Identifier: Apache-2.0
//
// Proves that a wait is reported for as long as it lasts, with its length, and that another wait begins with
// its first question.

#include "base/report_timer.h"

#include <gtest/gtest.h>

#include <vector>

namespace fairlead {
namespace {

using std::chrono::seconds;

const ReportTimer::Clock::time_point start{seconds(1000)};

// At every second of a wait of this length.
std::vector<int> reports_of(ReportTimer& timer, int from, int length) {
  std::vector<int> reports;
  for (int second = from; second <= from + length; ++second)
    if (const int waited = timer.due(start + seconds(second))) reports.push_back(waited);
  return reports;
}

TEST(ReportTimer, reports_how_long_a_wait_has_lasted_until_it_ends) {
  ReportTimer timer;
  EXPECT_EQ(reports_of(timer, 0, 55), (std::vector{10, 20, 30, 40, 50}));
}

TEST(ReportTimer, a_wait_begins_with_its_first_question) {
  ReportTimer timer;
  EXPECT_EQ(timer.due(start + seconds(500)), 0);
  timer.restart();
  EXPECT_EQ(reports_of(timer, 900, 25), (std::vector{10, 20}));
}

}  // namespace
}  // namespace fairlead
