// SPDX-License-Identifier: Apache-2.0
//
// AMD GPUs as the kernel describes them, from trees of files that are made here, and which code they run.

#include "device/hip/kfd_topology.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "device/cuda_hip/gpu_targets.h"

using namespace fairlead::device;

namespace {

// The files of a machine by their paths.
class Tree {
 public:
  void gpu(int node, unsigned version, unsigned location, unsigned domain = 0) {
    files_[path(node, "properties")] = "simd_count 440\ngfx_target_version " + std::to_string(version) +
                                       "\nvendor_id 4098\nlocation_id " + std::to_string(location) +
                                       "\ndomain " + std::to_string(domain) + "\nunique_id 17301504\n";
  }
  void cpu(int node) {
    files_[path(node, "properties")] = "cpu_cores_count 64\ngfx_target_version 0\nlocation_id 0\n";
  }
  void link(int from, int to, int type, int weight, int min_bandwidth, int max_bandwidth) {
    files_[path(from, "io_links/" + std::to_string(to) + "/properties")] =
        "type " + std::to_string(type) + "\nnode_from " + std::to_string(from) + "\nnode_to " +
        std::to_string(to) + "\nweight " + std::to_string(weight) + "\nmin_bandwidth " +
        std::to_string(min_bandwidth) + "\nmax_bandwidth " + std::to_string(max_bandwidth) + "\nflags 1\n";
  }
  std::vector<KfdGpu> read(KfdDetail detail = KfdDetail::links) const {
    return read_kfd_topology("/topology",
                             {[this](const std::string& file) { return text(file); },
                              [this](const std::string& folder) { return names(folder); }},
                             detail);
  }

 private:
  static std::string path(int node, const std::string& file) {
    return "/topology/nodes/" + std::to_string(node) + "/" + file;
  }
  std::string text(const std::string& file) const {
    auto found = files_.find(file);
    return found == files_.end() ? "" : found->second;
  }
  std::vector<std::string> names(const std::string& folder) const {
    std::set<std::string> found;
    for (const auto& [file, text] : files_)
      if (file.rfind(folder + "/", 0) == 0)
        found.insert(file.substr(folder.size() + 1, file.find('/', folder.size() + 1) - folder.size() - 1));
    return {found.begin(), found.end()};
  }
  std::map<std::string, std::string> files_;
};

}  // namespace

TEST(kfd_topology, gpus_come_in_the_order_of_their_nodes) {
  Tree tree;
  tree.cpu(0);
  tree.gpu(10, 90010, 0xd1 << 8);
  tree.gpu(9, 90010, 0xc9 << 8 | 3 << 3 | 1, 2);
  auto gpus = tree.read();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].node, 9);
  EXPECT_EQ(gpus[0].pci, "0002:c9:03.1");
  EXPECT_EQ(gpus[1].pci, "0000:d1:00.0");
  EXPECT_EQ(gpus[1].serial, 17301504u);
  EXPECT_EQ(kfd_gpu_at(gpus, "0000:d1:00.0"), &gpus[1]);
  EXPECT_EQ(kfd_gpu_at(gpus, "0000:d1:00.1"), nullptr);
}

TEST(kfd_topology, targets_have_hexadecimal_digits) {
  Tree tree;
  const std::map<unsigned, std::string> targets = {
      {90006, "gfx906"},   {90010, "gfx90a"},   {90012, "gfx90c"},   {90402, "gfx942"},  {90500, "gfx950"},
      {100300, "gfx1030"}, {110000, "gfx1100"}, {110501, "gfx1151"}, {120001, "gfx1201"}};
  for (const auto& [version, name] : targets) {
    tree.gpu(1, version, 0x100);
    EXPECT_EQ(tree.read().front().target, name);
  }
}

TEST(kfd_topology, rocr_may_be_told_another_target) {
  Tree tree;
  tree.gpu(1, 110001, 0x100);
  tree.gpu(2, 100302, 0x200);
  auto gpus = tree.read();
  EXPECT_EQ(target_for_hip(gpus[0]), "gfx1101");
  setenv("HSA_OVERRIDE_GFX_VERSION", "11.0.0", 1);
  setenv("HSA_OVERRIDE_GFX_VERSION_2", "10.3.0", 1);
  EXPECT_EQ(target_for_hip(gpus[0]), "gfx1100");
  EXPECT_EQ(target_for_hip(gpus[1]), "gfx1030");
  setenv("HSA_OVERRIDE_GFX_VERSION", "", 1);
  EXPECT_EQ(target_for_hip(gpus[0]), "gfx1101");
  unsetenv("HSA_OVERRIDE_GFX_VERSION");
  unsetenv("HSA_OVERRIDE_GFX_VERSION_2");
}

