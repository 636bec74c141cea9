// SPDX-License-Identifier: Apache-2.0
//
// A nonblocking read or write of device memory. start() copies what is written to host memory and starts the
// host MPI's request, in the order of the program's calls, in which the host MPI moves file pointers. Each
// round of progress polls that request without the engine's lock (quirk errors_raised_in_test); then the
// engine copies what was read to the device.

#pragma once

#include "mpi/core/operation.h"
#include "mpi/file/file_buffer.h"

namespace fairlead::mpi {

class FileOperation : public Operation {
 public:
  FileOperation(const FileCall& call, StartingFileHost host);

  int start() override;
  void advance() override;
  // The host MPI progresses the request as it would for host memory, and no rank waits for the copy.
  void quiesce() override {}
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override { *status = status_; }
  std::string description() const override { return mpi::description(buffer_.call(), buffer_.elements()); }

 private:
  friend void poll_files();
  bool poll();
  void over();

  FileBuffer buffer_;
  StartingFileHost host_;
  MPI_Status status_{};
  enum class Step { in_host, storing, over } step_ = Step::in_host;
  device::Error stored_ = device::Error::none;
  int error_ = MPI_SUCCESS;  // of the host MPI, which has raised it
  std::atomic<bool> host_is_done_{false};
};

}  // namespace fairlead::mpi
