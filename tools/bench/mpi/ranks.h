// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a benchmark: who this process is, which GPU it takes, and how all ranks agree to stop.

#pragma once

#include <mpi.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/options/arguments.h"
#include "bench/report.h"

namespace fairlead::tools {

// Of the messages of benchmarks; acknowledgements take the next one.
inline constexpr int message_tag = 1;

// What MPI_Init took in this rank, and looking for a GPU after it, which may start the driver.
inline double seconds_in_init = 0, seconds_for_gpu = 0;

// A failure that every rank knows of: all of them can end in order.
class AgreedFailure : public Failure {
 public:
  using Failure::Failure;
};

// What the MPI says of an error code, on one line: MPICH's text has several.
std::string text_of_error(int code);

// A communicator made for a while.
class OwnedComm {
 public:
  // Of the ranks of MPI_COMM_WORLD that give the same colour, in their order. Collective over that.
  OwnedComm(int colour, int rank) { MPI_Comm_split(MPI_COMM_WORLD, colour, rank, &comm_); }
  ~OwnedComm() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  OwnedComm(const OwnedComm&) = delete;
  OwnedComm& operator=(const OwnedComm&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

struct Ranks {
  Ranks();

  // Local rank modulo the number of GPUs; remembered in `device`. Throws where there is no GPU.
  void take_device(const BenchArguments& arguments);

  // Runs `step` in every rank; when it throws a Failure in any of them, that of the lowest such rank is
  // thrown in all, as an AgreedFailure. Where the others do not come, because they wait for the rank that
  // failed, it throws its own Failure. Collective.
  void together(const std::function<void()>& step) const;

  // For ranks that take no part: returns when all have come here, without burning a core meanwhile.
  void wait_for_all() const;

  // The numbers of the devices of a communicator's ranks, "none" where a rank took none. Collective over it.
  std::vector<std::string> devices(MPI_Comm members) const;

  // Opens rank 0's report; where that fails, all ranks end. Collective.
  template <class AnyReport>
  void open(std::optional<AnyReport>& report, const BenchArguments& arguments, const std::string& via,
            const std::string& devices) const {
    together([&] {
      if (rank == 0) report.emplace(arguments, context(via, devices));
    });
  }

  // Ends rank 0's report; the exit code of all ranks. Collective.
  template <class AnyReport>
  int finish(std::optional<AnyReport>& report) const {
    int code = report ? report->finish() : exit_success;
    MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return code;
  }

  Context context(const std::string& via, const std::string& devices) const;

  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1, nodes = 1;
  int device = -1;  // -1: none taken
};

#define FAIRLEAD_IN_RANKS(id, name, number, run, ...) int run(const BenchArguments& arguments, Ranks& ranks);
#include "bench/options/benchmarks.def"

}  // namespace fairlead::tools
