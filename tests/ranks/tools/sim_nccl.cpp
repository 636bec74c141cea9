// SPDX-License-Identifier: Apache-2.0
//
// An NCCL for tests: the functions that src/coll/nccl_functions.def lists, over simulated GPUs, between
// processes of one machine. It is as unforgiving as NCCL where that matters to a caller. Communicators are
// made, operations start and communicators end in a thread of its own; until that says so, nothing is in the
// stream, and calls for a blocking communicator do not return. The result is copied by the stream, late. Two
// ranks on one GPU, buffers of another device, and buffers that overlap otherwise than NCCL allows are
// refused; so is a second operation of a process while one is on its way, since in another order on another
// GPU two kernels of NCCL would wait for ever.
//
// It complains if a call needs memory of another thread, as in NCCL: of one that has ended in any release; of
// any in an old one.
//
// Ranks share a GPU where NCCL_MULTI_RANK_GPU_ENABLE is 1, as in NCCL 2.30.
//
// FAIRLEAD_TEST_NCCL, on one rank: no_communicator, failing_call (the third), failing_operation (also), or
// old_release.
//
// Bytes travel through a segment of shared memory that the unique id names, between threads of the processes.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "coll/nccl_library.h"
#include "device/runtime.h"
#include "kernels/half.h"

namespace {

using fairlead::coll::NcclConfig;
using fairlead::coll::NcclId;
using fairlead::coll::NcclOp;
using fairlead::coll::NcclType;
namespace device = fairlead::device;
namespace kernels = fairlead::kernels;
namespace result = fairlead::coll::nccl_result;

constexpr int remote_error = 6;
constexpr int most_ranks = 32;
constexpr size_t window_bytes = size_t{256} << 10;

struct Segment {
  std::atomic<int> joined;
  unsigned char gpus[most_ranks][16];
  std::atomic<uint64_t> steps[most_ranks];  // each rank's, all take the same
  uint64_t longest[most_ranks];             // message of each
  char windows[most_ranks][window_bytes];   // of what each sends, a part for each other
};

bool fault_is(const char* fault) {
  const char* wanted = std::getenv("FAIRLEAD_TEST_NCCL");
  return wanted && std::strcmp(wanted, fault) == 0;
}

std::atomic<int> operations_under_way{0};

// Tells what is left when the process exits.
struct Alive {
  ~Alive() {
    if (communicators > 0)
      std::fprintf(stderr, "simulated NCCL: %d communicators are left\n", communicators.load());
  }
  std::atomic<int> communicators{0};
} alive;

using Bytes = std::vector<char>;

// Lives as long as its thread.
thread_local const auto this_thread = std::make_shared<int>();

class Communicator {
 public:
  Communicator(const char* name, Segment* segment, int size, int rank, int device, bool blocking)
      : name_(name), segment_(segment), size_(size), rank_(rank), device_(device), blocking_(blocking) {
    ++alive.communicators;
    note_caller();
    do_later([this] { return join(); });
    thread_ = std::thread([this] { work_off(); });
  }

  // Jobs that wait for other ranks give up once it is aborted.
  ~Communicator() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_one();
    thread_.join();
    for (const auto& [native, stream] : streams_) {
      device::whole_runtime()->synchronize_stream(stream);
      device::whole_runtime()->destroy_stream(stream);
    }
    forget_name();
    munmap(segment_, sizeof *segment_);
    --alive.communicators;
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  int state() const { return state_.load(); }
  void abort() {
    note_caller();
    aborted_ = true;
  }
  void end() {
    note_caller();
    do_later([this] { return meet() ? result::success : remote_error; });
  }

  bool holds(const void* address) const {
    device::Allocation found;
    return device::runtime()->query(address, &found) == device::Error::none &&
           (found.kind == device::MemoryKind::device || found.kind == device::MemoryKind::managed) &&
           found.device == device_;
  }

  // Of a stream of the caller's.
  device::Stream adopted(void* native) {
    device::Stream& stream = streams_[native];
    int of_device = 0;
    if (!stream) device::runtime()->adopt_stream(native, &stream, &of_device);
    return stream;
  }

