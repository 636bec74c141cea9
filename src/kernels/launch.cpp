// SPDX-License-Identifier: Apache-2.0
//
// The host side of reduce.h: selects the kernel, divides elements into vectors and single elements, and
// launches the kernel.

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>

#include "kernels/kernel_table.h"
#include "kernels/parameters.h"
#include "kernels/reduce.h"

namespace fairlead::kernels {

ModuleImages copies();
#define FAIRLEAD_MODULE(group, element) ModuleImages reduce_##group##_##element();
#include "kernels/modules.def"
#undef FAIRLEAD_MODULE

namespace {

using device::Error;
using device::Kernel;
using device::Stream;

static_assert(reduce_buffers == max_ranks && copy_items_at_most == max_copies &&
              vector_bytes == vector_alignment);
static_assert(2 * sizeof(CopyBuffers) + sizeof(CopyWork) + sizeof(Signal) + sizeof(ExchangeWords) +
                      sizeof(ExchangeWork) <=
                  4096,
              "CUDA's limit");

enum class Group : uint8_t { arithmetic, order, logic, bits, location };

constexpr Group group_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
      return Group::arithmetic;
    case ReduceOp::min:
    case ReduceOp::max:
      return Group::order;
    case ReduceOp::land:
    case ReduceOp::lor:
    case ReduceOp::lxor:
      return Group::logic;
    case ReduceOp::minloc:
    case ReduceOp::maxloc:
      return Group::location;
    default:
      return Group::bits;
  }
}

constexpr struct {
  Group group;
  Element element;
  ModuleImages (*images)();
} modules[] = {
#define FAIRLEAD_MODULE(group, element) {Group::group, Element::element, reduce_##group##_##element},
#include "kernels/modules.def"
#undef FAIRLEAD_MODULE
};

// The operation and element that the kernel runs, because several operations or elements may share one
// kernel.
struct Plan {
  ReduceOp op;
  Element element;
  uint64_t elements_per_element = 1;
};

constexpr Element unsigned_of(size_t bytes) {
  return bytes == 1   ? Element::uint8
         : bytes == 2 ? Element::uint16
         : bytes == 4 ? Element::uint32
                      : Element::uint64;
}

constexpr Plan plan_of(ReduceOp op, Element element) {
  const auto& [name, bytes, family] =
      std::tuple(to_string(element), element_bytes(element), traits_of(element).family);
  if (op == ReduceOp::replace) {
    // With one source, any kernel makes a copy.
    if (family == ElementFamily::pair) return {ReduceOp::minloc, element};
    return {ReduceOp::bor, unsigned_of(bytes), bytes > 8 ? bytes / 8 : 1};
  }
  bool numbers_have_signs = group_of(op) == Group::order || family == ElementFamily::floating ||
                            family == ElementFamily::complex || family == ElementFamily::pair;
  return {op, numbers_have_signs ? element : unsigned_of(bytes)};
}

// Each operation of a module has one name and one number.
Error find_reduce(int device, const Plan& plan, Kernel* kernel) {
  for (const auto& module : modules) {
    if (module.group != group_of(plan.op) || module.element != plan.element) continue;
    auto number = static_cast<int>(plan.op) + static_cast<int>(plan.element) * static_cast<int>(op_count);
    auto name = [](int which) {
      int count = static_cast<int>(op_count);
      return std::string("reduce_") + to_string(static_cast<ReduceOp>(which % count)) + "_" +
             to_string(static_cast<Element>(which / count));
    };
    return find_kernel(device, module.images, number, name, kernel);
  }
  return Error::invalid_value;
}

Error find_copies(int device, Kernel* kernel) {
  return find_kernel(
      device, copies, 0, [](int) { return std::string("copy_items"); }, kernel);
}

Error find_swap(int device, Kernel* kernel) {
  return find_kernel(
      device, copies, 1, [](int) { return std::string("swap_if_equal"); }, kernel);
}

