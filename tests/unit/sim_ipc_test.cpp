// SPDX-License-Identifier: Apache-2.0
// Device memory of another process: shared both ways while it lives, refused or poisoned when it does not.

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "sim_fixture.h"

namespace fairlead::device {
namespace {

class SimIpc : public SimTest {
 protected:
  // The exporter sees none of the faults that the importer is tested under.
  void SetUp() override {
    int commands[2], answers[2];
    ASSERT_EQ(pipe(commands), 0);
    ASSERT_EQ(pipe(answers), 0);
    exporter_ = fork();
    if (exporter_ == 0) {
      dup2(commands[0], STDIN_FILENO);
      dup2(answers[1], STDOUT_FILENO);
      for (int fd : {commands[0], commands[1], answers[0], answers[1]}) close(fd);
      unsetenv("FAIRLEAD_SIM_IPC");
      execl(EXPORTER, EXPORTER, nullptr);
      _exit(127);
    }
    close(commands[0]);
    close(answers[1]);
    to_ = commands[1];
    from_ = answers[0];
  }
  void TearDown() override {
    close(to_);
    close(from_);
    int status = 0;
    EXPECT_EQ(waitpid(exporter_, &status, 0), exporter_);
    EXPECT_EQ(status, 0) << "the exporting process failed";
  }

  void ask(char command, unsigned char value, void* answer, size_t size) {
    unsigned char line[] = {static_cast<unsigned char>(command), value};
    ASSERT_EQ(write(to_, line, 2), 2);
    ASSERT_EQ(::read(from_, answer, size), static_cast<ssize_t>(size));
  }
  IpcHandle exported(unsigned char value) {
    IpcHandle handle{};
    ask('a', value, &handle, sizeof handle);
    return handle;
  }
  unsigned char exporter_reads(unsigned char hundreds) {
    unsigned char byte = 0;
    ask('r', hundreds, &byte, 1);
    return byte;
  }
  void exporter_frees() {
    unsigned char byte;
    ask('f', 0, &byte, 1);
  }
  char* imported(const IpcHandle& handle, int device = 0) {
    void* base = nullptr;
    EXPECT_EQ(gpu.ipc_import(device, handle, &base), Error::none) << gpu.error_text();
    return static_cast<char*>(base);
  }

