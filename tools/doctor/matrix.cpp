// SPDX-License-Identifier: Apache-2.0

#include "doctor/matrix.h"

#include <sstream>

#include "doctor/system.h"

namespace fairlead::tools::doctor {
namespace {

// nvidia-smi underlines its header, even in files.
std::string without_escapes(const std::string& line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033')
      while (i < line.size() && line[i] != 'm') ++i;
    else
      plain += line[i];
  }
  return plain;
}

bool is_gpu_label(const std::string& word) {
  if (word.rfind("GPU", 0) == 0 && word.size() > 3)
    return word.find_first_not_of("0123456789", 3) == std::string::npos;
  return word.size() == 12 && word[4] == ':' && word[7] == ':' && word[10] == '.';
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

Matrix read_matrix(const std::string& text, const std::string& title) {
  Matrix matrix;
  bool begun = title.empty();
  for (const std::string& raw : lines_of(text)) {
    std::string line = without_escapes(raw);
    if (!begun) {
      begun = holds(lower(line), title);
      continue;
    }
    std::vector<std::string> words = words_of(line);
    bool labelled = !words.empty() && is_gpu_label(words.front());
    bool header = labelled && matrix.lines.empty();
    if (!labelled && !matrix.rows.empty()) break;
    if (!labelled) continue;
    matrix.lines.push_back(line);
    if (!header) matrix.rows.emplace_back(words.begin() + 1, words.end());
  }
  return matrix;
}

}  // namespace fairlead::tools::doctor
