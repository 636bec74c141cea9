// SPDX-License-Identifier: Apache-2.0

#include "flight/view.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>

#include "base/system/printable.h"
#include "flight/clock.h"

namespace fairlead::flight {
namespace {

constexpr const char* operation_names[operations_kept] = {
    "MPI_MAX",  "MPI_MIN",  "MPI_SUM",    "MPI_PROD",   "MPI_LAND",    "MPI_BAND",  "MPI_LOR", "MPI_BOR",
    "MPI_LXOR", "MPI_BXOR", "MPI_MINLOC", "MPI_MAXLOC", "MPI_REPLACE", "MPI_NO_OP", "",        ""};

Call read(const Call& shared) {
  Call call;
  auto* from = reinterpret_cast<const uint64_t*>(&shared);
  uint64_t words[sizeof(Call) / sizeof(uint64_t)];
  for (size_t i = 0; i < std::size(words); ++i) words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
  std::memcpy(&call, words, sizeof call);
  return call;
}

template <size_t length>
std::string text_of(const char (&shared)[length]) {
  return printable(std::string(shared, strnlen(shared, length)));
}

// A zombie has died, too.
bool is_alive(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t end = line.rfind(')');
  return end != std::string::npos && end + 2 < line.size() && line[end + 2] != 'Z' && line[end + 2] != 'X';
}

// Newest first, of the first `begun` ones.
template <class Calls>
std::vector<Call> read_calls(const Calls& shared, uint64_t begun) {
  const uint64_t oldest = begun > calls_kept ? begun - calls_kept : 0;
  std::vector<Call> calls;
  for (uint64_t number = begun; number > oldest; --number)
    calls.push_back(read(shared.calls[(number - 1) % calls_kept]));
  // Those that were overwritten meanwhile. (A call that is just being written may be half one and half
  // another: nobody waits for a reader.)
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t written = std::min<uint64_t>(shared.begun.load() - begun, calls.size());
  calls.resize(calls.size() - written);
  return calls;
}

void read_thread(const Thread& thread, size_t place, RankView* view) {
  const uint64_t open = thread.open.load(std::memory_order_acquire), begun = thread.begun.load();
  view->calls += begun;
  const std::vector<Call> calls = read_calls(thread, begun);
  if (open > 0 && open <= begun && begun - open < calls.size()) {
    const Call& call = calls[begun - open];
    if (!view->open || call.since < view->open->since) {
      view->open = call;
      view->awaited.clear();
      for (const Call& shared : view->block->requests)
        if (const Call request = read(shared); request.repeats == waiting_mark(open, place))
          view->awaited.push_back(request);
    }
  }
  view->last.insert(view->last.end(), calls.begin(), calls.end());
}

void read_enqueued(const Enqueued& enqueued, RankView* view) {
  const uint64_t comm = enqueued.comm.load(), begun = enqueued.begun.load(std::memory_order_acquire);
  if (comm == 0) return;
  std::vector<Call> calls = read_calls(enqueued, begun);
  view->last.insert(view->last.end(), calls.begin(), calls.end());
  if (!enqueued.captured) view->enqueued.push_back({view->communicator(comm).id, begun, std::move(calls)});
}

RankView view_of(const Header& header, const Rank& rank) {
  RankView view{&rank, rank.rank, rank.size, rank.pid, rank.state.load()};
  view.read = header.copied != 0 ? header.copied : time_of_tick();
  view.is_here = header.copied == 0;
  view.lives = view.is_here ? is_alive(view.pid) : rank.lived != 0;
  // First, as each has the time of a call of its thread.
  for (const Enqueued& enqueued : rank.enqueued) read_enqueued(enqueued, &view);
  for (size_t i = 0; i < threads_kept; ++i) read_thread(rank.threads[i], i, &view);
  for (const Call& shared : rank.streams)
    if (const Call call = read(shared); call.request != 0) view.streams.push_back(call);
  std::stable_sort(view.last.begin(), view.last.end(),
                   [](const Call& one, const Call& other) { return one.since > other.since; });
  return view;
}

// A stream cannot pass a collective for which it needs all members before all have enqueued it.
void add_unpassed(const JobView& job, RankView* rank) {
  for (const EnqueuedView& enqueued : rank->enqueued)
    if (const auto by_all = job.enqueued_by_all(*rank, enqueued);
        by_all && *by_all < enqueued.begun && !enqueued.last.empty() && enqueued.after(*by_all).repeats == 1)
      rank->streams.push_back(enqueued.after(*by_all));
}

}  // namespace

CommunicatorView RankView::communicator(uint64_t handle) const {
  if (handle == block->world) return {1, size, "MPI_COMM_WORLD", {}};
  for (const Communicator& known : block->known) {
    if (known.handle != handle || handle == 0) continue;
    CommunicatorView view{known.id, known.size, text_of(known.name), {}};
    const int kept = std::clamp(known.size, 0, static_cast<int>(members_kept));
    view.members.assign(known.members, known.members + kept);
    if (view.name.empty()) {
      char text[48];
      std::snprintf(text, sizeof text, "communicator %04x of %d ranks",
                    static_cast<unsigned>(known.id & 0xffff), known.size);
      view.name = text;
    }
    return view;
  }
  return {0, 0, "a freed or unknown communicator", {}};
}

int RankView::in_world(const Call& call, int peer) const {
  if (peer == absent || peer == block->null_rank) return nobody;
  if (peer == block->any_source) return any_rank;
  const CommunicatorView comm = communicator(call.comm);
  if (comm.id == 1) return peer;
  return peer >= 0 && peer < static_cast<int>(comm.members.size()) ? comm.members[static_cast<size_t>(peer)]
                                                                   : nobody;
}

std::string RankView::operation(const Call& call) const {
  const auto* found = std::find(std::begin(block->operations), std::end(block->operations), call.op);
  return call.op != 0 && found != std::end(block->operations) ? operation_names[found - block->operations]
                                                              : "";
}

const RankView* JobView::find(int rank) const {
  auto found =
      std::find_if(ranks.begin(), ranks.end(), [rank](const RankView& each) { return each.rank == rank; });
  return found == ranks.end() ? nullptr : &*found;
}

std::string JobView::name_of(const Call& call) const {
  std::string name = call.function < functions_kept ? text_of(files.front()->functions[call.function]) : "?";
  if (call.kind != Kind::enqueued || !name.starts_with("MPI_I")) return name;
  if (name.ends_with("_c")) name.resize(name.size() - 2);
  name = "MPIX_" + name.substr(5) + "_enqueue";
  name[5] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[5])));
  return name;
}