uintptr_t number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// Determines the elements before the first vector, and the vectors, if vectors are aligned at the same
// element in all buffers.
void divide(const ElementTraits& element, ReduceWork* work, const Buffers& from, const Buffers& to) {
  uintptr_t together = number(from.at[0]), apart = 0;
  auto look_at = [&](const void* address) {
    apart |= (number(address) ^ together) % vector_bytes;
    if (number(address) % element.alignment) work->aligned = false;
  };
  work->aligned = true;
  std::for_each_n(from.at, work->sources, look_at);
  std::for_each_n(to.at, work->targets, look_at);
  if (work->keeps_old) look_at(to.at[work->targets]);
  uintptr_t to_boundary = -together % vector_bytes;
  if (!work->aligned || work->keeps_old || apart || to_boundary % element.bytes ||
      element.family == ElementFamily::pair) {
    work->head = work->count;
    return;
  }
  work->head = std::min<uint64_t>(to_boundary / element.bytes, work->count);
  work->vectors = (work->count - work->head) / (vector_bytes / element.bytes);
}

// The threads of each group that moves a share of an item. One block moves short items together, because more
// would need a counter, and more fences, to know of their end; but not with many rounds of loads.
unsigned threads_of_group(const device::CopyItem* items, size_t count, uint64_t shares) {
  constexpr unsigned least = 32, words_of_thread = 16;
  const uint64_t threads = threads_per_block / std::bit_ceil(std::max<size_t>(count, 1));
  auto takes_few_rounds = [&](const device::CopyItem& item) {
    const uintptr_t apart = number(item.to) - number(item.from);
    const unsigned width = apart % vector_bytes == 0 ? vector_bytes : apart % 4 == 0 ? 4 : 1;
    return item.bytes <= threads * words_of_thread * width;
  };
  const bool together =
      shares == 1 && threads >= least && std::all_of(items, items + count, takes_few_rounds);
  return together ? static_cast<unsigned>(threads) : threads_per_block;
}

// The blocks together add exchange_units to each word of a kernel that gives, however many they are.
void describe(const Exchange& exchange, unsigned grid, ExchangeWords* words, ExchangeWork* work) {
  words->at[exchange_turn] = exchange.turn;
  words->at[exchange_next_turn] = exchange.next_turn;
  std::copy_n(exchange.words, exchange.count, words->at + exchange_first_word);
  work->half = exchange.half;
  work->words = static_cast<unsigned>(exchange.count);
  work->gives = exchange.gives;
  work->share = exchange.gives ? 1 : 0;
  work->rest = exchange.gives ? exchange_units - grid : 0 - exchange_units;
}

Error launch(Kernel kernel, unsigned blocks, uint64_t threads, void* first, void* second, void* work,
             Signal signal, const Exchange* exchange, Stream stream) {
  uint64_t useful = (threads + threads_per_block - 1) / threads_per_block;
  auto grid = static_cast<unsigned>(std::clamp<uint64_t>(blocks, 1, std::max<uint64_t>(useful, 1)));
  ExchangeWords words{};
  ExchangeWork exchange_work{};
  if (exchange) {
    if (exchange->count > size_t{max_ranks} || (exchange->gives && grid > exchange_units))
      return Error::invalid_value;
    describe(*exchange, grid, &words, &exchange_work);
  }
  void* arguments[] = {first, second, work, &signal, &words, &exchange_work};
  return device::runtime()->launch(kernel, grid, threads_per_block, arguments, stream);
}

}  // namespace

Element element_of_kernel(ReduceOp op, Element element) {
  return plan_of(op, element).element;
}

bool copies_available(int device) {
  Kernel kernel;
  return device::runtime() && find_copies(device, &kernel) == Error::none;
}

bool swap_available(int device) {
  Kernel kernel;
  return device::runtime() && find_swap(device, &kernel) == Error::none;
}

