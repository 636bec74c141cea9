// SPDX-License-Identifier: Apache-2.0
//
// The only interface through which `fairlead doctor` reads a machine, so that a recorded machine can replace
// it: files, folders, programs and their output, environment variables, libraries. Nothing here throws; what
// does not exist is empty. All results are for this user, in this environment.
//
// A recorded machine is a folder:
//   commands/NAME ARGUMENTS   what the program printed; NAME without its folder, a slash in arguments as '%'
//   programs                  the paths of programs, one a line
//   libraries                 "soname => path", what the loader would find
//   links                     "path => path without symbolic links", one a line
//   environment               NAME=value, one a line
//   refused                   "path => reason" of files that this user may not open, one a line
//   any other path            the file of that path on the machine

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/words.h"

namespace fairlead::tools::doctor {

class System {
 public:
  virtual ~System() = default;

  virtual std::optional<std::string> read(const std::string& path) const = 0;
  virtual std::vector<std::string> list(const std::string& folder) const = 0;  // names, sorted
  virtual std::string real_path(const std::string& path) const = 0;            // without symbolic links
  // stdout and stderr together, whatever the exit code; empty where there is no such program or it hangs.
  virtual std::optional<std::string> run(const Words& command) const = 0;
  virtual std::map<std::string, std::string> environment() const = 0;
  virtual std::string program(const std::string& name) const = 0;    // a name is looked for on PATH
  virtual std::string library(const std::string& soname) const = 0;  // where the loader finds it
  // What the loader would load into a program, or with a library, as ldd prints it.
  virtual std::string libraries_of(const std::string& program) const = 0;
  // Why this user cannot open a device file to read and write it; "" if nothing is against it, empty if it is
  // not recorded.
  virtual std::optional<std::string> refused(const std::string& path) const = 0;
  virtual bool live() const = 0;  // can anything be tried here?

  std::string variable(const std::string& name) const;  // "" where it is not set
  std::string first_line(const std::string& path) const;
  bool exists(const std::string& path) const { return read(path).has_value() || !list(path).empty(); }
};

inline constexpr char no_such_file[] = "No such file or directory",
                      not_permitted[] = "Operation not permitted";

std::unique_ptr<System> this_system();
// Throws a usage Failure where `folder` is none.
std::unique_ptr<System> recorded_system(const std::string& folder);
// Passes every question on and writes the answers to `folder`, which becomes a recorded machine. Throws a
// usage Failure where it cannot be written, or holds something.
std::unique_ptr<System> recording_system(std::unique_ptr<System> asked, const std::string& folder);

// ---- Small readers of text, for all that programs print
// ------------------------------------------------------

std::vector<std::string> lines_of(const std::string& text);
std::string trimmed(const std::string& text);
// What stands behind `key` on the first line that starts with it, blanks apart; "" where none does.
std::string value_of(const std::string& text, const std::string& key);
bool holds(const std::string& text, const std::string& part);
// Is the word in the list, whose words commas separate?
bool lists(const std::string& list, const std::string& word);
// Is a setting switched off: 0, n, no, off or false, in any case?
bool is_off(const std::string& value);

}  // namespace fairlead::tools::doctor
