// SPDX-License-Identifier: Apache-2.0

#include "observe/json/json.h"

#include <algorithm>

#include "observe/json/text.h"

namespace fairlead::observe {

namespace {

// Of the character that begins here; 0 if none does.
size_t bytes_of_utf8(const char* text) {
  const auto first = static_cast<unsigned char>(*text);
  const size_t bytes = first < 0x80   ? 1
                       : first < 0xc2 ? 0
                       : first < 0xe0 ? 2
                       : first < 0xf0 ? 3
                       : first < 0xf5 ? 4
                                      : 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((text[i] & 0xc0) != 0x80) return 0;
  const auto second = static_cast<unsigned char>(text[bytes > 1]);
  const bool is_none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_none ? 0 : bytes;
}

}  // namespace

std::string json_string(const std::string& text) {
  std::string result = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = bytes_of_utf8(&text[i]);
    const char c = bytes == 0 ? '?' : text[i];
    if (bytes > 1) {
      result.append(text, i, bytes);
    } else if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      append(&result, "\\u%04x", c);
    } else {
      result += c;
    }
    i += std::max<size_t>(bytes, 1);
  }
  return result + '"';
}

std::string json_array(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::string json_array(const std::vector<std::string>& elements) {
  std::string text = "[";
  for (const std::string& element : elements)
    text += (&element == &elements.front() ? "\n  " : ",\n  ") + element;
  return text + "]";
}

JsonObject& JsonObject::add(const char* name, double value, int digits) {
  std::string text;
  append(&text, "%.*f", digits, value);
  return add_json(name, text);
}

JsonObject& JsonObject::add_json(const char* name, const std::string& json) {
  members_ += (members_.empty() ? "" : ", ") + json_string(name) + ": " + json;
  return *this;
}

}  // namespace fairlead::observe