  // `sent` to each rank, from device memory, and so many bytes `received` from each, which `deliver` uploads.
  int start(device::Stream stream, std::vector<std::span<const char>> sent, std::vector<size_t> received,
            std::function<void(std::vector<Bytes>&)> deliver) {
    if (state() != result::success) return result::invalid_usage;
    if (++calls_ == 3 && fault_is("failing_call")) return result::system_error;
    if (operations_under_way.exchange(1) > 0) return result::invalid_usage;
    note_caller();
    do_later([=, this] {
      int outcome = run(stream, sent, received, deliver);
      operations_under_way = 0;
      return outcome;
    });
    return outcome();
  }

  // Of what has started, which a blocking communicator waits for.
  int outcome() {
    if (!blocking_) return result::in_progress;
    while (state() == result::in_progress) usleep(20);
    return state();
  }

  // By the stream, which reads them after this returns.
  void upload(device::Stream stream, void* to, const Bytes& bytes) {
    kept_.push_back(bytes);
    device::runtime()->copy(to, kept_.back().data(), bytes.size(), stream);
  }

 private:
  void note_caller() {
    const auto last = last_caller_.lock();
    if (has_caller_ && last != this_thread && (!last || fault_is("old_release")))
      std::fprintf(stderr, "simulated NCCL: a call needs memory of another thread\n");
    last_caller_ = this_thread;
    has_caller_ = true;
  }

  void forget_name() {
    if (rank_ == 0) shm_unlink(name_.c_str());
  }

  void do_later(std::function<int()> job) {
    state_ = result::in_progress;
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }

  void work_off() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      state_ = job();
      lock.lock();
    }
  }

  template <class Condition>
  bool wait(Condition condition) {
    // Ranks and their threads may share few processors.
    while (!condition()) {
      if (aborted_) return false;
      usleep(20);
    }
    return true;
  }

  int join() {
    if (fault_is("no_communicator")) return result::system_error;
    device::DeviceInfo info;
    device::runtime()->device_info(device_, &info);
    std::memcpy(segment_->gpus[rank_], info.uuid, sizeof info.uuid);
    ++segment_->joined;
    if (!wait([this] { return segment_->joined == size_; })) return remote_error;
    forget_name();
    const char* may_share = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    for (int other = 0; other < size_ && !(may_share && *may_share == '1'); ++other)
      if (other != rank_ && std::memcmp(segment_->gpus[other], info.uuid, sizeof info.uuid) == 0)
        return result::invalid_usage;
    return result::success;
  }

  bool meet() {
    uint64_t step = ++segment_->steps[rank_];
    return wait([&] {
      return std::all_of(segment_->steps, segment_->steps + size_, [&](auto& its) { return its >= step; });
    });
  }

  int run(device::Stream stream, const std::vector<std::span<const char>>& sent,
          const std::vector<size_t>& received, const std::function<void(std::vector<Bytes>&)>& deliver) {
    device::Runtime& runtime = *device::whole_runtime();
    // What came before in the stream comes before this; and reads no more of what was kept for it.
    if (runtime.synchronize_stream(stream) != device::Error::none) return 1;
    kept_.clear();
    std::vector<Bytes> out, in;
    for (auto message : sent) {
      Bytes& bytes = out.emplace_back(message.size());
      if (runtime.copy(bytes.data(), message.data(), bytes.size(), stream) != device::Error::none) return 1;
    }
    if (runtime.synchronize_stream(stream) != device::Error::none) return 1;
    if (calls_ == 3 && fault_is("failing_operation")) return remote_error;
    for (size_t bytes : received) in.emplace_back(bytes);
    if (!exchange(out, in)) return remote_error;
    deliver(in);
    return result::success;
  }

  bool exchange(const std::vector<Bytes>& out, std::vector<Bytes>& in) {
    const auto ranks = static_cast<size_t>(size_);
    const size_t part = window_bytes / ranks;
    uint64_t& mine = segment_->longest[rank_];
    mine = 0;
    for (const Bytes& message : out) mine = std::max<uint64_t>(mine, message.size());
    if (!meet()) return false;
    const uint64_t longest = *std::max_element(segment_->longest, segment_->longest + size_);
    auto chunk = [part](auto& message, size_t at) {
      const size_t begin = std::min(at, message.size());
      return std::span(message).subspan(begin, std::min(part, message.size() - begin));
    };
    for (size_t at = 0; at < longest; at += part) {
      for (size_t other = 0; other < ranks; ++other) {
        auto piece = chunk(out[other], at);
        std::copy(piece.begin(), piece.end(), segment_->windows[rank_] + other * part);
      }
      if (!meet()) return false;
      for (size_t other = 0; other < ranks; ++other) {
        auto piece = chunk(in[other], at);
        std::copy_n(segment_->windows[other] + static_cast<size_t>(rank_) * part, piece.size(),
                    piece.begin());
      }
      if (!meet()) return false;
    }
    return meet();
  }

  const std::string name_;
  Segment* const segment_;
  const int size_, rank_, device_;
  const bool blocking_;
  std::atomic<int> state_{result::in_progress};
  std::atomic<bool> aborted_{false};
  std::atomic<int> calls_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<int()>> jobs_;
  bool closed_ = false;
  std::thread thread_;
  std::deque<Bytes> kept_;
  std::map<void*, device::Stream> streams_;
  std::weak_ptr<int> last_caller_;
  bool has_caller_ = false;
};

