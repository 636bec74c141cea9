// SPDX-License-Identifier: Apache-2.0
//
// The references of a loaded object (program or library) to functions and data of other objects, and to those
// of its own that another object may define in their place. The loader has stored an address for each; it can
// be read, and replaced by another.

#pragma once

#include <functional>

namespace fairlead {

struct ImportedSymbol {
  const char* name;
  bool weak;
  void** slot;  // holds the address that the object uses
};

// dlsym() itself. Some tools (those that use GOTCHA) replace all references to dlsym(), so that libraries
// find the tool's functions by it.
void* loader_dlsym(void* handle, const char* name);

// Where a loaded object lies in memory.
class LoadedObject {
 public:
  // The object that contains this address; false if there is none.
  explicit LoadedObject(const void* address);
  explicit operator bool() const { return dynamic_ != nullptr; }
  bool contains(const void* address) const;

  // Calls `visit` for each reference, which may write to its slot with Access::write: then no other thread
  // may do the same at the same time. Returns false if the references cannot be read or made writable; then
  // it has visited none.
  enum class Access { read, write };
  bool for_each_import(Access access, const std::function<void(const ImportedSymbol&)>& visit) const;

 private:
  struct Range {
    unsigned long begin = 0, end = 0;
  };
  unsigned long base_ = 0;
  const void* dynamic_ = nullptr;
  Range memory_;
  Range read_only_;  // read-only after relocation
};

}  // namespace fairlead
