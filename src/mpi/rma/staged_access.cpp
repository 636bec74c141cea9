// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/staged_access.h"

#include <algorithm>
#include <list>

#include "base/log.h"
#include "base/options.h"
#include "mpi/abi/comm_self.h"
#include "mpi/abi/mutex.h"
#include "mpi/coll/staging.h"
#include "mpi/core/communicator.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/kept_type.h"
#include "observe/statistics.h"

namespace fairlead::mpi {

namespace detail {
std::atomic<int> staged_accesses{0};
}

namespace {

// The images in host memory of the buffers of one access.
class Staged {
 public:
  explicit Staged(const AccessCall& call) : win(call.win), target(call.target_rank) {
    if (call.reads()) add(&origin_, call.origin_addr, call.origin_count, call.origin_datatype);
    if (call.compare_addr) add(&compare_, call.compare_addr, 1, call.target_datatype);
    if (call.writes()) {
      add(&result_, call.result_addr, call.result_count, call.result_datatype);
      if (result_.on_device() && !is_plain(call.result_datatype)) {
        kept_.emplace(call.result_datatype);
        for (CollectiveBlock& block : result_.blocks) block.datatype = kept_->get();
      }
    }
  }
  // False if the images cannot be allocated or filled.
  bool load() {
    origin_image_ = HostImage(origin_);
    compare_image_ = HostImage(compare_);
    result_image_ = HostImage(result_);
    return origin_image_.valid() && compare_image_.valid() && result_image_.valid() &&
           origin_image_.load(origin_) && compare_image_.load(compare_);
  }
  // Call it when the host MPI has done its part. The first call stores the result. Later calls return what
  // the first returned and touch no buffer, because the buffers belong to the program again.
  bool store() {
    std::call_once(once_, [&] {
      count(Traffic::rma_staged, static_cast<uint64_t>(std::max(origin_.bytes, result_.bytes)));
      stored_ = result_image_.store(result_);
    });
    return stored_;
  }
  const void* origin() const { return origin_image_.address(); }
  const void* compare() const { return compare_image_.address(); }
  void* result() const { return result_image_.address(); }

  MPI_Win win;
  int target;
  bool has_gaps = false;

 private:
  void add(Region* region, const void* address, MPI_Count count, MPI_Datatype datatype) {
    has_gaps |= !is_plain(datatype);
    region->address = const_cast<void*>(address);
    region->add({0, count, datatype});
  }
  Region origin_, compare_, result_;
  HostImage origin_image_, compare_image_, result_image_;
  std::optional<KeptType> kept_;
  std::once_flag once_;
  bool stored_ = false;
};

// The staged accesses whose epochs are not over, with or without a request.
struct AllStaged {
  Mutex mutex;
  std::list<std::shared_ptr<Staged>> accesses;
};
AllStaged& all() {
  static auto* only = new AllStaged;
  return *only;
}

void keep(const std::shared_ptr<Staged>& staged) {
  std::lock_guard lock(all().mutex);
  all().accesses.push_back(staged);
  ++detail::staged_accesses;
}

// False if the end of the epoch has already removed it.
bool forget(const std::shared_ptr<Staged>& staged) {
  std::lock_guard lock(all().mutex);
  const auto forgotten = std::erase(all().accesses, staged);
  detail::staged_accesses -= static_cast<int>(forgotten);
  return forgotten > 0;
}

constexpr const char* copy_through_host = "a copy of the program's buffer through host memory";

int raise_on(MPI_Win win) {
  return raise_window_error(win, MPI_ERR_OTHER, copy_through_host);
}

// A staged access with a request: it is over when the host MPI's request completes or when its epoch ends.
class StagedOperation : public Operation {
 public:
  StagedOperation(std::shared_ptr<Staged> staged, const AccessInHost& host)
      : Operation(comm_self()), staged_(std::move(staged)), host_(host) {}
  int start() override {
    begin();
    const int result = host_(staged_->origin(), staged_->compare(), staged_->result(), &message_);
    host_ = nullptr;
    if (result == MPI_SUCCESS) keep(staged_);
    return result;
  }
  void advance() override {
    int here = 0;
    if (!complete() && real.Test(&message_, &here, MPI_STATUS_IGNORE) != MPI_SUCCESS)
      error_ = MPI_ERR_OTHER, here = 1;
    if (here) complete_.store(true, std::memory_order_release);
  }
  void quiesce() override {}
  int finish(MPI_Status* status) override {
    set_empty(status);
    record_.end();
    // Quirk access_ends_early.
    if (forget(staged_) && staged_->has_gaps) {
      BlockingHostCall blocking_call;
      real.Win_flush_local(staged_->target, staged_->win);
    }
    if (error_ == MPI_SUCCESS && staged_->store()) return MPI_SUCCESS;
    return raise_on(staged_->win);
  }
  void describe(MPI_Status* status) override { set_empty(status); }
  std::string description() const override { return copy_through_host; }

 private:
  std::shared_ptr<Staged> staged_;
  AccessInHost host_;
  int error_ = MPI_SUCCESS;
};

}  // namespace

// False for accesses to MPI_PROC_NULL and for arguments that the host MPI refuses: the host MPI gets those
// calls unchanged.
bool brings_device_memory(const AccessCall& call) {
  if (call.target_rank == MPI_PROC_NULL || is_invalid(call.target_count, call.target_datatype) ||
      (call.reads() && is_invalid(call.origin_count, call.origin_datatype)) ||
      (call.writes() && is_invalid(call.result_count, call.result_datatype)))
    return false;
  return (call.reads() && is_device(call.origin_addr, call.origin_datatype)) ||
         (call.writes() && is_device(call.result_addr, call.result_datatype)) ||
         (call.compare_addr && is_device(call.compare_addr));
}

int access_staged(const AccessCall& call, const AccessInHost& host) {
  if (!options().gpu_support)
    return raise_window_error(call.win, MPI_ERR_BUFFER,
                              "an access with device memory, while GPU support is off,");
  auto staged = std::make_shared<Staged>(call);
  if (!staged->load()) return raise_on(call.win);
  if (call.request) return hand_out(std::make_unique<StagedOperation>(std::move(staged), host), call.request);
  int result;
  {
    BlockingHostCall blocking_call;
    result = host(staged->origin(), staged->compare(), staged->result(), nullptr);
  }
  if (result == MPI_SUCCESS) keep(staged);
  return result;
}

int finish_staged(MPI_Win win, int target) {
  std::list<std::shared_ptr<Staged>> over;
  {
    std::lock_guard lock(all().mutex);
    std::erase_if(all().accesses, [&](const std::shared_ptr<Staged>& one) {
      if (one->win != win || (target != all_targets && one->target != target)) return false;
      over.push_back(one);
      --detail::staged_accesses;
      return true;
    });
  }
  bool stored = true;
  for (const auto& access : over) stored &= access->store();
  return stored ? MPI_SUCCESS : raise_on(win);
}

}  // namespace fairlead::mpi
