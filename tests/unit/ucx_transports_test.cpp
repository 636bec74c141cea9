// SPDX-License-Identifier: Apache-2.0
//
// UCX tells its transports, and whether one of them copies device memory.

#include "mpi/network/ucx_transports.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

using namespace fairlead::mpi::network;

TEST(UcxTransports, only_some_lists_copy_device_memory) {
  for (const char* yes : {"all", "cuda", "cuda_copy", "rc,sm,cuda_copy", "tcp,cuda", "\\rc,\\cuda_copy",
                          "^tcp", "^cuda_ipc,gdr_copy", "^"})
    EXPECT_TRUE(copies_device_memory(yes, "cuda")) << yes;
  for (const char* no : {"", "tcp,sm", "rc,cuda_ipc,gdr_copy", "^cuda", "^tcp,cuda_copy", "rocm_copy"})
    EXPECT_FALSE(copies_device_memory(no, "cuda")) << no;
  EXPECT_TRUE(copies_device_memory("sm,rocm", "rocm"));
  EXPECT_FALSE(copies_device_memory("sm,cuda", "rocm"));
}

TEST(UcxTransports, ucx_tells_them) {
  const char* library = "libucp.so.0";
  EXPECT_EQ(ucx_transports(library, nullptr), "");  // it is not loaded
  void* ucx = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (!ucx) GTEST_SKIP() << "no UCX";
  unsetenv("UCX_TLS");
  EXPECT_EQ(ucx_transports(library, nullptr), "all");
  setenv("UCX_TLS", "tcp,sm", 1);
  EXPECT_EQ(ucx_transports(library, nullptr), "tcp,sm");
  EXPECT_EQ(ucx_transports(library, "MPI"), "tcp,sm");
  setenv("MPI_UCX_TLS", "sm", 1);
  EXPECT_EQ(ucx_transports(library, nullptr), "tcp,sm");
  EXPECT_EQ(ucx_transports(library, "MPI"), "sm");
}
