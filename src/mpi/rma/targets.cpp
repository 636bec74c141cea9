// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/targets.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "base/log.h"
#include "base/options.h"
#include "device/classify.h"
#include "mpi/core/communicator.h"
#include "mpi/core/interception.h"
#include "mpi/core/requests/poll.h"
#include "mpi/failures/failures.h"
#include "transport/peer.h"

namespace fairlead::mpi {
namespace {

constexpr const char* creation = "the creation of a window";

int node_rank_of(MPI_Comm comm, int rank) {
  const node::Node* node = engine().node();
  return node ? node->node_rank_of_world(rank_in_world(comm, rank)) : -1;
}

}  // namespace

// ---- Creation and end --------------------------------------------------------------------------------

// Exports this rank's memory to the ranks of its node. For a rank that cannot map it, this rank is an
// active-message target.
void Targets::export_memory(Target* mine, const std::vector<int>& node_ranks) {
  if (mine->device < 0 || mine->size == 0 || !options().ipc || node_ranks.size() < 2) return;
  std::lock_guard lock(engine().mutex());
  node::Node& node = *engine().node();
  void* base = reinterpret_cast<void*>(mine->base);
  mine->exported = transport::export_probe(node, mine->device) &&
                   transport::export_to(node, node_ranks, device::classify(base), base,
                                        static_cast<uint64_t>(mine->size), &mine->memory);
}

// The words of this node's targets lie in memory that the first of its ranks creates. False if that memory
// cannot be had.
bool Targets::share_words() {
  int first = -1, places = 0;
  for (int member = 0; member < size(); ++member) {
    if (node_ranks_[static_cast<size_t>(member)] < 0) continue;
    if (first < 0) first = member;
    offset_of_words_[static_cast<size_t>(member)] = places++;
  }
  if (first < 0) return false;
  const Target& owner = (*this)[first];
  if (first != rank_ && owner.words_bytes == static_cast<size_t>(places) * sizeof(rma::TargetWords))
    words_memory_ = engine().node()->memory().open(owner.words_offset, owner.words_bytes);
  return words_memory_.data() != nullptr;
}

// A target that cannot be mapped now stays an active-message target as long as the window lives: accumulates
// would overtake each other if it were mapped later. A target without memory counts as mapped if this rank
// shares its words; otherwise it must answer requests for its lock.
bool Targets::map_all() {
  device_ = mine().device >= 0 ? mine().device : device::device_in_use();
  for (int member = 0; member < size(); ++member) {
    const Target& wanted = (*this)[member];
    bool reached = member == rank_ || (wanted.size == 0 && words(member));
    if (!reached && wanted.exported && device_ >= 0 && node_ranks_[static_cast<size_t>(member)] >= 0) {
      std::lock_guard lock(engine().mutex());
      reached = mapping(member, device_) != nullptr;
    }
    is_mapped_.push_back(reached);
  }
  return std::find(is_mapped_.begin(), is_mapped_.end(), false) == is_mapped_.end();
}

int Targets::create(void* base, MPI_Aint size, MPI_Aint disp_unit, bool dynamic, MPI_Comm comm) {
  {
    BlockingHostCall blocking_call;
    if (int result = adopt(real.Comm_dup(comm, &comm_), &comm_); result != MPI_SUCCESS) return result;
  }
  int ranks = 1;
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &ranks);
  dynamic_ = dynamic;
  targets_.resize(static_cast<size_t>(ranks));
  offset_of_words_.assign(targets_.size(), -1);
  std::vector<int> of_node;
  for (int member = 0; member < ranks; ++member) {
    node_ranks_.push_back(node_rank_of(comm, member));
    if (node_ranks_.back() >= 0) of_node.push_back(node_ranks_.back());
  }

