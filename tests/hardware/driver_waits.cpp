// SPDX-License-Identifier: Apache-2.0
//
// Does a thread of the library go on while a copy of the program's waits for a word
// (docs/design/driver-calls.md)? The program's thread enqueues a wait and a copy, again and again; the
// library's copies, polls, and then writes the word, as progress does. A round that takes seconds has hung:
// one of the library's calls waits in the driver for the program's, or one of its copies on the GPU. Prints
// which, and fails.
//
//   driver_waits [option...]
//
//   --seconds N      (default 10)
//   --streams N      of the library's thread, which uses them at random (default 4)
//   --by-kind        each kind of its copies has a stream of its own
//   --urgent         they are of the highest priority
//   --late           the library's thread begins its copies 2 ms after the program's, not at the same time
//   --synchronize    it waits for its copies by synchronize_stream(), which it must not
//   --kinds LETTERS  of its copies, of: g get from a peer, p put to it, d inside a device, i in from
//                    page-locked memory, o out to it, j and q as i and o, but by a kernel (default: all)
//   --program LETTERS  of the program's copies: h to pageable memory, or g p d i o (default: h)
//   --waiting N      of the program's streams, each with a wait and a copy (default 1)
//   --query          the program's thread waits for its streams by queries
//   --fresh          it makes and frees its memory in each round

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/copies/submit_copies.h"
#include "device/runtime.h"
#include "kernels/reduce.h"

using namespace fairlead::device;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t most = size_t{4} << 20;
constexpr int copies_of_a_round = 20;
constexpr auto hung_after = 3s;

struct Options {
  int seconds = 10, streams = 4;
  int waiting = 1;
  bool by_kind = false, urgent = false, late = false, synchronize = false, query = false, fresh = false;
  std::string kinds = "gpdioqj", program = "h";
} options;

void must(const char* call, Error error) {
  if (error == Error::none) return;
  std::fprintf(stderr, "driver_waits: %s: %s: %s\n", call, to_string(error), whole_runtime()->error_text());
  std::_Exit(2);
}
#define MUST(call) must(#call, call)

// What both threads and the main one see.
std::atomic<uint32_t> begun = 0, ended = 0;  // rounds
std::atomic<bool> ready = false, over = false, waits = false;
std::atomic<const char*> call = "no call", copy_of_program = "";
std::atomic<size_t> bytes_of_call = 0, bytes_of_program = 0;
std::atomic<long> copies = 0, queries = 0;
uint32_t* word = nullptr;

struct Kind {
  char letter;
  const char* name;
  void *to, *from;
  bool by_kernel() const { return letter == 'q' || letter == 'j'; }
};

// The kinds of copies named by `letters`, for one stream: they share their memory.
std::vector<Kind> kinds_of(const std::string& letters) {
  Runtime& gpu = *whole_runtime();
  int devices = 0;
  MUST(gpu.device_count(&devices));
  void *here = nullptr, *there = nullptr, *pinned = nullptr;
  if (devices > 1) {
    MUST(gpu.enable_peer(0, 1));
    MUST(gpu.allocate(1, most, &there));
  }
  MUST(gpu.allocate(0, 2 * most, &here));
  void* const also_here = static_cast<char*>(here) + most;
  if (!there) there = also_here;
  MUST(gpu.allocate_pinned(most, &pinned));
  const Kind all[] = {{'g', "get", here, there},
                      {'p', "put", there, here},
                      {'d', "copy inside a device", here, also_here},
                      {'i', "copy in", here, pinned},
                      {'o', "copy out", pinned, here},
                      {'j', "copy in by a kernel", here, pinned},
                      {'q', "copy out by a kernel", pinned, here},
                      {'h', "copy to pageable memory", new char[most], here}};
  std::vector<Kind> kinds;
  for (const Kind& kind : all)
    if (letters.find(kind.letter) != std::string::npos) kinds.push_back(kind);
  return kinds;
}

