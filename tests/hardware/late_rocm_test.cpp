// SPDX-License-Identifier: Apache-2.0
//
// A program on a machine with AMD's driver, and where its HIP runtime comes from:
//
//   with-a-kfd late_rocm_test late THE_PROGRAMS_LIBRARY ANOTHER_ONE
//
// loads it late, from a place of its own, as Python does: `import mpi4py` before `import torch`. Fairlead
// must use that one, load no other before it needs a GPU itself, and say when there are two.
//
//   with-a-kfd late_rocm_test offload ROCR
//
// uses ROCr without HIP, as a runtime of OpenMP offload does, until it passes such memory.
//
//   with-a-kfd late_rocm_test none
//
// has none at all, as a laptop: FAIRLEAD_DEVICE=auto must simulate GPUs when the program asks for them, and
// not earlier; FAIRLEAD_DEVICE=rocm must say why there are none.
//
//   with-a-kfd late_rocm_test info INTERPOSITION_LIBRARY
//
// asks Fairlead which driver is used, before anything else has opened one.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/loaded_library.h"
#include "device/runtime.h"
#include "fairlead/device.h"

using namespace fairlead::device;
namespace fs = std::filesystem;

// As a tracer has it, that the program is linked with: this is no HIP.
extern "C" __attribute__((visibility("default"))) int hipInit(unsigned) {
  return 1;
}

namespace {

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "late_rocm_test: %s\n", what.c_str());
  std::exit(1);
}

// What is looked for now and then only is found in the end.
template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// What is written to stderr from here on.
class Caught {
 public:
  Caught() : kept_(dup(STDERR_FILENO)), file_(std::tmpfile()) { dup2(fileno(file_), STDERR_FILENO); }
  std::string text() {
    std::string found;
    std::rewind(file_);
    for (int c; (c = std::fgetc(file_)) != EOF;) found += static_cast<char>(c);
    return found;
  }
  ~Caught() { dup2(kept_, STDERR_FILENO); }

 private:
  int kept_;
  FILE* file_;
};

class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "late_rocm.XXXXXX";
    expect(mkdtemp(name.data()), "no folder");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string copy(const std::string& file, const char* name) const {
    fs::copy_file(file, path_ / name);
    return path_ / name;
  }
  std::string link(const std::string& file, const char* name) const {
    fs::create_symlink(file, path_ / name);
    return path_ / name;
  }
  void make_empty(const std::string& name) const { std::ofstream(path_ / name); }
  std::string path() const { return path_; }

 private:
  fs::path path_;
};

size_t runtimes() {
  return loaded_libraries("libamdhip64", "hipInit").size();
}

bool is_rocm() {
  return whole_runtime() && std::string(whole_runtime()->name()) == "rocm";
}

// MPI_Init
void start() {
  int on_stack = 0;
  Allocation found;
  expect(is_rocm(), "a machine with /dev/kfd has another provider");
  expect(whole_runtime()->query(&on_stack, &found) == Error::none && found.kind == MemoryKind::host,
         "the stack is no host memory");
  expect(!whole_runtime()->in_use() && whole_runtime()->version() == 0, "a GPU is in use");
  expect(runtimes() == 0, "Fairlead loaded a HIP runtime for itself");
}

// Several threads ask at once, for the first time since the program has begun: none may be told no, although
// another one looks. To look takes long where many files are open.
void ask_from_threads() {
  constexpr int threads = 4;
  std::atomic<int> ready = 0, told_no = 0;
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back([&] {
      ++ready;
      while (ready < threads) std::this_thread::yield();
      if (!whole_runtime()->in_use()) ++told_no;
    });
  for (std::thread& thread : all) thread.join();
  expect(told_no == 0, "device memory of one thread is host memory while another thread looks");
}

void load_late(const std::string& first_file, const std::string& second) {
  Folder folder;
  // Named as by auditwheel; what else has such a name is no runtime.
  const std::string first = folder.copy(first_file, "libamdhip64-1a2b3c4d.so.6");
  Dl_info self{};
  expect(dladdr(reinterpret_cast<void*>(&loaded_libraries), &self), "no libfairlead-device.so");
  const std::string other = folder.copy(self.dli_fname, "libamdhip64-tools.so");
  start();
  expect(dlopen(other.c_str(), RTLD_NOW | RTLD_LOCAL), "no library beside it");
  expect(runtimes() == 0, "a library without hipInit() is taken for a HIP runtime");

  // The program begins to use GPUs.
  for (int file = 0; file < 700; ++file) expect(open("/dev/null", O_RDWR) >= 0, "too many files");
  void* library = dlopen(first.c_str(), RTLD_NOW | RTLD_LOCAL);
  expect(library && open("/dev/kfd", O_RDWR) >= 0, "the program has no HIP");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // as HIP takes to begin
  ask_from_threads();
  auto allocate = reinterpret_cast<int (*)(void**, size_t)>(dlsym(library, "hipMalloc"));
  void* memory = nullptr;
  Allocation found;
  expect(allocate && allocate(&memory, 4096) == 0, "the program gets no memory");
  expect(whole_runtime()->query(memory, &found) == Error::none && found.kind == MemoryKind::device,
         "device memory of the program's is not known as such");
  expect(whole_runtime()->initialize() == Error::none, whole_runtime()->error_text());
  expect(is_rocm() && runtimes() == 1, "Fairlead loaded another HIP runtime than the program");

  // And another part of it brings one more.
  expect(dlopen(second.c_str(), RTLD_NOW | RTLD_LOCAL), "no second library");
  std::string text;
  {
    Caught caught;
    int on_stack = 0;
    wait_until([&] {
      whole_runtime()->query(&on_stack, &found);
      return !(text = caught.text()).empty();
    });
  }
  for (const std::string& path : {first, second})
    expect(text.find(path.substr(0, path.rfind(".so"))) != std::string::npos, text);
}

