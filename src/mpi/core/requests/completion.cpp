// SPDX-License-Identifier: Apache-2.0
//
// The Wait and Test families: single, any, some and all (M7, M8). While no device operation is active, they
// forward each call unchanged. Otherwise an array may mix requests of Fairlead, requests of the host MPI,
// null and inactive ones. Fairlead completes its own requests here and passes the host MPI a copy of the
// array in which they are null, so that indices and the rules about inactive requests remain those of the
// host MPI.

#include <algorithm>
#include <optional>
#include <vector>

#include "mpi/core/forwarded_receives.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/poll.h"
#include "mpi/core/requests/request.h"
#include "mpi/failures/failures.h"

namespace fairlead::mpi {
namespace {

bool forwards() {
  if (!intercepting()) return true;
  watch_forwarded(engine().busy());
  return !engine().busy();
}

// Also forwards arguments that the host MPI refuses, so that the host MPI reports the error.
template <class... Results>
bool forwards(const MPI_Request* requests, const MPI_Status* status, const Results*... results) {
  return forwards() || any_null(requests, results...) || is_no_status(status);
}
template <class... Results>
bool forwards(int count, const MPI_Request* requests, const MPI_Status* statuses, const Results*... results) {
  return forwards() || is_invalid(count, requests, statuses, results...);
}

// Calls the host MPI alone.
template <class Call>
int forward(int count, const MPI_Request* requests, const Call& call) {
  ForwardedCompletion completion(count, requests);
  return noted(call());
}

struct Ours {
  int index;
  Operation* operation;
};

// An array of requests, split into Fairlead's and the host MPI's.
class Selection {
 public:
  Selection(int count, MPI_Request* requests) : requests_(requests), host_(requests, requests + count) {
    for (int i = 0; i < count; ++i) {
      Operation* operation = engine().find(requests[i]);
      if (!operation) continue;
      host_[i] = MPI_REQUEST_NULL;
      hidden_.push_back(i);
      if (!operation->active) continue;
      operation->start_waiting();
      ours_.push_back({i, operation});
    }
  }

  const std::vector<Ours>& ours() const { return ours_; }
  MPI_Request* host() { return host_.data(); }
  bool any_of_host() const {
    return std::any_of(host_.begin(), host_.end(), [](MPI_Request r) { return r != MPI_REQUEST_NULL; });
  }
  bool all_complete() {
    while (complete_ < ours_.size() && ours_[complete_].operation->complete()) ++complete_;
    return complete_ == ours_.size();
  }
  bool any_failed() const {
    return std::any_of(ours_.begin(), ours_.end(),
                       [](const Ours& o) { return o.operation->complete() && o.operation->failed(); });
  }
  const Ours* any_complete() const {
    auto found =
        std::find_if(ours_.begin(), ours_.end(), [](const Ours& o) { return o.operation->complete(); });
    return found == ours_.end() ? nullptr : &*found;
  }
  // Neither null, nor inactive as far as Fairlead knows.
  bool is_active(int index) const {
    if (host_[static_cast<size_t>(index)] != MPI_REQUEST_NULL) return true;
    return std::any_of(ours_.begin(), ours_.end(), [index](const Ours& one) { return one.index == index; });
  }
  // The host MPI has completed this request.
  void take_over(int index) { requests_[index] = host_[index]; }
  void take_over_all() {
    // Does not look the handles up again: the host MPI may have reused a completed one in another thread.
    for (size_t i = 0, next = 0; i < host_.size(); ++i) {
      if (next < hidden_.size() && hidden_[next] == static_cast<int>(i))
        ++next;
      else
        requests_[i] = host_[i];
    }
  }
  int finish(const Ours& one, MPI_Status* status) {
    return fairlead::mpi::finish(one.operation, &requests_[one.index], status);
  }

