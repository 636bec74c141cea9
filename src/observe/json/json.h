// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON: all of the library's JSON consists of these objects and arrays. Members keep their order.

#pragma once

#include <string>
#include <type_traits>
#include <vector>

namespace fairlead::observe {

// Returns a quoted and escaped JSON string. Bytes that are no UTF-8, as command lines may have them, become
// "?".
std::string json_string(const std::string& text);

// Returns an array of elements that are JSON themselves.
std::string json_array(const std::vector<std::string>& elements);
std::string json_array(const std::vector<int>& numbers);

class JsonObject {
 public:
  JsonObject& add(const char* name, const std::string& value) { return add_json(name, json_string(value)); }
  JsonObject& add(const char* name, const char* value) { return add_json(name, json_string(value)); }
  JsonObject& add(const char* name, bool value) { return add_json(name, value ? "true" : "false"); }
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  JsonObject& add(const char* name, Integer value) {
    return add_json(name, std::to_string(value));
  }
  // With so many digits after the point.
  JsonObject& add(const char* name, double value, int digits);
  // `json` is JSON itself.
  JsonObject& add_json(const char* name, const std::string& json);

  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace fairlead::observe
