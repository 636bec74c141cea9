// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/one_sided/accesses.h"

#include "bench/mpi/collectives/data.h"
#include "bench/mpi/collectives/types.h"
#include "bench/mpi/count.h"

namespace fairlead::tools {
namespace {

uint64_t pattern_seed(const Filling& filling, int sender) {
  return (filling.bytes << 20) + static_cast<uint64_t>(filling.iteration) * 2 + static_cast<uint64_t>(sender);
}

// Puts move a pattern of the origin's rank, gets one of the window's.
class Moves : public Accesses {
 public:
  Moves(bool puts, Place origin, uint64_t bytes) : puts_(puts), origin_(origin, bytes) {}

  void start(const Spot& spot) override {
    const Count count(spot.bytes);
    char* origin = static_cast<char*>(origin_.address()) + spot.at;
    if (puts_)
      MPI_Put(origin, count.number, count.type, spot.target, spot.displacement, count.number, count.type,
              spot.window);
    else
      MPI_Get(origin, count.number, count.type, spot.target, spot.displacement, count.number, count.type,
              spot.window);
  }
  void fill_origin(const Filling& filling) override { fill(filling, puts_, origin_); }
  void fill_window(const Filling& filling, Buffer& window) override { fill(filling, !puts_, window); }
  bool right_at_origin(const Filling& filling, int64_t) override { return right(filling, puts_, origin_); }
  bool right_in_window(const Filling& filling, const Buffer& window, int64_t) override {
    return right(filling, !puts_, window);
  }
  Buffer& buffer() override { return origin_; }

 private:
  static void fill(const Filling& filling, bool is_source, Buffer& buffer) {
    if (is_source)
      buffer.write_pattern(0, filling.bytes, pattern_seed(filling, filling.rank));
    else
      buffer.clear(0, filling.bytes);
  }
  static bool right(const Filling& filling, bool is_source, const Buffer& buffer) {
    return buffer.holds_pattern(0, filling.bytes,
                                pattern_seed(filling, is_source ? filling.rank : filling.partner));
  }

  bool puts_;
  Buffer origin_;
};

// The window holds what the first rank of two would bring to a reduction, the origin what the second would.
// Of several steps in a row the results are not told.
class Accumulates : public Accesses {
 public:
  Accumulates(const BenchArguments& arguments, Place origin, uint64_t bytes)
      : there_(collective_kind(Collective::allreduce), arguments, 0, 2),
        here_(collective_kind(Collective::allreduce), arguments, 1, 2),
        element_bytes_(element_type(arguments.element).bytes),
        type_(mpi_type(element_type(arguments.element).id)),
        operation_(mpi_operation(reduction_named(arguments.reduction))),
        fetches_(access_kind(*arguments.kind->access).fetches),
        origin_(origin, bytes),
        result_(origin, fetches_ ? bytes : 0) {}

  void start(const Spot& spot) override {
    const int count = static_cast<int>(spot.bytes / element_bytes_);
    char* from = static_cast<char*>(origin_.address()) + spot.at;
    if (fetches_)
      MPI_Get_accumulate(from, count, type_, static_cast<char*>(result_.address()) + spot.at, count, type_,
                         spot.target, spot.displacement, count, type_, operation_, spot.window);
    else
      MPI_Accumulate(from, count, type_, spot.target, spot.displacement, count, type_, operation_,
                     spot.window);
  }
  void fill_origin(const Filling& filling) override {
    here_.fill(origin_, filling.bytes, filling.iteration, 0);
    if (fetches_) result_.clear(0, filling.bytes);
  }
  void fill_window(const Filling& filling, Buffer& window) override {
    there_.fill(window, filling.bytes, filling.iteration, 0);
  }
  bool right_at_origin(const Filling& filling, int64_t steps) override {
    if (!fetches_ || steps > 1) return true;
    Buffer before(Place::plain, filling.bytes);
    there_.fill(before, filling.bytes, filling.iteration, 0);
    return result_.holds(0, before.address(), filling.bytes);
  }
  bool right_in_window(const Filling& filling, const Buffer& window, int64_t steps) override {
    return steps > 1 || !there_.first_wrong(window, filling.bytes, filling.iteration, 0);
  }
  Buffer& buffer() override { return origin_; }

