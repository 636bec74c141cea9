// SPDX-License-Identifier: Apache-2.0
//
// Cases of device_runtime_test: memory that other nodes of an NVLink domain map. Few machines permit that, so
// they print what the driver says, and require that what it permits works and all else is refused.

#include "device_runtime_fixture.h"

namespace fairlead::device {

constexpr size_t shared_bytes = 200000;  // one piece of the simulated GPU's virtual memory

static bool is_simulated() {
  return std::strcmp(gpu().name(), "sim") == 0;
}

// Drivers have more words for that there is no IMEX.
static bool is_refusal(Error error) {
  return error == Error::not_supported || error == Error::invalid_value ||
         (!is_simulated() && error == Error::failed);
}

// In another process: argument of --import-fabric.
static std::string in_words(const IpcHandle& handle, size_t bytes) {
  std::string text = std::to_string(bytes);
  for (unsigned char byte : handle.bytes) text += " " + std::to_string(byte);
  return text;
}

// Exit status: 0 if the memory is mapped and has the right bytes, 1 if it is refused.
int import_from_other_node(const char* text) {
  IpcHandle handle{};
  char* next = nullptr;
  const size_t bytes = std::strtoull(text, &next, 10);
  for (unsigned char& byte : handle.bytes) byte = static_cast<unsigned char>(std::strtoul(next, &next, 10));
  const int device = devices() - 1;
  void* base = nullptr;
  if (const Error error = gpu().fabric_import(device, handle, bytes, &base); error != Error::none) {
    std::printf("  import in another process: %s\n", words(error).c_str());
    return base == nullptr && is_refusal(error) ? 1 : 2;
  }
  {
    StreamScope stream(device);
    if (bytes_of(base, shared_bytes, stream) != pattern(shared_bytes, 23)) return 3;
  }
  return gpu().ipc_close(device, base) == Error::none ? 0 : 4;
}

TEST(device_runtime, other_nodes_of_a_domain_map_virtual_memory) {
  for (int device = 0; device < devices(); ++device) {
    FabricDomain domain{};
    const Error belongs = gpu().fabric_domain(device, &domain);
    std::printf("device %d: %s\n", device,
                belongs == Error::none ? ("in clique " + std::to_string(domain.clique)).c_str()
                                       : words(belongs).c_str());
    EXPECT_EQ(belongs == Error::none, static_cast<bool>(domain));
    EXPECT_TRUE(belongs == Error::none || belongs == Error::not_supported);

    const std::string before = gpu().error_text();
    void* memory = nullptr;
    const Error made = gpu().allocate_virtual(device, shared_bytes, &memory);
    if (made == Error::not_supported) GTEST_SKIP() << gpu().error_text();
    ASSERT_SUCCESS(made);
    if (before != gpu().error_text())
      std::printf("  made without handles for other nodes: %s\n", gpu().error_text());
    StreamScope stream(device);
    const Bytes content = pattern(shared_bytes, 23);
    stream.copy(memory, content.data(), shared_bytes);
    Allocation found;
    ASSERT_SUCCESS(gpu().query(memory, &found));

    IpcHandle handle{};
    const Error exported = gpu().fabric_export(memory, &handle);
    std::printf("  export: %s\n", exported == Error::none ? "works" : words(exported).c_str());
    EXPECT_TRUE(found.for_other_nodes || exported != Error::none);
    if (exported == Error::none) {
      void* base = nullptr;
      const Error imported = gpu().fabric_import(device, handle, found.size, &base);
      std::printf("  import in this process: %s\n",
                  imported == Error::none ? "works" : words(imported).c_str());
      if (imported == Error::none) {
        EXPECT_EQ(bytes_of(base, shared_bytes, stream), content);
        EXPECT_SUCCESS(gpu().ipc_close(device, base));
      }
      const int status = run_again("--import-fabric", in_words(handle, found.size));
      EXPECT_TRUE(status == 0 || (status == 1 && imported != Error::none)) << status;
      for (unsigned char& byte : handle.bytes) byte ^= 0x5A;
      EXPECT_NE(gpu().fabric_import(device, handle, found.size, &base), Error::none);
    } else {
      EXPECT_PRED1(is_refusal, exported);
      const IpcHandle unchanged{};
      EXPECT_EQ(std::memcmp(&handle, &unchanged, sizeof handle), 0);
    }
    EXPECT_TRUE(!is_simulated() || belongs == exported);
    EXPECT_SUCCESS(gpu().free(memory));
    const Memory ordinary(MemoryKind::device, shared_bytes, device);
    EXPECT_PRED1(is_refusal, gpu().fabric_export(ordinary.at(), &handle));
  }
}

TEST(device_runtime, other_nodes_of_another_domain_are_refused) {
  constexpr const char* name = "FAIRLEAD_SIM_FABRIC";
  FabricDomain domain{};
  if (!is_simulated() || gpu().fabric_domain(0, &domain) != Error::none)
    GTEST_SKIP() << "only the simulated GPU plays two domains";
  void* memory = nullptr;
  IpcHandle handle{};
  int file = -1;
  ASSERT_SUCCESS(gpu().allocate_virtual(0, shared_bytes, &memory));
  StreamScope stream;
  stream.copy(memory, pattern(shared_bytes, 23).data(), shared_bytes);
  ASSERT_SUCCESS(gpu().fabric_export(memory, &handle));
  const std::string own = std::getenv(name);
  for (const std::string& other : {std::string("hall:1"), own + "1", own}) {
    setenv(name, other.c_str(), 1);
    EXPECT_EQ(run_again("--import-fabric", in_words(handle, shared_bytes)), other == own ? 0 : 1) << other;
  }
  void* base = nullptr;
  EXPECT_PRED1(is_refusal, gpu().ipc_import(0, handle, -1, &base));
  ASSERT_SUCCESS(gpu().ipc_export(memory, &handle, &file));
  EXPECT_PRED1(is_refusal, gpu().fabric_import(0, handle, shared_bytes, &base));
  close(file);
  EXPECT_SUCCESS(gpu().free(memory));
}

}  // namespace fairlead::device
