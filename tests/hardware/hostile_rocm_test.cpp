// SPDX-License-Identifier: Apache-2.0
//
// The ROCm provider under a ROCm that behaves as AMD's does (hostile_rocm/): what would end in a crash, a
// hang or wrong bytes on AMD GPUs only. Exits with 77 where there is no device below. Each case holds under
// every release and fault that ctest sets.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "device/hip/abi.h"
#include "device/hip/releases.h"
#include "device/ipc_registry.h"
#include "device/runtime.h"
#include "device_runtime_kernel.h"
#include "kernels/kernel_run.h"

namespace fairlead::device {
namespace {

Runtime& gpu() {
  return *whole_runtime();
}

std::string words(Error error) {
  return std::string(to_string(error)) + ": " + gpu().error_text();
}
#define ASSERT_SUCCESS(call)                                        \
  do {                                                              \
    Error error = call;                                             \
    ASSERT_EQ(error, Error::none) << #call << ": " << words(error); \
  } while (0)

// HIP as a program calls it.
template <class Signature>
DriverFunction<Signature> hip(const char* symbol) {
  static void* const library = dlopen("libamdhip64.so", RTLD_NOLOAD | RTLD_NOW);
  DriverFunction<Signature> function{symbol};
  EXPECT_TRUE(library && function.bind(library)) << symbol;
  return function;
}

bool has_fault(const char* name) {
  const char* faults = std::getenv("TEST_ROCM_FAULTS");
  return faults && std::string(faults) == name;
}

bool shares_virtual_memory() {
  return gpu().version() >= hip_release::retains;
}

constexpr size_t bytes = 100000;

// Loading code on a device makes it one that the process uses. The first case, because others use device 1.
TEST(hostile_rocm, devices_that_the_program_does_not_use_are_left_alone) {
  int count = 0;
  ASSERT_SUCCESS(gpu().device_count(&count));
  if (count < 2) GTEST_SKIP() << "one device";
  void* memory = nullptr;
  ASSERT_SUCCESS(gpu().allocate(0, bytes, &memory));
  EXPECT_TRUE(gpu().has_context(0));
  { kernels::EarlyLoading loading; }
  DeviceInfo info{};
  ASSERT_SUCCESS(gpu().device_info(1, &info));
  EXPECT_EQ(gpu().query_application(1), Error::none);
  ASSERT_SUCCESS(gpu().synchronize(1));
  EXPECT_FALSE(gpu().has_context(1));
  ASSERT_SUCCESS(gpu().free(memory));
}

TEST(hostile_rocm, ordinary_memory_has_a_handle_or_is_refused) {
  void* memory = nullptr;
  ASSERT_SUCCESS(gpu().allocate(0, bytes, &memory));
  for (int time = 0; time < 3; ++time) {
    IpcHandle handle{};
    int file = -1;
    Error error = gpu().ipc_export(memory, &handle, &file);
    EXPECT_EQ(error == Error::none, !has_fault("ipc_fails")) << words(error);
    EXPECT_EQ(file, -1);
  }
  ASSERT_SUCCESS(gpu().free(memory));
}

// A peer that opens such a handle may bring down the kernel driver.
TEST(hostile_rocm, virtual_memory_has_no_handle) {
  for (auto allocate : {&Runtime::allocate_virtual, &Runtime::allocate_from_pool}) {
    void* memory = nullptr;
    Error error = (gpu().*allocate)(0, bytes, &memory);
    if (error == Error::not_supported) GTEST_SKIP() << gpu().error_text();
    ASSERT_EQ(error, Error::none) << words(error);
    IpcHandle handle{};
    int file = -1;
    error = gpu().ipc_export(memory, &handle, &file);
    // A real ROCm may make its pools of ordinary memory.
    const bool is_pool = allocate == &Runtime::allocate_from_pool;
    if (is_pool && !std::getenv("TEST_ROCM_FAULTS")) {
      ASSERT_SUCCESS(gpu().free(memory));
      continue;
    }
    const bool shared = shares_virtual_memory() && !is_pool;
    EXPECT_EQ(error == Error::none, shared) << words(error);
    EXPECT_EQ(file >= 0, shared);
    if (file >= 0) close(file);
    ASSERT_SUCCESS(gpu().free(memory));
  }
}

// A host MPI may register ordinary memory by functions that know no other.
TEST(hostile_rocm, only_memory_of_hipMalloc_is_ordinary) {
  for (auto allocate : {&Runtime::allocate, &Runtime::allocate_managed, &Runtime::allocate_virtual,
                        &Runtime::allocate_from_pool}) {
    void* memory = nullptr;
    Error error = (gpu().*allocate)(0, bytes, &memory);
    if (error == Error::not_supported) continue;
    ASSERT_EQ(error, Error::none) << words(error);
    Allocation allocation;
    ASSERT_SUCCESS(gpu().query(memory, &allocation));
    // A real ROCm may make its pools of ordinary memory.
    if (allocate != &Runtime::allocate_from_pool || std::getenv("TEST_ROCM_FAULTS")) {
      EXPECT_EQ(allocation.ordinary, allocate == &Runtime::allocate);
    }
    ASSERT_SUCCESS(gpu().free(memory));
  }
}

// HIP describes it as an object that spans the address space, on device 0.
TEST(hostile_rocm, memory_of_rocr_is_described_by_rocr) {
  if (!std::getenv("TEST_ROCM_FAULTS")) GTEST_SKIP() << "nobody allocates it";
  auto allocate = hip<int(int, size_t, void**)>("hostile_rocr_allocate");
  auto release = hip<int(void*)>("hostile_rocr_free");
  int count = 0;
  ASSERT_SUCCESS(gpu().device_count(&count));
  // GPUs that share an address are not told apart.
  const int device = has_fault("partitions") ? 0 : count - 1;
  void* memory = nullptr;
  ASSERT_EQ(allocate(device, bytes, &memory), 0);
  Allocation found;
  ASSERT_SUCCESS(gpu().query(static_cast<char*>(memory) + 1000, &found));
  EXPECT_EQ(found.kind, MemoryKind::device);
  EXPECT_EQ(found.device, device);
  EXPECT_EQ(found.base, reinterpret_cast<uintptr_t>(memory));
  EXPECT_GE(found.size, bytes);
  EXPECT_LT(found.size, 2 * bytes);
  EXPECT_FALSE(found.exportable);
  EXPECT_FALSE(found.ordinary);
  Stream stream = nullptr;
  int sent = 4711, received = 0;
  ASSERT_SUCCESS(gpu().create_stream(device, &stream));
  ASSERT_SUCCESS(gpu().copy(memory, &sent, sizeof sent, stream));
  ASSERT_SUCCESS(gpu().copy(&received, memory, sizeof received, stream));
  ASSERT_SUCCESS(gpu().synchronize_stream(stream));
  EXPECT_EQ(received, sent);
  ASSERT_SUCCESS(gpu().destroy_stream(stream));
  EXPECT_EQ(release(memory), 0);

  ASSERT_EQ(allocate(-1, bytes, &memory), 0);
  ASSERT_SUCCESS(gpu().query(memory, &found));
  EXPECT_EQ(found.kind, MemoryKind::pinned);
  EXPECT_EQ(release(memory), 0);
}

// Each message asks for the memory, whether or not it can be exported.
TEST(hostile_rocm, rocr_is_asked_once_about_an_allocation) {
  auto* questions = static_cast<std::atomic<int>*>(
      dlsym(dlopen("libamdhip64.so", RTLD_NOLOAD | RTLD_NOW), "hostile_rocm_questions"));
  if (!questions) GTEST_SKIP() << "nobody counts";
  for (auto allocate : {&Runtime::allocate, &Runtime::allocate_virtual, &Runtime::allocate_from_pool}) {
    void* memory = nullptr;
    Error error = (gpu().*allocate)(0, bytes, &memory);
    if (error == Error::not_supported) continue;
    ASSERT_EQ(error, Error::none) << words(error);
    Allocation allocation;
    RemoteMemory remote;
    std::vector<GoneExport> gone;
    ASSERT_SUCCESS(gpu().query(memory, &allocation));
    const Error first = export_memory(allocation, memory, 1, &remote, &gone);
    const int asked = *questions;
    EXPECT_GT(asked, 0);
    for (int time = 0; time < 3; ++time)
      EXPECT_EQ(export_memory(allocation, memory, 1, &remote, &gone), first);
    EXPECT_EQ(*questions, asked);
    // What comes to the same place is asked about anew.
    ++allocation.id;
    export_memory(allocation, memory, 1, &remote, &gone);
    EXPECT_GT(*questions, asked);
    ASSERT_SUCCESS(gpu().free(memory));
  }
}

// The program holds one reference, and gives it back when the memory was exported: the hostile ROCm ends a
// process that gives back more than it holds.
TEST(hostile_rocm, exports_take_no_reference_of_the_programs) {
  if (gpu().version() < hip_release::release(6, 0)) GTEST_SKIP() << "no virtual memory before ROCm 6";
  using Handle = HipAbi::MemoryHandle;
  auto granularity = hip<int(size_t*, const AllocationProperties*, int)>("hipMemGetAllocationGranularity");
  auto reserve = hip<int(void**, size_t, size_t, void*, unsigned long long)>("hipMemAddressReserve");
  auto create = hip<int(Handle*, size_t, const AllocationProperties*, unsigned long long)>("hipMemCreate");
  auto map = hip<int(void*, size_t, size_t, Handle, unsigned long long)>("hipMemMap");
  auto unmap = hip<int(void*, size_t)>("hipMemUnmap");
  auto release = hip<int(Handle)>("hipMemRelease");
  auto unreserve = hip<int(void*, size_t)>("hipMemAddressFree");
  const AllocationProperties properties{driver_flag::allocation_pinned,
                                        driver_flag::handle_file_descriptor,
                                        {driver_flag::location_device, 0},
                                        nullptr,
                                        {}};
  void* address = nullptr;
  size_t granule = 0;
  Handle memory = nullptr;
  ASSERT_EQ(granularity(&granule, &properties, 0), 0);
  ASSERT_EQ(reserve(&address, granule, 0, nullptr, 0), 0);
  ASSERT_EQ(create(&memory, granule, &properties, 0), 0);
  ASSERT_EQ(map(address, granule, 0, memory, 0), 0);
  for (int time = 0; time < 3; ++time) {
    IpcHandle handle{};
    int file = -1;
    gpu().ipc_export(address, &handle, &file);
    if (file >= 0) close(file);
  }
  EXPECT_EQ(release(memory), 0);
  EXPECT_EQ(unmap(address, granule), 0);
  EXPECT_EQ(unreserve(address, granule), 0);
}

// HIP tells nobody, and the program's memory may be where the provider's own was.
TEST(hostile_rocm, a_reset_is_noticed_in_memory_that_is_newer) {
  const auto reset = hip<int()>("hipDeviceReset");
  const auto allocate = hip<int(void**, size_t)>("hipMalloc");
  for (size_t size : {size_t{1}, bytes, size_t{1}}) {
    Stream stream = nullptr;
    void* memory = nullptr;
    Allocation found;
    ASSERT_SUCCESS(gpu().create_stream(0, &stream));
    const uint32_t context = gpu().context_number(0);
    ASSERT_EQ(reset(), 0);
    ASSERT_EQ(allocate(&memory, size), 0);
    EXPECT_EQ(gpu().context_number(0), context);
    ASSERT_SUCCESS(gpu().query(memory, &found));
    EXPECT_EQ(gpu().context_number(0), context + 1);
    EXPECT_EQ(found.id >> context_bit, context + 1);
    EXPECT_EQ(gpu().query_stream(stream), Error::failed);
    ASSERT_SUCCESS(gpu().destroy_stream(stream));
    ASSERT_SUCCESS(gpu().free(memory));
  }
}

// A kernel of the program's that waits for the CPU, in so many streams; a priority has four queues.
class BusyProgram {
 public:
  explicit BusyProgram(size_t streams = 4) : streams_(streams) {
    static const std::vector<CodeImage> images = test::kernel_images();
    EXPECT_EQ(gpu().allocate_pinned(sizeof *over_, reinterpret_cast<void**>(const_cast<int**>(&over_))),
              Error::none);
    *over_ = 0;
    Kernel kernel = nullptr;
    EXPECT_EQ(gpu().find_kernel(0, images.data(), images.size(), "run_until", &kernel), Error::none)
        << gpu().error_text();
    void* address = const_cast<int*>(over_);
    void* arguments[] = {&address};
    for (Stream& stream : streams_) {
      EXPECT_EQ(gpu().create_stream(0, &stream, StreamKind::application), Error::none);
      EXPECT_EQ(gpu().launch(kernel, 1, 1, arguments, stream), Error::none) << gpu().error_text();
    }
  }
  ~BusyProgram() {
    end();
    for (Stream stream : streams_) EXPECT_EQ(gpu().destroy_stream(stream), Error::none);
    EXPECT_EQ(gpu().free_pinned(const_cast<int*>(over_)), Error::none);
  }
  void end() { *over_ = 1; }
  bool runs() const {
    return std::ranges::all_of(streams_,
                               [](Stream stream) { return gpu().query_stream(stream) == Error::not_ready; });
  }

