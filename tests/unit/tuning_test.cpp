// SPDX-License-Identifier: Apache-2.0
// Rules of a tuning file are read as they are written, what is wrong in one is named with its place and what
// is accepted; of the rules and the words of FAIRLEAD_COLL, the first that fits a call and is possible
// counts.

#include "coll/tuning.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/options.h"
#include "coll/choice.h"
#include "damaged_text.h"

namespace fairlead::coll {
namespace {

Rules rules_in(const std::string& text) {
  Rules rules;
  EXPECT_EQ(parse_rules(text, "text", &rules), "");
  return rules;
}

std::string wrong_in(const std::string& text) {
  Rules rules = {{Algorithm::bcast_direct, {}, {}}};
  std::string wrong = parse_rules(text, "some/file", &rules);
  EXPECT_EQ(rules.size(), 1u) << "rules of a file that is wrong were taken";
  return wrong;
}

constexpr uint64_t no_end = UINT64_MAX;

TEST(Rules, are_read_with_comments_blanks_and_every_kind_of_range) {
  Rules rules = rules_in(
      "# collective algorithm ranks bytes\n\n"
      "allreduce oneshot 4 ..64k\n"
      "  bcast\tsliced    3..8 1m..2m # a comment\r\n"
      "gather engine .. 8m..\n"
      "reduce staged ..2 4096\n");
  Rules expected = {{Algorithm::allreduce_oneshot, {4, 4}, {0, 64 << 10}},
                    {Algorithm::bcast_sliced, {3, 8}, {1 << 20, 2 << 20}},
                    {Algorithm::gather_engine, {0, no_end}, {8 << 20, no_end}},
                    {Algorithm::reduce_staged, {0, 2}, {4096, 4096}}};
  EXPECT_EQ(rules, expected);
  EXPECT_TRUE(rules_in("").empty());
  EXPECT_EQ(rules_in("scan oneshot .. ..").size(), 1u) << "without an end of line";
}

TEST(Rules, are_written_as_they_are_read) {
  for (const Range& ranks : {Range{}, Range{4, 4}, Range{2, 3}, Range{5, no_end}, Range{0, 7}})
    for (const Range& bytes :
         {Range{}, Range{0, 65536}, Range{12345, 3 << 20}, Range{uint64_t{1} << 30, no_end}})
      for (const AlgorithmRow& row : algorithms) {
        Rule rule{row.id, ranks, bytes};
        EXPECT_EQ(rules_in(to_text(rule)), Rules{rule}) << to_text(rule);
      }
  EXPECT_EQ(to_text(Rule{Algorithm::reduce_scatter_oneshot, {2, 3}, {0, 64 << 10}}),
            "reduce_scatter  oneshot  2..3   ..64k");
}

TEST(Rules, that_are_wrong_are_named_with_their_place_and_what_is_accepted) {
  EXPECT_EQ(
      wrong_in("bcast direct .. ..\n\nallreduce ring .. ..\n"),
      "some/file:3: 'ring' is not an algorithm of allreduce; accepted: meet, oneshot, sliced, nccl, staged");
  EXPECT_EQ(wrong_in("broadcast direct .. .."),
            "some/file:1: 'broadcast' is not a collective; accepted: allgather, allreduce, alltoall, bcast, "
            "gather, "
            "reduce, reduce_scatter, scan, scatter");
  EXPECT_EQ(wrong_in("bcast direct .."), "some/file:1: 3 words; accepted: COLLECTIVE ALGORITHM RANKS BYTES");
  EXPECT_EQ(wrong_in("bcast direct .. .. .."),
            "some/file:1: 5 words; accepted: COLLECTIVE ALGORITHM RANKS BYTES");
  for (const char* range : {"4..2", "-1", "2..x", "2...4", "2-4", "4k", "1.5..", "2..4..6"})
    EXPECT_EQ(
        wrong_in(std::string("bcast direct ") + range + " .."),
        std::string("some/file:1: '") + range +
            "' is not a range of ranks; accepted: N, LOW.., ..HIGH, LOW..HIGH or .. with whole numbers");
  EXPECT_EQ(
      wrong_in("bcast direct .. 64q.."),
      "some/file:1: '64q..' is not a range of bytes; accepted: N, LOW.., ..HIGH, LOW..HIGH or .. with sizes "
      "such as 4096, 64k, 1m, 2g");
}

TEST(Rules, of_any_text_are_taken_or_refused_as_a_whole) {
  DamagedText damaged;
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = damaged.of(
        "allreduce oneshot 4 ..64k\n  bcast\tsliced    3..8 1m..2m # a comment\r\n\ngather engine .. 8m..\n");
    Rules rules;
    if (const std::string wrong = parse_rules(text, "text", &rules); wrong.empty()) {
      ++taken;
      for (const Rule& rule : rules) ASSERT_EQ(rules_in(to_text(rule)), Rules{rule}) << text;
    } else {
      ASSERT_EQ(wrong.find("text:"), 0u) << wrong;
      ASSERT_TRUE(rules.empty()) << text;
    }
  }
  EXPECT_GT(taken, 100) << "too few are sound to prove anything";
}

TEST(Rules, of_a_file_that_cannot_be_read) {
  Rules rules;
  EXPECT_EQ(read_rules("/nowhere/tuning", &rules), "cannot read /nowhere/tuning: No such file or directory");
  EXPECT_EQ(read_rules("/", &rules), "cannot read /: Is a directory");
  EXPECT_EQ(read_rules("/dev/null", &rules), "");
  EXPECT_EQ(read_rules("/dev/zero", &rules), "cannot read /dev/zero: it is not a regular file");
  const std::string pipe = testing::TempDir() + "pipe_instead_of_rules",
                    large = testing::TempDir() + "too_many_rules";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_rules(pipe, &rules), "cannot read " + pipe + ": it is not a regular file");
  std::ofstream(large) << std::string((1 << 20) + 1, '\n');
  EXPECT_EQ(read_rules(large, &rules), "cannot read " + large + ": it is longer than 1 MiB");
  std::remove(pipe.c_str());
  std::remove(large.c_str());
  EXPECT_TRUE(rules.empty());
}

