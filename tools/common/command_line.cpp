// SPDX-License-Identifier: Apache-2.0

#include "common/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>

#include "common/terminal.h"

namespace fairlead::tools {
namespace {

// "-n, --ranks N", or "COUNT" for a positional argument.
std::string spelling(const CLI::Option& option) {
  if (!option.nonpositional()) return option.get_name(true);
  Words names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  std::string type = option.get_type_size() == 0 ? "" : option.get_type_name();
  return fmt::format("{}{}{}", fmt::join(names, ", "), type.empty() ? "" : " ", type);
}

std::string explanation(const CLI::Option& option) {
  std::string initial = option.get_default_str();
  return option.get_description() + (initial.empty() ? "" : fmt::format(" Default: {}.", initial));
}

class HelpText : public CLI::Formatter {
 public:
  explicit HelpText(const std::string& usage) : usage(usage) {}

  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    constexpr size_t margin = 26;
    std::string text = fmt::format("Usage: {} {}\n\n{}\n\n", app->get_name(), usage,
                                   wrapped_for_stdout(app->get_description(), 0));
    for (const OptionText& option : options_of(*app)) {
      std::string name = "  " + option.spelling;
      bool beside = name.size() + 2 <= margin;
      text += name + (beside ? std::string(margin - name.size(), ' ') : "\n" + std::string(margin, ' '));
      text += wrapped_for_stdout(option.explanation, margin) + "\n";
    }
    if (!app->get_footer().empty()) text += fmt::format("\nExamples:\n{}\n", app->get_footer());
    return text;
  }

  const std::string usage;
};

std::string accepted_options(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional())
      names.push_back(option->get_snames().empty() ? "--" + option->get_lnames().front()
                                                   : "-" + option->get_snames().front());
  return fmt::format("{}", fmt::join(names, " "));
}

// CLI11 words its refusals in several sentences and lines; ours take one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

const CLI::Option* option_named(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options())
    if (option->check_name(name)) return option;
  return nullptr;
}

// The option that -name means as --name does; null where `word` is no such thing.
const CLI::Option* with_one_dash(const CLI::App& app, const std::string& word) {
  const bool one_dash = word.size() > 2 && word[0] == '-' && word[1] != '-';
  return one_dash ? option_named(app, "-" + word.substr(0, word.find('='))) : nullptr;
}

// MPI users type -np and -hostfile, which the parser would take for -n with the value p, and for -h. What
// follows the program is left alone.
Words with_two_dashes(const CLI::App& app, Words words, bool program_follows) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    if (with_one_dash(app, word)) word.insert(0, "-");
    bool is_option = word.size() > 1 && word[0] == '-';
    if (word == "--" || (!is_option && program_follows)) break;
    const CLI::Option* option = is_option ? option_named(app, word) : nullptr;
    if (option && option->get_expected_max() > 0)
      i += static_cast<size_t>(option->get_type_size_max());  // its values
  }
  return words;
}

// "-n", "-np" or "--ranks", whichever of its names the user gave an option.
std::string as_written(const CLI::App& app, const CLI::Option& option, const Words& words) {
  for (const std::string& word : words) {
    if (word.size() < 2 || word[0] != '-') continue;
    if (with_one_dash(app, word) == &option) return word;
    // "--ranks=3", "-n3"
    const std::string name = word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2);
    if (option.check_name(name)) return name;
  }
  return option.get_name();
}

// The parser's own words for too many values and too few do not say what is accepted, and name options by
// their longest names.
std::string in_our_words(const CLI::App& app, const CLI::ParseError& error, const Words& words) {
  std::string text = error.what();
  const std::string named = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = option_named(app, named);
  bool mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  if (mismatch || dynamic_cast<const CLI::ConversionError*>(&error)) {
    if (!option) option = option_named(app, "--" + named);  // of flags it names no dashes
    if (option && option->get_expected_max() == 0)
      return fmt::format("{} takes no value; accepted: {}", as_written(app, *option, words),
                         spelling(*option));
    if (option && mismatch)
      return fmt::format("{} {}; accepted: {}", as_written(app, *option, words),
                         option->results().size() > 1 ? "is given more than once" : "needs a value",
                         spelling(*option));
  }
  if (option && dynamic_cast<const CLI::ValidationError*>(&error))
    text.replace(0, named.size(), as_written(app, *option, words));
  if (dynamic_cast<const CLI::ExcludesError*>(&error)) text += "; accepted: one of the two";
  return one_line(text);
}