 private:
  MPI_Request* requests_;
  std::vector<MPI_Request> host_;
  std::vector<int> hidden_;  // Fairlead's requests, including the inactive ones
  std::vector<Ours> ours_;
  size_t complete_ = 0;  // this many leading entries of ours_ are complete
};

// If a call fails for any request, every MPI_ERROR of its `count` statuses must be set. The host MPI sets
// them only if a request of its own failed.
void clear_errors(MPI_Status* statuses, int count) {
  if (statuses == MPI_STATUSES_IGNORE) return;
  for (int i = 0; i < count; ++i) statuses[i].MPI_ERROR = MPI_SUCCESS;
}

MPI_Status* at(MPI_Status* statuses, int index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[index];
}

// Completes Fairlead's requests after the host MPI's part of Waitall or Testall.
int finish_all(Selection& selection, int count, MPI_Status* statuses, int host_result) {
  bool host_failed = host_result == MPI_ERR_IN_STATUS;
  if (host_result != MPI_SUCCESS && !host_failed) return host_result;
  selection.take_over_all();
  bool failed = host_failed;
  std::vector<std::pair<int, int>> errors;
  for (const Ours& one : selection.ours()) {
    int index = one.index;
    int result = selection.finish(one, at(statuses, index));
    errors.push_back({index, result});
    failed |= result != MPI_SUCCESS;
  }
  if (!failed) return MPI_SUCCESS;
  if (!host_failed) clear_errors(statuses, count);
  if (statuses != MPI_STATUSES_IGNORE)
    for (auto [index, result] : errors) statuses[index].MPI_ERROR = result;
  return MPI_ERR_IN_STATUS;
}

// The host MPI's requests of Waitall. Each is complete at one Testsome: quirk testall_of_files.
class HostRequests {
 public:
  HostRequests(int count, MPI_Request* requests)
      : requests_(requests), indices_(size(count)), new_(size(count)) {}

  // Returns true when all are complete, or when the call has failed.
  bool poll(int* result) {
    int completed = 0;
    *result = noted(real.Testsome(static_cast<int>(indices_.size()), requests_, &completed, indices_.data(),
                                  new_.data()));
    if (*result != MPI_SUCCESS && *result != MPI_ERR_IN_STATUS) return true;
    for (int k = 0; k < completed; ++k) {  // MPI_UNDEFINED, which is negative, if none is active
      statuses_.push_back({indices_[size(k)], new_[size(k)]});
      if (*result == MPI_SUCCESS) statuses_.back().second.MPI_ERROR = MPI_SUCCESS;
    }
    failed_ |= *result != MPI_SUCCESS;
    *result = failed_ ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
    return completed == MPI_UNDEFINED;
  }
  bool peer_failed() const {
    return failed_ && std::any_of(statuses_.begin(), statuses_.end(),
                                  [](const auto& one) { return is_failure(one.second.MPI_ERROR); });
  }
  void write(MPI_Status* statuses) const {
    if (statuses == MPI_STATUSES_IGNORE) return;
    for (const auto& [index, status] : statuses_) {
      const int error = statuses[index].MPI_ERROR;
      statuses[index] = status;
      if (!failed_) statuses[index].MPI_ERROR = error;
    }
  }

 private:
  static size_t size(int count) { return static_cast<size_t>(count); }