TEST(Rules, that_are_shipped_fit_every_call) {
  EXPECT_FALSE(shipped_rules().empty());
  for (const FamilyRow& family : families)
    for (int members : {1, 2, 3, 4, 32, 1000})
      for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{16} << 20, no_end}) {
        Algorithm taken = Choice().of(family.id, bytes, members);
        EXPECT_EQ(row_of(taken).family, family.id);
        EXPECT_LE(row_of(taken).members, members);
        EXPECT_NE(row_of(taken).name, "staged");
      }
  EXPECT_EQ(Choice().of(Family::bcast, 64 << 10, 4), Algorithm::bcast_direct);
  EXPECT_EQ(Choice().of(Family::bcast, (64 << 10) + 1, 4), Algorithm::bcast_sliced);
  EXPECT_EQ(Choice().of(Family::bcast, 16 << 20, 2), Algorithm::bcast_direct);
  EXPECT_EQ(Choice().of(Family::allgather, 1 << 20, 4), Algorithm::allgather_kernel);
  EXPECT_EQ(Choice().of(Family::allgather, (1 << 20) + 1, 4), Algorithm::allgather_written);
  EXPECT_EQ(Choice().of(Family::allgather, 64 << 20, 2), Algorithm::allgather_kernel);
}

TEST(ChoiceOf, the_first_rule_that_fits_counts_and_then_the_shipped_ones) {
  Choice choice({}, rules_in("allreduce oneshot 2..4 ..64k\n"
                             "allreduce staged 2 ..\n"
                             "bcast sliced .. ..\n"));
  EXPECT_EQ(choice.of(Family::allreduce, 64 << 10, 2), Algorithm::allreduce_oneshot);
  EXPECT_EQ(choice.of(Family::allreduce, (64 << 10) + 1, 2), Algorithm::allreduce_staged);
  EXPECT_EQ(choice.of(Family::allreduce, 8, 5), Choice().of(Family::allreduce, 8, 5));
  EXPECT_EQ(choice.of(Family::bcast, 8, 3), Algorithm::bcast_sliced);
  EXPECT_EQ(choice.of(Family::bcast, 8, 2), Algorithm::bcast_direct) << "sliced needs three";
}

TEST(ChoiceOf, words_come_before_rules_and_those_of_one_collective_before_those_of_all) {
  Rules rules = rules_in("bcast staged .. ..\nallreduce sliced .. ..\n");
  Choice choice({"bcast:sliced", "allreduce:oneshot"}, rules);
  EXPECT_EQ(choice.of(Family::bcast, 8, 3), Algorithm::bcast_sliced);
  EXPECT_EQ(choice.of(Family::bcast, 8, 2), Algorithm::bcast_staged) << "sliced needs three";
  EXPECT_EQ(choice.of(Family::allreduce, 8, 2), Algorithm::allreduce_oneshot);
  Choice staged({"staged", "bcast:direct"}, {});
  EXPECT_EQ(staged.of(Family::bcast, 8, 2), Algorithm::bcast_direct);
  for (const FamilyRow& family : families)
    if (family.id != Family::bcast) {
      EXPECT_EQ(row_of(staged.of(family.id, 8, 2)).name, "staged");
    }
  EXPECT_TRUE(staged.must_stage(Family::reduce));
  EXPECT_FALSE(staged.must_stage(Family::bcast));
  EXPECT_FALSE(choice.must_stage(Family::bcast));
  EXPECT_EQ(Choice({"auto"}, {}).digest(), Choice().digest());
}

