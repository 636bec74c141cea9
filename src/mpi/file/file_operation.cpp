// SPDX-License-Identifier: Apache-2.0

#include "mpi/file/file_operation.h"

#include "mpi/abi/comm_self.h"
#include "mpi/core/request.h"

namespace fairlead::mpi {

using device::Error;

FileOperation::FileOperation(const FileCall& call, StartingFileHost host)
    : Operation(comm_self()), buffer_(call, FileBuffer::Needed::later), host_(std::move(host)) {
  set_empty(&status_);
}

int FileOperation::start() {
  begin();
  record_.took(Traffic::file, buffer_.elements().bytes());
  return buffer_.call_host(host_, &message_);
}

void FileOperation::advance() {
  if (step_ == Step::in_host) {
    int here = 0;
    const int result = real.Test(&message_, &here, &status_);
    if (result != MPI_SUCCESS) return over(result);
    if (!here) return;
    stored_ = buffer_.start_store(byte_count(status_));
    step_ = Step::storing;
  }
  if (step_ == Step::storing) {
    if (stored_ == Error::none) stored_ = buffer_.poll_store();
    if (stored_ == Error::not_ready) {
      stored_ = Error::none;
      return;
    }
    over(MPI_SUCCESS);
  }
}

void FileOperation::over(int error) {
  error_ = error;
  // Open MPI keeps a request that has failed.
  if (message_ != MPI_REQUEST_NULL) real.Request_free(&message_);
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
