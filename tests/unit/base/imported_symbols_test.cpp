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

// Returns what the reference of an object, by default this program, held.
void* replace(const char* name, void* by, const void* object = &in_this_program) {
  void* before = nullptr;
  const bool done =
      LoadedObject(object).for_each_import(LoadedObject::Access::write, [&](const ImportedSymbol& symbol) {
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

TEST(ImportedSymbols, references_of_a_library_with_protected_branches_are_replaced) {
  void* const library = dlopen(PROTECTED, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  auto* const parent = reinterpret_cast<pid_t (*)()>(dlsym(library, "parent"));
  void* const before = replace("getppid", dlsym(library, "replacement"), reinterpret_cast<void*>(parent));
  EXPECT_EQ(parent(), -7);
  replace("getppid", before, reinterpret_cast<void*>(parent));
  EXPECT_EQ(parent(), getppid());
  dlclose(library);
}

TEST(ImportedSymbols, dlsym_is_that_of_the_loader) {
  EXPECT_EQ(loader_dlsym(RTLD_DEFAULT, "getppid"), dlsym(RTLD_DEFAULT, "getppid"));
}