bool reduce_available(int device, ReduceOp op, Element element) {
  Kernel kernel;
  return device::runtime() && has_kernel(op, element) &&
         find_reduce(device, plan_of(op, element), &kernel) == Error::none;
}

Error launch_reduce(int device, Stream stream, ReduceOp op, Element element, const void* const* from,
                    int sources, void* const* to, int targets, uint64_t count, unsigned blocks, Signal signal,
                    void* old, const Exchange* exchange) {
  if (!device::runtime()) return Error::not_initialized;
  if (!has_kernel(op, element) || sources < 1 || sources > max_ranks || targets < 0 || targets > max_ranks ||
      (old && targets == max_ranks) || blocks == 0)
    return Error::invalid_value;
  Plan plan = plan_of(op, element);
  Kernel kernel;
  if (Error error = find_reduce(device, plan, &kernel); error != Error::none) return error;

  Buffers from_all{}, to_all{};
  ReduceWork work{};
  work.sources = 1;
  if (count && targets) {
    if (op == ReduceOp::replace) std::tie(from, sources) = std::tuple(from + sources - 1, 1);
    std::transform(from, from + sources, from_all.at, [](const void* p) { return const_cast<void*>(p); });
    std::copy_n(to, targets, to_all.at);
    work.count = count * plan.elements_per_element;
    work.sources = static_cast<unsigned>(sources);
    work.targets = static_cast<unsigned>(targets);
    work.keeps_old = old != nullptr;
    if (old) to_all.at[targets] = old;
    divide(traits_of(plan.element), &work, from_all, to_all);
  }
  uint64_t in_vectors = work.vectors * (vector_bytes / element_bytes(plan.element));
  return launch(kernel, blocks, work.vectors + work.count - in_vectors, &from_all, &to_all, &work, signal,
                exchange, stream);
}

Error launch_copies(int device, Stream stream, const device::CopyItem* items, size_t count, unsigned blocks,
                    Signal signal, const Exchange* exchange) {
  if (!device::runtime()) return Error::not_initialized;
  if (count > max_copies || blocks == 0) return Error::invalid_value;
  Kernel kernel;
  if (Error error = find_copies(device, &kernel); error != Error::none) return error;

  CopyBuffers to{}, from{};
  CopyWork work{};
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) total += items[i].bytes;
  uint64_t vectors = (total + vector_bytes - 1) / vector_bytes;
  uint64_t useful = std::max<uint64_t>((vectors + threads_per_block - 1) / threads_per_block, 1);
  uint64_t shares = std::min<uint64_t>(blocks, useful);
  work.share = std::max<uint64_t>((vectors + shares - 1) / shares, 1) * vector_bytes;
  unsigned used = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!items[i].bytes) continue;
    to.at[used] = items[i].to;
    from.at[used] = const_cast<void*>(items[i].from);
    work.bytes[used] = items[i].bytes;
    work.ends[used++] = work.groups += static_cast<unsigned>((items[i].bytes + work.share - 1) / work.share);
  }
  work.threads = threads_of_group(items, count, shares);
  return launch(kernel, std::max(work.groups, 1u), uint64_t{work.groups} * work.threads, &to, &from, &work,
                signal, exchange, stream);
}

Error launch_swap(int device, Stream stream, void* target, const void* compare, const void* wanted, void* old,
                  unsigned bytes, Signal signal) {
  if (!device::runtime()) return Error::not_initialized;
  if (bytes > swapped_bytes_at_most) return Error::invalid_value;
  Kernel kernel;
  if (Error error = find_swap(device, &kernel); error != Error::none) return error;
  SwapBuffers buffers{{target, const_cast<void*>(compare), const_cast<void*>(wanted), old}};
  void* arguments[] = {&buffers, &bytes, &signal};
  return device::runtime()->launch(kernel, 1, 1, arguments, stream);
}

}  // namespace fairlead::kernels
