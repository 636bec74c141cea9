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

std::string accepted(const OptionReport& option) {
  std::string type = option.type;
  if (type == "boolean") return "on, off";
  if (type == "bytes")
    return "a size in bytes: 4096, 64k, 1m, 2g" +
           (*option.accepted ? fmt::format("; {}", option.accepted) : "");
  if (type == "integer")
    return *option.accepted ? fmt::format("a whole number, {}", option.accepted) : "a whole number";
  std::string choices;
  for (char c : std::string(option.accepted)) choices += c == '|' ? std::string(", ") : std::string(1, c);
  return choices.empty() ? "any text" : choices;
}

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
    std::cout << fmt::format("| `{}` | `{}` | {} | {} |\n", option.variable, option.initial, accepted(option),
                             option.help);
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
                    {"accepted", accepted(option)},
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
                             option.value, value, option.origin, origin, option.help, accepted(option),
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