// The library has ROCr's functions, too, and is HIP only under the name by which Fairlead opens that.
void offload(const std::string& file) {
  Folder folder;
  const std::string rocr = folder.link(file, "libhsa-runtime64.so.1");
  start();
  void* library = dlopen(rocr.c_str(), RTLD_NOW | RTLD_LOCAL);
  expect(library && open("/dev/kfd", O_RDWR) >= 0, "the program has no ROCr");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // as ROCr takes to begin
  auto allocate = reinterpret_cast<int (*)(int, size_t, void**)>(dlsym(library, "hostile_rocr_allocate"));
  void *memory = nullptr, *pinned = nullptr;
  expect(allocate && allocate(1, 4096, &memory) == 0 && allocate(-1, 4096, &pinned) == 0,
         "the program gets no memory");
  const auto on_heap = std::make_unique<int>();
  Allocation found;
  for (const void* host : {static_cast<const void*>(on_heap.get()), static_cast<const void*>(pinned)})
    expect(whole_runtime()->query(host, &found) == Error::none && found.kind == MemoryKind::host,
           "host memory is not known as such");
  expect(!whole_runtime()->in_use(), "HIP is in use before it is needed");
  expect(whole_runtime()->query(memory, &found) == Error::none && found.kind == MemoryKind::device,
         "device memory of ROCr is not known as such");
  expect(found.device == 1 && found.base == reinterpret_cast<uintptr_t>(memory), "it is another one");
  expect(whole_runtime()->in_use(), "HIP is not in use");
}

// LD_LIBRARY_PATH names a folder where all that could be opened is broken: what is installed counts no more.
void need_a_gpu() {
  start();
  std::string text;
  int count = 0;
  std::string provider;
  {
    Caught caught;
    count = fairlead_device_count();
    provider = fairlead_device_provider();
    text = caught.text();
  }
  // Of the first that is there, not of the last that was tried.
  expect(text.find("libamdhip64.so.10: file too short") != std::string::npos,
         "the log does not say why: " + text);
  if (std::string(std::getenv("FAIRLEAD_DEVICE")) == "auto") {
    expect(text.find("GPUs are simulated") != std::string::npos,
           "the log does not say what is used: " + text);
    expect(text.find('\n') == text.size() - 1, "it is said more than once: " + text);
    expect(provider == "sim" && count == 2, "no GPU is simulated: " + provider);
    expect(std::string(whole_runtime()->name()) == "sim", "classification knows another GPU");
  } else {
    expect(text.find("FAIRLEAD_DEVICE=rocm is unavailable") != std::string::npos,
           "the log does not say it: " + text);
    expect(text.find('\n') == text.size() - 1, "it is said more than once: " + text);
    expect(provider == "none" && count == 0, "there is a GPU: " + provider);
    expect(is_rocm(), "a HIP runtime that comes later is not looked for");
  }
}

void ask_for_info(const char* interposition_library) {
  start();
  void* library = dlopen(interposition_library, RTLD_NOW | RTLD_LOCAL);
  auto info =
      library ? reinterpret_cast<size_t (*)(char*, size_t)>(dlsym(library, "fairlead_info")) : nullptr;
  expect(info, "no fairlead_info()");
  std::string text(1 << 20, '\0');
  info(text.data(), text.size());
  const std::string version = std::to_string(whole_runtime()->version());
  expect(version != "0" && text.find("\"rocm\", \"driver\": " + version) != std::string::npos, text);
}

// Started anew, with such a folder.
int hide_what_is_installed(char** argv) {
  Folder folder;
  folder.make_empty("libcuda.so.1");
  for (const char* release : {"", ".5", ".6", ".7", ".10"})
    folder.make_empty(std::string("libamdhip64.so") + release);
  const char* known = std::getenv("LD_LIBRARY_PATH");
  setenv("LD_LIBRARY_PATH", (folder.path() + ":" + (known ? known : "")).c_str(), 1);
  return std::system((std::string(argv[0]) + " broken").c_str()) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "none") return hide_what_is_installed(argv);
  if (command == "broken") {
    need_a_gpu();
  } else if (command == "info" && argc == 3) {
    ask_for_info(argv[2]);
  } else if (command == "offload" && argc == 3) {
    offload(argv[2]);
  } else {
    expect(command == "late" && argc == 4, "needs a command, and `late` two libraries");
    load_late(argv[2], argv[3]);
  }
  return 0;
}