// ---- Arithmetic ------------------------------------------------------------------------------------------

template <float widen(unsigned short), unsigned short narrow(float)>
struct Half {
  Half(float value) : bits(narrow(value)) {}
  operator float() const { return widen(bits); }
  unsigned short bits;
};
using Float16 = Half<kernels::float16_to_float, kernels::float_to_float16>;
using BFloat16 = Half<kernels::bfloat16_to_float, kernels::float_to_bfloat16>;

template <class T>
T combined(NcclOp op, T a, T b) {
  // Of integers the bits, which are the same without signs.
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  const Wide x = static_cast<Wide>(a), y = static_cast<Wide>(b);
  switch (op) {
    case NcclOp::sum:
      return static_cast<T>(x + y);
    case NcclOp::prod:
      return static_cast<T>(x * y);
    case NcclOp::max:
      return std::max(a, b);
    case NcclOp::min:
      return std::min(a, b);
  }
  return a;
}

template <class T>
void combine_as(NcclOp op, Bytes& into, const Bytes& from) {
  for (size_t at = 0; at + sizeof(T) <= into.size(); at += sizeof(T)) {
    alignas(T) char both[2][sizeof(T)];
    std::memcpy(both[0], into.data() + at, sizeof(T));
    std::memcpy(both[1], from.data() + at, sizeof(T));
    const T made = combined(op, *reinterpret_cast<T*>(both[0]), *reinterpret_cast<T*>(both[1]));
    std::memcpy(into.data() + at, &made, sizeof(T));
  }
}

struct TypeTraits {
  size_t bytes;
  void (*combine)(NcclOp, Bytes&, const Bytes&);
};
constexpr TypeTraits traits[] = {
    {1, combine_as<int8_t>},  {1, combine_as<uint8_t>},  {4, combine_as<int32_t>}, {4, combine_as<uint32_t>},
    {8, combine_as<int64_t>}, {8, combine_as<uint64_t>}, {2, combine_as<Float16>}, {4, combine_as<float>},
    {8, combine_as<double>},  {2, combine_as<BFloat16>},
};

const TypeTraits* traits_of(NcclType type) {
  const auto number = static_cast<size_t>(type);
  return number < std::size(traits) ? &traits[number] : nullptr;
}

// In the order of ranks, so that all have the same bits.
Bytes reduce_all(NcclOp op, NcclType type, std::vector<Bytes>& from) {
  for (size_t other = 1; other < from.size(); ++other) traits_of(type)->combine(op, from[0], from[other]);
  return std::move(from[0]);
}

// ---- Buffers ----------------------------------------------------------------------------------------------

std::span<const char> memory(const void* address, size_t bytes) {
  return {static_cast<const char*>(address), bytes};
}

bool apart(std::span<const char> a, std::span<const char> b) {
  return a.data() + a.size() <= b.data() || b.data() + b.size() <= a.data();
}

// ---- Groups -----------------------------------------------------------------------------------------------

struct Part {
  Communicator* communicator;
  device::Stream stream;
  int peer;
  std::span<const char> sent;
  std::span<char> received;
};
thread_local int group_depth = 0;
thread_local std::vector<Part> group;

int add_to_group(const Part& part) {
  const void* address = part.sent.data() ? part.sent.data() : part.received.data();
  if (!part.communicator->holds(address)) return result::invalid_argument;
  group.push_back(part);
  return result::success;
}

