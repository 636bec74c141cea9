// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/operation.h"

#include "mpi/core/error_handler.h"
#include "observe/trace.h"

namespace fairlead::mpi {

void Operation::begin() {
  complete_ = false;
  interrupted_ = false;
  failure_ = MPI_SUCCESS;
  awaits_news_since_ = never;
  active = true;
  waiting_since_ = never;
  record_.begin();
}

void Operation::interrupt() {
  if (free_deferred) return;  // nobody waits for it, and its message may yet come
  interrupted_ = true;
  complete_.store(true, std::memory_order_release);
}

bool Operation::awaits_news() {
  constexpr std::chrono::seconds at_most{2};
  if (!survives_failures()) return false;
  const auto now = std::chrono::steady_clock::now();
  if (awaits_news_since_ == never) awaits_news_since_ = now;
  return now - awaits_news_since_ < at_most;
}

// False if it is over meanwhile.
bool Operation::resume() {
  std::lock_guard lock(engine().mutex());
  if (!interrupted_) return false;
  complete_ = interrupted_ = false;
  return true;
}

int Operation::take_interruption() {
  return interrupted_ && resume() ? raise(proc_failed_pending) : MPI_SUCCESS;
}

bool Operation::worth_watching() const {
  return needs_help() || observe::tracing();
}

int Operation::raise(int code) {
  return raise_error(comm_, code, description());
}

MPI_Count byte_count(const MPI_Status& status) {
  MPI_Count bytes = 0;
  PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  return bytes;
}

void set_byte_count(MPI_Status* status, MPI_Count bytes) {
  PMPI_Status_set_elements_x(status, MPI_BYTE, bytes);
}

}  // namespace fairlead::mpi
