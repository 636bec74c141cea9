// SPDX-License-Identifier: Apache-2.0

#include "options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "common/command_line.h"

namespace fairlead::tools {
namespace {

std::vector<std::string> variables_of(const std::vector<OptionReport>& options) {
  std::vector<std::string> names;
  for (const OptionReport& option : options) names.push_back(option.variable);
  return names;
}

// The page documents defaults only, so that it is the same wherever it is made.
void print_markdown(const std::vector<OptionReport>& options) {
  std::cout << "# Options\n\n"
               "Every option is an environment variable, read once, when the program starts.\n"
               "A value that is not understood is reported on stderr, and the default is used.\n"
               "Programs with raised privileges (set-user-ID, file capabilities) ignore them.\n"
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

// The values stand below each other; meanings fit a terminal.
void print_table(const std::vector<OptionReport>& options) {
  size_t name = 0, value = sizeof "value" - 1;
  for (const OptionReport& option : options) {
    name = std::max(name, option.variable.size());
    value = std::max(value, option.value.size());
  }
  std::cout << fmt::format("# {:<{}}  {:<{}}  origin\n#     meaning (accepted; default)\n", "variable",
                           name - 2, "value", value);
  for (const OptionReport& option : options) {
    std::string meaning = fmt::format("{} ({}; default {})", option.help, option.accepted, option.initial);
    std::cout << fmt::format("{:<{}}  {:<{}}  {}\n    {}\n", option.variable, name, option.value, value,
                             option.origin, wrapped(meaning, 4));
  }
}

}  // namespace

void define_options(CLI::App& app, OptionsArguments& arguments) {
  auto markdown =
      app.add_flag("--markdown", arguments.markdown, "Print the documentation page docs/options.md.");
  app.add_flag("--json", arguments.json, "Print JSON.")->excludes(markdown);
  app.add_option("VARIABLE", arguments.variables, "Print these only.")
      ->type_name("VARIABLE")
      ->check(suggested(variables_of(describe_options())))
      ->excludes(markdown);
  set_up(app, "[options] [VARIABLE ...]",
         "  fairlead options\n  FAIRLEAD_EAGER_LIMIT=1m fairlead options --json\n  fairlead options "
         "FAIRLEAD_IPC");
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
  const Words& wanted = arguments.variables;
  std::vector<std::string> names = variables_of(options);
  for (const std::string& name : wanted)
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::string nearest = nearest_name(name, names, std::strlen("FAIRLEAD_"));
      throw usage(fmt::format("no option {}{}; `fairlead options` lists all", name,
                              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
    }
  if (!wanted.empty())
    std::erase_if(options, [&](const OptionReport& option) {
      return std::find(wanted.begin(), wanted.end(), option.variable) == wanted.end();
    });
  if (arguments.markdown)
    print_markdown(options);
  else if (arguments.json)
    print_json(options);
  else
    print_table(options);
  return exit_success;
}

}  // namespace fairlead::tools