int start_group() {
  if (group.empty()) return result::success;
  std::vector<Part> parts = std::move(group);
  group.clear();
  Communicator* communicator = parts[0].communicator;
  const auto ranks = static_cast<size_t>(communicator->size());
  std::vector<std::span<const char>> sent(ranks);
  std::vector<size_t> received(ranks);
  for (const Part& one : parts) {
    if (one.sent.data()) sent[static_cast<size_t>(one.peer)] = one.sent;
    if (one.received.data()) received[static_cast<size_t>(one.peer)] = one.received.size();
    for (const Part& other : parts)
      if (one.sent.data() && other.received.data() && !apart(one.sent, other.received))
        return result::invalid_usage;
  }
  return communicator->start(parts[0].stream, sent, received, [parts](std::vector<Bytes>& in) {
    for (const Part& one : parts)
      if (one.received.data())
        one.communicator->upload(one.stream, one.received.data(), in[static_cast<size_t>(one.peer)]);
  });
}

// ---- Collectives -------------------------------------------------------------------------------------

// What a rank sends to each, how much it receives from each, and what it makes of that.
struct Collective {
  Communicator* communicator;
  device::Stream stream;
  std::vector<std::span<const char>> sent;
  std::vector<size_t> received;

  Collective(Communicator* made_on, void* in)
      : communicator(made_on),
        stream(made_on->adopted(in)),
        sent(static_cast<size_t>(made_on->size())),
        received(static_cast<size_t>(made_on->size())) {}

  int start(const void* from, void* to, std::function<Bytes(std::vector<Bytes>&)> make) {
    if (group_depth > 0) return result::invalid_usage;
    if ((from && !communicator->holds(from)) || (to && !communicator->holds(to)))
      return result::invalid_argument;
    return communicator->start(stream, sent, received,
                               [to, make, c = communicator, s = stream](std::vector<Bytes>& in) {
                                 if (to) c->upload(s, to, make(in));
                               });
  }
};

Bytes joined(std::vector<Bytes>& blocks) {
  Bytes all;
  for (const Bytes& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

constexpr const char* words[] = {"no error",
                                 "unhandled error of the device",
                                 "unhandled system error",
                                 "internal error",
                                 "invalid argument",
                                 "invalid usage",
                                 "a remote process failed",
                                 "in progress"};

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = fault_is("old_release") ? 22700 : 23000;
  return result::success;
}

const char* ncclGetErrorString(int code) {
  return words[code];
}

const char* ncclGetLastError(Communicator*) {
  return "simulated";
}

int ncclGetUniqueId(NcclId* id) {
  static int made = 0;
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "/fairlead-sim-nccl-%d-%d", getpid(), ++made);
  const int file = shm_open(id->bytes, O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Segment)) != 0) return result::system_error;
  close(file);
  return result::success;
}

int ncclCommInitRankConfig(Communicator** made, int ranks, NcclId id, int rank, NcclConfig* config) {
  int current = 0;
  if (config->size != sizeof *config || config->magic != 0xcafebeef || ranks > most_ranks ||
      device::runtime()->current_device(&current) != device::Error::none)
    return result::invalid_argument;
  const int file = shm_open(id.bytes, O_RDWR, 0600);
  if (file < 0) return result::system_error;
  void* segment = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (segment == MAP_FAILED) return result::system_error;
  *made = new Communicator(id.bytes, static_cast<Segment*>(segment), ranks, rank, current, config->blocking);
  return (*made)->outcome();
}

int ncclCommGetAsyncError(Communicator* communicator, int* state) {
  *state = communicator->state();
  return result::success;
}

int ncclCommFinalize(Communicator* communicator) {
  communicator->end();
  return result::in_progress;
}

int ncclCommDestroy(Communicator* communicator) {
  if (communicator->state() != result::success) return result::invalid_usage;
  delete communicator;
  return result::success;
}

int ncclCommAbort(Communicator* communicator) {
  communicator->abort();
  delete communicator;
  return result::success;
}

int ncclAllReduce(const void* from, void* to, size_t count, NcclType type, NcclOp op,
                  Communicator* communicator, void* stream) {
  const size_t bytes = count * traits_of(type)->bytes;
  if (from != to && !apart(memory(from, bytes), memory(to, bytes))) return result::invalid_usage;
  Collective collective(communicator, stream);
  for (auto& message : collective.sent) message = memory(from, bytes);
  for (size_t& message : collective.received) message = bytes;
  return collective.start(from, to, [=](std::vector<Bytes>& in) { return reduce_all(op, type, in); });
}