 private:
  volatile int* over_ = nullptr;
  std::vector<Stream> streams_;
};

// A marker in the default stream would wait for the program's kernel, and the stream for the marker: this
// would hang.
TEST(hostile_rocm, questions_do_not_make_the_programs_streams_wait_for_each_other) {
  void* memory = nullptr;
  ASSERT_SUCCESS(gpu().allocate(0, bytes, &memory));
  {
    BusyProgram program(1);
    Stream stream = nullptr;
    ASSERT_SUCCESS(gpu().create_stream(0, &stream, StreamKind::application));
    ASSERT_SUCCESS(gpu().fill(memory, 1, bytes, stream));
    gpu().query_application(0);
    EXPECT_NE(gpu().query_device(0), Error::none);
    ASSERT_SUCCESS(gpu().fill(memory, 2, bytes, stream));
    ASSERT_SUCCESS(gpu().synchronize_stream(stream));
    EXPECT_TRUE(program.runs());
    ASSERT_SUCCESS(gpu().destroy_stream(stream));
  }
  ASSERT_SUCCESS(gpu().free(memory));
}

// HIP loads code beside them, and cannot tell when they are over.
TEST(hostile_rocm, kernels_are_loaded_beside_those_of_the_program) {
  BusyProgram program;
  EXPECT_EQ(gpu().query_loading(0), Error::none);
}

// Coarse-grained memory would show the flag to the kernel when that has ended: this would hang.
TEST(hostile_rocm, kernels_see_what_the_cpu_stores_meanwhile) {
  BusyProgram program;
  EXPECT_TRUE(program.runs());
}

// A copy in a queue of the program's would wait for the end of its kernel: this would hang.
TEST(hostile_rocm, copies_do_not_wait_behind_the_programs_kernels) {
  void *memory = nullptr, *host = nullptr;
  ASSERT_SUCCESS(gpu().allocate(0, bytes, &memory));
  ASSERT_SUCCESS(gpu().allocate_pinned(bytes, &host));
  {
    BusyProgram program;
    for (auto kind : {StreamKind::library, StreamKind::urgent}) {
      Stream stream = nullptr;
      ASSERT_SUCCESS(gpu().create_stream(0, &stream, kind));
      ASSERT_SUCCESS(gpu().copy(memory, host, bytes, stream));
      ASSERT_SUCCESS(gpu().copy(host, memory, bytes, stream));
      ASSERT_SUCCESS(gpu().synchronize_stream(stream));
      ASSERT_SUCCESS(gpu().destroy_stream(stream));
    }
    EXPECT_TRUE(program.runs());
  }
  ASSERT_SUCCESS(gpu().free(memory));
  ASSERT_SUCCESS(gpu().free_pinned(host));
}

// All copies of a rank and its kernels share the queues of one priority.
TEST(hostile_rocm, copies_leave_queues_to_kernels) {
  EXPECT_LT(gpu().copy_streams(), 4);
}

// Short copies are kernels, which store the end of a word byte by byte.
TEST(hostile_rocm, nobody_watches_words_arrive) {
  EXPECT_FALSE(gpu().writes_whole_words());
}

TEST(hostile_rocm, devices_without_serial_number_are_told_apart) {
  int count = 0;
  ASSERT_SUCCESS(gpu().device_count(&count));
  std::set<std::string> identities;
  for (int device = 0; device < count; ++device) {
    DeviceInfo info{};
    ASSERT_SUCCESS(gpu().device_info(device, &info));
    identities.emplace(reinterpret_cast<const char*>(info.uuid), sizeof info.uuid);
    // Another process may see one of them only.
    EXPECT_STRNE(reinterpret_cast<const char*>(info.uuid), "XX");
  }
  EXPECT_EQ(identities.size(), static_cast<size_t>(count));
}

// As a driver does that is older than the compiler of machine code: what ranks lower is loaded then.
// As under HIP_VISIBLE_DEVICES, which `fairlead exec --gpu` sets: the kernel has links of all GPUs.
TEST(hostile_rocm, hidden_gpus_are_known_by_their_links) {
  if (!std::getenv("FAIRLEAD_KFD_TOPOLOGY"))
    GTEST_SKIP() << "needs the links of tests/hardware/CMakeLists.txt";
  auto has_atomics_with = [](const char* pci) {
    DeviceInfo hidden{};
    std::snprintf(hidden.pci, sizeof hidden.pci, "%s", pci);
    return gpu().has_peer_atomics(0, hidden);
  };
  EXPECT_TRUE(has_atomics_with("0000:c1:00.0"));
  EXPECT_FALSE(has_atomics_with("0000:c2:00.0")) << "over PCIe";
  EXPECT_FALSE(has_atomics_with("0000:c3:00.0")) << "without a link";
  EXPECT_FALSE(has_atomics_with("0000:c4:00.0")) << "unknown";
}

TEST(hostile_rocm, code_that_the_driver_refuses_is_passed_over) {
  static const unsigned char machine_code[] = "\177ELF of a newer toolkit";
  static std::vector<CodeImage> images = test::kernel_images();
  images.insert(images.begin(), {"sm_90", machine_code, sizeof machine_code});
  Kernel kernel = nullptr;
  ASSERT_SUCCESS(gpu().find_kernel(0, images.data(), images.size(), "run_until", &kernel));
  static const CodeImage alone[] = {images.front()};
  EXPECT_EQ(gpu().find_kernel(0, alone, 1, "run_until", &kernel), Error::not_supported);
}

}  // namespace
}  // namespace fairlead::device

int main(int argc, char** argv) {
  using namespace fairlead::device;
  testing::InitGoogleTest(&argc, argv);
  int count = 0;
  if (!whole_runtime() || whole_runtime()->device_count(&count) != Error::none || count == 0) {
    std::fprintf(stderr, "skipped: the hostile ROCm has no device below it\n");
    return 77;
  }
  return RUN_ALL_TESTS();
}
