// SPDX-License-Identifier: Apache-2.0

#include "collectives/operations.h"

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <complex>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "kernels/half.h"

namespace ranks::coll {

namespace {

template <class T>
struct Pair {
  T value;
  int where;
};

// Fortran's pairs: both of one type.
template <class T>
struct Twins {
  T value, where;
};

// Floating point of 16 bits, computed as float.
template <auto widen, auto narrow>
struct Half {
  Half() = default;
  Half(float value) : bits(narrow(value)) {}
  operator float() const { return widen(bits); }
  unsigned short bits;
};
using Float16 = Half<fairlead::kernels::float16_to_float, fairlead::kernels::float_to_float16>;
using BFloat16 = Half<fairlead::kernels::bfloat16_to_float, fairlead::kernels::float_to_bfloat16>;

// ---- Operations, by their meaning ---------------------------------------------------------------------

template <class T>
T whole_number(uint64_t dice, int lowest, uint64_t values) {
  return static_cast<T>(static_cast<int>(dice % values) + lowest);
}

template <class T>
T any_value(uint64_t dice) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(dice);
  else
    return static_cast<T>(static_cast<int64_t>(dice)) / 1024;
}

template <class T>
constexpr int lowest = std::is_signed_v<T> ? -1 : 0;

// Sums and products are exact, and stay within the type, for a dozen ranks; operands of products are not 0.
struct Sum {
  static constexpr const char* name = "SUM";
  static MPI_Op op() { return MPI_SUM; }
  template <class T>
  static T make(uint64_t dice) {
    return whole_number<T>(dice, 5 * lowest<T>, 11);
  }
  template <class T>
  static T fold(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Product {
  static constexpr const char* name = "PROD";
  static MPI_Op op() { return MPI_PROD; }
  template <class T>
  static T make(uint64_t dice) {
    return static_cast<T>(dice % 3 == 0 ? 2 : dice % 7 == 1 && std::is_signed_v<T> ? -1 : 1);
  }
  template <class T>
  static T fold(T a, T b) {
    return static_cast<T>(a * b);
  }
};

struct Maximum {
  static constexpr const char* name = "MAX";
  static MPI_Op op() { return MPI_MAX; }
  template <class T>
  static T make(uint64_t dice) {
    return any_value<T>(dice);
  }
  template <class T>
  static T fold(T a, T b) {
    return a < b ? b : a;
  }
};

struct Minimum : Maximum {
  static constexpr const char* name = "MIN";
  static MPI_Op op() { return MPI_MIN; }
  template <class T>
  static T fold(T a, T b) {
    return b < a ? b : a;
  }
};

struct Bits {
  template <class T>
  static T make(uint64_t dice) {
    return static_cast<T>(dice);
  }
};

struct BitAnd : Bits {
  static constexpr const char* name = "BAND";
  static MPI_Op op() { return MPI_BAND; }
  template <class T>
  static T fold(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitOr : Bits {
  static constexpr const char* name = "BOR";
  static MPI_Op op() { return MPI_BOR; }
  template <class T>
  static T fold(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BitXor : Bits {
  static constexpr const char* name = "BXOR";
  static MPI_Op op() { return MPI_BXOR; }
  template <class T>
  static T fold(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// True is any value but 0 for C integers.
struct Truth {
  template <class T>
  static T make(uint64_t dice) {
    if (dice % 2 == 0) return 0;
    return std::is_same_v<T, bool> ? T{1} : whole_number<T>(dice / 2, 1, 100);
  }
};

struct LogicalAnd : Truth {
  static constexpr const char* name = "LAND";
  static MPI_Op op() { return MPI_LAND; }
  template <class T>
  static T fold(T a, T b) {
    return a && b;
  }
};

struct LogicalOr : Truth {
  static constexpr const char* name = "LOR";
  static MPI_Op op() { return MPI_LOR; }
  template <class T>
  static T fold(T a, T b) {
    return a || b;
  }
};

struct LogicalXor : Truth {
  static constexpr const char* name = "LXOR";
  static MPI_Op op() { return MPI_LXOR; }
  template <class T>
  static T fold(T a, T b) {
    return !a != !b;
  }
};

// Few values, so that many are equal and the smaller index has to win.
template <class P>
P make_pair(uint64_t dice) {
  P pair = {};
  pair.value = whole_number<decltype(pair.value)>(dice % 4, -2, 4);
  pair.where = whole_number<decltype(pair.where)>(dice / 4, 0, 50);
  return pair;
}

struct MaximumAt {
  static constexpr const char* name = "MAXLOC";
  static MPI_Op op() { return MPI_MAXLOC; }
  template <class P>
  static P make(uint64_t dice) {
    return make_pair<P>(dice);
  }
  template <class P>
  static P fold(P a, P b) {
    if (a.value == b.value) return a.where < b.where ? a : b;
    return a.value > b.value ? a : b;
  }
};

struct MinimumAt : MaximumAt {
  static constexpr const char* name = "MINLOC";
  static MPI_Op op() { return MPI_MINLOC; }
  template <class P>
  static P fold(P a, P b) {
    if (a.value == b.value) return a.where < b.where ? a : b;
    return a.value < b.value ? a : b;
  }
};

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

// ---- Elements in memory -------------------------------------------------------------------------------

template <class T, class Meaning>
void make_element(uint64_t dice, void* element) {
  T value;
  if constexpr (IsComplex<T>::value)
    value = T(Meaning::template make<typename T::value_type>(dice),
              Meaning::template make<typename T::value_type>(dice >> 20));
  else
    value = Meaning::template make<T>(dice);
  memcpy(element, &value, sizeof(T));
}

template <class T, class Meaning>
void fold_element(void* into, const void* from) {
  T a, b;
  memcpy(&a, into, sizeof(T));
  memcpy(&b, from, sizeof(T));
  a = Meaning::template fold<T>(a, b);
  memcpy(into, &a, sizeof(T));
}

template <class T, bool as_truth>
bool same_element(const void* one, const void* two) {
  T a, b;
  memcpy(&a, one, sizeof(T));
  memcpy(&b, two, sizeof(T));
  if constexpr (as_truth)
    return !a == !b;
  else if constexpr (requires { a.where; })
    return a.value == b.value && a.where == b.where;
  else
    return a == b;
}

// ---- The standard's table -----------------------------------------------------------------------------

class Table {
 public:
  template <class T, class... Meanings>
  void add(const char* name, MPI_Datatype type) {
    MPI_Aint lower, extent;
    // Without a Fortran compiler an MPI has no Fortran types, or such of other sizes.
    if (type == MPI_DATATYPE_NULL || MPI_Type_get_extent(type, &lower, &extent) != MPI_SUCCESS) return;
    if (extent != static_cast<MPI_Aint>(sizeof(T))) return;
    (rows_.push_back({std::string(Meanings::name) + " of " + name, type, Meanings::op(), sizeof(T),
                      make_element<T, Meanings>, fold_element<T, Meanings>,
                      same_element<T, std::is_base_of_v<Truth, Meanings>>}),
     ...);
  }

  template <class T>
  void c_integer(const char* name, MPI_Datatype type) {
    fortran_integer<T>(name, type);
    logical<T>(name, type);
  }
  template <class T>
  void fortran_integer(const char* name, MPI_Datatype type) {  // and the multi-language types
    floating<T>(name, type);
    bits<T>(name, type);
  }
  template <class T>
  void floating(const char* name, MPI_Datatype type) {
    add<T, Maximum, Minimum, Sum, Product>(name, type);
  }
  template <class T>
  void sums(const char* name, MPI_Datatype type) {
    add<T, Sum>(name, type);
  }
  template <class T>
  void bits(const char* name, MPI_Datatype type) {
    add<T, BitAnd, BitOr, BitXor>(name, type);
  }
  template <class T>
  void logical(const char* name, MPI_Datatype type) {
    add<T, LogicalAnd, LogicalOr, LogicalXor>(name, type);
  }
  template <class T>
  void complex(const char* name, MPI_Datatype type) {
    add<std::complex<T>, Sum, Product>(name, type);
  }
  template <class P>
  void pair(const char* name, MPI_Datatype type) {
    add<P, MaximumAt, MinimumAt>(name, type);
  }

  std::vector<Operation> take() { return std::move(rows_); }

 private:
  std::vector<Operation> rows_;
};

// The contributions of one member: `count` elements from `first` on.
std::vector<char> contribution(const Operation& operation, uint64_t key, int member, int first, int count) {
  std::vector<char> elements(operation.bytes * static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    operation.make(key_of(key, static_cast<uint64_t>(member), static_cast<uint64_t>(first + i)),
                   elements.data() + operation.bytes * static_cast<size_t>(i));
  return elements;
}

// In the order of ranks.
std::vector<char> result(const Operation& operation, uint64_t key, int members, int first, int count) {
  std::vector<char> elements = contribution(operation, key, 0, first, count);
  for (int member = 1; member < members; ++member) {
    const std::vector<char> next = contribution(operation, key, member, first, count);
    for (size_t at = 0; at < elements.size(); at += operation.bytes)
      operation.fold(elements.data() + at, next.data() + at);
  }
  return elements;
}

void expect_result(const Operation& operation, const std::vector<char>& wanted, const Memory& memory,
                   const char* function) {
  std::vector<char> found(memory.bytes());
  memory.read(found.data(), found.size());
  for (size_t at = 0; at < wanted.size(); at += operation.bytes) {
    if (operation.same(wanted.data() + at, found.data() + at)) continue;
    EXPECT(false, "%s by %s: element %zu of %zu is wrong in %s memory", function, operation.name.c_str(),
           at / operation.bytes, wanted.size() / operation.bytes, to_string(memory.place()));
    break;
  }
  std::string why;
  EXPECT(memory.holds(found, &why), "%s by %s: %s", function, operation.name.c_str(), why.c_str());
}

// Does the host MPI get it right? MPICH 4.0.2 takes unsigned integers for signed ones, Open MPI 4.1.4
// some of eight bytes, and offsets for unsigned ones.
bool host_computes(const Operation& operation) {
  constexpr int count = 64;
  const std::vector<char> first = contribution(operation, 1, 0, 0, count);
  std::vector<char> second = contribution(operation, 1, 1, 0, count);
  const std::vector<char> wanted = result(operation, 1, 2, 0, count);
  if (!MUST(MPI_Reduce_local(first.data(), second.data(), count, operation.type, operation.op))) return false;
  for (size_t at = 0; at < wanted.size(); at += operation.bytes)
    if (!operation.same(wanted.data() + at, second.data() + at)) return false;
  return true;
}

}  // namespace

std::vector<Operation> predefined_operations() {
  Table table;
#define EACH(row, T, type) table.row<T>(#type, type)
  EACH(c_integer, signed char, MPI_SIGNED_CHAR);
  EACH(c_integer, unsigned char, MPI_UNSIGNED_CHAR);
  EACH(c_integer, short, MPI_SHORT);
  EACH(c_integer, unsigned short, MPI_UNSIGNED_SHORT);
  EACH(c_integer, int, MPI_INT);
  EACH(c_integer, unsigned, MPI_UNSIGNED);
  EACH(c_integer, long, MPI_LONG);
  EACH(c_integer, unsigned long, MPI_UNSIGNED_LONG);
  EACH(c_integer, long long, MPI_LONG_LONG);
  EACH(c_integer, unsigned long long, MPI_UNSIGNED_LONG_LONG);
  EACH(c_integer, int8_t, MPI_INT8_T);
  EACH(c_integer, int16_t, MPI_INT16_T);
  EACH(c_integer, int32_t, MPI_INT32_T);
  EACH(c_integer, int64_t, MPI_INT64_T);
  EACH(c_integer, uint8_t, MPI_UINT8_T);
  EACH(c_integer, uint16_t, MPI_UINT16_T);
  EACH(c_integer, uint32_t, MPI_UINT32_T);
  EACH(c_integer, uint64_t, MPI_UINT64_T);
  EACH(fortran_integer, int, MPI_INTEGER);
  EACH(fortran_integer, int8_t, MPI_INTEGER1);
  EACH(fortran_integer, int16_t, MPI_INTEGER2);
  EACH(fortran_integer, int32_t, MPI_INTEGER4);
  EACH(fortran_integer, int64_t, MPI_INTEGER8);
  EACH(fortran_integer, MPI_Aint, MPI_AINT);
  EACH(fortran_integer, MPI_Offset, MPI_OFFSET);
  EACH(fortran_integer, MPI_Count, MPI_COUNT);
  EACH(floating, float, MPI_FLOAT);
  EACH(floating, double, MPI_DOUBLE);
  EACH(floating, long double, MPI_LONG_DOUBLE);
// MPICH 4.0.2 has the type, but aborts in its reductions.
#if defined(MPIX_C_FLOAT16) && (!defined(MPICH_NUMVERSION) || MPICH_NUMVERSION >= 50000000)
  EACH(floating, Float16, MPIX_C_FLOAT16);
#endif
// MPICH 5.0.2 aborts in all others.
#ifdef MPIX_BFLOAT16
  EACH(sums, BFloat16, MPIX_BFLOAT16);
#endif
  EACH(floating, float, MPI_REAL);
  EACH(floating, double, MPI_DOUBLE_PRECISION);
  EACH(floating, float, MPI_REAL4);
  EACH(floating, double, MPI_REAL8);
  EACH(logical, bool, MPI_C_BOOL);
  EACH(complex, float, MPI_C_COMPLEX);
  EACH(complex, float, MPI_C_FLOAT_COMPLEX);
  EACH(complex, double, MPI_C_DOUBLE_COMPLEX);
  EACH(complex, long double, MPI_C_LONG_DOUBLE_COMPLEX);
  EACH(complex, float, MPI_COMPLEX);
  EACH(complex, double, MPI_DOUBLE_COMPLEX);
  EACH(complex, float, MPI_COMPLEX8);
  EACH(complex, double, MPI_COMPLEX16);
  EACH(bits, unsigned char, MPI_BYTE);
  EACH(pair, Pair<float>, MPI_FLOAT_INT);
  EACH(pair, Pair<double>, MPI_DOUBLE_INT);
  EACH(pair, Pair<long>, MPI_LONG_INT);
  EACH(pair, Pair<int>, MPI_2INT);
  EACH(pair, Pair<short>, MPI_SHORT_INT);
  EACH(pair, Pair<long double>, MPI_LONG_DOUBLE_INT);
  EACH(pair, Twins<float>, MPI_2REAL);
  EACH(pair, Twins<double>, MPI_2DOUBLE_PRECISION);
  EACH(pair, Twins<int>, MPI_2INTEGER);
#undef EACH
  std::vector<Operation> operations = table.take();
  std::erase_if(operations, [](const Operation& operation) {
    const bool wrong = !host_computes(operation);
    if (wrong && rank == 0) printf("left out, since the MPI has it wrong: %s\n", operation.name.c_str());
    return wrong;
  });
  return operations;
}

void check_reduction(const Operation& operation, const Reduction& r) {
  int position, members;
  MPI_Comm_rank(r.comm, &position);
  MPI_Comm_size(r.comm, &members);
  const bool in_parts = r.kind == Kind::reduce_scatter || r.kind == Kind::reduce_scatter_block;
  std::vector<int> counts(static_cast<size_t>(members), r.count), starts = counts;
  int total = 0;
  for (int member = 0; member < members; ++member) {
    if (r.kind == Kind::reduce_scatter)
      counts[static_cast<size_t>(member)] = (r.count + member) % 4 * r.count / 2;
    starts[static_cast<size_t>(member)] = in_parts ? total : 0;
    total = (in_parts ? total : 0) + counts[static_cast<size_t>(member)];
  }
  const bool has_result = r.kind != Kind::reduce || position == r.root;
  const int mine = has_result ? counts[static_cast<size_t>(position)] : 0;
  const int last = r.kind == Kind::scan ? position + 1 : r.kind == Kind::exscan ? position : members;
  const std::vector<char> input = contribution(operation, r.key, position, 0, total);
  const bool in_place = r.in_place && has_result;
  Memory send(r.from, in_place ? 0 : input.size());
  Memory receive(r.to, in_place ? input.size() : operation.bytes * static_cast<size_t>(mine));
  (in_place ? receive : send).write(input.data(), input.size());
  const void* from = in_place ? MPI_IN_PLACE : send.data();
  const char* function = function_name(r.kind, Form::blocking);
  at(__FILE__, __LINE__, function);
  int status = MPI_SUCCESS;
  if (r.kind == Kind::reduce)
    status = MPI_Reduce(from, receive, r.count, operation.type, operation.op, r.root, r.comm);
  else if (r.kind == Kind::allreduce)
    status = MPI_Allreduce(from, receive, r.count, operation.type, operation.op, r.comm);
  else if (r.kind == Kind::scan)
    status = MPI_Scan(from, receive, r.count, operation.type, operation.op, r.comm);
  else if (r.kind == Kind::exscan)
    status = MPI_Exscan(from, receive, r.count, operation.type, operation.op, r.comm);
  else if (r.kind == Kind::reduce_scatter)
    status = MPI_Reduce_scatter(from, receive, counts.data(), operation.type, operation.op, r.comm);
  else
    status = MPI_Reduce_scatter_block(from, receive, r.count, operation.type, operation.op, r.comm);
  if (!succeeded(status, __FILE__, __LINE__, function)) return;
  std::string why;
  if (!in_place)
    EXPECT(send.holds(input, &why), "%s by %s changed its input: %s", function, operation.name.c_str(),
           why.c_str());
  if (!has_result || last == 0) return;
  expect_result(operation, result(operation, r.key, last, starts[static_cast<size_t>(position)], mine),
                receive, function);
}

void check_reduce_local(const Operation& operation, int count, Place from, Place to, uint64_t key) {
  const std::vector<char> first = contribution(operation, key, 0, 0, count);
  const std::vector<char> second = contribution(operation, key, 1, 0, count);
  Memory in(from, first.size()), inout(to, second.size());
  in.write(first.data(), first.size());
  inout.write(second.data(), second.size());
  if (!MUST(MPI_Reduce_local(in, inout, count, operation.type, operation.op))) return;
  std::string why;
  EXPECT(in.holds(first, &why), "Reduce_local by %s changed its input: %s", operation.name.c_str(),
         why.c_str());
  expect_result(operation, result(operation, key, 2, 0, count), inout, "MPI_Reduce_local");
}

}  // namespace ranks::coll
