// SPDX-License-Identifier: Apache-2.0
//
// The options of options.def, read from the environment once, at first use. If a value does not parse,
// Fairlead reports on stderr what it accepts and uses the default. If no row has the name of a FAIRLEAD_
// variable, it reports the nearest name. If the launcher passes rank numbers, rank 0 reports for all ranks.
// Thread-safe; usable before main().

#pragma once

#include <cstdint>
#include <map>
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
  // Numbers by their names; 0 for a name that has none.
  class numbers : public std::map<std::string, uint64_t> {
   public:
    uint64_t operator()(const char* name) const {
      const auto found = find(name);
      return found == end() ? 0 : found->second;
    }
  };
#define FAIRLEAD_OPTION(kind, name, type, initial, accepted, help) type name{};
#define FAIRLEAD_ALIAS(name, variable)
#include "base/options.def"
#undef FAIRLEAD_OPTION
#undef FAIRLEAD_ALIAS
};

const Options& options();

// One option in human-readable form: for `fairlead options`, docs/reference/options.md and tests.
struct OptionReport {
  const char* kind;      // "user", "tuning" or "development"
  const char* name;      // "eager_limit"
  std::string variable;  // "FAIRLEAD_EAGER_LIMIT"
  const char* type;
  const char* initial;   // the default, as text
  std::string accepted;  // as prose
  const char* help;
  std::string value;   // the effective value
  std::string origin;  // "default", or the variable that set it
};
std::vector<OptionReport> describe_options();

// Checks a variable name and value. Returns a message if no option has the name, or if the option does not
// accept the value, with what it accepts. Returns "" if there is no error, and for variables that are not
// Fairlead's.
std::string complaint_about(const std::string& variable, const std::string& value);

// Returns the candidate that `name` most likely misspells; "" if none is close. `prefix` is the length of the
// prefix that all names share.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates, size_t prefix);

// Parses into `into` and returns an empty string, or returns what is wrong and what is accepted.
std::string parse_boolean(const std::string& text, bool* into);
std::string parse_integer(const std::string& text, int64_t* into);
std::string parse_bytes(const std::string& text, uint64_t* into);

}  // namespace fairlead