int ncclReduce(const void* from, void* to, size_t count, NcclType type, NcclOp op, int root,
               Communicator* communicator, void* stream) {
  const size_t bytes = count * traits_of(type)->bytes;
  const bool is_root = communicator->rank() == root;
  if (is_root && from != to && !apart(memory(from, bytes), memory(to, bytes))) return result::invalid_usage;
  Collective collective(communicator, stream);
  collective.sent[static_cast<size_t>(root)] = memory(from, bytes);
  if (is_root)
    for (size_t& message : collective.received) message = bytes;
  return collective.start(from, is_root ? to : nullptr,
                          [=](std::vector<Bytes>& in) { return reduce_all(op, type, in); });
}

int ncclBroadcast(const void* from, void* to, size_t count, NcclType type, int root,
                  Communicator* communicator, void* stream) {
  const size_t bytes = count * traits_of(type)->bytes;
  const bool is_root = communicator->rank() == root;
  Collective collective(communicator, stream);
  if (is_root)
    for (auto& message : collective.sent) message = memory(from, bytes);
  collective.received[static_cast<size_t>(root)] = bytes;
  return collective.start(is_root ? from : nullptr, to,
                          [=](std::vector<Bytes>& in) { return in[static_cast<size_t>(root)]; });
}

int ncclAllGather(const void* from, void* to, size_t count, NcclType type, Communicator* communicator,
                  void* stream) {
  const size_t bytes = count * traits_of(type)->bytes;
  const auto ranks = static_cast<size_t>(communicator->size());
  const char* own = static_cast<char*>(to) + static_cast<size_t>(communicator->rank()) * bytes;
  if (from != own && !apart(memory(from, bytes), memory(to, ranks * bytes))) return result::invalid_usage;
  Collective collective(communicator, stream);
  for (auto& message : collective.sent) message = memory(from, bytes);
  for (size_t& message : collective.received) message = bytes;
  return collective.start(from, to, joined);
}

int ncclReduceScatter(const void* from, void* to, size_t count, NcclType type, NcclOp op,
                      Communicator* communicator, void* stream) {
  const size_t bytes = count * traits_of(type)->bytes;
  const auto ranks = static_cast<size_t>(communicator->size());
  const char* own = static_cast<const char*>(from) + static_cast<size_t>(communicator->rank()) * bytes;
  if (to != own && !apart(memory(from, ranks * bytes), memory(to, bytes))) return result::invalid_usage;
  Collective collective(communicator, stream);
  for (size_t other = 0; other < ranks; ++other) {
    collective.sent[other] = memory(static_cast<const char*>(from) + other * bytes, bytes);
    collective.received[other] = bytes;
  }
  return collective.start(from, to, [=](std::vector<Bytes>& in) { return reduce_all(op, type, in); });
}

int ncclMemAlloc(void** address, size_t bytes) {
  int current = 0;
  return device::runtime()->current_device(&current) == device::Error::none &&
                 device::whole_runtime()->allocate(current, bytes, address) == device::Error::none
             ? result::success
             : result::system_error;
}

int ncclMemFree(void* address) {
  return device::whole_runtime()->free(address) == device::Error::none ? result::success
                                                                       : result::invalid_argument;
}

int ncclCommWindowRegister(Communicator* communicator, void* address, size_t, void** window, int flags) {
  if (!communicator->holds(address) || flags != fairlead::coll::nccl_window_symmetric)
    return result::invalid_argument;
  *window = address;
  return result::success;
}

int ncclCommWindowDeregister(Communicator* communicator, void* window) {
  return communicator->holds(window) ? result::success : result::invalid_argument;
}

int ncclGroupStart() {
  ++group_depth;
  return result::success;
}

int ncclGroupEnd() {
  return --group_depth > 0 ? result::success : start_group();
}

int ncclSend(const void* from, size_t count, NcclType type, int peer, Communicator* communicator,
             void* stream) {
  if (group_depth == 0) return result::invalid_usage;
  return add_to_group(
      {communicator, communicator->adopted(stream), peer, memory(from, count * traits_of(type)->bytes), {}});
}

int ncclRecv(void* to, size_t count, NcclType type, int peer, Communicator* communicator, void* stream) {
  if (group_depth == 0) return result::invalid_usage;
  return add_to_group({communicator,
                       communicator->adopted(stream),
                       peer,
                       {},
                       {static_cast<char*>(to), count * traits_of(type)->bytes}});
}

}  // extern "C"
