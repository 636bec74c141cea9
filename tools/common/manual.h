// SPDX-License-Identifier: Apache-2.0
//
// Manual pages in roff with the man macros: of a command from the definitions that its --help comes from, and
// of other things section by section.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fairlead::tools {

class ManualPage {
 public:
  // "fairlead-run", 1, "start an MPI program with Fairlead loaded"
  ManualPage(const std::string& name, int section, const std::string& summary);

  // The title becomes capitals.
  void section(const std::string& title);
  void subsection(const std::string& title);
  void paragraph(const std::string& text);
  void item(const std::string& term, const std::string& text);
  // From now on items follow each other without, or again with, a blank line.
  void close_items() { text_ += ".PD 0\n"; }
  void space_items() { text_ += ".PD\n"; }
  // As they are.
  void lines(const std::string& text);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The environment, exit codes and neighbours of a command, "fairlead run", which do not follow from its
// options.
void add_surroundings(ManualPage* page, const std::string& command);

// "-n, --ranks N", and what it means.
struct OptionText {
  std::string spelling, explanation;
};

// fairlead-run(1) of the application "fairlead run": what follows from its definition, and its surroundings.
// `usage` stands behind its name in the synopsis; options are as --help prints them.
std::string manual_of_command(const CLI::App& app, const std::string& usage,
                              const std::vector<OptionText>& options);

}  // namespace fairlead::tools
