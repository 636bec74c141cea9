// SPDX-License-Identifier: Apache-2.0
// Device memory of another process: shared both ways while it lives, refused or poisoned when it does not.

#include "sim/sim_exporter.h"

namespace fairlead::device {
namespace {

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
  ASSERT_EQ(gpu.ipc_close(0, base), Error::none);
  EXPECT_EQ(query(base).kind, MemoryKind::host);
  EXPECT_EQ(gpu.ipc_close(0, base), Error::invalid_value);
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
  EXPECT_EQ(gpu.ipc_import(0, handle, -1, &again), Error::already_mapped);
  ASSERT_EQ(gpu.ipc_close(0, base), Error::none);
  EXPECT_NE(imported(handle), nullptr);
}

TEST_F(SimIpc, each_device_imports_for_itself) {
  IpcHandle handle = exported(17);
  char* first = imported(handle, 0);
  char* second = imported(handle, 1);
  EXPECT_NE(first, second);
  unsigned char seen = 0;
  Stream on = stream(1);
  EXPECT_EQ(gpu.copy(&seen, first, 1, on), Error::peer_unavailable);
  ASSERT_EQ(gpu.copy(&seen, second, 1, on), Error::none);
  ASSERT_EQ(gpu.synchronize_stream(on), Error::none);
  EXPECT_EQ(seen, 17);
  EXPECT_EQ(gpu.ipc_close(1, first), Error::invalid_value);
  ASSERT_EQ(gpu.ipc_close(0, first), Error::none);
  ASSERT_EQ(gpu.ipc_close(1, second), Error::none);
}

TEST_F(SimIpc, memory_freed_by_its_owner_shows_poison_and_its_handle_is_stale) {
  IpcHandle handle = exported(17);
  char* base = imported(handle);
  exporter_frees();
  EXPECT_EQ(read(base, 1)[0], 0xDB);
  EXPECT_EQ(read(base + 99999, 1)[0], 0xDB);
  ASSERT_EQ(gpu.ipc_close(0, base), Error::none);
  void* again = nullptr;
  EXPECT_EQ(gpu.ipc_import(0, handle, -1, &again), Error::invalid_value);
  EXPECT_NE(strstr(gpu.error_text(), "stale"), nullptr) << gpu.error_text();

  // The new block takes the old one's address and descriptor; the old handle must not reach it.
  IpcHandle fresh = exported(18);
  EXPECT_EQ(gpu.ipc_import(0, handle, -1, &again), Error::invalid_value);
  EXPECT_EQ(read(imported(fresh), 1)[0], 18);
}

TEST_F(SimIpc, own_and_damaged_handles_are_refused) {
  IpcHandle handle;
  int file = -1;
  void* base = nullptr;
  char* own = device_memory(4096);
  ASSERT_EQ(gpu.ipc_export(own, &handle, &file), Error::none);
  EXPECT_EQ(gpu.ipc_import(0, handle, -1, &base), Error::invalid_value);
  EXPECT_EQ(gpu.ipc_export(own + 1, &handle, &file), Error::invalid_value);
  EXPECT_EQ(gpu.ipc_export(&handle, &handle, &file), Error::invalid_value);
  // The process ID behind the seal with another bit may be the number of a thread of the same process.
  constexpr size_t seal_bytes = 24;
  for (size_t at = 0; at < seal_bytes; ++at) {
    handle = exported(1);
    handle.bytes[at] ^= 1;
    EXPECT_NE(gpu.ipc_import(0, handle, -1, &base), Error::none) << "damaged byte " << at;
    exporter_frees();
  }
}

TEST_F(SimIpc, virtual_memory_is_shared_piece_by_piece_with_a_file) {
  int file = -1, second_file = -1;
  IpcHandle first = exported_piece(0, &file), second = exported_piece(1, &second_file);
  void *base = nullptr, *next = nullptr;
  EXPECT_EQ(gpu.ipc_import(0, first, -1, &base), Error::invalid_value);
  EXPECT_EQ(gpu.ipc_import(0, exported(1), file, &base), Error::invalid_value);
  exporter_frees();
  ASSERT_EQ(gpu.ipc_import(0, second, second_file, &next), Error::none) << gpu.error_text();
  ASSERT_EQ(gpu.ipc_import(0, first, file, &base), Error::none) << gpu.error_text();
  close(file);
  EXPECT_EQ(query(base).size, 327680u);
  EXPECT_EQ(query(next).size, 380000u - 327680u);
  EXPECT_EQ(read(base, 327680), std::vector<unsigned char>(327680, 'v'));
  EXPECT_EQ(read(next, 380000 - 327680), std::vector<unsigned char>(380000 - 327680, 'v' + 1));
  ASSERT_EQ(gpu.ipc_close(0, base), Error::none);
  unsigned char freed = 0;
  ask('w', 0, &freed, 1);
  EXPECT_EQ(read(next, 1)[0], 0xDB);
  ASSERT_EQ(gpu.ipc_close(0, next), Error::none);
  EXPECT_EQ(gpu.ipc_import(0, second, second_file, &next), Error::invalid_value) << "freed";
  close(second_file);
}

TEST_F(SimIpc, pool_memory_has_no_handle) {
  void* pool = nullptr;
  IpcHandle handle;
  int file = -1;
  ASSERT_EQ(gpu.allocate_from_pool(0, 4096, &pool), Error::none);
  EXPECT_EQ(query(pool).kind, MemoryKind::device);
  EXPECT_FALSE(query(pool).exportable);
  EXPECT_EQ(gpu.ipc_export(pool, &handle, &file), Error::invalid_value);
}

TEST_F(SimIpc, copy_in_flight_when_its_import_is_closed_fails_or_had_happened) {
  char* base = imported(exported(17));
  unsigned char seen = 0;
  Stream on = stream();
  ASSERT_EQ(gpu.copy(&seen, base, 1, on), Error::none);
  ASSERT_EQ(gpu.ipc_close(0, base), Error::none);
  Error error = gpu.synchronize_stream(on);
  EXPECT_TRUE(error == Error::failed || (error == Error::none && seen == 17));
}

TEST_F(SimIpc, needs_no_export_exports_are_refused) {
  IpcHandle handle;
  int file = -1;
  char* own = device_memory(4096);
  EXPECT_TRUE(query(own).exportable);
  EXPECT_EQ(gpu.ipc_export(own, &handle, &file), Error::not_supported);
}

TEST_F(SimIpc, needs_no_import_imports_are_refused) {
  void* base = nullptr;
  EXPECT_EQ(gpu.ipc_import(0, exported(17), -1, &base), Error::not_supported);
}

TEST_F(SimIpc, needs_corrupt_imports_show_other_bytes) {
  char* base = imported(exported(17));
  EXPECT_EQ(query(base).size, 100000u);
  EXPECT_NE(read(base, 1)[0], 17);
  EXPECT_NE(read(base + 99999, 1)[0], 17);
  fill(base, 99, 100000);
  EXPECT_EQ(exporter_reads(0), 17);
  ASSERT_EQ(gpu.ipc_close(0, base), Error::none);
}

TEST_F(SimIpc, needs_a_missing_pair_only_that_pair_cannot_import) {
  IpcHandle handle = exported(17);
  void* base = nullptr;
  bool possible = false;
  EXPECT_EQ(gpu.ipc_import(1, handle, -1, &base), Error::peer_unavailable);
  EXPECT_EQ(gpu.ipc_import(2, handle, -1, &base), Error::none) << gpu.error_text();
  ASSERT_EQ(gpu.can_access_peer(1, 0, &possible), Error::none);
  EXPECT_FALSE(possible);
  ASSERT_EQ(gpu.can_access_peer(3, 2, &possible), Error::none);
  EXPECT_FALSE(possible);
  ASSERT_EQ(gpu.can_access_peer(1, 2, &possible), Error::none);
  EXPECT_TRUE(possible);
}

TEST_F(SimIpc, needs_wrong_peers_only_other_devices_show_other_bytes) {
  IpcHandle handle = exported(17);
  EXPECT_EQ(read(imported(handle, 0), 1)[0], 17);
  unsigned char seen = 17;
  Stream on = stream(1);
  ASSERT_EQ(gpu.copy(&seen, imported(handle, 1), 1, on), Error::none) << gpu.error_text();
  ASSERT_EQ(gpu.synchronize_stream(on), Error::none);
  EXPECT_NE(seen, 17);
}

TEST_F(SimIpc, needs_no_peers_only_the_same_device_can_import) {
  IpcHandle handle = exported(17);
  void* base = nullptr;
  EXPECT_EQ(gpu.ipc_import(1, handle, -1, &base), Error::peer_unavailable);
  EXPECT_EQ(read(imported(handle, 0), 1)[0], 17);
}

}  // namespace
}  // namespace fairlead::device