  MPI_Request* requests_;
  std::vector<int> indices_;
  std::vector<MPI_Status> new_;
  std::vector<std::pair<int, MPI_Status>> statuses_;
  bool failed_ = false;
};

// A process has failed, so Waitall returns although requests are not complete: their peers may wait for this
// rank to do something about it.
int end_early(Selection& selection, const HostRequests* host, int count, MPI_Status* statuses) {
  for (int i = 0; statuses != MPI_STATUSES_IGNORE && i < count; ++i) {
    set_empty(&statuses[i]);
    statuses[i].MPI_ERROR = selection.is_active(i) ? MPI_ERR_PENDING : MPI_SUCCESS;
  }
  if (host) host->write(statuses);
  selection.take_over_all();
  for (const Ours& one : selection.ours()) {
    if (!one.operation->complete()) continue;
    const int result = selection.finish(one, at(statuses, one.index));
    if (statuses != MPI_STATUSES_IGNORE) statuses[one.index].MPI_ERROR = result;
  }
  return MPI_ERR_IN_STATUS;
}

int wait_all(int count, MPI_Request* requests, MPI_Status* statuses) {
  Selection selection(count, requests);
  std::optional<HostRequests> host;
  if (selection.any_of_host()) host.emplace(count, selection.host());
  int result = MPI_SUCCESS;
  for (Backoff backoff;; backoff.pause()) {
    engine().progress();
    const bool ours = selection.all_complete();
    const bool theirs = (ours || survives_failures()) && (!host || host->poll(&result));
    if (survives_failures() && (selection.any_failed() || (host && host->peer_failed())))
      return end_early(selection, host ? &*host : nullptr, count, statuses);
    if (ours && theirs) break;
  }
  if (result != MPI_SUCCESS && result != MPI_ERR_IN_STATUS) return result;
  // All are null or inactive now: the host MPI sets their statuses.
  int all = 0;
  if (int failed = real.Testall(count, selection.host(), &all, statuses); failed != MPI_SUCCESS)
    return failed;
  if (result != MPI_SUCCESS) clear_errors(statuses, count);
  if (host) host->write(statuses);
  return finish_all(selection, count, statuses, result);
}

int test_all(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  Selection selection(count, requests);
  engine().progress();
  *flag = 0;
  if (!selection.all_complete()) return MPI_SUCCESS;
  int result = noted(real.Testall(count, selection.host(), flag, statuses));
  if (result == MPI_SUCCESS && !*flag) return result;
  *flag = 1;
  return finish_all(selection, count, statuses, result);
}

// One round of Waitany and Testany. Returns true when the call is over.
bool try_any(Selection& selection, int count, int* index, int* flag, MPI_Status* status, int* result) {
  engine().progress();
  *result = MPI_SUCCESS;
  *flag = 1;
  if (const Ours* one = selection.any_complete()) {
    *index = one->index;
    *result = selection.finish(*one, status);
    return true;
  }
  int host_index = MPI_UNDEFINED, host_flag = 0;
  *result = noted(real.Testany(count, selection.host(), &host_index, &host_flag, status));
  if ((host_flag && host_index != MPI_UNDEFINED) || *result != MPI_SUCCESS) {
    *index = host_index;
    if (host_index != MPI_UNDEFINED) selection.take_over(host_index);
    return true;
  }
  // The host MPI has no active request in the array. The call is over only if Fairlead has none either.
  *index = MPI_UNDEFINED;
  *flag = host_flag && selection.ours().empty();
  return *flag;
}

// One round of Waitsome and Testsome. Returns true when a request completed or none is active.
bool try_some(Selection& selection, int count, int* outcount, int* indices, MPI_Status* statuses,
              int* result) {
  engine().progress();
  *result = noted(real.Testsome(count, selection.host(), outcount, indices, statuses));
  bool host_failed = *result == MPI_ERR_IN_STATUS;
  if (*result != MPI_SUCCESS && !host_failed) return true;
  bool host_inactive = *outcount == MPI_UNDEFINED;
  int done = host_inactive ? 0 : *outcount;
  for (int k = 0; k < done; ++k) selection.take_over(indices[k]);
  bool failed = host_failed;
  std::vector<std::pair<int, int>> errors;
  for (const Ours& one : selection.ours()) {
    if (!one.operation->complete()) continue;
    indices[done] = one.index;
    int one_result = selection.finish(one, at(statuses, done));
    errors.push_back({done, one_result});
    failed |= one_result != MPI_SUCCESS;
    ++done;
  }
  *outcount = done == 0 && host_inactive && selection.ours().empty() ? MPI_UNDEFINED : done;
  if (failed) {
    if (!host_failed) clear_errors(statuses, done);
    if (statuses != MPI_STATUSES_IGNORE)
      for (auto [index, one_result] : errors) statuses[index].MPI_ERROR = one_result;
    *result = MPI_ERR_IN_STATUS;
  }
  return done > 0 || *outcount == MPI_UNDEFINED;
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Wait, (MPI_Request * request, MPI_Status* status)) {
  CallRecord record(Function::Wait, a_completion(CallKind::completion, request));
  if (forwards(request, status)) return forward(1, request, [&] { return real.Wait(request, status); });
  Operation* operation = engine().find(*request);
  if (!operation || !operation->active) {
    if (!operation) return poll_host(request, status);
    if (status != MPI_STATUS_IGNORE) set_empty(status);
    return MPI_SUCCESS;
  }
  engine().wait(*operation);
  return finish(operation, request, status);
}

FAIRLEAD_MPI(Test, (MPI_Request * request, int* flag, MPI_Status* status)) {
  CallRecord record(Function::Test, a_completion(CallKind::polling, request));
  if (forwards(request, status, flag))
    return forward(1, request, [&] { return real.Test(request, flag, status); });
  Operation* operation = engine().find(*request);
  if (operation && operation->active) operation->start_waiting();
  engine().progress();
  if (!operation) return noted(real.Test(request, flag, status));
  *flag = !operation->active || operation->complete();
  if (!operation->active && status != MPI_STATUS_IGNORE) set_empty(status);
  return operation->active && *flag ? finish(operation, request, status) : MPI_SUCCESS;
}

FAIRLEAD_MPI(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[])) {
  CallRecord record(Function::Waitall, a_completion(CallKind::completion, requests, count));
  if (!forwards(count, requests, statuses)) return wait_all(count, requests, statuses);
  return forward(count, requests, [&] { return real.Waitall(count, requests, statuses); });
}

FAIRLEAD_MPI(Testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[])) {
  CallRecord record(Function::Testall, a_completion(CallKind::polling, requests, count));
  if (!forwards(count, requests, statuses, flag)) return test_all(count, requests, flag, statuses);
  return forward(count, requests, [&] { return real.Testall(count, requests, flag, statuses); });
}

