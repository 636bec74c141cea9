// SPDX-License-Identifier: Apache-2.0

#include "mpi/file/file_operation.h"

#include <mutex>
#include <vector>

#include "mpi/abi/comm_self.h"
#include "mpi/abi/mutex.h"
#include "mpi/core/hooks.h"
#include "mpi/core/requests/request.h"

namespace fairlead::mpi {

using device::Error;

namespace {

// The operations whose requests the host MPI has.
Mutex mutex;
auto& in_host = *new std::vector<FileOperation*>;
std::atomic<size_t> many_in_host{0};

}  // namespace

// An operation lives at least until its request is complete, which only this function finds out.
void poll_files() {
  static std::atomic_flag polling;  // by another thread, or by this one, if the host MPI calls MPI functions
  if (many_in_host.load(std::memory_order_relaxed) == 0 || polling.test_and_set(std::memory_order_acquire))
    return;
  std::vector<FileOperation*> asked;
  {
    std::lock_guard lock(mutex);
    asked = in_host;
  }
  for (FileOperation* operation : asked) {
    if (!operation->poll()) continue;
    {
      std::lock_guard lock(mutex);
      std::erase(in_host, operation);
      many_in_host = in_host.size();
    }
    operation->host_is_done_.store(true, std::memory_order_release);
  }
  polling.clear(std::memory_order_release);
}

static const bool polled = add_hooks({.poll = poll_files});

FileOperation::FileOperation(const FileCall& call, StartingFileHost host)
    : Operation(comm_self()), buffer_(call, FileBuffer::Needed::later), host_(std::move(host)) {
  set_empty(&status_);
}

int FileOperation::start() {
  begin();
  record_.set_path(Traffic::file, buffer_.elements().bytes());
  const int result = buffer_.call_host(host_, &message_);
  if (result != MPI_SUCCESS) return result;
  std::lock_guard lock(mutex);
  in_host.push_back(this);
  many_in_host = in_host.size();
  return result;
}

bool FileOperation::poll() {
  int here = 0;
  error_ = real.Test(&message_, &here, &status_);
  // Quirk failed_request_stays.
  if (error_ != MPI_SUCCESS && message_ != MPI_REQUEST_NULL) real.Request_free(&message_);
  return here || error_ != MPI_SUCCESS;
}

void FileOperation::advance() {
  if (step_ == Step::in_host) {
    if (!host_is_done_.load(std::memory_order_acquire)) return;
    if (error_ != MPI_SUCCESS) return over();
    stored_ = buffer_.start_store(byte_count(status_));
    step_ = Step::storing;
  }
  if (step_ == Step::storing) {
    if (stored_ == Error::none) stored_ = buffer_.poll_store();
    if (stored_ == Error::not_ready) {
      stored_ = Error::none;
      return;
    }
    over();
  }
}

void FileOperation::over() {
  step_ = Step::over;
  complete_.store(true, std::memory_order_release);
}

int FileOperation::finish(MPI_Status* status) {
  record_.end();
  *status = status_;
  return error_ == MPI_SUCCESS ? buffer_.result(stored_) : error_;
}

namespace file {

int start_staged(const FileCall& call, StartingFileHost host, MPI_Request* request) {
  if (int result = begin_staging(call); result != MPI_SUCCESS) return result;
  return hand_out(std::make_unique<FileOperation>(call, std::move(host)), request);
}

}  // namespace file
}  // namespace fairlead::mpi