// Short options are too short to be guessed. What stands between the refused word and what is accepted.
std::string guess_option(const CLI::App& app, const std::string& word) {
  Words names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::string guess = word.rfind("--", 0) == 0 ? did_you_mean(word, names) : "";
  return guess.empty() ? ";" : guess;
}

Failure unexpected(const CLI::App& app, const std::string& word) {
  bool option = word.size() > 1 && word[0] == '-';
  if (option) {
    const std::string name = word.substr(0, word.find('='));
    return usage(fmt::format("unknown option {}{} accepted: {}", word, guess_option(app, name),
                             accepted_options(app)));
  }
  return usage(fmt::format("unexpected argument '{}'; see {} --help", word, app.get_name()));
}

}  // namespace

std::vector<OptionText> options_of(const CLI::App& app) {
  std::vector<OptionText> options;
  for (const CLI::Option* option : app.get_options())
    options.push_back({spelling(*option), explanation(*option)});
  return options;
}

void set_up(CLI::App& app, const std::string& usage, const std::string& example) {
  app.set_help_flag("-h,--help", "Print this help and exit.");
  app.set_version_flag("-V,--version", "fairlead " FAIRLEAD_VERSION, "Print the version and exit.");
  app.formatter(std::make_shared<HelpText>(usage));
  app.footer(example);
}

bool parse(CLI::App& app, const Words& words, Words* rest) {
  if (words == Words{"--help-man"}) {
    const auto help = std::dynamic_pointer_cast<HelpText>(app.get_formatter());
    std::cout << manual_of_command(app, help->usage, options_of(app));
    return false;
  }
  if (rest) app.prefix_command();
  app.allow_extras();  // refused below, in our words
  for (CLI::Option* option : app.get_options())
    if (option->nonpositional() && option->get_expected_max() == 0) option->disable_flag_override();
  try {
    Words given = with_two_dashes(app, words, rest != nullptr);
    app.parse(Words(given.rbegin(), given.rend()));
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return false;
  } catch (const CLI::ParseError& error) {
    throw usage(in_our_words(app, error, words));
  }
  Words left = app.remaining();
  if (!rest && !left.empty()) throw unexpected(app, left.front());
  if (rest) {
    if (!left.empty() && left.front() == "--")
      left.erase(left.begin());
    else if (!left.empty() && left.front()[0] == '-')
      throw unexpected(app, left.front());
    *rest = left;
  }
  return true;
}

CLI::Validator whole_number(int64_t low, int64_t high) {
  bool open = high == std::numeric_limits<int64_t>::max();
  bool any = open && low == std::numeric_limits<int64_t>::min();
  std::string accepted = any    ? "a whole number"
                         : open ? fmt::format("a whole number, {} or more", low)
                                : fmt::format("a whole number from {} to {}", low, high);
  auto check = [=](const std::string& text) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool good = error == std::errc() && end == text.data() + text.size() && value >= low && value <= high;
    return good ? std::string() : fmt::format("'{}' is not accepted; accepted: {}", text, accepted);
  };
  return CLI::Validator(check, "");
}

CLI::Validator positive_number() {
  auto check = [](const std::string& text) {
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    bool good = !text.empty() && !*end && value > 0 && value < 1e9;
    return good ? std::string() : fmt::format("'{}' is not accepted; accepted: a number above 0", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator words_for_a_shell() {
  auto check = [](const std::string& text) {
    try {
      shell_split(text);
      return std::string();
    } catch (const Failure& failure) {
      return fmt::format("{}; accepted: words as a shell takes them, every quote closed", failure.what());
    }
  };
  return CLI::Validator(check, "");
}

CLI::Validator one_of(const std::vector<std::string>& accepted) {
  auto check = [=](const std::string& text) {
    bool good = std::find(accepted.begin(), accepted.end(), text) != accepted.end();
    return good ? std::string()
                : fmt::format("'{}' is not accepted; accepted: {}", text, fmt::join(accepted, ", "));
  };
  return CLI::Validator(check, "").name(fmt::format("{}", fmt::join(accepted, ",")));
}

CLI::Validator suggested(const std::vector<std::string>& values) {
  return CLI::Validator([](const std::string&) { return std::string(); }, "")
      .name(fmt::format("{}", fmt::join(values, ",")));
}

}  // namespace fairlead::tools