std::optional<uint64_t> JobView::enqueued_by_all(const RankView& rank, const EnqueuedView& enqueued) const {
  if (enqueued.comm == 0 || enqueued.last.empty()) return std::nullopt;
  uint64_t least = enqueued.begun;
  for (int member : rank.communicator(enqueued.last.front().comm).members) {
    const RankView* other = find(member);
    if (!other) return std::nullopt;
    const auto its = std::ranges::find(other->enqueued, enqueued.comm, &EnqueuedView::comm);
    if (its == other->enqueued.end()) return std::nullopt;
    least = std::min(least, its->begun);
  }
  return least;
}

double JobView::seconds_since(const Call& call) const {
  return now > call.since ? 1e-9 * static_cast<double>(now - call.since) : 0;
}

std::vector<JobView> look(const std::vector<const Header*>& files) {
  std::map<uint64_t, JobView> jobs;
  for (const Header* header : files) {
    const int taken = std::clamp(header->taken.load(), 0, header->ranks);
    for (int i = 0; i < taken; ++i) {
      const Rank& rank = block(const_cast<Header*>(header), i);
      if (rank.state.load(std::memory_order_acquire) == State::unused) continue;
      JobView& job = jobs[rank.job];
      job.job = rank.job;
      job.size = rank.size;
      if (job.files.empty() || job.files.back() != header) job.files.push_back(header);
      job.ranks.push_back(view_of(*header, rank));
      job.now = std::max(job.now, job.ranks.back().read);
    }
  }
  std::vector<JobView> found;
  for (auto& [number, job] : jobs) {
    // Of several copies of a rank, the newest.
    std::sort(job.ranks.begin(), job.ranks.end(), [](const RankView& one, const RankView& other) {
      return one.rank != other.rank ? one.rank < other.rank : one.read > other.read;
    });
    const auto same = [](const RankView& one, const RankView& other) { return one.rank == other.rank; };
    job.ranks.erase(std::unique(job.ranks.begin(), job.ranks.end(), same), job.ranks.end());
    for (RankView& rank : job.ranks) add_unpassed(job, &rank);
    found.push_back(std::move(job));
  }
  return found;
}

// Ranks may change what is being copied, as they may while it is looked at; but what was overwritten
// meanwhile is not noticed in a copy.
const Header* copy_of(const Header* file, uint64_t job) {
  const int blocks = std::clamp(file->taken.load(), 1, file->ranks);
  const size_t bytes = bytes_of(blocks);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  std::memcpy(data, file, bytes);
  auto* const header = static_cast<Header*>(data);
  header->ranks = blocks;
  header->taken = blocks;
  header->copied = time_of_tick();
  for (int i = 0; i < blocks; ++i) {
    Rank& rank = block(header, i);
    if (rank.job != job) rank.state = State::unused;
    rank.lived = is_alive(rank.pid);
  }
  return header;
}

CodePlace site_of(const RankView& rank, const Call& call) {
  const Rank& block = *rank.block;
  if (call.site >= block.program_begin && call.site < block.program_end)
    return {text_of(block.program), call.site - block.program_base};
  if (!rank.is_here) return {"", call.site};
  std::ifstream maps("/proc/" + std::to_string(rank.pid) + "/maps");
  std::map<std::string, uint64_t> begins;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin = 0, end = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %*s %*s %*s %*s %n", &begin, &end, &name) < 2) continue;
    const std::string file = name > 0 ? line.substr(static_cast<size_t>(name)) : "";
    const uint64_t first = begins.emplace(file, begin).first->second;
    if (call.site >= begin && call.site < end && !file.empty()) return {file, call.site - first};
  }
  return {"", call.site};
}

}  // namespace fairlead::flight
