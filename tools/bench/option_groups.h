// SPDX-License-Identifier: Apache-2.0
//
// The groups of options that the benchmarks' command lines consist of. Each fills in one field of the
// arguments or several. They are values, so that a benchmark's command line is a list of them.

#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/arguments.h"
#include "common/command_line.h"

namespace fairlead::tools {

using A = BenchArguments;  // for &A::field

// `shown` is the default in the help, where that is not the field's value; "": none. Of arguments without a
// name of their own, `type` is what the usage says.
template <class T>
OptionGroup option(const char* names, const char* type, T BenchArguments::*field, const std::string& help,
                   const CLI::Validator& accepted = {}, const std::optional<std::string>& shown = {}) {
  return [=](CLI::App& app, BenchArguments& a) {
    CLI::Option* added = app.add_option(names, a.*field, help)->type_name(type)->check(accepted);
    shown ? added->default_str(*shown) : added->capture_default_str();
  };
}

template <class T>
OptionGroup number(const char* names, T BenchArguments::*field, int64_t low, int64_t high,
                   const std::string& help, const std::optional<std::string>& shown = {}) {
  return option(names, "N", field, help, whole_number(low, high), shown);
}

// Another default than the arguments begin with.
template <class T>
OptionGroup preset(T BenchArguments::*field, const std::type_identity_t<T>& value) {
  return [=](CLI::App&, BenchArguments& a) { a.*field = value; };
}

OptionGroup all_of(std::vector<OptionGroup> groups);
OptionGroup flag(const char* names, bool BenchArguments::*field, const std::string& help);
// One of the words each time; all of them where the user gives none.
OptionGroup repeated(const char* names, Words BenchArguments::*field, const Words& accepted,
                     const std::string& help);

inline constexpr int64_t most_iterations = 1'000'000'000;

OptionGroup size_range(const char* names, const std::string& help,
                       const std::optional<std::string>& shown = {});
// `note` follows what the help says of all sizes.
OptionGroup sizes(const char* what, const char* note = "");
OptionGroup iterations(UsualIterations usual, const char* help = "Timed iterations of each size.");
OptionGroup validation(const char* help);
OptionGroup full(const std::string& what);
OptionGroup elements(const char* initial);
OptionGroup mpi(const char* shown = "the first this build has");
OptionGroup no_preload(const char* help);

// For functions only, which run after these are there.
extern const OptionGroup placement_option, via_option, reduction_option, memory_limit_option;
extern const OptionGroup arrivals;                      // checked, as contiguous messages are
extern const OptionGroup full_of_one, full_of_several;  // quantities in a row of the table
extern const OptionGroup device_options, launch_options;
extern const OptionGroup results_options;  // with the devices
extern const OptionGroup rank_options;     // all that end the help of what runs in ranks

}  // namespace fairlead::tools
