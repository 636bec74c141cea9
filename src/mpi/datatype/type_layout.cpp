// SPDX-License-Identifier: Apache-2.0

#include "mpi/datatype/type_layout.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/log.h"
#include "mpi/abi/mutex.h"
#include "mpi/datatype/type_origin.h"

namespace fairlead::mpi {
namespace {

using packing::Plan;
using packing::Tree;
using Layout = std::optional<Tree>;  // empty: unknown

int keyval = MPI_KEYVAL_INVALID;
auto& mutex = *new Mutex;

// The facts about a type that Fairlead determines when it is first used.
struct Known {
  PlanOfType plan;
  MPI_Count basic_bytes = 0;
  bool committed = false;
  std::optional<PlanOfType> external = {};  // once it has been needed
};

// How bytes are ordered: as they lie in memory, or as the external form has them.
enum class Form { native, external };

// In the external form each byte may be a block of its own: the list of two long arrays would be many times
// as long as the arrays.
constexpr size_t external_blocks_at_most = size_t{64} << 10;

// The lengths of the basic elements seen so far.
class BasicLengths {
 public:
  explicit BasicLengths(Form form) : form_(form) {}
  Form form() const { return form_; }
  void add(MPI_Count bytes) {
    differ_ |= seen_ > 0 && bytes != seen_;
    seen_ = bytes;
  }
  // The length of all elements; 0 if lengths differ.
  MPI_Count common() const { return differ_ ? 0 : seen_; }

