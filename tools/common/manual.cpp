// SPDX-License-Identifier: Apache-2.0

#include "common/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/words.h"

namespace fairlead::tools {
namespace {

// What is of no command is of all; a benchmark's page has what `bench` has.
struct Item {
  const char* commands;  // with commas between
  const char* term;
  const char* text;
};

constexpr Item environment[] = {
    {"run,exec,bench,matrix", "CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES",
     "the GPUs that ranks may use. Where --visible, --gpu or --map gives each rank one GPU, it is one of "
     "these."},
    {"run,exec", "LD_PRELOAD", "other libraries to preload; they are loaded after Fairlead's."},
    {"run,exec,matrix", "HWLOC_XMLFILE",
     "the topology of another machine, as `lstopo FILE.xml` writes it; simulated GPUs take the places of its "
     "GPUs."},
    {"bench", "NCCL_HOME", "where --via nccl looks for NCCL or RCCL, in lib."},
    {"doctor", "NO_COLOR", "no colours on a terminal."},
    {"plot", "PATH", "where a python3 with matplotlib is searched for, or with plotext for --terminal."},
    {"", "FAIRLEAD_HOME",
     "the tree that holds libraries and benchmark programs, instead of the one that this program is in."},
    {"", "FAIRLEAD_*", "options of the library; fairlead-options(7) lists them."},
};

constexpr Item exit_codes[] = {
    {"run,exec", "", "That of the program or the launcher; before the program starts:"},
    {"", "0", "success."},
    {"doctor", "1", "a check failed."},
    {"bench,matrix", "1", "bytes were wrong, or MPI returned an error."},
    {"compare", "1", "with --fail-above, a figure is worse by more."},
    {"fairlead,run,exec,hang,info,options,plot", "1", "a problem was found."},
    {"", "2", "invalid command line; one line on stderr says what is accepted."},
    {"", "77", "this machine cannot run it: it has no GPU, or its MPI lacks a function."},
};

constexpr const char* commands[] = {"run",    "exec", "bench", "matrix", "compare",
                                    "doctor", "hang", "plot",  "info",   "options"};

// "run" of "fairlead run"; "bench" of "fairlead bench latency"; "fairlead" alone.
std::string own_word(const std::string& command) {
  const Words words = split(command);
  return words.size() > 1 ? words[1] : words[0];
}

bool is_of(const Item& item, const std::string& word) {
  const Words named = split(item.commands, ",");
  return named.empty() || std::find(named.begin(), named.end(), word) != named.end();
}

std::string roff(const std::string& text) {
  std::string escaped;
  bool line_start = true;
  for (char c : text) {
    if (line_start && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else if (c == '^' || c == '~' || c == '`')
      escaped += c == '^' ? "\\(ha" : c == '~' ? "\\(ti" : "\\(ga";
    else
      escaped += c;
    line_start = c == '\n';
  }
  return escaped;
}

// A blank line would end the item that it is in.
std::string flowing(const std::string& text) {
  std::string all;
  for (const std::string& word : split(text)) all += (all.empty() ? "" : " ") + word;
  return roff(all);
}

// What a description begins with, as NAME has it: without a capital, up to the first stop.
std::string summary_of(const std::string& description) {
  std::string text = description.substr(0, description.find_first_of(".:;"));
  if (text.size() > 1 && !std::isupper(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::string hyphenated(std::string command) {
  std::replace(command.begin(), command.end(), ' ', '-');
  return command;
}

std::string capitals(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

ManualPage::ManualPage(const std::string& name, int number, const std::string& summary)
    : text_(fmt::format(".TH {} {} \"\" \"fairlead " FAIRLEAD_VERSION "\" \"{}\"\n.nh\n.ad l\n",
                        roff(capitals(name)), number, number == 1 ? "User Commands" : "Fairlead")) {
  section("NAME");
  text_ += fmt::format("{} \\- {}\n", roff(name), flowing(summary));
}

void ManualPage::section(const std::string& title) {
  text_ += fmt::format(".SH {}\n", roff(capitals(title)));
}

void ManualPage::subsection(const std::string& title) {
  text_ += fmt::format(".SS {}\n", roff(title));
}

void ManualPage::paragraph(const std::string& text) {
  text_ += fmt::format(".PP\n{}\n", flowing(text));
}

void ManualPage::item(const std::string& term, const std::string& text) {
  text_ += fmt::format(".TP\n.B {}\n{}\n", roff(term), flowing(text));
}

void ManualPage::lines(const std::string& text) {
  // Examples, which --help indents, may be as wide as a terminal.
  std::string flush;
  for (const std::string& line : split(text, "\n")) flush += line.substr(line.find_first_not_of(' ')) + "\n";
  text_ += fmt::format(".PP\n.nf\n.in 2n\n{}.in\n.fi\n", roff(flush));
}

void add_surroundings(ManualPage* page, const std::string& command) {
  const std::string own = own_word(command);
  page->section("ENVIRONMENT");
  for (const Item& item : environment)
    if (is_of(item, own)) page->item(item.term, item.text);
  page->section("EXIT STATUS");
  for (const Item& item : exit_codes)
    if (is_of(item, own)) *item.term ? page->item(item.term, item.text) : page->paragraph(item.text);
  std::string others = own == "fairlead" ? "" : "fairlead(1), ";
  for (const char* other : commands)
    if (own != other || split(command).size() > 2) others += fmt::format("fairlead-{}(1), ", other);
  page->section("SEE ALSO");
  page->paragraph(others + "fairlead-options(7)");
}

std::string manual_of_command(const CLI::App& app, const std::string& usage,
                              const std::vector<OptionText>& options) {
  ManualPage page(hyphenated(app.get_name()), 1, summary_of(app.get_description()));
  page.section("SYNOPSIS");
  page.paragraph(app.get_name() + " " + usage);
  page.section("DESCRIPTION");
  page.paragraph(app.get_description());
  page.section("OPTIONS");
  for (const OptionText& option : options) page.item(option.spelling, option.explanation);
  if (!app.get_footer().empty()) {
    page.section("EXAMPLES");
    page.lines(app.get_footer());
  }
  add_surroundings(&page, app.get_name());
  return page.text();
}

}  // namespace fairlead::tools
