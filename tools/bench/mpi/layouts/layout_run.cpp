// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/layouts/layout_run.h"

#include <fmt/format.h>

namespace fairlead::tools {

LayoutRun::LayoutRun(const BenchArguments& arguments, MPI_Comm members)
    : arguments_(arguments), members_(members), budget_s_(is_simulated(arguments) ? 0.1 : 1.0) {}

double LayoutRun::longest(double seconds) const {
  double greatest = 0;
  MPI_Allreduce(&seconds, &greatest, 1, MPI_DOUBLE, MPI_MAX, members_);
  return greatest;
}

bool LayoutRun::everywhere(bool mine) const {
  int here = mine, all = 0;
  MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_MIN, members_);
  return all;
}

void exchange(const TypedMessage& out, const TypedMessage& in, int partner) {
  MPI_Request requests[2];
  MPI_Irecv(in.buffer, in.count, in.type, partner, message_tag, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out.buffer, out.count, out.type, partner, message_tag, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

void prepare_layouts(const BenchArguments& arguments, Ranks& ranks, Place place, uint64_t bytes,
                     const char* remedy) {
  if (provider_of(arguments) != "none" || arguments.needs_device()) ranks.take_device(arguments);
  std::string lacking = shortage(place, bytes, ranks.local_size);
  if (!lacking.empty())
    throw usage(fmt::format("{}: {}; give a smaller {}", arguments.kind->name, lacking, remedy));
}

}  // namespace fairlead::tools
