// SPDX-License-Identifier: Apache-2.0

#include "observe/json.h"

#include "observe/text.h"

namespace fairlead::observe {

std::string json_string(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      append(&result, "\\u%04x", c);
    } else {
      result += c;
    }
  }
  return result + '"';
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
