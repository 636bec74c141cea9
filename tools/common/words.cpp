// SPDX-License-Identifier: Apache-2.0

#include "common/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/options.h"
#include "common/failure.h"

namespace fairlead::tools {

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

Words split(const std::string& text, const char* separators) {
  Words words;
  for (size_t start = 0; (start = text.find_first_not_of(separators, start)) != std::string::npos;) {
    size_t end = std::min(text.find_first_of(separators, start), text.size());
    words.push_back(text.substr(start, end - start));
    start = end;
  }
  return words;
}

std::string size_in_words(uint64_t bytes) {
  for (auto [unit, shift] : {std::pair("PiB", 50), std::pair("TiB", 40), std::pair("GiB", 30),
                             std::pair("MiB", 20), std::pair("KiB", 10)})
    if (bytes >> shift) {
      std::string number = fmt::format("{:.1f}", std::ldexp(double(bytes), -shift));
      if (number.ends_with(".0")) number.resize(number.size() - 2);
      return fmt::format("{} {}", number, unit);
    }
  return fmt::format("{} B", bytes);
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string ranges_in_words(const std::set<int>& numbers) {
  std::string text;
  for (auto number = numbers.begin(); number != numbers.end();) {
    int first = *number, last = first;
    while (++number != numbers.end() && *number == last + 1) last = *number;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
  }
  return text;
}

std::string gpus_in_words(const std::set<int>& numbers) {
  if (numbers.empty()) return "";
  return (numbers.size() == 1 ? "GPU " : "GPUs ") + ranges_in_words(numbers);
}

std::string did_you_mean(const std::string& word, const Words& names) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const std::string nearest = nearest_name(word, names, dashes);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

std::string wrapped(const std::string& text, size_t column, const std::string& margin, size_t columns) {
  std::string lines;
  bool first = true;
  for (const std::string& word : split(text)) {
    if (!first && column + 1 + word.size() > columns) {
      lines += "\n" + margin;
      column = margin.size();
    } else if (!first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
    first = false;
  }
  return lines;
}

}  // namespace fairlead::tools
