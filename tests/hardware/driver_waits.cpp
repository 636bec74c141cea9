// SPDX-License-Identifier: Apache-2.0
//
// Does a thread of the library go on while one of the program is in a copy of pageable memory that waits for
// a word (docs/design/streams.md, "What drivers do")? The program's thread enqueues a wait and such a copy,
// again and again; the library's copies, polls, and then writes the word, as progress does. A round that
// takes seconds has hung: the driver makes one of the library's calls wait for the program's. Prints in which
// call that was, and fails.
//
//   driver_waits [--seconds N] [--synchronize] [--query] [--fresh] [--one-stream] [--kinds LETTERS]
//
//   --synchronize  the library's thread waits for its copies by synchronize_stream(), which it must not
//   --query        the program's waits for its stream by queries
//   --fresh        the program's makes and frees its memory in each round
//   --one-stream   the library's has one stream, else four
//   --kinds        of copies, of: g get from a peer, p put to it, d inside a device, i in from page-locked
//                  memory, o out to it (default: all)

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/runtime.h"
#include "device/submit_copies.h"

using namespace fairlead::device;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t most = size_t{4} << 20;
constexpr int copies_of_a_round = 20;
constexpr auto hung_after = 3s;

struct Options {
  int seconds = 10;
  bool synchronize = false, query = false, fresh = false, one_stream = false;
  std::string kinds = "gpdio";
} options;

void must(const char* call, Error error) {
  if (error == Error::none) return;
  std::fprintf(stderr, "driver_waits: %s: %s: %s\n", call, to_string(error), runtime()->error_text());
  std::_Exit(2);
}
#define MUST(call) must(#call, call)

// What both threads and the main one see.
std::atomic<uint32_t> begun = 0, ended = 0;  // rounds
std::atomic<bool> over = false;
std::atomic<const char*> call = "no call";
std::atomic<size_t> bytes_of_call = 0;
std::atomic<long> copies = 0;
uint32_t* word = nullptr;

void wait_for(Stream stream, bool by_query) {
  MUST(by_query ? wait_by_queries(stream) : runtime()->synchronize_stream(stream));
}

void be_the_program() {
  Runtime& gpu = *runtime();
  MUST(gpu.set_current_device(0));
  std::mt19937 random(1);
  Stream stream = nullptr;
  MUST(gpu.create_stream(0, &stream));
  void* memory = nullptr;
  std::vector<char> pageable(most);
  if (!options.fresh) MUST(gpu.allocate(0, most, &memory));
  for (const auto end = Clock::now() + std::chrono::seconds(options.seconds); Clock::now() < end;) {
    const size_t bytes = random() % 2 ? 40000 : 64 + random() % (most - 64);
    if (options.fresh) {
      MUST(gpu.allocate(0, bytes, &memory));
      pageable = std::vector<char>(bytes);
    }
    const uint32_t round = begun + 1;
    MUST(gpu.wait_word(stream, word, round));
    begun = round;
    MUST(gpu.copy(pageable.data(), memory, bytes, stream));
    wait_for(stream, options.query);
    if (options.fresh) MUST(gpu.free(memory));
  }
  over = true;
}

void be_the_library() {
  Runtime& gpu = *runtime();
  MUST(gpu.set_current_device(0));
  int devices = 0;
  MUST(gpu.device_count(&devices));
  void *here = nullptr, *there = nullptr, *pinned = nullptr;
  if (devices > 1) {
    MUST(gpu.enable_peer(0, 1));
    MUST(gpu.allocate(1, most, &there));
  }
  MUST(gpu.allocate(0, 2 * most, &here));
  if (!there) there = static_cast<char*>(here) + most;
  MUST(gpu.allocate_pinned(most, &pinned));
  struct Kind {
    char letter;
    const char* name;
    void *to, *from;
  };
  std::vector<Kind> kinds{{'g', "get", here, there},
                          {'p', "put", there, here},
                          {'d', "copy inside a device", here, static_cast<char*>(here) + most},
                          {'i', "copy in", here, pinned},
                          {'o', "copy out", pinned, here}};
  std::erase_if(kinds, [](const Kind& kind) { return options.kinds.find(kind.letter) == std::string::npos; });
  std::vector<Stream> streams(options.one_stream ? 1 : 4);
  for (Stream& stream : streams) MUST(gpu.create_stream(0, &stream));
  const auto end = [](Stream stream) {
    call = "wait for a stream";
    wait_for(stream, !options.synchronize);
  };
  std::mt19937 random(2);
  while (!over) {
    if (begun == ended) continue;
    for (int i = 0; i < copies_of_a_round; ++i) {
      const Kind& kind = kinds[random() % kinds.size()];
      const size_t bytes = 1 + (size_t{1} << random() % 22);
      bytes_of_call = bytes;
      call = kind.name;
      MUST(gpu.copy(kind.to, kind.from, bytes, streams[random() % streams.size()]));
      ++copies;
      if (random() % 3 == 0) end(streams[random() % streams.size()]);
    }
    for (Stream stream : streams) end(stream);
    call = "no call";
    ended = ended + 1;
    __atomic_store_n(word, ended, __ATOMIC_RELEASE);
  }
}

int refuse(const char* argument) {
  std::fprintf(stderr,
               "driver_waits: '%s' is not accepted; accepted: --seconds N, --synchronize, --query, --fresh, "
               "--one-stream, --kinds LETTERS, of g p d i o\n",
               argument);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--seconds" && std::atoi(value) > 0)
      options.seconds = std::atoi(argv[++i]);
    else if (argument == "--kinds" && *value && std::strspn(value, "gpdio") == std::strlen(value))
      options.kinds = argv[++i];
    else if (argument == "--synchronize")
      options.synchronize = true;
    else if (argument == "--query")
      options.query = true;
    else if (argument == "--fresh")
      options.fresh = true;
    else if (argument == "--one-stream")
      options.one_stream = true;
    else
      return refuse(argv[i]);
  }
  Runtime* gpu = runtime();
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
      std::printf("round %u hangs: the library is in '%s' of %zu bytes, its copy %ld\n", begun.load(),
                  call.load(), bytes_of_call.load(), copies.load());
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