 private:
  CollectiveData there_, here_;
  uint64_t element_bytes_;
  MPI_Datatype type_;
  MPI_Op operation_;
  bool fetches_;
  Buffer origin_, result_;
};

void write_word(Buffer& buffer, int64_t value) {
  buffer.write(0, &value, sizeof value);
}
bool holds_word(const Buffer& buffer, int64_t value) {
  return buffer.holds(0, &value, sizeof value);
}

// The word in the window counts the steps.
class FetchAndOps : public Accesses {
 public:
  explicit FetchAndOps(Place origin) : origin_(origin, word_bytes), result_(origin, word_bytes) {}

  void start(const Spot& spot) override {
    MPI_Fetch_and_op(origin_.address(), result_.address(), MPI_INT64_T, spot.target, spot.displacement,
                     MPI_SUM, spot.window);
  }
  void fill_origin(const Filling& filling) override {
    write_word(origin_, operand(filling, filling.rank));
    write_word(result_, -1);
  }
  void fill_window(const Filling&, Buffer& window) override { write_word(window, 0); }
  bool right_at_origin(const Filling& filling, int64_t steps) override {
    return holds_word(result_, (steps - 1) * operand(filling, filling.rank));
  }
  bool right_in_window(const Filling& filling, const Buffer& window, int64_t steps) override {
    return holds_word(window, steps * operand(filling, filling.partner));
  }
  Buffer& buffer() override { return origin_; }

 private:
  static int64_t operand(const Filling& filling, int rank) {
    return (filling.iteration + 1) * 0x100000001 + rank;
  }

  Buffer origin_, result_;
};

// The first step swaps, and those behind it find what it left; in every other iteration none finds what it
// compares with.
class CompareAndSwaps : public Accesses {
 public:
  explicit CompareAndSwaps(Place origin)
      : origin_(origin, word_bytes), compare_(origin, word_bytes), result_(origin, word_bytes) {}

  void start(const Spot& spot) override {
    MPI_Compare_and_swap(origin_.address(), compare_.address(), result_.address(), MPI_INT64_T, spot.target,
                         spot.displacement, spot.window);
  }
  void fill_origin(const Filling& filling) override {
    write_word(origin_, swapped(filling));
    write_word(compare_, compared(filling));
    write_word(result_, -1);
  }
  void fill_window(const Filling& filling, Buffer& window) override { write_word(window, before(filling)); }
  bool right_at_origin(const Filling& filling, int64_t steps) override {
    return holds_word(result_, steps == 1 ? before(filling) : after(filling));
  }
  bool right_in_window(const Filling& filling, const Buffer& window, int64_t) override {
    return holds_word(window, after(filling));
  }
  Buffer& buffer() override { return origin_; }

 private:
  static int64_t compared(const Filling& filling) { return (filling.iteration + 1) * 0x300000007; }
  static int64_t swapped(const Filling& filling) { return compared(filling) + 1; }
  static bool swaps(const Filling& filling) { return filling.iteration % 2 == 0; }
  // Differs in the upper half alone.
  static int64_t before(const Filling& filling) {
    return compared(filling) + (swaps(filling) ? 0 : int64_t{1} << 40);
  }
  static int64_t after(const Filling& filling) { return swaps(filling) ? swapped(filling) : before(filling); }

  Buffer origin_, compare_, result_;
};

}  // namespace

std::unique_ptr<Accesses> make_accesses(const BenchArguments& arguments, Place origin, uint64_t bytes) {
  switch (*arguments.kind->access) {
    case Access::put:
      return std::make_unique<Moves>(true, origin, bytes);
    case Access::get:
      return std::make_unique<Moves>(false, origin, bytes);
    case Access::accumulate:
    case Access::get_accumulate:
      return std::make_unique<Accumulates>(arguments, origin, bytes);
    case Access::fetch_and_op:
      return std::make_unique<FetchAndOps>(origin);
    case Access::compare_and_swap:
      return std::make_unique<CompareAndSwaps>(origin);
  }
  return nullptr;
}

uint64_t origin_bytes(const BenchArguments& arguments, uint64_t bytes) {
  return access_kind(*arguments.kind->access).fetches ? 2 * bytes : bytes;
}

}  // namespace fairlead::tools
