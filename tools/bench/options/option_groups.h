// SPDX-License-Identifier: Apache-2.0
//
// The groups of options that the benchmarks' command lines consist of. Each fills in one field of the
// arguments or several. They are values, so that a benchmark's command line is a list of them.

#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/options/arguments.h"
#include "common/command_line.h"

namespace fairlead::tools {

using A = BenchArguments;  // for &A::field

// `shown` is the default in the help, where that is not the field's value; "": none. Of arguments without a
// name of their own, `type` is what the usage says.
template <class T>
OptionGroup option(const char* names, const char* type, T BenchArguments::*field, const std::string& help,
                   const CLI::Validator& accepted = {}, const std::optional<std::string>& shown = {}) {
  return [=](CLI::App& app, BenchArguments& a) {
    CLI::Option* added = app.add_option(names, a.*field, help)->type_name(type)->check(accepted);
    shown ? added->default_str(*shown) : added->capture_default_str();
  };
}

template <class T>
OptionGroup number(const char* names, T BenchArguments::*field, int64_t low, int64_t high,
                   const std::string& help, const std::optional<std::string>& shown = {}) {
  return option(names, "N", field, help, whole_number(low, high), shown);
}

// Another default than the arguments begin with.
template <class T>
OptionGroup preset(T BenchArguments::*field, const std::type_identity_t<T>& value) {
  return [=](CLI::App&, BenchArguments& a) { a.*field = value; };
}

OptionGroup all_of(std::vector<OptionGroup> groups);
OptionGroup flag(const char* names, bool BenchArguments::*field, const std::string& help);
// One of the words each time; all of them where the user gives none.
OptionGroup repeated(const char* names, Words BenchArguments::*field, const Words& accepted,
                     const std::string& help, const std::string& shown = "all");

inline constexpr int64_t most_iterations = 1'000'000'000;

OptionGroup size_range(const char* names, const std::string& help,
                       const std::optional<std::string>& shown = {});
// `note` follows what the help says of all sizes.
OptionGroup sizes(const char* what, const char* note = "");
OptionGroup iterations(UsualIterations usual, const char* help = "Timed iterations of each size.");
OptionGroup validation(const std::string& what);
OptionGroup full(const std::string& what);
OptionGroup elements(const char* initial);
OptionGroup mpi(const char* shown = "the first this build has");
OptionGroup no_preload(const char* help);

// Defined here, so that the lists of other files, which copy them, are initialized after them.
inline const OptionGroup arrivals =
    validation("the received bytes of each size, in the timed run and in further iterations with new data");
inline const OptionGroup full_of_one = full(
    "the mean, the least, the median, the slowest hundredth and the greatest over the iterations, in place "
    "of the median.");
inline const OptionGroup full_of_several = full("also the slowest hundredth of the iterations.");
// Checked by hand afterwards: the two letters have one meaning each.
inline const OptionGroup placement_option = [](CLI::App& app, BenchArguments& a) {
  option("PLACEMENT", "D|H|M D|H|M", &A::placement,
         fmt::format("Memory of {}: D device, H host, M managed.", owners_of(*a.kind)), suggested(placements),
         "D D")(app, a);
};
inline const OptionGroup via_option =
    option("--via", "NAME", &A::via,
           "What carries the messages: mpi, or nccl (NCCL or RCCL, found in NCCL_HOME/lib or by the loader).",
           one_of({"mpi", "nccl"}));
inline const OptionGroup reduction_option =
    option("-o,--operation", "OP", &A::reduction, "Reduction: sum, prod, min or max.",
           one_of({"sum", "prod", "min", "max"}));
inline const OptionGroup anyway_option = flag("--anyway", &A::anyway,
                                              "Write that file even if the results do not support it: from "
                                              "simulated GPUs, or with more than a tenth of them doubtful.");
inline const OptionGroup memory_limit_option =
    option("-M,--mem-limit", "SIZE", &A::memory_text,
           "Bytes that the buffers of a rank may take; sizes that need more are skipped.");
inline const OptionGroup device_options =
    all_of({option("-d,--accelerator", "KIND", &A::device,
                   "GPU provider: cuda, rocm or sim. Default: the one that is present.",
                   one_of({"cuda", "rocm", "sim"}), ""),
            number("--sim", &A::sim, 1, 64, "Run on N simulated GPUs, like -d sim.", "")});
inline const OptionGroup results_options =
    all_of({device_options,
            option("--json", "FILE", &A::json,
                   "Write the results to FILE as JSON; -: to stdout, in place of the table.", {}, "")});
// What they say is for `fairlead`, which binds a rank before the benchmark program takes its place.
inline const OptionGroup binding_options = [](CLI::App& app, BenchArguments& a) {
  auto word = [&](const char* name, const char* help) {
    app.add_flag_callback(
        name, [&a, name] { a.binding.push_back(name); }, help);
  };
  auto pair = [&](const char* name, const char* type, const char* help) {
    return app
        .add_option_function<std::string>(
            name,
            [&a, name](const std::string& value) {
              a.binding.insert(a.binding.end(), {name, value});
            },
            help)
        ->type_name(type);
  };
  word("--visible", "Show each rank one GPU only; this and the next five are those of `fairlead run`.");
  pair("--gpu", "POLICY", "Which GPU: nearest, round-robin, compact or spread.")
      ->check(suggested({"nearest", "round-robin", "compact", "spread"}));
  pair("--map", "GPU,...|FILE", "The GPU of each local rank, or a file that lists them.");
  word("--bind-cores", "Bind each rank to its share of the cores near its GPU.");
  word("--bind-nic", "Let each rank use only the network adapter nearest to its GPU.");
  word("--print-binding", "Each rank prints its cores and its GPU on stderr.");
};
inline const OptionGroup launch_options =
    all_of({number("-n,--ranks,--np", &A::ranks, 1, 65536,
                   "Ranks to launch; also -np N. Inside a launched job, its ranks are used instead."),
            mpi("the first this build has, or the job's own"),
            no_preload("Run on the MPI alone, without Fairlead."), binding_options});
inline const OptionGroup rank_options = all_of({results_options, launch_options});

}  // namespace fairlead::tools