void submit(const Kind& kind, size_t bytes, Stream stream) {
  if (!kind.by_kernel()) return must(kind.name, whole_runtime()->copy(kind.to, kind.from, bytes, stream));
  const CopyItem item{kind.to, kind.from, bytes};
  must(kind.name, fairlead::kernels::launch_copies(0, stream, &item, 1, 16, {}));
}

// Loads the kernel that copies, which takes an idle device.
bool runs_kernels() {
  for (const auto until = Clock::now() + 2s; Clock::now() < until; std::this_thread::sleep_for(1ms))
    if (fairlead::kernels::copies_available(0)) return true;
  return false;
}

void be_the_program() {
  Runtime& gpu = *whole_runtime();
  while (!ready) std::this_thread::yield();
  MUST(gpu.set_current_device(0));
  std::mt19937 random(1);
  std::vector<Stream> streams(options.waiting);
  std::vector<std::vector<Kind>> kinds;
  for (Stream& stream : streams) {
    MUST(gpu.create_stream(0, &stream));
    kinds.push_back(kinds_of(options.program));
  }
  for (const auto end = Clock::now() + std::chrono::seconds(options.seconds); Clock::now() < end;) {
    const size_t bytes = random() % 2 ? 40000 : 64 + random() % (most - 64);
    std::vector<char> pageable(options.fresh ? bytes : 0);
    const size_t chosen = random() % kinds.front().size();
    const Kind& kind = kinds.front()[chosen];
    Kind fresh = kind;
    void*& here = kind.letter == 'g' || kind.letter == 'i' ? fresh.to : fresh.from;
    if (options.fresh) {
      MUST(gpu.allocate(0, bytes, &here));
      if (kind.letter == 'h') fresh.to = pageable.data();
    }
    const uint32_t round = begun + 1;
    for (Stream stream : streams) MUST(gpu.wait_word(stream, word, round));
    bytes_of_program = bytes;
    copy_of_program = kind.name;
    begun = round;
    for (size_t i = 0; i < streams.size(); ++i)
      submit(options.fresh ? fresh : kinds[i][chosen], bytes, streams[i]);
    for (Stream stream : streams)
      MUST(options.query ? wait_by_queries(stream) : gpu.synchronize_stream(stream));
    if (options.fresh) MUST(gpu.free(here));
  }
  over = true;
}

void be_the_library() {
  Runtime& gpu = *whole_runtime();
  MUST(gpu.set_current_device(0));
  const bool kernels = runs_kernels();
  const auto usable = [kernels] {
    std::vector<Kind> kinds = kinds_of(options.kinds);
    if (!kernels) std::erase_if(kinds, [](const Kind& kind) { return kind.by_kernel(); });
    return kinds;
  };
  const size_t kinds = usable().size();
  if (kinds == 0) {
    std::printf("driver_waits: no kernels run on this GPU\n");
    std::_Exit(77);
  }
  struct Used {
    Stream stream = nullptr;
    std::vector<Kind> kinds;
    const char* last_copy = "wait for a stream that was not used";
    size_t bytes = 0;
  };
  std::vector<Used> streams(options.by_kind ? kinds : static_cast<size_t>(options.streams));
  const StreamKind kind = options.urgent ? StreamKind::urgent : StreamKind::library;
  for (Used& used : streams) {
    MUST(gpu.create_stream(0, &used.stream, kind));
    used.kinds = usable();
  }
  const auto end = [&gpu](const Used& used) {
    bytes_of_call = used.bytes;
    call = used.last_copy;
    waits = true;
    Error state = options.synchronize ? gpu.synchronize_stream(used.stream) : Error::not_ready;
    while (state == Error::not_ready) {
      state = gpu.query_stream(used.stream);
      ++queries;
    }
    MUST(state);
    waits = false;
  };
  // The first launch in a stream makes something, too (cuda.cpp).
  for (const Used& used : streams)
    for (const Kind& each : used.kinds) submit(each, 1, used.stream);
  for (const Used& used : streams) end(used);
  ready = true;
  std::mt19937 random(2);
  while (!over) {
    if (begun == ended) continue;
    if (options.late) std::this_thread::sleep_for(2ms);
    for (int i = 0; i < copies_of_a_round; ++i) {
      const size_t chosen = random() % kinds, bytes = 1 + (size_t{1} << random() % 22);
      Used& used = streams[options.by_kind ? chosen : random() % streams.size()];
      const Kind& each = used.kinds[chosen];
      bytes_of_call = bytes;
      call = each.name;
      submit(each, bytes, used.stream);
      used.last_copy = each.name;
      used.bytes = bytes;
      ++copies;
      if (random() % 3 == 0) end(streams[random() % streams.size()]);
    }
    for (const Used& used : streams) end(used);
    call = "no call";
    ended = ended + 1;
    __atomic_store_n(word, ended, __ATOMIC_RELEASE);
  }
}

