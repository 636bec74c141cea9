// SPDX-License-Identifier: Apache-2.0

#include "bench/options/option_groups.h"

#include <fmt/format.h>

namespace fairlead::tools {

OptionGroup all_of(std::vector<OptionGroup> groups) {
  return [groups = std::move(groups)](CLI::App& app, BenchArguments& a) {
    for (const OptionGroup& define : groups) define(app, a);
  };
}

OptionGroup flag(const char* names, bool BenchArguments::*field, const std::string& help) {
  return [=](CLI::App& app, BenchArguments& a) { app.add_flag(names, a.*field, help); };
}

OptionGroup repeated(const char* names, Words BenchArguments::*field, const Words& accepted,
                     const std::string& help, const std::string& shown) {
  return [=](CLI::App& app, BenchArguments& a) {
    app.add_option(names, a.*field, help + " May be repeated.")
        ->type_name("NAME")
        ->check(one_of(accepted))
        ->allow_extra_args(false)
        ->default_str(shown);
  };
}

OptionGroup size_range(const char* names, const std::string& help, const std::optional<std::string>& shown) {
  auto check = [](const std::string& text) {
    BenchArguments scratch;
    return read_range(text, &scratch.smallest, &scratch.largest);
  };
  return option(names, "MIN:MAX", &A::size_range, help, CLI::Validator(check, ""), shown);
}

OptionGroup sizes(const char* what, const char* note) {
  return size_range("-m,--message-size",
                    fmt::format("{} in bytes, doubling from MIN to MAX; k, m and g may follow a number. MIN: "
                                "ends at 4m; MAX and :MAX begin at 1.{}",
                                what, note));
}

OptionGroup iterations(UsualIterations usual, const char* help) {
  const std::string times = usual.small == usual.large
                                ? std::to_string(usual.small)
                                : fmt::format("{} up to 8 KiB, {} above", usual.small, usual.large);
  return all_of({number("-i,--iterations", &A::iterations, 1, most_iterations, help,
                        times + "; fewer where they would take over 1 s (0.1 s on simulated GPUs)"),
                 number("-x,--warmup", &A::warmup, 0, most_iterations, "Iterations before the timed ones.",
                        "a hundredth of the timed ones, 10 at least")});
}

OptionGroup validation(const std::string& what) {
  return flag("-c,--validation", &A::validate, "Check " + what + "; exits with 1 when bytes are wrong.");
}

OptionGroup full(const std::string& what) {
  return flag("-f,--full", &A::full, "Full statistics: " + what);
}

// Those of the OSU suite, too: mpi_float.
static Words element_names() {
  Words names;
  for (const std::string prefix : {"", "mpi_"})
    for (const ElementType& type : element_types) names.push_back(prefix + type.name);
  return names;
}

OptionGroup elements(const char* initial) {
  return all_of({preset(&A::element, initial),
                 option("-T,--type", "TYPE", &A::element, "Elements: char, int, float or double.",
                        one_of(element_names()))});
}

OptionGroup mpi(const char* shown) {
  return option("--mpi", "MPI", &A::mpi,
                "MPI to use: openmpi, mpich or abi, or the path of a launcher, whose MPI is used then.",
                suggested({"openmpi", "mpich", "abi", "@file"}), shown);
}

OptionGroup no_preload(const char* help) {
  return [=](CLI::App& app, BenchArguments& a) {
    app.add_flag_callback(
        "--no-preload", [&a] { a.preload = false; }, help);
  };
}

}  // namespace fairlead::tools
