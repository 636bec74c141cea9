// SPDX-License-Identifier: Apache-2.0
//
// How the benchmarks of datatypes repeat a step: MPIs that copy block by block take seconds where others take
// microseconds, so that the number of repetitions follows from what the first ones take.

#pragma once

#include <mpi.h>

#include <optional>
#include <vector>

#include "bench/mpi/layouts/layout.h"
#include "bench/mpi/ranks.h"
#include "bench/timing.h"

namespace fairlead::tools {

class LayoutRun {
 public:
  // Who takes part: all of `members` do all steps together.
  LayoutRun(const BenchArguments& arguments, MPI_Comm members);

  struct Seconds {
    std::vector<double> each;
    bool cut_short = false;  // by --timeout
  };

  // Warms up, then repeats the step as often as wanted, or as often as time allows. A warm-up that takes all
  // of it is the result.
  template <class Step>
  Seconds timed(uint64_t bytes, Step step) const {
    const Repetitions wanted = repetitions(arguments_, bytes, usual_messages);
    const bool any_number = arguments_.iterations < 0;
    const double limit = arguments_.timeout_s;
    Seconds first = repeat(wanted.warmup, any_number ? std::min(budget_s_ / 10, limit) : limit, step);
    const double left = limit - longest(sum(first.each));
    if (left <= 0) return {std::move(first.each), true};
    Seconds result = repeat(wanted.timed, any_number ? std::min(budget_s_, left) : left, step);
    // Fewer than usual are no loss where nobody asked for a number.
    result.cut_short = result.cut_short && (!any_number || left < budget_s_);
    return result;
  }

  // The greatest of a value over the members.
  double longest(double seconds) const;
  // Whether it holds in all of them.
  bool everywhere(bool mine) const;

 private:
  static double sum(const std::vector<double>& values) { return mean(values) * double(values.size()); }

  // In rounds, each no longer than what is left; once at least, where any are wanted.
  template <class Step>
  Seconds repeat(int64_t wanted, double limit, Step step) const {
    constexpr int64_t most_in_round = 10'000;
    Seconds result;
    int64_t done = 0;
    for (int64_t next = 1; done < wanted;) {
      MPI_Barrier(members_);
      std::vector<double> round = time_batches(next, step);
      result.each.insert(result.each.end(), round.begin(), round.end());
      done += next;
      const double took = longest(mean(round));
      const double left = limit - longest(sum(result.each));
      if (left <= 0) break;
      next = std::min({2 * next, wanted - done, most_in_round});
      if (took > 0 && left / took < double(next))
        next = std::max<int64_t>(static_cast<int64_t>(left / took), 1);
    }
    result.cut_short = done < wanted;
    return result;
  }

  const BenchArguments& arguments_;
  MPI_Comm members_;
  double budget_s_;
};

// A message to the partner and one from it, of a type each.
struct TypedMessage {
  void* buffer;
  int count;
  MPI_Datatype type;
};

// Both ranks send and receive at once.
void exchange(const TypedMessage& out, const TypedMessage& in, int partner);

// In `ranks.together`: the device where there is one to take, and room for so many bytes in each rank.
// `remedy` says what to make smaller.
void prepare_layouts(const BenchArguments& arguments, Ranks& ranks, Place place, uint64_t bytes,
                     const char* remedy);

}  // namespace fairlead::tools
