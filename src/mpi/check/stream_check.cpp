// SPDX-License-Identifier: Apache-2.0

#include "mpi/check/stream_check.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "base/log.h"
#include "device/runtime.h"
#include "mpi/abi/mutex.h"

namespace fairlead::mpi {
namespace {

// The place in the program that called MPI, identified by the address of the call.
struct CallSite {
  uintptr_t address = 0;
  std::string function = "an MPI function";
  std::string place = "an unknown place";
};

struct Object {
  const void* base = nullptr;
  uintptr_t load_bias = 0;
  const char* file = "";
  const char* symbol = nullptr;
  uintptr_t symbol_address = 0;
};

// Finds the loaded file that contains this code. There may be none: code may be generated at run time.
bool find_object(uintptr_t address, Object* object) {
  Dl_info info;
  link_map* map = nullptr;
  if (!dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP))
    return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  *object = {info.dli_fbase, map->l_addr, slash ? slash + 1 : info.dli_fname, info.dli_sname,
             reinterpret_cast<uintptr_t>(info.dli_saddr)};
  return true;
}

// Returns "program+0x1234", which addr2line -e program 0x1234 translates to a source line; if the name of the
// function is known, "function+0x12 (library.so+0x1234)".
std::string describe(uintptr_t address, const Object& object) {
  char text[512];
  auto offset = [&](uintptr_t from) { return static_cast<unsigned long>(address - from); };
  if (object.symbol)
    std::snprintf(text, sizeof text, "%s+0x%lx (%s+0x%lx)", object.symbol, offset(object.symbol_address),
                  object.file, offset(object.load_bias));
  else
    std::snprintf(text, sizeof text, "%s+0x%lx", object.file, offset(object.load_bias));
  return text;
}

// In a Fortran program, libmpifort or libmpichfort calls Fairlead.
bool belongs_to_mpi(const Object& object) {
  return std::strncmp(object.file, "libmpi", 6) == 0;
}

CallSite find_call_site() {
  CallSite site;
  Object own;
  find_object(reinterpret_cast<uintptr_t>(&find_call_site), &own);
  void* frames[64];
  int depth = backtrace(frames, 64);
  for (int i = 0; i < depth; ++i) {
    // The frame contains the return address, which may belong to the next line or the next function.
    uintptr_t address = reinterpret_cast<uintptr_t>(frames[i]) - 1;
    Object object;
    bool found = find_object(address, &object);
    if (found && object.base == own.base) {
      // The last such frame is the function that the program called. Fairlead's other functions have no
      // dynamic symbol.
      if (object.symbol) site.function = object.symbol;
      continue;
    }
    if (found && belongs_to_mpi(object)) continue;
    site.address = address;
    if (found) {
      site.place = describe(address, object);
    } else {
      char text[32];
      std::snprintf(text, sizeof text, "0x%lx", static_cast<unsigned long>(address));
      site.place = text;
    }
    break;
  }
  return site;
}

// Is this place new, and is the limit of named places not reached?
bool note(uintptr_t address) {
  constexpr size_t named = 64;
  static Mutex mutex;
  static auto* known = new std::set<uintptr_t>;
  std::lock_guard lock(mutex);
  if (known->size() > named || !known->insert(address).second) return false;
  if (known->size() <= named) return true;
  log_line(LogLevel::warn,
           "device buffers are passed to MPI while work is in flight at more than %zu places: "
           "further ones are not named",
           named);
  return false;
}

}  // namespace

void detail::check_streams(int device, BufferUse use) {
  if (device < 0 || device::runtime()->query_application(device) != device::Error::not_ready) return;
  CallSite site = find_call_site();
  if (!note(site.address)) return;
  bool sent = use == BufferUse::sent;
  log_line(LogLevel::warn,
           "%s at %s %s a buffer of device %d while work of this program is in flight there, which may still "
           "%s it; synchronise the stream that %s the buffer before the call: cudaStreamSynchronize, "
           "hipStreamSynchronize",
           site.function.c_str(), site.place.c_str(), sent ? "sends" : "receives into", device,
           sent ? "write" : "read or write", sent ? "produces" : "uses");
}

}  // namespace fairlead::mpi
