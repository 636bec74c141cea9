// SPDX-License-Identifier: Apache-2.0

#include "mpi/check/stream_check.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>

#include "base/log.h"
#include "device/classify.h"
#include "device/runtime.h"
#include "mpi/abi/mutex.h"
#include "mpi/check/call_site.h"

namespace fairlead::mpi {

constinit thread_local int StartedByStream::depth = 0;

namespace {

using device::program::Buffer;
using device::program::Conflict;
using device::program::Verdict;

// Places of one kind in the program.
class Places {
 public:
  // Is this place new, and is the limit of named places not reached?
  bool note(uintptr_t address) {
    std::lock_guard lock(mutex_);
    ++calls_;
    if (known_.size() > named || !known_.insert(address).second) return false;
    if (known_.size() <= named) return true;
    log_line(LogLevel::warn,
             "device buffers are passed to MPI while work is in flight at more than %zu places: "
             "further ones are not named",
             named);
    return false;
  }
  size_t calls() const { return calls_; }
  size_t count() const { return known_.size(); }

 private:
  static constexpr size_t named = 64;
  Mutex mutex_;
  std::set<uintptr_t> known_;
  size_t calls_ = 0;
};

auto& certain = *new Places;
auto& possible = *new Places;

// May this be reported, and at which level?
bool note(Verdict verdict, uintptr_t place, LogLevel* level) {
  *level = verdict == Verdict::certain ? LogLevel::warn : LogLevel::info;
  return (verdict == Verdict::certain ? certain : possible).note(place);
}

std::string submission(const Conflict& conflict) {
  const CallSite site = call_site_of(conflict.submitted_by);
  return conflict.work + ", submitted to " + conflict.stream + " at " + site.place + ",";
}

// The program has submitted work while an operation uses the buffer.
void report_submission(const device::program::Frames& opened_by, const Buffer& buffer,
                       const Conflict& conflict) {
  LogLevel level;
  if (!note(conflict.verdict, call_site_of(conflict.submitted_by).address, &level)) return;
  const CallSite opened = call_site_of(opened_by);
  log_line(level, "%s may %s %s a buffer that %s at %s still %s; complete that operation first: MPI_Wait",
           submission(conflict).c_str(), buffer.written ? "access" : "write",
           conflict.verdict == Verdict::certain ? "bytes of" : "the allocation of", opened.function.c_str(),
           opened.place.c_str(), buffer.written ? "receives into" : "sends");
}

void report_use(int device, const Buffer& buffer, const CallSite& site, const Conflict& conflict) {
  LogLevel level;
  if (!note(conflict.verdict, site.address, &level)) return;
  log_line(
      level,
      "%s at %s %s a buffer of device %d although %s may still %s %s; synchronise that stream before the "
      "call: cudaStreamSynchronize, hipStreamSynchronize",
      site.function.c_str(), site.place.c_str(), buffer.written ? "receives into" : "sends", device,
      submission(conflict).c_str(), buffer.written ? "access" : "write",
      conflict.verdict == Verdict::certain ? "it" : "its allocation");
}

// Without knowledge of the program's work.
void ask_device(int device, BufferUse use) {
  if (device::runtime()->query_application(device) != device::Error::not_ready) return;
  const CallSite site = find_call_site();
  if (!certain.note(site.address)) return;
  const bool sent = use == BufferUse::sent;
  log_line(LogLevel::warn,
           "%s at %s %s a buffer of device %d while work of this program is in flight there, which may still "
           "%s it; synchronise the stream that %s the buffer before the call: cudaStreamSynchronize, "
           "hipStreamSynchronize",
           site.function.c_str(), site.place.c_str(), sent ? "sends" : "receives into", device,
           sent ? "write" : "read or write", sent ? "produces" : "uses");
}

}  // namespace

void detail::check_streams(int device, const void* address, MPI_Count bytes, bool with_gaps, BufferUse use,
                           device::program::OpenBuffers* buffers) {
  if (!device::program::seen()) return ask_device(device, use);
  const device::Allocation memory = device::classify(address);
  const Buffer buffer{reinterpret_cast<uintptr_t>(address),
                      static_cast<size_t>(bytes),
                      with_gaps,
                      use == BufferUse::received,
                      memory.base,
                      memory.size};
  const Conflict conflict = device::program::conflict_of(buffer);
  if (conflict.verdict != Verdict::none) report_use(device, buffer, find_call_site(), conflict);
  if (buffers) buffers->open(buffer, report_submission);
}

void end_stream_check() {
  if (possible.calls() == 0) return;
  log_line(LogLevel::warn,
           "streams: %zu calls at %zu places could not be judged: work that may access other parts of an "
           "allocation was in flight; FAIRLEAD_LOG=info names them",
           possible.calls(), possible.count());
}

}  // namespace fairlead::mpi