FAIRLEAD_MPI(Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status)) {
  CallRecord record(Function::Waitany, a_completion(CallKind::completion, requests, count));
  if (forwards(count, requests, status, index))
    return forward(count, requests, [&] { return real.Waitany(count, requests, index, status); });
  Selection selection(count, requests);
  int flag, result;
  for (Backoff backoff; !try_any(selection, count, index, &flag, status, &result);) backoff.pause();
  return result;
}

FAIRLEAD_MPI(Testany, (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status)) {
  CallRecord record(Function::Testany, a_completion(CallKind::polling, requests, count));
  if (forwards(count, requests, status, index, flag))
    return forward(count, requests, [&] { return real.Testany(count, requests, index, flag, status); });
  Selection selection(count, requests);
  int result;
  try_any(selection, count, index, flag, status, &result);
  return result;
}

FAIRLEAD_MPI(Waitsome,
             (int count, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[])) {
  CallRecord record(Function::Waitsome, a_completion(CallKind::completion, requests, count));
  if (forwards(count, requests, statuses, outcount, indices))
    return forward(count, requests,
                   [&] { return real.Waitsome(count, requests, outcount, indices, statuses); });
  Selection selection(count, requests);
  int result;
  for (Backoff backoff; !try_some(selection, count, outcount, indices, statuses, &result);) backoff.pause();
  return result;
}

FAIRLEAD_MPI(Testsome,
             (int count, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[])) {
  CallRecord record(Function::Testsome, a_completion(CallKind::polling, requests, count));
  if (forwards(count, requests, statuses, outcount, indices))
    return forward(count, requests,
                   [&] { return real.Testsome(count, requests, outcount, indices, statuses); });
  Selection selection(count, requests);
  int result;
  try_some(selection, count, outcount, indices, statuses, &result);
  return result;
}

FAIRLEAD_MPI(Request_free, (MPI_Request * request)) {
  CallRecord record(Function::Request_free);
  // The host MPI may use the handle again once the message has arrived.
  if (request && forwarded_receives().contains(*request)) forwarded_receives().watch();
  if (forwards() || !request) return real.Request_free(request);
  Operation* operation = engine().find(*request);
  if (!operation) return real.Request_free(request);
  release(operation, request);
  return MPI_SUCCESS;
}

FAIRLEAD_MPI(Cancel, (MPI_Request * request)) {
  CallRecord record(Function::Cancel);
  if (forwards() || !request) return real.Cancel(request);
  Operation* operation = engine().find(*request);
  if (!operation) return real.Cancel(request);
  std::lock_guard lock(engine().mutex());
  operation->cancel();
  return MPI_SUCCESS;
}
