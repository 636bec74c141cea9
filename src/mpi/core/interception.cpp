// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/interception.h"

#include <atomic>
#include <string>

#include "base/log.h"
#include "base/options.h"
#include "mpi/core/engine.h"
#include "mpi/core/hooks.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/record.h"
#include "mpi/failures/failures.h"

namespace fairlead::mpi {

std::atomic<bool> detail::intercepting{false};

namespace {

// Returns why device memory is refused, and the remedy.
std::string reason() {
  if (options().gpu_support)
    return "device memory is not handled by this function yet; copy the buffer to host memory first";
  for (const OptionReport& option : describe_options())
    if (option.name == std::string("gpu_support"))
      return "device memory was passed to MPI, which " + option.origin +
             " forbids; unset it or set FAIRLEAD_GPU_SUPPORT=on, or copy the buffer to host memory first";
  return "";
}

}  // namespace

int refuse_device_memory(MPI_Comm comm) {
  log_line(LogLevel::error, "%s: %s", name_of_call(), reason().c_str());
  PMPI_Comm_call_errhandler(comm, MPI_ERR_BUFFER);
  return MPI_ERR_BUFFER;
}

int refuse_window(Function function, MPI_Win win) {
  log_line(LogLevel::error, "%s: %s", to_string(function), reason().c_str());
  PMPI_Win_call_errhandler(win, MPI_ERR_BUFFER);
  return MPI_ERR_BUFFER;
}

int refuse_file(MPI_File file) {
  log_line(LogLevel::error, "%s: %s", name_of_call(), reason().c_str());
  PMPI_File_call_errhandler(file, MPI_ERR_BUFFER);
  return MPI_ERR_BUFFER;
}

constinit thread_local int errors_noted = 0;
constinit std::atomic<bool> detail::receives_failed{false};

int note_failed_receive(int result) {
  if (is_failure(result)) return result;  // nothing has come
  ++errors_noted;
  detail::receives_failed.store(true, std::memory_order_relaxed);
  if (intercepting() && engine().node()) ++engine().node()->mine().failed_receives;
  return result;
}

BlockingHostCall::BlockingHostCall() {
  if (!intercepting() || !engine().busy()) return;
  engine().enter_blocking_call();
  progress_thread().note_blocked_thread(1);
  raised_ = true;
}

BlockingHostCall::~BlockingHostCall() {
  if (!raised_) return;
  progress_thread().note_blocked_thread(-1);
  engine().leave_blocking_call();
}

}  // namespace fairlead::mpi
