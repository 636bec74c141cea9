// SPDX-License-Identifier: Apache-2.0
// Mappings of memory that its owner has freed and allocated anew.

#include "device/ipc_registry.h"

#include <utility>
#include <vector>

#include "device/blocking_driver_calls.h"
#include "sim/sim_exporter.h"

namespace fairlead::device {
namespace {

constexpr int owner = 3;
constexpr uint64_t base = 0x10000;

class IpcRegistry : public SimIpc {
 protected:
  // The exporter allocates 100 * `hundreds` bytes full of `value`, at the address of the memory that it freed
  // last if that has as many pages.
  RemoteMemory allocated(unsigned char hundreds, unsigned char value) {
    exporter_allocates_hundreds(hundreds);
    return {exported(value), base, hundreds * uint64_t{100}, ++id_, 0, SharedBy::handle};
  }
  void exporter_frees(const RemoteMemory& memory) {
    SimIpc::exporter_frees();
    forget_import(owner, base, memory.id);
  }
  Error import(const RemoteMemory& memory, MappedMemory* mapped) {
    return import_memory(owner, 0, memory, mapped);
  }
  unsigned char last_byte(const RemoteMemory& memory, const MappedMemory& mapped) {
    return read(static_cast<char*>(mapped.address()) + memory.size - 1, 1)[0];
  }
  // From here on streams wait, so nothing can be closed.
  void begin_to_wait() {
    BlockingDriverCalls::exclude();
    waits_ = true;
  }
  void end_to_wait() {
    if (std::exchange(waits_, false)) BlockingDriverCalls::allow();
  }
  void TearDown() override {
    end_to_wait();
    forget_imports(owner);
    close_forgotten(true);
    EXPECT_EQ(registry_counts().mappings, 0u);
    SimIpc::TearDown();
  }

