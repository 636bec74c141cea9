// SPDX-License-Identifier: Apache-2.0

#include "device/program/calls.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace fairlead::device::program {
namespace {

void add_words(const unsigned char* bytes, size_t size, Access access, std::vector<Touched>* touched) {
  for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
    uintptr_t word;
    std::memcpy(&word, bytes + at, sizeof word);
    if (word > 4096) touched->push_back({word, 0, access});
  }
}

// Compilers make the symbols of static functions unique by a suffix behind a dot (-fgpu-rdc).
std::string readable(const char* symbol) {
  int status = 0;
  const std::string mangled(symbol, std::strcspn(symbol, "."));
  char* demangled = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = demangled ? demangled : symbol;
  std::free(demangled);
  return name;
}

// All parameters in one buffer.
struct PackedValues {
  const unsigned char* bytes = nullptr;
  size_t size = SIZE_MAX;

  // CU_LAUNCH_PARAM_END is 0, HIP_LAUNCH_PARAM_END is 3; the others have the same values.
  explicit PackedValues(void** packed) {
    constexpr uintptr_t pointer = 1, length = 2;
    for (; packed; packed += 2) {
      const auto what = reinterpret_cast<uintptr_t>(packed[0]);
      if (what != pointer && what != length) return;
      if (what == pointer) bytes = static_cast<const unsigned char*>(packed[1]);
      if (what == length) size = *static_cast<const size_t*>(packed[1]);
    }
  }
};

}  // namespace

Work copy_2d(const Copy2d& what) {
  const size_t rows = what.height ? what.height - 1 : 0;
  const size_t pitch = std::max(what.to.pitch, what.from.pitch);
  return copy(what.to.first(), what.from.first(), what.height ? rows * pitch + what.width : 0, true);
}

void copied(const StreamKey& stream, Work copy, bool reading_waits) {
  copy.host_waits = std::any_of(copy.touched.begin(), copy.touched.end(), [=](const Touched& touched) {
    return (reading_waits || touched.access == Access::writes) &&
           may_be_pageable(reinterpret_cast<const void*>(touched.address));
  });
  submitted(stream, std::move(copy));
}

// Each thread has a default stream of its own: an address tells which.
StreamKey key_of(Stream stream, const void* context, bool null_is_of_thread) {
  static thread_local char mine;
  const auto value = reinterpret_cast<uintptr_t>(stream);
  if (value > 2) return {nullptr, stream};
  if (value == 2 || (value == 0 && null_is_of_thread)) return {&mine, reinterpret_cast<Stream>(2)};
  return {context, nullptr};
}

std::string kernel_name(const char* symbol) {
  return "kernel " + readable(*symbol ? symbol : "(without a name)");
}

Work kernel(const char* symbol, const std::vector<Parameter>& parameters, void** values, void** packed) {
  Work work{.name = kernel_name(symbol), .touched = {}};
  const std::vector<Access> accesses = accesses_of(symbol);
  const PackedValues buffer(packed);
  for (size_t index = 0; index < parameters.size(); ++index) {
    const auto [offset, size, known] = parameters[index];
    const Access by_name = index < accesses.size() ? accesses[index] : Access::unknown;
    const Access access = known == Access::unknown ? by_name : known;
    if (values)
      add_words(static_cast<const unsigned char*>(values[index]), size, access, &work.touched);
    else if (buffer.bytes && offset <= buffer.size && size <= buffer.size - offset)
      add_words(buffer.bytes + offset, size, access, &work.touched);
  }
  return work;
}

std::vector<Access> accesses_of(const char* symbol) {
  std::vector<Access> accesses;
  const std::string name = readable(symbol);
  if (name.empty() || name.back() != ')') return accesses;
  size_t begin = name.size();
  for (int depth = 0; begin > 0;) {
    const char at = name[--begin];
    depth += at == ')' ? 1 : at == '(' ? -1 : 0;
    if (depth == 0) break;
  }
  std::string parameter;
  int depth = 0;
  for (size_t at = begin + 1; at < name.size(); ++at) {
    const bool last = at + 1 == name.size();
    if (last || (name[at] == ',' && depth == 0)) {
      accesses.push_back(parameter.ends_with(" const*") || parameter.ends_with(" const* const")
                             ? Access::reads
                             : Access::unknown);
      parameter.clear();
      continue;
    }
    depth += strchr("<([", name[at]) ? 1 : strchr(">)]", name[at]) ? -1 : 0;
    parameter += name[at];
  }
  return accesses;
}

}  // namespace fairlead::device::program