TEST(ChoiceOf, what_is_chosen_for_nccl_is_known_also_without_it) {
  Choice by_rules({}, rules_in("allreduce nccl 4.. 1m..\nallreduce oneshot .. 1m..\nreduce nccl .. ..\n"));
  Choice by_words({"allreduce:nccl", "staged"}, {});
  for (const Choice* choice : {&by_rules, &by_words}) {
    EXPECT_TRUE(choice->names_nccl());
    EXPECT_EQ(choice->of(Family::allreduce, 1 << 20, 4), Algorithm::allreduce_nccl);
    EXPECT_FALSE(choice->must_stage(Family::allreduce));
  }
  EXPECT_EQ(by_rules.of(Family::allreduce, 1 << 20, 4, Choice::always_possible),
            Algorithm::allreduce_oneshot);
  EXPECT_EQ(by_rules.of(Family::allreduce, 1 << 20, 3), Algorithm::allreduce_oneshot);
  EXPECT_EQ(by_rules.of(Family::reduce, 8, 1), Algorithm::reduce_oneshot) << "NCCL needs two";
  EXPECT_EQ(by_words.of(Family::allreduce, 8, 4, Choice::always_possible),
            Choice().of(Family::allreduce, 8, 4, Choice::always_possible));
  EXPECT_EQ(by_words.of(Family::bcast, 8, 4), Algorithm::bcast_staged);
  EXPECT_FALSE(Choice().names_nccl()) << "it is not shipped";
  EXPECT_FALSE(Choice({"allreduce:sliced"}, rules_in("bcast direct .. ..")).names_nccl());
}

TEST(ChoiceOf, a_call_takes_nccl_first_where_this_rank_can_and_no_one_shot_algorithm_in_place) {
  Choice choice({}, rules_in("allreduce nccl .. 1m..\nallreduce oneshot .. ..\n"));
  Choice::Chosen can = choice.of_call(Family::allreduce, 1 << 20, 4, false, true);
  EXPECT_EQ(can.algorithm, Algorithm::allreduce_oneshot);
  EXPECT_TRUE(can.nccl_first);
  EXPECT_FALSE(choice.of_call(Family::allreduce, 1 << 20, 4, false, false).nccl_first);
  EXPECT_FALSE(choice.of_call(Family::allreduce, 8, 4, false, true).nccl_first);
  EXPECT_EQ(choice.of_call(Family::allreduce, 8, 4, true, true).algorithm, Algorithm::allreduce_sliced);
  Choice forced({"allreduce:oneshot"}, {});
  EXPECT_EQ(forced.of_call(Family::allreduce, 8, 4, true, false).algorithm, Algorithm::allreduce_oneshot);
  EXPECT_EQ(forced.of(Family::allreduce, 8, 4), Algorithm::allreduce_oneshot) << "the ranks do not meet";
}

TEST(ChoiceOf, short_calls_meet_where_this_rank_can) {
  const Choice shipped;
  for (uint64_t bytes : {8, 64 << 10}) {
    EXPECT_EQ(shipped.of(Family::allreduce, bytes, 4, {.meet = true}), Algorithm::allreduce_meet);
    EXPECT_EQ(shipped.of(Family::allreduce, bytes, 4, {.nccl = true}), Algorithm::allreduce_oneshot);
  }
  EXPECT_EQ(shipped.of(Family::allreduce, 128 << 10, 4), Algorithm::allreduce_oneshot);
}

TEST(ChoiceOf, ranks_that_would_choose_differently_have_different_digests) {
  Rules rules = rules_in("bcast sliced .. 1m..\n");
  const uint64_t digest = Choice({}, rules).digest();
  EXPECT_EQ(Choice({}, rules_in("# the same\nbcast   sliced  ..  1024k..")).digest(), digest);
  EXPECT_NE(Choice({}, rules_in("bcast sliced .. 2m..")).digest(), digest);
  EXPECT_NE(Choice({}, rules_in("bcast sliced 4.. 1m..")).digest(), digest);
  EXPECT_NE(Choice({}, {}).digest(), digest);
  EXPECT_NE(Choice({"bcast:direct"}, rules).digest(), digest);
  EXPECT_NE(Choice({"bcast:sliced"}, rules).digest(), Choice({"bcast:direct"}, rules).digest());
}

TEST(ChoiceOf, every_algorithm_has_a_word) {
  std::string accepted;
  for (const OptionReport& option : describe_options())
    if (option.variable == "FAIRLEAD_COLL") accepted = option.accepted + ",";
  EXPECT_NE(accepted.find("auto, staged,"), std::string::npos);
  for (const AlgorithmRow& row : algorithms) {
    const std::string word = std::string(row_of(row.family).name) + ":" + std::string(row.name);
    EXPECT_NE(accepted.find(" " + word + ","), std::string::npos) << word;
    EXPECT_EQ(row_of(Choice({word}, {}).of(row.family, 8, 4)).name, row.name);
  }
}

TEST(Page, holds_every_algorithm_and_the_shipped_rules) {
  std::ostringstream page;
  page << std::ifstream(PAGE).rdbuf();
  auto has = [&](const std::string& line) { return page.str().find(line + "\n") != std::string::npos; };
  for (const AlgorithmRow& row : algorithms) {
    if (row.name == "staged") continue;
    std::string line = "| `" + std::string(row_of(row.family).name) + ":" + std::string(row.name) + "` | ";
    line += std::string(row_of(row.family).collectives) + " | " + std::string(row.what) + " |";
    EXPECT_TRUE(has(line)) << line;
  }
  for (const Rule& rule : shipped_rules()) EXPECT_TRUE(has(to_text(rule))) << to_text(rule);
}

}  // namespace
}  // namespace fairlead::coll