 private:
  uint64_t id_ = 0;
  bool waits_ = false;
};

// The driver maps no memory of another length at the same place.
TEST_F(IpcRegistry, a_mapping_shows_what_is_allocated_there_later) {
  begin_to_wait();
  void* first = nullptr;
  unsigned char value = 17;
  for (unsigned char hundreds : {120, 110, 120, 115}) {
    MappedMemory mapped;
    const RemoteMemory memory = allocated(hundreds, value);
    ASSERT_EQ(import(memory, &mapped), Error::none) << hundreds;
    if (!first) first = mapped.address();
    EXPECT_EQ(mapped.address(), first);
    EXPECT_EQ(last_byte(memory, mapped), value++);
    EXPECT_EQ(registry_counts().mappings, 1u);
    exporter_frees(memory);
  }
}

TEST_F(IpcRegistry, also_while_an_earlier_message_uses_it) {
  MappedMemory earlier, later;
  const RemoteMemory old = allocated(120, 17);
  ASSERT_EQ(import(old, &earlier), Error::none);
  exporter_frees(old);
  const RemoteMemory fresh = allocated(110, 18);
  ASSERT_EQ(import(fresh, &later), Error::none);
  earlier = {};
  close_forgotten(true);
  EXPECT_EQ(last_byte(fresh, later), 18);
}

TEST_F(IpcRegistry, also_if_the_end_of_the_earlier_memory_is_reported_late) {
  MappedMemory earlier, later;
  const RemoteMemory old = allocated(120, 17);
  ASSERT_EQ(import(old, &earlier), Error::none);
  earlier = {};
  SimIpc::exporter_frees();
  const RemoteMemory fresh = allocated(110, 18);
  ASSERT_EQ(import(fresh, &later), Error::none);
  EXPECT_EQ(last_byte(fresh, later), 18);
  later = {};
  forget_import(owner, base, old.id);
  close_forgotten(true);
  EXPECT_EQ(registry_counts().mappings, 1u);
}

TEST_F(IpcRegistry, but_not_what_is_longer) {
  begin_to_wait();
  MappedMemory mapped;
  const RemoteMemory old = allocated(110, 17);
  ASSERT_EQ(import(old, &mapped), Error::none);
  mapped = {};
  exporter_frees(old);
  const RemoteMemory fresh = allocated(120, 18);
  EXPECT_EQ(import(fresh, &mapped), Error::already_mapped);
  end_to_wait();
  ASSERT_EQ(import(fresh, &mapped), Error::none);
  EXPECT_EQ(last_byte(fresh, mapped), 18);
}

TEST_F(IpcRegistry, nor_memory_of_another_block) {
  MappedMemory earlier, later;
  const RemoteMemory old = allocated(250, 17);  // of more pages than blocks of small allocations have
  ASSERT_EQ(import(old, &earlier), Error::none);
  exporter_frees(old);
  const RemoteMemory fresh = allocated(250, 18);
  ASSERT_EQ(import(fresh, &later), Error::none);
  EXPECT_NE(later.address(), earlier.address());
  EXPECT_EQ(last_byte(fresh, later), 18);
}

// An export asks about a few others that exist only, so its time does not grow with their number.
TEST_F(IpcRegistry, freed_memory_is_reported_at_once_or_by_one_of_the_next_exports) {
  constexpr size_t exports = 1000;
  std::vector<GoneExport> gone;
  RemoteMemory remote;
  auto export_new = [&] {
    char* const memory = device_memory(1 << 16);
    EXPECT_EQ(export_memory(query(memory), memory, 1, &remote, &gone), Error::none);
    return memory;
  };
  std::vector<char*> all;
  for (size_t i = 0; i < exports; ++i) all.push_back(export_new());
  EXPECT_TRUE(gone.empty());
  EXPECT_EQ(gpu.free(all[exports / 2]), Error::none);
  all[exports / 2] = export_new();
  for (size_t i = 0; i < exports / 10; ++i) all.push_back(export_new());
  EXPECT_EQ(gone.size(), 1u);
  for (char* memory : all) EXPECT_EQ(gpu.free(memory), Error::none);
  char* const last = export_new();
  EXPECT_EQ(gone.size(), 1 + all.size());
  EXPECT_EQ(registry_counts().exports, 1u);
  EXPECT_EQ(gpu.free(last), Error::none);
}

// FAIRLEAD_SIM_FABRIC is set: virtual memory has handles for other nodes.
class ToOtherNodes : public IpcRegistry {
 protected:
  char* virtual_memory() {
    void* memory = nullptr;
    EXPECT_EQ(gpu.allocate_virtual(0, 1 << 16, &memory), Error::none);
    return static_cast<char*>(memory);
  }
  Error export_of(char* memory, bool to_other_nodes) {
    return export_memory(query(memory), memory, 1, &remote_, &gone_, to_other_nodes);
  }
  RemoteMemory remote_;
  std::vector<GoneExport> gone_;
};

TEST_F(ToOtherNodes, only_what_was_made_for_them_is_exported) {
  char* const plain = device_memory(1 << 16);
  char* const pieces = virtual_memory();
  EXPECT_FALSE(query(plain).for_other_nodes);
  EXPECT_TRUE(query(pieces).for_other_nodes);
  Allocation without = query(pieces);
  without.for_other_nodes = false;
  EXPECT_EQ(export_memory(without, pieces, 1, &remote_, &gone_, true), Error::not_supported);
  EXPECT_EQ(export_of(plain, true), Error::not_supported);
  EXPECT_EQ(export_of(pieces, true), Error::none);
  EXPECT_EQ(gpu.free(plain), Error::none);
  EXPECT_EQ(gpu.free(pieces), Error::none);
}

TEST_F(ToOtherNodes, each_export_looks_for_gone_memory_of_both_kinds) {
  char* const pieces = virtual_memory();
  ASSERT_EQ(export_of(pieces, true), Error::none);
  const uint64_t id = remote_.id;
  gone_.clear();
  EXPECT_EQ(gpu.free(pieces), Error::none);
  char* const plain = device_memory(1 << 20);
  ASSERT_EQ(export_of(plain, false), Error::none);
  for (const GoneExport& other : gone_) EXPECT_NE(other.id, id);
  gone_.clear();
  take_gone_of_other_nodes(&gone_);
  ASSERT_EQ(gone_.size(), 1u);
  EXPECT_EQ(gone_[0].id, id);
  take_gone_of_other_nodes(&gone_);
  EXPECT_EQ(gone_.size(), 1u);
  EXPECT_EQ(gpu.free(plain), Error::none);
}

}  // namespace
}  // namespace fairlead::device
