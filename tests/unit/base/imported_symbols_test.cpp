// SPDX-License-Identifier: Apache-2.0

#include "base/system/imported_symbols.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

using fairlead::ImportedSymbol;
using fairlead::LoadedObject;
using fairlead::loader_dlsym;

namespace {

int in_this_program;

pid_t replacement() {
  return -7;
}

// Returns what the reference of this program held.
void* replace(const char* name, void* by) {
  void* before = nullptr;
  const bool done = LoadedObject(&in_this_program)
                        .for_each_import(LoadedObject::Access::write, [&](const ImportedSymbol& symbol) {
                          if (std::strcmp(symbol.name, name) != 0) return;
                          before = *symbol.slot;
                          *symbol.slot = by;
                        });
  EXPECT_TRUE(done);
  return before;
}

}  // namespace

TEST(ImportedSymbols, references_of_a_program_are_replaced) {
  const pid_t parent = getppid();
  void* const before = replace("getppid", reinterpret_cast<void*>(&replacement));
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(getppid(), -7);
  EXPECT_EQ(replace("getppid", before), reinterpret_cast<void*>(&replacement));
  EXPECT_EQ(getppid(), parent);
}

TEST(ImportedSymbols, dlsym_is_that_of_the_loader) {
  EXPECT_EQ(loader_dlsym(RTLD_DEFAULT, "getppid"), dlsym(RTLD_DEFAULT, "getppid"));
}
