// SPDX-License-Identifier: Apache-2.0

#include "options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "common/command_line.h"

namespace fairlead::tools {
namespace {

// The page documents defaults only, so that it is the same wherever it is made.
void print_markdown(const std::vector<OptionReport>& options) {
  std::cout << "# Options\n\n"
               "Every option is an environment variable, read once, when the program starts.\n"
               "A value that is not understood is reported on stderr, and the default is used.\n"
               "`fairlead options` prints the values in force and where each comes from.\n"
               "This page is made by `fairlead options --markdown`.\n\n"
               "| Variable | Default | Accepted | Meaning |\n"
               "| --- | --- | --- | --- |\n";
  for (const OptionReport& option : options)
    std::cout << fmt::format("| `{}` | `{}` | {} | {} |\n", option.variable, option.initial, option.accepted,
                             option.help);
  std::cout << "\nOther variables with this prefix are no options of the library:\n"
               "`FAIRLEAD_HOME` names the tree in which the tool `fairlead` looks for its libraries and "
               "benchmark programs (`lib/`, `libexec/`), in place of its own;\n"
               "`FAIRLEAD_BUILD` and `FAIRLEAD_MPICC` are read by `./demo` and `./check`.\n";
}

void print_json(const std::vector<OptionReport>& options) {
  auto list = nlohmann::ordered_json::array();
  for (const OptionReport& option : options)
    list.push_back({{"name", option.name},
                    {"variable", option.variable},
                    {"type", option.type},
                    {"value", option.value},
                    {"origin", option.origin},
                    {"default", option.initial},
                    {"accepted", option.accepted},
                    {"help", option.help}});
  std::cout << list.dump(2) << "\n";
}

void print_table(const std::vector<OptionReport>& options) {
  size_t name = 0, value = 0, origin = 0;
  for (const OptionReport& option : options) {
    name = std::max(name, option.variable.size());
    value = std::max(value, option.value.size());
    origin = std::max(origin, option.origin.size());
  }
  value = std::max(value, sizeof "value" - 1);
  origin = std::max(origin, sizeof "origin" - 1);
  std::cout << fmt::format("# {:<{}}  {:<{}}  {:<{}}  meaning (accepted; default)\n", "variable", name - 2,
                           "value", value, "origin", origin);
  for (const OptionReport& option : options)
    std::cout << fmt::format("{:<{}}  {:<{}}  {:<{}}  {} ({}; default {})\n", option.variable, name,
                             option.value, value, option.origin, origin, option.help, option.accepted,
                             option.initial);
}

}  // namespace

void define_options(CLI::App& app, OptionsArguments& arguments) {
  auto markdown =
      app.add_flag("--markdown", arguments.markdown, "Print the documentation page docs/options.md.");
  app.add_flag("--json", arguments.json, "Print JSON.")->excludes(markdown);
  set_up(app, "[options]", "  fairlead options\n  FAIRLEAD_EAGER_LIMIT=1m fairlead options --json");
}

int options_command(const Words& words) {
  CLI::App app(
      "Print every option of the library: its variable, the value in force, where that comes from, and its "
      "meaning.",
      "fairlead options");
  OptionsArguments arguments;
  define_options(app, arguments);
  if (!parse(app, words)) return exit_success;
  std::vector<OptionReport> options = describe_options();
  if (arguments.markdown)
    print_markdown(options);
  else if (arguments.json)
    print_json(options);
  else
    print_table(options);
  return exit_success;
}

}  // namespace fairlead::tools
