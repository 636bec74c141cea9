// SPDX-License-Identifier: Apache-2.0
//
// The options of options.def, read from the environment once, at first use. A value that does not parse
// is reported on stderr with what is accepted, and the default is used; a FAIRLEAD_ variable that no row
// names is reported with the nearest name. Where a launcher tells which rank this is, the first reports for
// all. Thread-safe; usable before main().

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace fairlead {

struct Options {
  using boolean = bool;
  using integer = int64_t;
  using bytes = uint64_t;
  using text = std::string;
  using choice = std::string;
  using list = std::set<std::string>;
#define FAIRLEAD_OPTION(name, type, initial, accepted, help) type name{};
#define FAIRLEAD_ALIAS(name, variable, value, means)
#include "base/options.def"
#undef FAIRLEAD_OPTION
#undef FAIRLEAD_ALIAS
};

const Options& options();

// One option as people read it: for `fairlead options`, docs/options.md and tests.
struct OptionReport {
  const char* name;      // "eager_limit"
  std::string variable;  // "FAIRLEAD_EAGER_LIMIT"
  const char* type;
  const char* initial;   // the default, as text
  std::string accepted;  // in words
  const char* help;
  std::string value;   // the text in force
  std::string origin;  // "default", the variable it was read from
};
std::vector<OptionReport> describe_options();

// What is wrong with a variable of this name and value: that no option has the name, or does not take the
// value, and what is accepted. "" where nothing is; also for variables that are none of ours.
std::string complaint_about(const std::string& variable, const std::string& value);

// The candidate that `name` is most likely a misspelling of; "" where none is near. `prefix`: how much of the
// names all of them share.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates, size_t prefix);

// Parses into `into` and returns an empty string, or says what is wrong and what is accepted.
std::string parse_boolean(const std::string& text, bool* into);
std::string parse_integer(const std::string& text, int64_t* into);
std::string parse_bytes(const std::string& text, uint64_t* into);

}  // namespace fairlead
