// SPDX-License-Identifier: Apache-2.0

#include "common/words.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "common/failure.h"

namespace fairlead::tools {

std::string shell_quote(const std::string& word) {
  auto harmless = [](unsigned char c) { return std::isalnum(c) || std::strchr("@%+=:,./-_^", c); };
  if (!word.empty() && std::all_of(word.begin(), word.end(), harmless)) return word;
  std::string quoted = "'";
  for (char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string shell_line(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quote(word);
  return line;
}

Words shell_split(const std::string& text) {
  Words words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else if (c == '\\' && quote == '"' && i + 1 < text.size() && std::strchr("\"\\$`", text[i + 1]))
        word += text[++i];
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      if (in_word) words.push_back(word);
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote) throw usage(std::string("an open quote, ") + quote + ", in: " + text);
  if (in_word) words.push_back(word);
  return words;
}

}  // namespace fairlead::tools
