// SPDX-License-Identifier: Apache-2.0

#include "common/visibility.h"

#include <algorithm>

#include "common/words.h"

extern char** environ;

namespace fairlead::tools {
namespace {

struct Row {
  const char* provider;
  int layer;
  const char* variable;
  bool empty_hides;  // all GPUs, else it is as good as not set
};
// The first row of a provider's highest layer is the variable that is written: no other one overrules it.
constexpr Row rows[] = {
    {"cuda", 0, "CUDA_VISIBLE_DEVICES", true},
    {"rocm", 0, "ROCR_VISIBLE_DEVICES", true},
    {"rocm", 1, "HIP_VISIBLE_DEVICES", false},
    {"rocm", 1, "CUDA_VISIBLE_DEVICES", false},
};

bool names_a_gpu(const std::string& entry) {
  if (entry.rfind("GPU-", 0) == 0 || entry.rfind("MIG-", 0) == 0) return true;
  return !entry.empty() && entry.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string> entries_of(const std::string& text) {
  std::vector<std::string> entries;
  for (const std::string& entry : split(text, ", \t\r\n")) {
    if (!names_a_gpu(entry)) break;
    if (std::find(entries.begin(), entries.end(), entry) == entries.end()) entries.push_back(entry);
  }
  return entries;
}

}  // namespace

Visibility visibility(const std::string& provider, const Environment& environment) {
  Visibility found;
  int layer = -1;
  for (const Row& row : rows) {
    auto set = environment.find(row.variable);
    if (row.provider != provider || set == environment.end()) continue;
    if (set->second.empty() && !row.empty_hides) continue;
    ChosenGpus chosen{row.layer, row.variable, set->second, entries_of(set->second)};
    (row.layer == layer ? found.overruled : found.layers).push_back(chosen);
    layer = row.layer;
  }
  return found;
}

std::pair<std::string, std::string> show_only(const std::string& provider, const Environment& environment,
                                              int ordinal, int count) {
  const Row* written = nullptr;
  for (const Row& row : rows)
    if (row.provider == provider && (!written || row.layer > written->layer)) written = &row;
  if (!written) return {};
  std::string entry = std::to_string(ordinal);
  // A list of fewer GPUs than there are to see is one that this runtime does not look at.
  for (const ChosenGpus& chosen : visibility(provider, environment).layers)
    if (chosen.layer == written->layer && static_cast<size_t>(count) <= chosen.entries.size())
      entry = chosen.entries[static_cast<size_t>(ordinal)];
  return {written->variable, entry};
}

Environment this_environment() {
  Environment variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (size_t equals = text.find('='); equals != std::string::npos)
      variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

}  // namespace fairlead::tools