  pid_t exporter_ = 0;
  int to_ = -1, from_ = -1;
};
using SimIpcDeathTest = SimIpc;

TEST_F(SimIpc, bytes_travel_both_ways) {
  char* base = imported(exported(17));
  EXPECT_EQ(read(base + 99999, 1)[0], 17);
  fill(base + 500, 18, 100);
  EXPECT_EQ(exporter_reads(5), 18);
  EXPECT_EQ(exporter_reads(6), 17);
  Allocation found = query(base + 99999);
  EXPECT_EQ(found.kind, MemoryKind::device);
  EXPECT_FALSE(found.exportable);
  EXPECT_EQ(found.size, 100000u);
  EXPECT_NE(gpu.cpu_mapping(base, 100000), nullptr);
  EXPECT_EQ(gpu.free(base), Error::invalid_value);
  ASSERT_EQ(gpu.ipc_close(base), Error::none);
  EXPECT_EQ(query(base).kind, MemoryKind::host);
  EXPECT_EQ(gpu.ipc_close(base), Error::invalid_value);
}

TEST_F(SimIpcDeathTest, imported_memory_cannot_be_dereferenced) {
  GTEST_FLAG_SET(death_test_style, "fast");
  volatile char* base = imported(exported(1));
  EXPECT_DEATH((void)base[0], "");
}

TEST_F(SimIpc, second_import_is_already_mapped_until_closed) {
  IpcHandle handle = exported(1);
  char* base = imported(handle);
  void* again = nullptr;
  EXPECT_EQ(gpu.ipc_import(0, handle, &again), Error::already_mapped);
  ASSERT_EQ(gpu.ipc_close(base), Error::none);
  EXPECT_NE(imported(handle, 1), nullptr);
}

TEST_F(SimIpc, memory_freed_by_its_owner_shows_poison_and_its_handle_is_stale) {
  IpcHandle handle = exported(17);
  char* base = imported(handle);
  exporter_frees();
  EXPECT_EQ(read(base, 1)[0], 0xDB);
  EXPECT_EQ(read(base + 99999, 1)[0], 0xDB);
  ASSERT_EQ(gpu.ipc_close(base), Error::none);
  void* again = nullptr;
  EXPECT_EQ(gpu.ipc_import(0, handle, &again), Error::invalid_value);
  EXPECT_NE(strstr(gpu.error_text(), "stale"), nullptr) << gpu.error_text();

  // The new block takes the old one's address and descriptor; the old handle must not reach it.
  IpcHandle fresh = exported(18);
  EXPECT_EQ(gpu.ipc_import(0, handle, &again), Error::invalid_value);
  EXPECT_EQ(read(imported(fresh), 1)[0], 18);
}

TEST_F(SimIpc, own_and_damaged_handles_are_refused) {
  IpcHandle handle;
  void* base = nullptr;
  char* own = device_memory(4096);
  ASSERT_EQ(gpu.ipc_export(own, &handle), Error::none);
  EXPECT_EQ(gpu.ipc_import(0, handle, &base), Error::invalid_value);
  EXPECT_EQ(gpu.ipc_export(own + 1, &handle), Error::invalid_value);
  EXPECT_EQ(gpu.ipc_export(&handle, &handle), Error::invalid_value);
  for (size_t at = 0; at < 32; ++at) {
    handle = exported(1);
    handle.bytes[at] ^= 1;
    EXPECT_NE(gpu.ipc_import(0, handle, &base), Error::none) << "damaged byte " << at;
    exporter_frees();
  }
}

TEST_F(SimIpc, pool_memory_has_no_handle) {
  void* pool = nullptr;
  IpcHandle handle;
  ASSERT_EQ(gpu.allocate_from_pool(0, 4096, &pool), Error::none);
  EXPECT_EQ(query(pool).kind, MemoryKind::device);
  EXPECT_FALSE(query(pool).exportable);
  EXPECT_EQ(gpu.ipc_export(pool, &handle), Error::invalid_value);
}

TEST_F(SimIpc, copy_in_flight_when_its_import_is_closed_fails_or_had_happened) {
  char* base = imported(exported(17));
  unsigned char seen = 0;
  Stream on = stream();
  ASSERT_EQ(gpu.copy(&seen, base, 1, on), Error::none);
  ASSERT_EQ(gpu.ipc_close(base), Error::none);
  Error error = gpu.synchronize_stream(on);
  EXPECT_TRUE(error == Error::failed || (error == Error::none && seen == 17));
}

TEST_F(SimIpc, needs_no_export_exports_are_refused) {
  IpcHandle handle;
  char* own = device_memory(4096);
  EXPECT_TRUE(query(own).exportable);
  EXPECT_EQ(gpu.ipc_export(own, &handle), Error::not_supported);
}

TEST_F(SimIpc, needs_no_import_imports_are_refused) {
  void* base = nullptr;
  EXPECT_EQ(gpu.ipc_import(0, exported(17), &base), Error::not_supported);
}

TEST_F(SimIpc, needs_corrupt_imports_show_other_bytes) {
  char* base = imported(exported(17));
  EXPECT_EQ(query(base).size, 100000u);
  EXPECT_NE(read(base, 1)[0], 17);
  EXPECT_NE(read(base + 99999, 1)[0], 17);
  fill(base, 99, 100000);
  EXPECT_EQ(exporter_reads(0), 17);
  ASSERT_EQ(gpu.ipc_close(base), Error::none);
}

TEST_F(SimIpc, needs_no_peers_only_the_same_device_can_import) {
  IpcHandle handle = exported(17);
  void* base = nullptr;
  EXPECT_EQ(gpu.ipc_import(1, handle, &base), Error::peer_unavailable);
  EXPECT_EQ(read(imported(handle, 0), 1)[0], 17);
}

}  // namespace
}  // namespace fairlead::device