  Target mine;
  mine.base = reinterpret_cast<uintptr_t>(base);
  mine.size = size;
  mine.disp_unit = disp_unit;
  mine.device = size > 0 ? device::device_at(base) : -1;
  export_memory(&mine, of_node);
  if (!of_node.empty() && of_node.front() == node_ranks_[static_cast<size_t>(rank_)]) {
    words_memory_ = engine().node()->memory().create(of_node.size() * sizeof(rma::TargetWords));
    if (words_memory_.data()) {
      std::memset(words_memory_.data(), 0, words_memory_.bytes());
      mine.words_offset = words_memory_.offset();
      mine.words_bytes = words_memory_.bytes();
    }
  }
  poll_host(creation, comm_, [&](MPI_Request* request) {
    return real.Iallgather(&mine, sizeof mine, MPI_BYTE, targets_.data(), sizeof mine, MPI_BYTE, comm_,
                           request);
  });
  // Either all ranks share words with the ranks of their node, or none does. A rank that cannot map a target
  // sends it requests, even if other ranks have mapped that target.
  if (!all_say(share_words())) {
    words_memory_ = {};
    unshared_words_ = std::vector<rma::TargetWords>(1);
    std::fill(node_ranks_.begin(), node_ranks_.end(), -1);
  }
  by_messages_ = !all_say(map_all() && !dynamic) && ranks > 1;
  return MPI_SUCCESS;
}

void Targets::close() {
  {
    std::lock_guard lock(engine().mutex());
    mappings_.clear();
  }
  poll_host("MPI_Win_free", comm_, [&](MPI_Request* request) { return start_barrier(comm_, request); });
  BlockingHostCall blocking_call;
  free_own(&comm_);
}

// ---- Targets -----------------------------------------------------------------------------------------

// A mapping is for one device. If the target cannot be mapped for the origin's device, the mapping of the
// creation is used.
const Targets::Mapping* Targets::mapping(int target, int device) {
  if (auto found = mappings_.find({target, device}); found != mappings_.end()) {
    if (!found->second.memory.is_gone()) return &found->second;
    mappings_.erase(found);
  }
  const Target& wanted = (*this)[target];
  Mapping mapped{{}, device, false};
  node::Node& node = *engine().node();
  const int owner = node_ranks_[static_cast<size_t>(target)];
  if (transport::reach(node, owner, wanted.device, &mapped.device, wanted.memory, &mapped.memory) !=
      node::Reason::none)
    return device == device_ ? nullptr : mapping(target, device_);
  mapped.by_kernel = !transport::copies_may_write(node, owner, wanted.device, mapped.device);
  return &mappings_.emplace(std::pair(target, device), std::move(mapped)).first->second;
}

std::optional<MappedTarget> Targets::map(int target, int device) {
  if (target == rank_) return MappedTarget{reinterpret_cast<char*>(mine().base), mine().device};
  if (!is_mapped_[static_cast<size_t>(target)]) return {};
  std::lock_guard lock(engine().mutex());
  const Mapping* mapped = mapping(target, device < 0 ? device_ : device);
  if (!mapped) {
    log_line(LogLevel::error, "the memory of rank %d of a window cannot be mapped any more", target);
    return {};
  }
  return MappedTarget{static_cast<char*>(mapped->memory.address()), mapped->device, mapped->by_kernel};
}

rma::TargetWords* Targets::words(int target) {
  if (node_ranks_[static_cast<size_t>(target)] < 0) return target == rank_ ? unshared_words_.data() : nullptr;
  return reinterpret_cast<rma::TargetWords*>(words_memory_.data()) +
         offset_of_words_[static_cast<size_t>(target)];
}

int Targets::attach(void* base, MPI_Aint size) {
  if (!dynamic_) return MPI_ERR_RMA_FLAVOR;
  std::lock_guard lock(engine().mutex());
  attached_.attach(base, static_cast<uint64_t>(size));
  return MPI_SUCCESS;
}

int Targets::detach(const void* base) {
  if (!dynamic_) return MPI_ERR_RMA_FLAVOR;
  std::lock_guard lock(engine().mutex());
  attached_.detach(base);
  return MPI_SUCCESS;
}

