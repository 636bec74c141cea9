// SPDX-License-Identifier: Apache-2.0
//
// Split collectives of device memory: the host memory of one waits, from its begin to its end, under the
// file, which has at most one at a time (MPI 4.1, 14.4.5).

#include <memory>
#include <mutex>
#include <unordered_map>

#include "mpi/abi/mutex.h"
#include "mpi/core/operation.h"
#include "mpi/core/record.h"
#include "mpi/file/file_buffer.h"

namespace fairlead::mpi::file {

namespace {

struct Begun {
  explicit Begun(const FileCall& call) : user(call.buffer.address), buffer(call, FileBuffer::Needed::later) {}
  void* user;  // as the program passes it to both calls
  FileBuffer buffer;
  MessageRecord record;
};

Mutex mutex;
auto& begun = *new std::unordered_map<MPI_File, std::unique_ptr<Begun>>;
std::atomic<bool> any{false};

std::unique_ptr<Begun> take(MPI_File file, const void* user) {
  std::lock_guard lock(mutex);
  const auto found = begun.find(file);
  // Another buffer: a file that the program closed without an end had the same handle.
  if (found == begun.end() || found->second->user != user) return nullptr;
  auto taken = std::move(found->second);
  begun.erase(found);
  any = !begun.empty();
  return taken;
}

}  // namespace

bool any_begun() {
  return any.load(std::memory_order_relaxed);
}

int begin_staged(const FileCall& call, const BlockingFileHost& host) {
  if (int result = begin_staging(call); result != MPI_SUCCESS) return result;
  auto fresh = std::make_unique<Begun>(call);
  fresh->record.begin();
  fresh->record.set_path(Traffic::file, fresh->buffer.elements().bytes());
  BlockingHostCall blocking_call;
  const int result = fresh->buffer.call_host<MPI_Status>(host, nullptr);
  if (result != MPI_SUCCESS) return result;
  std::lock_guard lock(mutex);
  begun[call.file] = std::move(fresh);
  any = true;
  return result;
}

bool end_staged(MPI_File file, void* buf, MPI_Status* status, const EndOfHost& host, int* result) {
  const auto ended = take(file, buf);
  if (!ended) return false;
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  BlockingHostCall blocking_call;
  *result = host(ended->buffer.address(), status);
  if (*result == MPI_SUCCESS) *result = ended->buffer.store(byte_count(*status));
  ended->record.end();
  return true;
}

}  // namespace fairlead::mpi::file
