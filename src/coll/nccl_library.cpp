// SPDX-License-Identifier: Apache-2.0

#include "coll/nccl_library.h"

#include <dlfcn.h>

#include <memory>
#include <string_view>

#include "base/environment.h"
#include "base/options.h"
#include "device/runtime.h"

namespace fairlead::coll {
namespace {

const NcclLibrary* in_use = nullptr;
NcclAbilities abilities;

constexpr int first_for_threads = 22800, first_for_shared_gpus = 23000;

// Empty if there is no library for this GPU.
std::string file_name() {
  if (options().nccl != "auto") return options().nccl;
  std::string provider = device::runtime() ? device::runtime()->name() : "none";
  return provider == "cuda" ? "libnccl.so.2" : provider == "rocm" ? "librccl.so.1" : "";
}

struct Opened {
  const NcclLibrary* library = nullptr;
  std::string why_not = {};
};

Opened open() {
  std::string file = file_name();
  if (file == "off") return {nullptr, "FAIRLEAD_NCCL is off"};
  if (file.empty())
    return {nullptr, "there is none for this GPU; set FAIRLEAD_NCCL to the path of a library that is"};
  Opened opened;
  opened.library = load_nccl(file, &opened.why_not);
  if (!opened.library) opened.why_not += "; set FAIRLEAD_NCCL to the path of libnccl.so.2";
  return opened;
}

}  // namespace

const NcclLibrary* load_nccl(const std::string& file, std::string* why_not) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    *why_not = dlerror();
    return nullptr;
  }
  auto made = std::make_unique<NcclLibrary>();
  const char* missing = nullptr;
#define FAIRLEAD_NCCL_FUNCTION(member, symbol, ...) \
  if (!made->member.bind(handle)) missing = #symbol;
#define FAIRLEAD_NCCL_OPTIONAL(member, ...) made->member.bind(handle);
#include "coll/nccl_functions.def"
#undef FAIRLEAD_NCCL_OPTIONAL
#undef FAIRLEAD_NCCL_FUNCTION
  if (missing) {
    *why_not = file + " has no " + missing + "; NCCL 2.14 or later is needed";
    return nullptr;
  }
  made->version(&made->number);
  const int version = made->number;
  made->name = (file.find("rccl") == std::string::npos ? "NCCL " : "RCCL ") +
               std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
               std::to_string(version % 100);
  return made.release();
}

std::string NcclLibrary::describe(Result result) const {
  const char* last = last_error(nullptr);
  return std::string(error_string(result)) + (last && *last ? std::string(": ") + last : "");
}

const NcclLibrary* open_nccl(std::string* why_not) {
  static const Opened& once = *new Opened(open());
  *why_not = once.why_not;
  return once.library;
}

const NcclLibrary* nccl() {
  return in_use;
}

NcclAbilities abilities_of(const NcclLibrary& library) {
  const char* allowed = environment_variable("NCCL_MULTI_RANK_GPU_ENABLE");
  return {library.number,
          library.number >= first_for_shared_gpus && allowed && std::string_view(allowed) == "1"};
}

void use_nccl(const NcclLibrary* library, NcclAbilities of_all) {
  in_use = library;
  abilities = of_all;
}

bool nccl_serves_threads() {
  return abilities.number >= first_for_threads;
}

bool nccl_shares_gpus() {
  return abilities.shared_gpus;
}

}  // namespace fairlead::coll
