// SPDX-License-Identifier: Apache-2.0
//
// The options of the collectives and of tune.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/options/option_groups.h"
#include "coll/collective_slot.h"

namespace fairlead::tools {
namespace {

// As the row of the collective says.
void define_buffers(CLI::App& app, BenchArguments& a) {
  const CollectiveKind& kind = a.collective();
  elements(kind.reduces ? "float" : "char")(app, a);
  if (kind.reduces) reduction_option(app, a);
  if (rooted(kind))
    option("-k,--root-rank", "RANK", &A::root_text, "The root; rotate: the next rank in every call.")(app, a);
  memory_limit_option(app, a);
}

void define_rank_counts(CLI::App& app, BenchArguments& a) {
  app.add_option("-n,--ranks,--np", a.rank_counts, "Numbers of ranks; the rules of each hold up to the next.")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(2, coll::max_members))
      ->default_str("a rank for each GPU, 2 at least");
}

const OptionGroup calls = all_of(
    {sizes("Message sizes", " Sizes below one element begin with that."), iterations(usual_collectives)});

const OptionGroup barriers = iterations({usual_collectives.small, usual_collectives.small});

const OptionGroup blocking =
    all_of({full("also the least and the greatest mean of a rank, percentiles of the means over the "
                 "ranks, and the iterations."),
            flag("--first", &A::first, "Also the first call of each size, in the slowest rank."),
            [](CLI::App& app, BenchArguments& a) {
              if (!a.collective().in_nccl || a.kind->persistent) return;
              via_option(app, a);
              flag("--symmetric", &A::symmetric, "NCCL's buffers are symmetric windows.")(app, a);
              flag("--cudagraph", &A::graph, "NCCL's calls are launches of graphs.")(app, a);
            }});

const OptionGroup overlapping =
    all_of({full("also the times of starting, testing and waiting, the least and the greatest pure "
                 "communication time of a rank, and the iterations."),
            number("-t,--num-test-calls", &A::tests, 0, most_iterations,
                   "Calls of MPI_Test during the computation."),
            option("-r,--target,--cuda-target", "TARGET", &A::target,
                   fmt::format("What computes: cpu, gpu (a kernel of {} blocks of {} threads in a stream of "
                               "its own, which is waited for before the communication) or both.",
                               compute_blocks, compute_threads),
                   one_of({"cpu", "gpu", "both"}))});

}  // namespace

const OptionGroup barrier_options = all_of({barriers, blocking, rank_options});

const OptionGroup collective_options =
    all_of({calls, arrivals, blocking, placement_option, define_buffers, rank_options});

const OptionGroup nonblocking_barrier_options = all_of({barriers, overlapping, rank_options});

const OptionGroup nonblocking_options =
    all_of({calls, arrivals, overlapping, placement_option, define_buffers, rank_options});

const OptionGroup tune_options =
    all_of({preset(&A::size_range, "8:64m"), calls, memory_limit_option,
            option("COLLECTIVE", "COLLECTIVE ...", &A::collectives,
                   fmt::format("What to tune: {}.", fmt::join(tunable(), ", ")), one_of(tunable()), "all"),
            option("-o,--output", "FILE", &A::output, "The file to write."), anyway_option,
            define_rank_counts, mpi(), results_options});

}  // namespace fairlead::tools
