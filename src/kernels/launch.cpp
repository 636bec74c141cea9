// SPDX-License-Identifier: Apache-2.0
//
// The host side of reduce.h: which kernel does it, how elements fall into vectors and single ones, and the
// launch. Kernels are looked up once per device.

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "base/sparingly.h"
#include "kernels/module.h"
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

static_assert(reduce_buffers == max_ranks && copy_items_at_most == max_copies);
static_assert(2 * sizeof(CopyBuffers) + sizeof(CopyWork) + 3 * sizeof(void*) <= 4096, "CUDA's limit");

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

// What a kernel is told to do, where several operations or elements share one.
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
    // Of one source any kernel makes a copy.
    if (family == ElementFamily::pair) return {ReduceOp::minloc, element};
    return {ReduceOp::bor, unsigned_of(bytes), bytes > 8 ? bytes / 8 : 1};
  }
  bool numbers_have_signs = group_of(op) == Group::order || family == ElementFamily::floating ||
                            family == ElementFamily::complex || family == ElementFamily::pair;
  return {op, numbers_have_signs ? element : unsigned_of(bytes)};
}

// Loads a module for a device at the first look for one of its kernels, or later if the device has work then.
class KernelTable {
 public:
  Error find_reduce(int device, const Plan& plan, Kernel* kernel) {
    for (const auto& module : modules) {
      if (module.group != group_of(plan.op) || module.element != plan.element) continue;
      return find(
          device, module.images,
          [&] { return std::string("reduce_") + to_string(plan.op) + "_" + to_string(plan.element); },
          static_cast<int>(plan.op), kernel);
    }
    return Error::invalid_value;
  }

  Error find_copies(int device, Kernel* kernel) {
    return find(
        device, copies, [] { return std::string("copy_items"); }, 0, kernel);
  }

  void load_missed() {
    if (!any_missed_.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(mutex_);
    if (!look_again_.due()) return;
    std::erase_if(missed_, [&](const auto& missed) {
      const auto& [key, name] = missed;
      return load(key, name, &kernels_[key]) != Error::not_ready;
    });
    any_missed_ = !missed_.empty();
  }

 private:
  using Images = ModuleImages (*)();
  using Key = std::tuple<int, Images, int>;  // the device, and which kernel of which module

  template <class Name>
  Error find(int device, Images images, Name name, int number, Kernel* kernel) {
    std::lock_guard lock(mutex_);
    Key key{device, images, number};
    auto [entry, added] = kernels_.try_emplace(key, nullptr);
    if (!entry->second && missed_.contains(key) && !look_again_.due()) return Error::not_ready;
    Error error = entry->second ? Error::none : load(key, name(), &entry->second);
    if (error == Error::not_ready) {
      if (missed_.try_emplace(key, name()).second)
        log_line(LogLevel::info, "device %d is busy: %s is loaded when it is not", device, name().c_str());
      any_missed_ = true;
    }
    *kernel = entry->second;
    return error;
  }

  Error load(const Key& key, const std::string& name, Kernel* kernel) {
    auto [device, images, number] = key;
    if (Error error = device::runtime()->query_device(device); error != Error::none) return error;
    const std::vector<device::CodeImage>& code = code_of(images);
    return device::runtime()->find_kernel(device, code.data(), code.size(), name.c_str(), kernel);
  }

  // A runtime knows what it has loaded by the address of the images.
  const std::vector<device::CodeImage>& code_of(Images images) {
    auto [entry, added] = code_.try_emplace(images);
    if (added) {
      auto [first, count] = images();
      for (const auto* image = first; image != first + count; ++image)
        entry->second.push_back({image->target, image->bytes, image->size});
    }
    return entry->second;
  }

  std::mutex mutex_;
  std::map<Images, std::vector<device::CodeImage>> code_;
  std::map<Key, Kernel> kernels_;
  std::map<Key, std::string> missed_;  // with their names
  std::atomic<bool> any_missed_ = false;
  Sparingly look_again_;
};

KernelTable& kernel_table() {
  static auto* table = new KernelTable;  // threads may outlive static objects
  return *table;
}

uintptr_t number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// Elements up to the first that starts a vector, and the vectors, if all buffers have them in the same place.
void divide(const ElementTraits& element, ReduceWork* work, const Buffers& from, const Buffers& to) {
  uintptr_t together = number(from.at[0]), apart = 0;
  auto look_at = [&](const void* address) {
    apart |= (number(address) ^ together) % vector_bytes;
    if (number(address) % element.alignment) work->aligned = false;
  };
  work->aligned = true;
  std::for_each_n(from.at, work->sources, look_at);
  std::for_each_n(to.at, work->targets, look_at);
  uintptr_t to_boundary = -together % vector_bytes;
  if (!work->aligned || apart || to_boundary % element.bytes || element.family == ElementFamily::pair) {
    work->head = work->count;
    return;
  }
  work->head = std::min<uint64_t>(to_boundary / element.bytes, work->count);
  work->vectors = (work->count - work->head) / (vector_bytes / element.bytes);
}

Error launch(Kernel kernel, unsigned blocks, uint64_t threads, void* first, void* second, void* work,
             const Signal& signal, Stream stream) {
  uint64_t useful = (threads + threads_per_block - 1) / threads_per_block;
  auto grid = static_cast<unsigned>(std::clamp<uint64_t>(blocks, 1, std::max<uint64_t>(useful, 1)));
  Signal values = signal;
  void* arguments[] = {first, second, work, &values.counter, &values.flag, &values.value};
  return device::runtime()->launch(kernel, grid, threads_per_block, arguments, stream);
}

}  // namespace