bool parse(int argc, char** argv) {
  const std::map<std::string, bool*> flags{
      {"--by-kind", &options.by_kind},         {"--urgent", &options.urgent}, {"--late", &options.late},
      {"--synchronize", &options.synchronize}, {"--query", &options.query},   {"--fresh", &options.fresh}};
  const std::map<std::string, int*> numbers{
      {"--seconds", &options.seconds}, {"--streams", &options.streams}, {"--waiting", &options.waiting}};
  const std::map<std::string, std::pair<std::string*, const char*>> letters{
      {"--kinds", {&options.kinds, "gpdioqj"}}, {"--program", {&options.program, "hgpdio"}}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (const auto flag = flags.find(argument); flag != flags.end()) {
      *flag->second = true;
    } else if (const auto number = numbers.find(argument); number != numbers.end() && std::atoi(value) > 0) {
      *number->second = std::atoi(argv[++i]);
    } else if (const auto chosen = letters.find(argument);
               chosen != letters.end() && *value &&
               std::strspn(value, chosen->second.second) == std::strlen(value)) {
      *chosen->second.first = argv[++i];
    } else {
      std::fprintf(stderr, "driver_waits: '%s' is not accepted here; accepted:", argv[i]);
      for (const auto& [name, of] : letters)
        std::fprintf(stderr, " %s LETTERS (of %s),", name.c_str(), of.second);
      for (const auto& [name, to] : numbers) std::fprintf(stderr, " %s N,", name.c_str());
      for (const auto& [name, to] : flags) std::fprintf(stderr, " %s", name.c_str());
      std::fprintf(stderr, "\n");
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!parse(argc, argv)) return 2;
  Runtime* gpu = whole_runtime();
  if (!gpu || gpu->initialize() != Error::none || gpu->set_current_device(0) != Error::none ||
      !gpu->has_word_operations(0)) {
    std::printf("driver_waits: no GPU whose streams wait for words\n");
    return 77;
  }
  void* page = nullptr;
  MUST(gpu->allocate_pinned(4096, &page));
  word = static_cast<uint32_t*>(page);
  *word = 0;
  std::thread library(be_the_library), program(be_the_program);
  int hangs = 0;
  uint32_t last = 0;
  for (auto since = Clock::now(); !over; std::this_thread::sleep_for(1ms)) {
    if (ended != last || begun == ended) {
      last = ended;
      since = Clock::now();
    } else if (Clock::now() - since > hung_after) {
      const long queries_before = queries;
      std::this_thread::sleep_for(20ms);
      const char* state = !waits ? "is in" : queries != queries_before ? "polls for" : "is in a wait for";
      std::printf(
          "round %u, with a '%s' of %zu bytes in the program, hangs: the library %s '%s' of %zu bytes\n",
          begun.load(), copy_of_program.load(), bytes_of_program.load(), state, call.load(),
          bytes_of_call.load());
      std::fflush(stdout);
      ++hangs;
      __atomic_store_n(word, begun, __ATOMIC_RELEASE);
      since = Clock::now();
    }
  }
  program.join();
  library.join();
  std::printf("%u rounds, %ld copies, %d rounds hung\n", begun.load(), copies.load(), hangs);
  std::fflush(stdout);
  std::_Exit(hangs > 0);
}