int Targets::query(int rank, MPI_Aint* size, MPI_Aint* disp_unit, void* baseptr) {
  if (dynamic_) return MPI_ERR_RMA_FLAVOR;
  if (rank == MPI_PROC_NULL)
    for (rank = 0; rank + 1 < this->size() && (*this)[rank].size == 0;) ++rank;
  if (rank < 0 || rank >= this->size()) return MPI_ERR_RANK;
  const Target& target = (*this)[rank];
  *size = static_cast<MPI_Aint>(target.size);
  *disp_unit = static_cast<MPI_Aint>(target.disp_unit);
  const std::optional<MappedTarget> mapped = target.size > 0 ? map(rank, device_) : std::nullopt;
  const bool accessible = mapped && (rank == rank_ || mapped->device == device_);
  *static_cast<void**>(baseptr) = accessible ? mapped->address : nullptr;
  return MPI_SUCCESS;
}

// ---- Ranks -------------------------------------------------------------------------------------------

std::vector<int> Targets::ranks_of(MPI_Group group) const {
  int size = 0;
  PMPI_Group_size(group, &size);
  std::vector<int> own(static_cast<size_t>(size)), ranks(own.size());
  std::iota(own.begin(), own.end(), 0);
  MPI_Group all;
  PMPI_Comm_group(comm_, &all);
  PMPI_Group_translate_ranks(group, size, own.data(), all, ranks.data());
  PMPI_Group_free(&all);
  return ranks;
}

bool Targets::all_say(bool mine) const {
  int own = mine, all = 0;
  poll_host(creation, comm_, [&](MPI_Request* request) {
    return real.Iallreduce(&own, &all, 1, MPI_INT, MPI_MIN, comm_, request);
  });
  return all != 0;
}

// Within one node, each rank counts its barriers in a shared word, and the other ranks poll it.
int Targets::barrier() {
  if (std::find(node_ranks_.begin(), node_ranks_.end(), -1) != node_ranks_.end()) return host_barrier();
  const uint64_t number = ++barriers_;
  own_words().barriers.store(number, std::memory_order_release);
  int member = 0;
  bool damaged = false;
  const int failure = poll_until("the fence, or the end,", member, [&] {
    damaged = own_words().barriers.load(std::memory_order_relaxed) != number;
    for (; member < size() && !damaged; ++member) {
      const uint64_t entered = words(member)->barriers.load(std::memory_order_acquire);
      if (entered < number) return false;
      // Nobody ends the next barrier without this rank, unless a process has failed.
      damaged = entered > number + 1 && !survives_failures();
    }
    return true;
  });
  if (damaged) log_line(LogLevel::error, "another process has damaged the barriers of a window");
  return damaged ? MPI_ERR_OTHER : failure;
}

namespace {
std::atomic<bool> a_request_failed = false;
}

void Targets::note_failed_request() {
  a_request_failed = true;
}

// What has been waited for may have ended by an error. The caller holds the engine's lock.
int Targets::failure_of_requests() const {
  return a_request_failed ? Failures().of_members(comm_) : MPI_SUCCESS;
}

int Targets::failure_seen() const {
  if (!survives_failures()) return MPI_SUCCESS;
  std::lock_guard lock(engine().mutex());
  return Failures().of_members(comm_);
}

int Targets::host_barrier() const {
  return poll_host("the fence, or the end, of a window", comm_,
                   [&](MPI_Request* request) { return real.Ibarrier(comm_, request); });
}

void Targets::complain(const char* what, int whom, int seconds) const {
  const std::string rank = whom >= 0 ? " of rank " + std::to_string(whom) : "";
  log_line(LogLevel::warn, "rank %d of a window of %d ranks has been waiting for %d s for %s%s", rank_,
           size(), seconds, what, rank.c_str());
}

}  // namespace fairlead::mpi