bool copies_available(int device) {
  Kernel kernel;
  return device::runtime() && kernel_table().find_copies(device, &kernel) == Error::none;
}

bool reduce_available(int device, ReduceOp op, Element element) {
  Kernel kernel;
  return device::runtime() && has_kernel(op, element) &&
         kernel_table().find_reduce(device, plan_of(op, element), &kernel) == Error::none;
}

void load_missed_code() {
  kernel_table().load_missed();
}

Error launch_reduce(int device, Stream stream, ReduceOp op, Element element, const void* const* from,
                    int sources, void* const* to, int targets, uint64_t count, unsigned blocks,
                    const Signal& signal) {
  if (!device::runtime()) return Error::not_initialized;
  if (!has_kernel(op, element) || sources < 1 || sources > max_ranks || targets < 0 || targets > max_ranks ||
      blocks == 0)
    return Error::invalid_value;
  Plan plan = plan_of(op, element);
  Kernel kernel;
  if (Error error = kernel_table().find_reduce(device, plan, &kernel); error != Error::none) return error;

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
    divide(traits_of(plan.element), &work, from_all, to_all);
  }
  uint64_t in_vectors = work.vectors * (vector_bytes / element_bytes(plan.element));
  return launch(kernel, blocks, work.vectors + work.count - in_vectors, &from_all, &to_all, &work, signal,
                stream);
}

Error launch_copies(int device, Stream stream, const device::CopyItem* items, size_t count, unsigned blocks,
                    const Signal& signal) {
  if (!device::runtime()) return Error::not_initialized;
  if (count > max_copies || blocks == 0) return Error::invalid_value;
  Kernel kernel;
  if (Error error = kernel_table().find_copies(device, &kernel); error != Error::none) return error;

  CopyBuffers to{}, from{};
  CopyWork work{};
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) total += items[i].bytes;
  uint64_t vectors = (total + vector_bytes - 1) / vector_bytes;
  uint64_t useful = std::max<uint64_t>((vectors + threads_per_block - 1) / threads_per_block, 1);
  uint64_t shares = std::min<uint64_t>(blocks, useful);
  work.share = std::max<uint64_t>((vectors + shares - 1) / shares, 1) * vector_bytes;
  unsigned grid = 0, used = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!items[i].bytes) continue;
    to.at[used] = items[i].to;
    from.at[used] = const_cast<void*>(items[i].from);
    work.bytes[used] = items[i].bytes;
    work.ends[used++] = grid += static_cast<unsigned>((items[i].bytes + work.share - 1) / work.share);
  }
  if (grid == 0) work.ends[0] = grid = 1;  // for the signal alone
  return launch(kernel, grid, uint64_t{grid} * threads_per_block, &to, &from, &work, signal, stream);
}

}  // namespace fairlead::kernels