 private:
  const Form form_;
  MPI_Count seen_ = 0;
  bool differ_ = false;
};

Layout layout_of_type(MPI_Datatype datatype, BasicLengths* basic);

MPI_Count extent_of(MPI_Datatype datatype) {
  MPI_Count lower = 0, extent = 0;
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  return extent;
}

// A basic type whose external form has the same bytes in another order. The host MPI tells where it puts each
// byte; unknown if it has another size there, or converts values.
Layout in_external_order(MPI_Datatype datatype, MPI_Count size, MPI_Count extent) {
  unsigned char value[64], packed[64] = {};
  if (extent > static_cast<MPI_Count>(sizeof value)) return std::nullopt;
  for (size_t i = 0; i < sizeof value; ++i) value[i] = static_cast<unsigned char>(i + 1);
  char form[] = "external32";
  MPI_Aint needed = 0, position = 0;
  if (PMPI_Pack_external_size(form, 1, datatype, &needed) != MPI_SUCCESS || needed != size ||
      PMPI_Pack_external(form, value, 1, datatype, packed, needed, &position) != MPI_SUCCESS ||
      position != size)
    return std::nullopt;
  std::vector<Tree> bytes;
  for (unsigned char* at = packed; at < packed + size; ++at) {
    if (*at == 0 || *at > extent || std::find(packed, at, *at) != at) return std::nullopt;
    bytes.push_back(Tree::of_bytes(1).shifted(*at - 1));
  }
  return Tree::sequence(std::move(bytes));
}

// Among the predefined types only pairs have gaps: a value and an int, laid out as a C compiler does.
Layout named(MPI_Datatype datatype, BasicLengths* basic) {
  MPI_Count size = 0, lower = 0, extent = 0;
  PMPI_Type_size_x(datatype, &size);
  basic->add(size);
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  if (size <= 0) return Tree();
  if (basic->form() == Form::external) return in_external_order(datatype, size, extent);
  if (size == extent) return Tree::of_bytes(static_cast<uint64_t>(size)).shifted(lower);
  constexpr MPI_Count index = sizeof(int);
  if (size <= index || lower != 0) return std::nullopt;
  MPI_Count value = size - index, place = (value + index - 1) / index * index;
  return Tree::sequence({Tree::of_bytes(static_cast<uint64_t>(value)), Tree::of_bytes(index).shifted(place)});
}

uint64_t count(MPI_Count number) {
  return static_cast<uint64_t>(std::max<MPI_Count>(number, 0));
}

// One dimension of MPI_Type_create_darray: the indices of this process, each `stride` bytes apart.
Tree distribute(const Tree& inner, int64_t stride, MPI_Count size, int how, int argument, int processes,
                int coordinate) {
  if (how == MPI_DISTRIBUTE_NONE) return inner.repeated(count(size), stride);
  if (how == MPI_DISTRIBUTE_BLOCK) {
    MPI_Count block = argument == MPI_DISTRIBUTE_DFLT_DARG ? (size + processes - 1) / processes : argument;
    MPI_Count first = block * coordinate;
    return inner.repeated(count(std::min(block, size - first)), stride).shifted(first * stride);
  }
  MPI_Count block = argument == MPI_DISTRIBUTE_DFLT_DARG ? 1 : argument;
  MPI_Count round = block * processes, first = block * coordinate;
  MPI_Count whole = size < first + block ? 0 : (size - first - block) / round + 1;
  MPI_Count last = first + whole * round;
  Tree blocks = inner.repeated(count(block), stride).repeated(count(whole), round * stride);
  Tree rest = inner.repeated(count(std::min(block, size - last)), stride);
  return Tree::sequence({blocks.shifted(first * stride), rest.shifted(last * stride)});
}

// Applies `dimension` from the fastest dimension to the slowest.
template <class Dimension>
Tree nest(Tree tree, MPI_Count extent, int dimensions, int order, const Dimension& dimension) {
  int64_t stride = extent;
  for (int k = 0; k < dimensions; ++k) {
    int which = order == MPI_ORDER_FORTRAN ? k : dimensions - 1 - k;
    MPI_Count size = 0;
    tree = dimension(tree, stride, which, &size);
    stride *= size;
  }
  return tree;
}

Tree subarray(const TypeContents& made, const Tree& element, MPI_Count extent) {
  int dimensions = static_cast<int>(made.number(0));
  size_t n = static_cast<size_t>(dimensions);
  // Arguments of the type: dimensions, sizes, subsizes, starts, order. Large-count numbers come last.
  size_t sizes = made.large() ? 2 : 1;
  int order = static_cast<int>(made.number(made.large() ? 1 : 1 + 3 * n));
  return nest(
      element, extent, dimensions, order, [&](const Tree& inner, int64_t stride, int which, MPI_Count* size) {
        size_t at = sizes + static_cast<size_t>(which);
        *size = made.number(at);
        return inner.repeated(count(made.number(at + n)), stride).shifted(made.number(at + 2 * n) * stride);
      });
}

Tree darray(const TypeContents& made, const Tree& element, MPI_Count extent) {
  int processes = static_cast<int>(made.number(0)), rank = static_cast<int>(made.number(1));
  int dimensions = static_cast<int>(made.number(2));
  size_t n = static_cast<size_t>(dimensions);
  // Arguments of the type: processes, rank, dimensions, global sizes, distributions, their arguments, process
  // grid, order.
  size_t how = made.large() ? 3 : 3 + n;
  size_t sizes = made.large() ? how + 3 * n + 1 : 3;
  int order = static_cast<int>(made.number(how + 3 * n));
  std::vector<int> coordinates(n);
  for (size_t k = 0; k < n; ++k) {
    processes /= static_cast<int>(made.number(how + 2 * n + k));
    coordinates[k] = rank / processes;
    rank %= processes;
  }
  return nest(
      element, extent, dimensions, order, [&](const Tree& inner, int64_t stride, int which, MPI_Count* size) {
        size_t k = static_cast<size_t>(which);
        auto argument = [&](size_t row) { return static_cast<int>(made.number(how + row * n + k)); };
        *size = made.number(sizes + k);
        return distribute(inner, stride, *size, argument(0), argument(1), argument(2), coordinates[k]);
      });
}

// `blocks` pieces; piece i has length(i) elements and begins place(i) bytes from the start.
template <class Length, class Place>
Tree list(const Tree& element, MPI_Count extent, MPI_Count blocks, const Length& length, const Place& place) {
  std::vector<Tree> parts;
  parts.reserve(count(blocks));
  for (size_t i = 0; i < count(blocks); ++i)
    parts.push_back(element.repeated(count(length(i)), extent).shifted(place(i)));
  return Tree::sequence(std::move(parts));
}

Layout structure(const TypeContents& made, BasicLengths* basic) {
  size_t n = count(made.number(0));
  std::vector<Tree> parts;
  Layout part;
  MPI_Count extent = 0;
  for (size_t i = 0; i < n; ++i) {
    // Consecutive parts of one type are analysed once.
    if (i == 0 || made.types()[i] != made.types()[i - 1]) {
      part = layout_of_type(made.types()[i], basic);
      extent = extent_of(made.types()[i]);
    }
    if (!part) return std::nullopt;
    parts.push_back(part->repeated(count(made.number(1 + i)), extent).shifted(made.number(1 + n + i)));
  }
  return Tree::sequence(std::move(parts));
}

Layout layout_of_type(MPI_Datatype datatype, BasicLengths* basic) {
  TypeContents made(datatype);
  if (made.combiner() == MPI_COMBINER_NAMED || made.types().empty()) return named(datatype, basic);
  if (made.combiner() == MPI_COMBINER_STRUCT) return structure(made, basic);
  Layout inner = layout_of_type(made.types().front(), basic);
  if (!inner) return inner;
  const Tree& element = *inner;
  MPI_Count extent = extent_of(made.types().front());
  size_t n = made.combiner() == MPI_COMBINER_RESIZED || made.combiner() == MPI_COMBINER_DUP
                 ? 0
                 : count(made.number(0));
  switch (made.combiner()) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return element;
    case MPI_COMBINER_CONTIGUOUS:
      return element.repeated(n, extent);
    case MPI_COMBINER_VECTOR:
      return element.repeated(count(made.number(1)), extent).repeated(n, made.number(2) * extent);
    case MPI_COMBINER_HVECTOR:
      return element.repeated(count(made.number(1)), extent).repeated(n, made.number(2));
    case MPI_COMBINER_INDEXED:
      return list(
          element, extent, made.number(0), [&](size_t i) { return made.number(1 + i); },
          [&](size_t i) { return made.number(1 + n + i) * extent; });
    case MPI_COMBINER_HINDEXED:
      return list(
          element, extent, made.number(0), [&](size_t i) { return made.number(1 + i); },
          [&](size_t i) { return made.number(1 + n + i); });
    case MPI_COMBINER_INDEXED_BLOCK:
      return list(
          element, extent, made.number(0), [&](size_t) { return made.number(1); },
          [&](size_t i) { return made.number(2 + i) * extent; });
    case MPI_COMBINER_HINDEXED_BLOCK:
      return list(
          element, extent, made.number(0), [&](size_t) { return made.number(1); },
          [&](size_t i) { return made.number(2 + i); });
    case MPI_COMBINER_SUBARRAY:
      return subarray(made, element, extent);
    case MPI_COMBINER_DARRAY:
      return darray(made, element, extent);
    default:
      return std::nullopt;
  }
}

// Uses the plan only if it agrees with the size and bounds that MPI reports; otherwise the host MPI packs the
// type (quirk empty_parts_in_extent).
Known look_into(MPI_Datatype datatype, Form form = Form::native) {
  BasicLengths basic(form);
  Layout tree = layout_of_type(datatype, &basic);
  MPI_Count size = 0, lower = 0, span = 0;
  PMPI_Type_size_x(datatype, &size);
  PMPI_Type_get_true_extent_x(datatype, &lower, &span);
  if (tree && (tree->empty() || size == 0)) return {};
  bool known = tree && static_cast<MPI_Count>(tree->size()) == size && tree->low() >= lower &&
               tree->high() <= lower + span;
  const size_t most = form == Form::external ? external_blocks_at_most : packing::blocks_at_most;
  PlanOfType plan = known ? Plan::make(*tree, extent_of(datatype), most) : nullptr;
  if (!plan)
    log_line(LogLevel::debug, "a datatype of %lld bytes, made by combiner %d, is packed by the host MPI",
             static_cast<long long>(size), combiner_of(datatype));
  return {plan, tree ? basic.common() : 0};
}

int forget(MPI_Datatype, int, void* known, void*) {
  delete static_cast<Known*>(known);
  return MPI_SUCCESS;
}

// A duplicate has the same layout.
int share(MPI_Datatype, int, void*, void* known, void* copy, int* flag) {
  // Without the external plan, which another thread may be writing.
  const Known& original = *static_cast<Known*>(known);
  *static_cast<Known**>(copy) = new Known{original.plan, original.basic_bytes, original.committed};
  *flag = 1;
  return MPI_SUCCESS;
}

// Kept in a map: predefined types are never freed, and few have a plan.
Known& known_of_named(MPI_Datatype datatype) {
  static auto& all = *new std::map<MPI_Datatype, Known>;
  auto [entry, added] = all.try_emplace(datatype);
  if (added) entry->second = look_into(datatype);
  return entry->second;
}

// Returns null if the type has no attribute. Call with the lock held.
Known* kept_of(MPI_Datatype datatype) {
  Known* kept = nullptr;
  int found = 0;
  PMPI_Type_get_attr(datatype, keyval, &kept, &found);
  return found ? kept : nullptr;
}

// Returns get(what is known of the type). A second thread that sets the attribute would delete what the first
// one reads, so all threads take the lock.
template <class Get>
auto from_known(MPI_Datatype datatype, const Get& get) {
  if (keyval == MPI_KEYVAL_INVALID) {
    Known none;
    return get(none);
  }
  std::lock_guard lock(mutex);
  if (Known* kept = kept_of(datatype)) return get(*kept);
  if (combiner_of(datatype) == MPI_COMBINER_NAMED) return get(known_of_named(datatype));
  auto made = std::make_unique<Known>(look_into(datatype));
  if (PMPI_Type_set_attr(datatype, keyval, made.get()) != MPI_SUCCESS) return get(*made);
  return get(*made.release());
}

}  // namespace

PlanOfType plan_of(MPI_Datatype datatype) {
  return from_known(datatype, [](const Known& known) { return known.plan; });
}

PlanOfType external_plan_of(MPI_Datatype datatype) {
  return from_known(datatype, [datatype](Known& known) {
    if (!known.external) known.external = look_into(datatype, Form::external).plan;
    return *known.external;
  });
}

MPI_Count basic_bytes_of(MPI_Datatype datatype) {
  return from_known(datatype, [](const Known& known) { return known.basic_bytes; });
}

bool is_committed(MPI_Datatype datatype, bool (*ask)(MPI_Datatype datatype)) {
  if (keyval == MPI_KEYVAL_INVALID) return true;
  {
    std::lock_guard lock(mutex);
    if (const Known* kept = kept_of(datatype); kept && kept->committed) return true;
  }
  if (!ask(datatype)) return false;
  std::lock_guard lock(mutex);
  if (Known* kept = kept_of(datatype)) kept->committed = true;
  return true;
}

void open_datatypes() {
  if (keyval == MPI_KEYVAL_INVALID) PMPI_Type_create_keyval(share, forget, &keyval, nullptr);
}

void close_datatypes() {
  if (keyval != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&keyval);
}

}  // namespace fairlead::mpi
