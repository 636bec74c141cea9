// SPDX-License-Identifier: Apache-2.0
//
// pairs: strided parallel pairs of ping-pong partners over all ranks. For each stride at which all ranks pair
// up, from half of them down to 1, a buffer is sent to and fro as 1, 2, 4, ... messages, until an iteration
// takes longer than the timeout. Prints a gnuplot data file; its form is fixed, people's scripts read it.
// With --table it has the units of the other benchmarks.

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/machine.h"
#include "bench/mpi/ranks.h"
#include "common/provenance.h"

namespace fairlead::tools {
namespace {

struct Allocator {
  const char* letter;
  Place place;
  const char* cuda;
  const char* rocm;
  const char* sim;
};
constexpr Allocator allocators[] = {
    {"d", Place::device, "cudaMalloc", "hipMalloc", "device (sim)"},
    {"h", Place::pinned, "cudaMallocHost", "hipHostMalloc", "pinned host (sim)"},
    {"a", Place::aligned, "posix_memalign", "posix_memalign", "posix_memalign"},
    {"", Place::plain, "malloc", "malloc", "malloc"},  // any other letter
};

const Allocator& allocator_of(const std::string& letter) {
  for (const Allocator& allocator : allocators)
    if (letter == allocator.letter) return allocator;
  return allocators[std::size(allocators) - 1];
}

std::string allocator_name(const Allocator& allocator, const std::string& provider) {
  return provider == "cuda" ? allocator.cuda : provider == "rocm" ? allocator.rocm : allocator.sim;
}

// "193(48-63,112-127)": bus number of the GPU and the cores nearest to it; "-" without a GPU.
std::string device_label(int device) {
  if (device < 0) return "-";
  std::string pci = fairlead_device_pci(device);
  size_t colon = pci.find(':');
  bool on_bus = colon != std::string::npos && std::strcmp(fairlead_device_provider(), "sim") != 0;
  long number = on_bus ? std::strtol(pci.c_str() + colon + 1, nullptr, 16) : device;
  return fmt::format("{}({})", number, closest_cpus(on_bus ? pci : ""));
}

// One text of every rank, in rank 0.
std::vector<std::string> gather(const std::string& text, const Ranks& ranks) {
  constexpr int width = 512;
  std::string mine = text.substr(0, width - 1);
  mine.resize(width);
  std::vector<char> all(ranks.rank == 0 ? size_t(width) * ranks.size : 0);
  MPI_Gather(mine.data(), width, MPI_CHAR, all.data(), width, MPI_CHAR, 0, MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (size_t at = 0; at < all.size(); at += width) texts.emplace_back(&all[at]);
  return texts;
}

class Pairs {
 public:
  Pairs(const BenchArguments& arguments, const Ranks& ranks, Buffer& ping, Buffer& pong)
      : ranks_(ranks),
        ping_(ping),
        pong_(pong),
        count_(arguments.count),
        start_(static_cast<size_t>(arguments.misalign) * sizeof(long)),
        timeout_s_(arguments.timeout_s),
        usual_units_(arguments.usual_units) {}

  // False when a rank received wrong data.
  bool run_stride(int stride) {
    lower_ = ranks_.rank / stride % 2 == 0;
    partner_ = lower_ ? ranks_.rank + stride : ranks_.rank - stride;
    if (ranks_.rank == 0) std::printf("\n# stride between partners: %d\n%s\n", stride, headings());
    exchange(1);  // unmeasured: the first touch of a pair's path
    bool right = true;
    for (int64_t messages = 1; messages <= count_ && right; messages *= 2) {
      int64_t longs = count_ / messages;
      size_t bytes = static_cast<size_t>(longs * messages) * sizeof(long);
      // What arrives must be this iteration's data.
      uint64_t seed = static_cast<uint64_t>(stride) * 64 + static_cast<uint64_t>(__builtin_ctzll(messages));
      if (lower_) ping_.write_pattern(start_, bytes, seed);
      pong_.clear(start_, bytes);
      double seconds = exchange(messages);
      double slowest = print_row(messages, longs, seconds);
      right = verify(bytes, seed, stride, messages);
      if (slowest > timeout_s_) break;
    }
    if (ranks_.rank == 0) std::printf("\n"), std::fflush(stdout);
    return right;
  }

 private:
  const char* headings() const {
    return usual_units_
               ? "# times of a message in us, bandwidths in MB/s: mean, least and greatest of the pairs\n"
                 "# Size         Avg       Min       Max   Avg MB/s  Min MB/s  Max MB/s  Messages"
               : "# ping-pongs | count (longs) | max avg min time/msg/pair (us) | min avg max bandwidth "
                 "(GiB/s) | "
                 "min avg max rate (msgs/s)";
  }

  // Every message goes to the upper partner and comes back; returns the seconds for all of them.
  double exchange(int64_t messages) {
    const int64_t longs = count_ / messages;
    long* ping = reinterpret_cast<long*>(static_cast<char*>(ping_.address()) + start_);
    long* pong = reinterpret_cast<long*>(static_cast<char*>(pong_.address()) + start_);
    const int count = static_cast<int>(longs);
    MPI_Request request = MPI_REQUEST_NULL;
    auto receive = [&](int64_t message) {
      MPI_Irecv(pong + message * longs, count, MPI_LONG, partner_, message_tag, MPI_COMM_WORLD, &request);
    };
    if (!lower_) receive(0);  // before the clock starts, so that the first message is expected too
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int64_t message = 0; message < messages; ++message) {
      if (lower_) {
        receive(message);
        MPI_Send(ping + message * longs, count, MPI_LONG, partner_, message_tag, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (message + 1 < messages) receive(message + 1);
        MPI_Send(pong + message * longs, count, MPI_LONG, partner_, message_tag, MPI_COMM_WORLD);
      }
    }
    return MPI_Wtime() - start;
  }

  // Returns the longest time of a pair.
  double print_row(int64_t messages, int64_t longs, double seconds) const {
    // The lower partner has seen the whole round trip of its pair.
    double high = lower_ ? seconds : 0, low = lower_ ? seconds : 1e30, sum = lower_ ? seconds : 0;
    double max = 0, min = 0, total = 0;
    MPI_Allreduce(&high, &max, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&low, &min, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (ranks_.rank != 0) return max;
    double one_way = 1.0 / (2.0 * double(messages));
    double slowest = max * one_way, average = total / (ranks_.size / 2) * one_way, fastest = min * one_way;
    const double bytes = double(longs) * sizeof(long);
    if (usual_units_) {
      const double mb = bytes / 1e6;
      std::printf("%-8lld%10.2f%10.2f%10.2f%11.2f%10.2f%10.2f%10lld\n", static_cast<long long>(bytes),
                  average * 1e6, fastest * 1e6, slowest * 1e6, mb / average, mb / slowest, mb / fastest,
                  static_cast<long long>(messages));
      std::fflush(stdout);
      return max;
    }
    double gib = bytes / (1 << 30);
    std::printf("%lld %lld %g %g %g %g %g %g %g %g %g\n", static_cast<long long>(messages),
                static_cast<long long>(longs), slowest * 1e6, average * 1e6, fastest * 1e6, gib / slowest,
                gib / average, gib / fastest, 1 / slowest, 1 / average, 1 / fastest);
    std::fflush(stdout);
    return max;
  }

  bool verify(size_t bytes, uint64_t seed, int stride, int64_t messages) const {
    int right = pong_.holds_pattern(start_, bytes, seed), all_right = 0;
    if (!right)
      std::fprintf(
          stderr,
          "fairlead bench pairs: rank %d received wrong data from rank %d (stride %d, %lld messages)\n",
          ranks_.rank, partner_, stride, static_cast<long long>(messages));
    MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all_right;
  }

  const Ranks& ranks_;
  Buffer& ping_;
  Buffer& pong_;
  int64_t count_;
  size_t start_;
  double timeout_s_;
  bool usual_units_;
  bool lower_ = true;
  int partner_ = 0;
};

void print_header(const BenchArguments& arguments, const Ranks& ranks, const std::string& allocator) {
  std::vector<std::string> lines =
      gather(fmt::format("{} {} {}", host_name(), bound_cpus(), device_label(ranks.device)), ranks);
  if (ranks.rank != 0) return;
  std::printf(
      "# pairs: strided parallel pairs of MPI ping-pong partners\n# rank: host cores device(closest "
      "cores)\n");
  for (size_t rank = 0; rank < lines.size(); ++rank) std::printf("# %zu: %s\n", rank, lines[rank].c_str());
  std::printf("# allocator: %s\n# pairs: %d\n", allocator.c_str(), ranks.size / 2);
  const double bytes = double(arguments.count) * sizeof(long);
  if (arguments.usual_units)
    std::printf("# total size: %.0f bytes\n", bytes);
  else
    std::printf("# total count: %lld longs (%g MiB)\n", static_cast<long long>(arguments.count),
                bytes / (1 << 20));
  std::printf("# timeout: %gs\n", arguments.timeout_s);
  std::fflush(stdout);
}

}  // namespace

int pairs_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  const Allocator& allocator = allocator_of(arguments.allocator);
  const size_t bytes = static_cast<size_t>(arguments.count + arguments.misalign) * sizeof(long);
  std::optional<Buffer> ping, pong;
  std::string provider = "none";
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    if (arguments.needs_device() || !arguments.device.empty()) {
      ranks.take_device(arguments);
      provider = fairlead_device_provider();
    }
    std::string lacking = shortage(allocator.place, 2 * bytes, ranks.local_size);
    if (!lacking.empty())
      throw usage(fmt::format("pairs: COUNT {} ({} twice per rank): {}; give a smaller COUNT",
                              arguments.count, size_in_words(bytes), lacking));
    ping.emplace(allocator.place, bytes);
    pong.emplace(allocator.place, bytes);
  });
  if (ranks.rank == 0 && allocator.place == Place::plain && arguments.allocator != "m")
    std::fprintf(
        stderr,
        "fairlead bench pairs: allocator '%s' is taken for malloc; d, h and a are device, pinned host and "
        "posix_memalign\n",
        arguments.allocator.c_str());
  if (ranks.rank == 0 && is_simulated(arguments))
    std::fprintf(stderr, "fairlead bench pairs: %s\n", words_of_simulation);
  print_header(arguments, ranks, allocator_name(allocator, provider));

  constexpr size_t slow_to_prepare = size_t{256} << 20;
  if (ranks.rank == 0 && bytes >= slow_to_prepare)
    std::fprintf(stderr,
                 "fairlead bench pairs: writing and checking %s per rank takes a while around each row\n",
                 size_in_words(bytes).c_str());
  Pairs pairs(arguments, ranks, *ping, *pong);
  bool right = true;
  for (int stride = ranks.size / 2; stride > 0 && right; --stride)
    if (ranks.size % (2 * stride) == 0) right = pairs.run_stride(stride);
  return right ? exit_success : exit_problem;
}

}  // namespace fairlead::tools
