// SPDX-License-Identifier: Apache-2.0

#include "options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "common/command_line.h"
#include "common/manual.h"
#include "common/terminal.h"

namespace fairlead::tools {
namespace {

std::vector<std::string> variables_of(const std::vector<OptionReport>& options) {
  std::vector<std::string> names;
  for (const OptionReport& option : options) names.push_back(option.variable);
  return names;
}

// What users need differs from what experts turn and from what developers of Fairlead do.
struct OptionClass {
  const char* kind;   // OptionReport::kind
  const char* title;  // of its section in docs/reference/options.md and the manual
  const char* about;
};
constexpr OptionClass option_classes[] = {
    {"user", "Options that users may need", ""},
    {"tuning", "Tuning",
     "Reports, limits and paths of messages, where the defaults do not fit; most programs need none of "
     "them."},
    {"development", "Development",
     "Simulated GPUs, and experiments on machines without the hardware in question."},
};

constexpr const char* how_they_are_read =
    "Every option is an environment variable, read once, when the program starts.\n"
    "A value that is not understood is reported on stderr, and the default is used.\n"
    "Programs with raised privileges (set-user-ID, file capabilities) ignore them.\n";

constexpr const char* how_they_are_written =
    "Sizes are in bytes: 64k is 64 KiB, 1m 1 MiB, 2g 2 GiB.\n1..64 means from 1 to 64.\nMeanings abbreviate "
    "the names of other options: eager_limit is FAIRLEAD_EAGER_LIMIT.\n";

constexpr const char* not_of_the_library =
    "`FAIRLEAD_HOME` names the tree in which the tool `fairlead` looks for its libraries and "
    "benchmark programs (`lib/`, `libexec/`), in place of its own;\n"
    "`FAIRLEAD_BUILD` and `FAIRLEAD_MPICC` are read by `./demo` and `./check`.\n";

// The page documents defaults only, so that it is the same wherever it is made.
void print_markdown(const std::vector<OptionReport>& options) {
  std::cout
      << "# Options\n\n"
      << how_they_are_read
      << "`fairlead options` prints the first five, and those that are set: the values in force and where "
         "each comes from; `--tuning`, `--development` and `--all` print the others.\nThis page is generated "
         "by `fairlead options --markdown`.\n\n```sh\nFAIRLEAD_LOG=info fairlead run -n 2 ./program\n```\n\n"
      << how_they_are_written;
  for (const OptionClass& section : option_classes) {
    std::cout << fmt::format("\n## {}\n\n", section.title);
    if (*section.about) std::cout << section.about << "\n\n";
    std::cout << "| Variable | Default | Accepted values | Meaning |\n"
                 "| --- | --- | --- | --- |\n";
    for (const OptionReport& option : options)
      if (std::strcmp(option.kind, section.kind) == 0)
        std::cout << fmt::format("| `{}` | {} | {} | {} |\n", option.variable,
                                 *option.initial ? fmt::format("`{}`", option.initial) : "empty",
                                 option.accepted, option.help);
  }
  std::cout << "\nOther variables with this prefix are no options of the library:\n" << not_of_the_library;
}

// fairlead-options(7).
void print_manual(const std::vector<OptionReport>& options) {
  ManualPage page("fairlead-options", 7, "options of Fairlead's library, as environment variables");
  page.section("DESCRIPTION");
  page.paragraph(how_they_are_read);
  page.paragraph(how_they_are_written);
  page.paragraph("fairlead options prints the values in force and where each comes from.");
  for (const OptionClass& section : option_classes) {
    page.section(section.title);
    if (*section.about) page.paragraph(section.about);
    for (const OptionReport& option : options)
      if (std::strcmp(option.kind, section.kind) == 0)
        page.item(fmt::format("{}={}", option.variable, option.initial),
                  fmt::format("{} Accepted: {}.", option.help, option.accepted));
  }
  page.section("OTHER VARIABLES");
  page.paragraph(not_of_the_library);
  page.section("SEE ALSO");
  page.paragraph("fairlead(1), fairlead-options(1), fairlead-run(1)");
  std::cout << page.text();
}

void print_json(const std::vector<OptionReport>& options) {
  auto list = nlohmann::ordered_json::array();
  for (const OptionReport& option : options)
    list.push_back({{"name", option.name},
                    {"variable", option.variable},
                    {"class", option.kind},
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
  constexpr size_t longest = 30;  // longer values move the origin to a line of its own
  size_t name = 0, value = sizeof "value" - 1;
  for (const OptionReport& option : options) {
    name = std::max(name, option.variable.size());
    if (option.value.size() <= longest) value = std::max(value, option.value.size());
  }
  std::cout << fmt::format("# {:<{}}  {:<{}}  origin\n#     meaning (accepted; default)\n", "variable",
                           name - 2, "value", value);
  for (const OptionReport& option : options) {
    std::string meaning = fmt::format("{} ({}; default {})", option.help, option.accepted, option.initial);
    const bool fits = option.value.size() <= value;
    std::cout << fmt::format("{:<{}}  {:<{}}{}  {}\n    {}\n", option.variable, fits ? name : 0, option.value,
                             value, fits ? "" : "\n" + std::string(name + 2 + value, ' '), option.origin,
                             wrapped_for_stdout(meaning, 4));
  }
}

// Of the classes that were asked for, the first where none was; and those that are set.
void select(std::vector<OptionReport>* options, const OptionsArguments& arguments) {
  const bool user = !arguments.tuning && !arguments.development;
  std::erase_if(*options, [&](const OptionReport& option) {
    const std::string_view kind = option.kind;
    const bool asked = kind == "user" ? user : kind == "tuning" ? arguments.tuning : arguments.development;
    return !asked && !(user && option.origin != "default");
  });
}

}  // namespace

void define_options(CLI::App& app, OptionsArguments& arguments) {
  auto markdown = app.add_flag("--markdown", arguments.markdown,
                               "Print the documentation page docs/reference/options.md.");
  app.add_flag("--json", arguments.json, "Print JSON.")->excludes(markdown);
  app.add_option("VARIABLE", arguments.variables, "Print only these options.")
      ->type_name("VARIABLE")
      ->check(suggested(variables_of(describe_options())))
      ->excludes(markdown);
  app.add_flag("--tuning", arguments.tuning, "Print the options for tuning.");
  app.add_flag("--development", arguments.development,
               "Print the options for development, such as those of simulated GPUs.");
  app.add_flag("-a,--all", arguments.all, "Print all options.");
  app.add_flag("--man", arguments.manual, "Print the manual page fairlead-options(7).")->excludes(markdown);
  set_up(app, "[options] [VARIABLE ...]",
         "  fairlead options\n  fairlead options --tuning\n"
         "  FAIRLEAD_EAGER_LIMIT=1m fairlead options --json\n  fairlead options FAIRLEAD_IPC");
}

int options_command(const Words& words) {
  CLI::App app(
      "Print options of the library: the variable, the value in force, where that comes from, and the "
      "meaning. "
      "Without arguments these are the few that users may need, and those that are set.",
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
      throw usage(fmt::format("no option {}{}; `fairlead options --all` lists all", name,
                              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
    }
  if (!wanted.empty())
    std::erase_if(options, [&](const OptionReport& option) {
      return std::find(wanted.begin(), wanted.end(), option.variable) == wanted.end();
    });
  else if (!arguments.markdown && !arguments.manual && !arguments.all)
    select(&options, arguments);
  if (arguments.manual)
    print_manual(options);
  else if (arguments.markdown)
    print_markdown(options);
  else if (arguments.json)
    print_json(options);
  else
    print_table(options);
  return exit_success;
}

}  // namespace fairlead::tools
