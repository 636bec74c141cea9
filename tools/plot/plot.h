// SPDX-License-Identifier: Apache-2.0
//
// `fairlead plot`: draws result files of the benchmarks. A Python program draws, with matplotlib and plotext.

#pragma once

#include <string>
#include <vector>

#include "common/words.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct PlotArguments {
  std::vector<std::string> files;
  std::vector<std::string> labels;
  std::vector<std::string> quantities;
  std::string time;  // "BEGIN:END"
  std::string output;
  bool terminal = false;
};

void define_plot(CLI::App& app, PlotArguments& arguments);
// Does this Python end these statements without an error? Modules of the current folder are not taken.
bool python_runs(const std::string& python, const std::string& statements);
// The Python that draws: the one on PATH, or the system's where that one alone has what is needed. Throws a
// cannot_run Failure where there is none.
std::string drawing_python(const PlotArguments& arguments);
// What draws, to be started. Throws a Failure where it is not here.
Words drawing_command(const PlotArguments& arguments);

int plot_command(const Words& words);

}  // namespace fairlead::tools
