// SPDX-License-Identifier: Apache-2.0
// Options come from the environment; what is wrong there is reported with what is accepted, and not used.

#include "base/options.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "damaged_text.h"

namespace fairlead {
namespace {

// All that a process with these variables prints, on stdout and stderr.
std::string printed_with(const std::string& variables) {
  std::string command = "env -u FAIRLEAD_DEVICE -u FAIRLEAD_LOG " + variables + " " PRINTER " 2>&1", text;
  FILE* pipe = popen(command.c_str(), "r");
  for (int c; (c = fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0) << text;
  return text;
}

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no \"" << part << "\" in:\n" << text;
}
testing::AssertionResult silent(const std::string& text) {
  if (text.find("fairlead ") == std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << text;
}

TEST(Options, defaults_are_silent) {
  std::string text = printed_with("FAIRLEAD_DEVICE=sim");
  EXPECT_TRUE(silent(text));
  EXPECT_TRUE(has(text, "eager_limit=64k (default)"));
  EXPECT_TRUE(has(text, "provider sim"));
}

TEST(Options, values_are_taken_with_their_origin) {
  std::string text = printed_with(
      "FAIRLEAD_DEVICE=SIM FAIRLEAD_SIM_DEVICES=4 FAIRLEAD_IPC=no FAIRLEAD_SIM_LIMITS=memory:512M");
  EXPECT_TRUE(silent(text));
  EXPECT_TRUE(has(text, "sim_devices=4 (FAIRLEAD_SIM_DEVICES)"));
  EXPECT_TRUE(has(text, "ipc=no (FAIRLEAD_IPC)"));
  EXPECT_TRUE(has(text, "provider sim"));
}

TEST(Options, wrong_values_are_reported_with_what_is_accepted_and_not_used) {
  std::string text = printed_with(
      "FAIRLEAD_DEVICE=sim FAIRLEAD_SIM_DEVICES=0 FAIRLEAD_IPC=maybe FAIRLEAD_EAGER_LIMIT=64q "
      "FAIRLEAD_EAGER_TIMEOUT_US=soon FAIRLEAD_BAR=broken");
  EXPECT_TRUE(
      has(text, "FAIRLEAD_SIM_DEVICES=0 is not understood (accepted: a whole number, 1..64); using 1"));
  EXPECT_TRUE(
      has(text, "FAIRLEAD_IPC=maybe is not understood (accepted: on, off, yes, no, true, false, 1, 0)"));
  EXPECT_TRUE(has(text, "FAIRLEAD_EAGER_LIMIT=64q is not understood (accepted: a size in bytes"));
  EXPECT_TRUE(has(text, "FAIRLEAD_EAGER_TIMEOUT_US=soon is not understood (accepted: a whole number"));
  EXPECT_TRUE(has(text, "FAIRLEAD_BAR=broken is not understood (accepted: auto, on, off)"));
  EXPECT_TRUE(has(text, "sim_devices=1 (default)"));
  EXPECT_TRUE(has(text, "eager_limit=64k (default)"));
}

TEST(Options, numbers_have_names_and_those_not_given_keep_their_default) {
  for (const char* right : {"node:0", "NODE:1M,device:2k", "mappings:4,host:1g,node:3,device:0"})
    EXPECT_TRUE(silent(printed_with(std::string("FAIRLEAD_DEVICE=sim FAIRLEAD_POOLS=") + right))) << right;
  for (const char* wrong :
       {"", "off", "node", "node:", "node:x", "nodes:1", "node:1,", "node:1;host:2", "node:9999g"})
    EXPECT_TRUE(has(printed_with(std::string("FAIRLEAD_DEVICE=sim FAIRLEAD_POOLS='") + wrong + "'"),
                    std::string("FAIRLEAD_POOLS=") + wrong +
                        " is not understood (accepted: any of device, host, mappings, node, each NAME:NUMBER "
                        "with 0..1024g, separated by commas); using device:128m,"))
        << wrong;
  setenv("FAIRLEAD_POOLS", "node:1m", 1);
  setenv("FAIRLEAD_SIM_FAULTS", "no_words,copies:7", 1);
  EXPECT_EQ(options().pools("node"), uint64_t{1} << 20);
  EXPECT_EQ(options().pools("mappings"), 256u);
  EXPECT_EQ(options().sim_faults("no_words"), 1u);
  EXPECT_EQ(options().sim_faults("copies"), 7u);
  EXPECT_EQ(options().sim_faults("puts"), 0u);
}

TEST(Options, lists_take_any_of_their_words) {
  for (const char* right : {"off", "OFF", "leaks", "streams", "leaks,streams", "Streams,leaks"})
    EXPECT_TRUE(silent(printed_with(std::string("FAIRLEAD_DEVICE=sim FAIRLEAD_CHECK=") + right))) << right;
  for (const char* wrong : {"", ",", "leak", "leaks,", "off,leaks", "leaks|streams", "leaks;streams"})
    EXPECT_TRUE(has(printed_with(std::string("FAIRLEAD_DEVICE=sim FAIRLEAD_CHECK='") + wrong + "'"),
                    std::string("FAIRLEAD_CHECK=") + wrong +
                        " is not understood (accepted: off, or any of leaks, streams, accesses, collectives, "
                        "separated by commas); "
                        "using off"))
        << wrong;
}

TEST(Options, a_list_with_a_usual_word_cannot_be_off) {
  EXPECT_TRUE(silent(printed_with("FAIRLEAD_DEVICE=sim FAIRLEAD_COLL=auto")));
  const std::string text = printed_with("FAIRLEAD_DEVICE=sim FAIRLEAD_COLL=off");
  EXPECT_TRUE(has(text, "FAIRLEAD_COLL=off is not understood (accepted: any of auto, staged, "));
  EXPECT_TRUE(has(text, "; using auto"));
}

TEST(Options, unknown_variables_are_reported_with_the_nearest_name) {
  std::string text =
      printed_with("FAIRLEAD_DEVICE=sim FAIRLEAD_SIM_DEVISES=4 FAIRLEAD_TEST_X=1 FAIRLEAD_HOME=/");
  EXPECT_TRUE(
      has(text, "unknown option FAIRLEAD_SIM_DEVISES is ignored; did you mean FAIRLEAD_SIM_DEVICES?"));
  EXPECT_FALSE(has(text, "FAIRLEAD_TEST_X"));
  EXPECT_FALSE(has(text, "FAIRLEAD_HOME"));
  for (const char* slip : {"FAIRLEAD_ICP", "FAIRLEAD_PC", "FAIRLEAD_IPCC", "FAIRLEAD_IPK"})
    EXPECT_TRUE(
        has(printed_with(std::string("FAIRLEAD_DEVICE=sim ") + slip + "=on"), "did you mean FAIRLEAD_IPC?"))
        << slip;
  text = printed_with("FAIRLEAD_DEVICE=sim FAIRLEAD_QWERTYUIOPASDF=1");
  EXPECT_TRUE(has(text, "unknown option FAIRLEAD_QWERTYUIOPASDF is ignored"));
  EXPECT_FALSE(has(text, "did you mean"));
}

TEST(Options, variables_of_the_scripts_are_known_and_far_names_suggest_nothing) {
  EXPECT_TRUE(silent(printed_with(
      "FAIRLEAD_DEVICE=sim FAIRLEAD_BUILD=/b FAIRLEAD_MPICC=/m FAIRLEAD_HOME=/h FAIRLEAD_TEST_X=1")));
  std::string text = printed_with("FAIRLEAD_DEVICE=sim FAIRLEAD_BUILDS=1 FAIRLEAD_FOO=1");
  EXPECT_TRUE(has(text, "unknown option FAIRLEAD_BUILDS is ignored\n"));
  EXPECT_TRUE(has(text, "unknown option FAIRLEAD_FOO is ignored\n"));
}

TEST(Options, the_first_rank_reports_for_all) {
  const std::string wrong = "FAIRLEAD_DEVICE=sim FAIRLEAD_IPC=maybe FAIRLEAD_FOO=1 ";
  EXPECT_TRUE(silent(printed_with(wrong + "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1")));
  std::string text = printed_with(wrong + "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0");
  EXPECT_TRUE(has(text, "FAIRLEAD_IPC=maybe"));
  EXPECT_TRUE(has(text, "FAIRLEAD_FOO"));
}

TEST(Options, an_alias_counts_unless_our_own_is_set) {
  const std::string kinds = "FAIRLEAD_DEVICE=sim OMPI_MCA_mpi_memory_alloc_kinds=system,sim ";
  EXPECT_TRUE(has(printed_with(kinds), "memory_alloc_kinds=system,sim (OMPI_MCA_mpi_memory_alloc_kinds)"));
  EXPECT_TRUE(has(printed_with(kinds + "FAIRLEAD_MEMORY_ALLOC_KINDS=system"),
                  "memory_alloc_kinds=system (FAIRLEAD_MEMORY_ALLOC_KINDS)"));
}

// Cray's machines set some of them to 0 for everybody, users the last two to what suits their MPI.
TEST(Options, variables_of_host_mpis_are_no_options) {
  const std::string plain = printed_with("FAIRLEAD_DEVICE=sim");
  for (const char* variable :
       {"MPICH_GPU_SUPPORT_ENABLED=0", "MPICH_RDMA_ENABLED_CUDA=0", "MV2_USE_CUDA=0", "MV2_USE_ROCM=0",
        "MPICH_GPU_IPC_ENABLED=0", "MPICH_G2G_PIPELINE=256", "MV2_CUDA_BLOCK_SIZE=256k"})
    EXPECT_EQ(printed_with(std::string("FAIRLEAD_DEVICE=sim ") + variable), plain) << variable;
}

TEST(Options, forced_provider_that_is_not_there_is_named_with_the_remedy) {
  // An empty library path hides nothing that is installed, so ask for a device list that hides every GPU.
  std::string text = printed_with("FAIRLEAD_DEVICE=cuda CUDA_VISIBLE_DEVICES=");
  EXPECT_TRUE(has(text, "FAIRLEAD_DEVICE=cuda is unavailable: "));
  EXPECT_TRUE(has(text, "FAIRLEAD_DEVICE=auto"));
  EXPECT_TRUE(has(text, "provider none"));
  text = printed_with("FAIRLEAD_DEVICE=none");
  EXPECT_TRUE(silent(text));
  EXPECT_TRUE(has(text, "provider none"));
}

TEST(Options, every_number_is_bounded) {
  for (const OptionReport& option : describe_options()) {
    const std::string type = option.type;
    if (type != "integer" && type != "bytes") continue;
    EXPECT_EQ(complaint_about(option.variable, option.initial), "");
    for (const char* extreme : {"9223372036854775807", "9223372036854775808", "18446744073709551615", "-1"})
      EXPECT_TRUE(has(complaint_about(option.variable, extreme),
                      "is not understood (accepted: " + option.accepted + "); using " + option.initial));
  }
}

TEST(Options, of_any_text_are_taken_or_refused) {
  DamagedText damaged;
  int refused = 0;
  for (int i = 0; i < 100; ++i)
    for (const OptionReport& option : describe_options()) {
      const std::string text = damaged.of(option.initial), wrong = complaint_about(option.variable, text);
      refused += !wrong.empty();
      if (wrong.empty()) continue;
      ASSERT_TRUE(has(wrong, option.variable)) << text;
    }
  EXPECT_GT(refused, 100) << "too few are wrong to prove anything";
}

TEST(Options, sizes_are_parsed_strictly) {
  uint64_t bytes = 0;
  EXPECT_EQ(parse_bytes("64k", &bytes), "");
  EXPECT_EQ(bytes, 65536u);
  EXPECT_EQ(parse_bytes("2GiB", &bytes), "");
  EXPECT_EQ(bytes, uint64_t{2} << 30);
  for (const char* wrong : {"", "k", "-1", "1.5m", "64 k", "99999999999999999999", "9999999999g"})
    EXPECT_NE(parse_bytes(wrong, &bytes), "") << wrong;
  EXPECT_EQ(bytes, uint64_t{2} << 30);
  int64_t integer = 0;
  EXPECT_EQ(parse_integer("-3", &integer), "");
  EXPECT_EQ(integer, -3);
  for (const char* wrong : {"", "3x", "x", "3.0"}) EXPECT_NE(parse_integer(wrong, &integer), "") << wrong;
}

}  // namespace
}  // namespace fairlead
