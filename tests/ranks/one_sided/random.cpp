// SPDX-License-Identifier: Apache-2.0
//
// Random epochs of all kinds against an oracle: every rank knows what all of them will do, and what each
// window must hold after each epoch.

#include <algorithm>
#include <deque>
#include <random>

#include "harness/exposed.h"
#include "harness/rounds.h"

using namespace ranks;

namespace {

// Of each window: a part for each origin, whose halves are written and read in turn, and one that all
// accumulate into.
constexpr int part = 256, half = part / 2, accesses = 4, slot = half / accesses;

enum class What { put, rput, get, rget, accumulate, fetch };

struct Access {
  What what;
  int target, first, count, step;  // elements, and how far apart they are
  Place place;
  long value;
};

class Epochs {
 public:
  explicit Epochs(uint64_t seed)
      : random_(seed),
        exposed_(own_place(), window_bytes(), sizeof(long)),
        oracle_(static_cast<size_t>(size)) {
    for (std::vector<long>& window : oracle_) window.assign(window_bytes() / sizeof(long), 5);
    exposed_.fill_with(5L);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &all_));
  }
  ~Epochs() { MUST(MPI_Group_free(&all_)); }

  bool run(int round) {
    const uint64_t kind = pick(0, 4);
    std::vector<Access> mine;
    before_ = oracle_;
    for (int origin = 0; origin < size; ++origin) {
      const uint64_t count = pick(1, accesses);
      for (uint64_t k = 0; k < count; ++k) {
        const Access access = make(origin, round, static_cast<int>(k));
        apply(access);
        if (origin == rank) mine.push_back(access);
      }
    }
    got_.clear();
    buffers_.clear();
    begin(kind);
    for (const Access& access : mine) {
      if (kind == 2 || kind == 3)
        MUST(MPI_Win_lock(kind == 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, access.target, 0, exposed_));
      start(access, kind >= 2);
      if (kind == 2 || kind == 3) MUST(MPI_Win_unlock(access.target, exposed_));
    }
    end(kind);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    const bool right = check(kind);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    return right;
  }

 private:
  static size_t window_bytes() { return static_cast<size_t>(size + 1) * part * sizeof(long); }
  uint64_t pick(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }
  // With device memory on the first rank all targets are Fairlead's.
  Place own_place() {
    Place mine = Place::device;
    for (int other = 0; other < size; ++other) {
      const bool host = pick(0, 3) == 0;
      if (other == rank && other > 0 && host) mine = Place::host;
    }
    return mine;
  }

  Access make(int origin, int round, int k) {
    Access access;
    access.what = static_cast<What>(pick(0, 5));
    access.target = static_cast<int>(pick(0, static_cast<uint64_t>(size) - 1));
    access.step = static_cast<int>(pick(1, 3));
    access.count = static_cast<int>(pick(1, static_cast<uint64_t>((slot - 4) / access.step)));
    access.place = pick(0, 2) ? Place::device : Place::host;
    access.value = static_cast<long>(pick(1, 1000));
    const bool writes = access.what <= What::rput, accumulates = access.what >= What::accumulate;
    access.first = accumulates ? size * part + static_cast<int>(pick(0, part - slot))
                               : origin * part + (writes == (round % 2 == 0) ? 0 : half) + k * slot +
                                     static_cast<int>(pick(0, 3));
    return access;
  }

  long element(const Access& access, int i) const { return access.value + i; }

  void apply(const Access& access) {
    for (int i = 0; i < access.count; ++i) {
      long& place =
          oracle_[static_cast<size_t>(access.target)][static_cast<size_t>(access.first + i * access.step)];
      if (access.what <= What::rput) place = element(access, i);
      if (access.what >= What::accumulate) place += element(access, i);
    }
  }

  void begin(uint64_t kind) {
    if (kind == 0) MUST(MPI_Win_fence(0, exposed_));
    if (kind == 1) {
      MUST(MPI_Win_post(all_, 0, exposed_));
      MUST(MPI_Win_start(all_, 0, exposed_));
    }
    if (kind == 4) MUST(MPI_Win_lock_all(0, exposed_));
  }

  void end(uint64_t kind) {
    if (kind == 0) MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, exposed_));
    if (kind == 1) {
      MUST(MPI_Win_complete(exposed_));
      MUST(MPI_Win_wait(exposed_));
    }
    if (kind == 4) {
      MUST(MPI_Win_flush_all(exposed_));
      MUST(MPI_Win_unlock_all(exposed_));
    }
  }

  void start(const Access& access, bool passive) {
    std::vector<long> values(static_cast<size_t>(access.count));
    for (int i = 0; i < access.count; ++i) values[static_cast<size_t>(i)] = element(access, i);
    const Memory& buffer = buffers_.emplace_back(memory_of(access.place, values));
    const Memory& result = buffers_.emplace_back(Memory(access.place, values.size() * sizeof(long)));
    MPI_Datatype type;
    MUST(MPI_Type_vector(access.count, 1, access.step, MPI_LONG, &type));
    MUST(MPI_Type_commit(&type));
    const MPI_Aint at = access.first;
    const int count = access.count, target = access.target;
    MPI_Request request = MPI_REQUEST_NULL;
    What what = access.what;
    if (!passive && what == What::rput) what = What::put;
    if (!passive && what == What::rget) what = What::get;
    switch (what) {
      case What::put:
        MUST(MPI_Put(buffer, count, MPI_LONG, target, at, 1, type, exposed_));
        break;
      case What::rput:
        MUST(MPI_Rput(buffer, count, MPI_LONG, target, at, 1, type, exposed_, &request));
        break;
      case What::get:
        MUST(MPI_Get(result, count, MPI_LONG, target, at, 1, type, exposed_));
        break;
      case What::rget:
        MUST(MPI_Rget(result, count, MPI_LONG, target, at, 1, type, exposed_, &request));
        break;
      case What::accumulate:
        MUST(MPI_Accumulate(buffer, count, MPI_LONG, target, at, 1, type, MPI_SUM, exposed_));
        break;
      case What::fetch:
        MUST(MPI_Get_accumulate(buffer, count, MPI_LONG, result, count, MPI_LONG, target, at, 1, type,
                                MPI_SUM, exposed_));
        break;
    }
    MUST(MPI_Type_free(&type));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (what == What::get || what == What::rget) got_.push_back({access, buffers_.size() - 1});
  }

  bool check(uint64_t kind) {
    static const char* const kinds[] = {"fence", "post and start", "shared locks", "exclusive locks",
                                        "lock_all"};
    const std::vector<long> found = exposed_.values<long>(), &wanted = oracle_[static_cast<size_t>(rank)];
    auto [wrong, right] = std::mismatch(found.begin(), found.end(), wanted.begin());
    const bool holds = wrong == found.end();
    EXPECT(holds, "after an epoch by %s element %td is %ld, not %ld", kinds[kind], wrong - found.begin(),
           *wrong, *right);
    for (const auto& [access, buffer] : got_) {
      for (int i = 0; i < access.count; ++i) {
        const long value = value_in<long>(buffers_[buffer], static_cast<size_t>(i));
        const long then =
            before_[static_cast<size_t>(access.target)][static_cast<size_t>(access.first + i * access.step)];
        EXPECT(value == then, "%s: got %ld from rank %d, not %ld", kinds[kind], value, access.target, then);
        if (value != then) return false;
      }
    }
    return holds;
  }

  struct Got {
    Access access;
    size_t buffer;
  };
  std::mt19937_64 random_;
  Exposed exposed_;
  MPI_Group all_ = MPI_GROUP_NULL;
  std::vector<std::vector<long>> oracle_, before_;
  std::deque<Memory> buffers_;
  std::vector<Got> got_;
};

}  // namespace

RANK_TEST(rma_random, epochs_of_all_kinds, 1) {
  repeat("rma_random", options.seconds, [](uint64_t seed) {
    Epochs epochs(seed);
    int wrong = 0;
    for (int round = 0; round < 12 && !wrong; ++round) {
      wrong = !epochs.run(round);
      MUST(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    }
  });
}