TEST(kfd_topology, links_of_two_gcds_of_a_package_are_the_widest) {
  Tree tree;
  for (int node : {1, 2, 3}) tree.gpu(node, 90010, static_cast<unsigned>(node) << 8);
  tree.link(1, 2, 11, 15, 50000, 200000);
  tree.link(1, 3, 11, 30, 50000, 50000);
  tree.link(1, 0, 2, 20, 312, 32000);  // to a processor
  auto gpus = tree.read();
  KfdLink near = gpus[0].link_to(gpus[1]), far = gpus[0].link_to(gpus[2]);
  EXPECT_EQ(near.kind, KfdLinkKind::xgmi);
  EXPECT_EQ(near.links, 4);
  EXPECT_EQ(near.hops, 1);
  EXPECT_EQ(near.gb_s, 200);
  EXPECT_EQ(far.links, 1);
  EXPECT_EQ(far.hops, 2);
  EXPECT_EQ(gpus[1].link_to(gpus[2]).kind, KfdLinkKind::none);
  EXPECT_GT(kfd_gb_s(gpus[0], gpus[1]), kfd_gb_s(gpus[0], gpus[2]));
  EXPECT_GT(kfd_gb_s(gpus[0], gpus[2]), kfd_gb_s(gpus[1], gpus[2]));
}

TEST(kfd_topology, links_may_be_left_out) {
  Tree tree;
  tree.gpu(1, 90010, 0x100);
  tree.gpu(2, 90010, 0x200);
  tree.link(1, 2, 11, 15, 50000, 200000);
  auto gpus = tree.read(KfdDetail::gpus);
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_TRUE(gpus[0].links.empty());
}

TEST(kfd_topology, partitions_of_a_gpu_are_nearer_than_any_other) {
  Tree tree;
  tree.gpu(2, 90402, 0xc100);
  tree.gpu(3, 90402, 0xc101);            // the partition's number as function
  tree.gpu(4, 90402, 0xd100 | 1 << 28);  // or in the highest bits
  tree.link(2, 3, 11, 13, 819200, 819200);
  tree.link(2, 4, 11, 41, 0, 0);
  auto gpus = tree.read();
  EXPECT_EQ(gpus[1].pci, "0000:c1:00.1");
  EXPECT_EQ(gpus[2].pci, "0000:d1:00.0");
  EXPECT_EQ(gpus[0].link_to(gpus[1]).kind, KfdLinkKind::package);
  EXPECT_EQ(gpus[0].link_to(gpus[2]).kind, KfdLinkKind::xgmi);
  EXPECT_EQ(gpus[0].link_to(gpus[2]).hops, 1);
  EXPECT_GT(kfd_gb_s(gpus[0], gpus[1]), kfd_gb_s(gpus[0], gpus[2]));
}

TEST(kfd_topology, a_machine_without_amd_gpus_has_none) {
  Tree tree;
  EXPECT_TRUE(tree.read().empty());
  tree.cpu(0);
  EXPECT_TRUE(tree.read().empty());
}

// ---- Which image
TEST(gpu_targets, a_gpu_runs_its_own_code_first_then_generic_code) {
  EXPECT_GT(gpu_image_rank("gfx1100", "gfx1100"), gpu_image_rank("gfx11-generic", "gfx1100"));
  EXPECT_GT(gpu_image_rank("gfx11-generic", "gfx1100"), 0);
  EXPECT_GT(gpu_image_rank("gfx11-generic", "gfx1151"), 0);
  EXPECT_GT(gpu_image_rank("gfx9-generic", "gfx900"), 0);
}

TEST(gpu_targets, no_gpu_is_offered_code_of_another) {
  for (const char* image : {"gfx906", "gfx908", "gfx90a", "gfx9-generic", "gfx1100", "gfx11-generic"})
    EXPECT_EQ(gpu_image_rank(image, "gfx942"), 0) << image;
  EXPECT_EQ(gpu_image_rank("gfx9-generic", "gfx90a"), 0);
  EXPECT_EQ(gpu_image_rank("gfx12-generic", "gfx1151"), 0);
  EXPECT_EQ(gpu_image_rank("gfx11-generic", "gfx110"), 0);
  EXPECT_EQ(gpu_image_rank("ptx", "gfx942"), 0);
  EXPECT_EQ(gpu_image_rank("cpu", ""), 0);
}

TEST(gpu_targets, an_nvidia_gpu_runs_code_of_its_major_version_up_to_its_own_else_ptx) {
  EXPECT_GT(gpu_image_rank("sm_89", "sm_89"), gpu_image_rank("sm_86", "sm_89"));
  EXPECT_GT(gpu_image_rank("sm_86", "sm_89"), gpu_image_rank("sm_80", "sm_89"));
  EXPECT_GT(gpu_image_rank("sm_80", "sm_89"), gpu_image_rank("ptx", "sm_89"));
  EXPECT_GT(gpu_image_rank("sm_100", "sm_103"), gpu_image_rank("ptx", "sm_103"));
  EXPECT_GT(gpu_image_rank("ptx", "sm_89"), 0);
  for (const char* image : {"sm_75", "sm_90", "sm_100", "sm_90a", "sm_", "gfx90a", "cpu"})
    EXPECT_EQ(gpu_image_rank(image, "sm_89"), 0) << image;
  EXPECT_EQ(gpu_image_rank("sm_86", "sm_80"), 0);
  EXPECT_EQ(gpu_image_rank("sm_10", "sm_100"), 0);
  EXPECT_EQ(gpu_image_rank("sm_90", "gfx90a"), 0);
  EXPECT_EQ(gpu_image_rank("sm_90", ""), 0);
}

TEST(gpu_targets, of_an_unknown_gpu_every_amd_image_is_tried) {
  EXPECT_GT(gpu_image_rank("gfx906", ""), 0);
  EXPECT_GT(gpu_image_rank("gfx12-generic", ""), 0);
}
