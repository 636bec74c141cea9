// SPDX-License-Identifier: Apache-2.0

#include "bench/option_groups.h"

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
                     const std::string& help) {
  return [=](CLI::App& app, BenchArguments& a) {
    app.add_option(names, a.*field, help + " May be repeated.")
        ->type_name("NAME")
        ->check(one_of(accepted))
        ->allow_extra_args(false)
        ->default_str("all");
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

OptionGroup validation(const char* help) {
  return flag("-c,--validation", &A::validate, help);
}

OptionGroup full(const std::string& what) {
  return flag("-f,--full", &A::full, "Full statistics: " + what);
}

OptionGroup elements(const char* initial) {
  return all_of({preset(&A::element, initial),
                 option("-T,--type", "TYPE", &A::element, "Elements: char, int, float or double.",
                        one_of({"char", "int", "float", "double"}))});
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

const OptionGroup arrivals = validation(
    "Check the received bytes of each size, in the timed run and in further iterations with new data; adds a "
    "column and exits with 1 when bytes are wrong.");
const OptionGroup full_of_one = full(
    "the mean, the least, the median, the slowest hundredth and the greatest over the iterations, in place "
    "of the median.");
const OptionGroup full_of_several = full("also the slowest hundredth of the iterations.");
// Checked by hand afterwards: the two letters have one meaning each.
const OptionGroup placement_option = [](CLI::App& app, BenchArguments& a) {
  option("PLACEMENT", "D|H|M D|H|M", &A::placement,
         fmt::format("Memory of {}: D device, H host, M managed.", owners_of(*a.kind)), suggested(placements),
         "D D")(app, a);
};
const OptionGroup via_option =
    option("--via", "NAME", &A::via,
           "What carries the messages: mpi, or nccl (NCCL or RCCL, found in NCCL_HOME/lib or by the loader).",
           one_of({"mpi", "nccl"}));
const OptionGroup reduction_option =
    option("-o,--operation", "OP", &A::reduction, "Reduction: sum, prod, min or max.",
           one_of({"sum", "prod", "min", "max"}));
const OptionGroup memory_limit_option =
    option("-M,--mem-limit", "SIZE", &A::memory_text,
           "Bytes that the buffers of a rank may take; sizes that need more are left out.");
const OptionGroup device_options = all_of(
    {option("-d,--accelerator", "KIND", &A::device,
            "GPU provider: cuda, rocm or sim. Left out, what there is.", one_of({"cuda", "rocm", "sim"}), ""),
     number("--sim", &A::sim, 1, 64, "Run on N simulated GPUs, as -d sim.", "")});
const OptionGroup results_options =
    all_of({device_options,
            option("--json", "FILE", &A::json,
                   "Write the results to FILE as JSON; -: to stdout, in place of the table.", {}, "")});
const OptionGroup launch_options =
    all_of({number("-n,--ranks,--np", &A::ranks, 1, 65536,
                   "Ranks to launch; -np N too. Inside a launched job its ranks are used instead."),
            mpi("the first this build has, or the job's own"),
            no_preload("Run on the MPI alone, without Fairlead.")});
const OptionGroup rank_options = all_of({results_options, launch_options});

}  // namespace fairlead::tools
