// SPDX-License-Identifier: Apache-2.0
//
// MPICH's messages between given streams of two ranks, MPIX_Stream_send and its kin. Only MPICH matches them,
// on communicators of several streams of its own, and it gets host memory in place of device memory.

#include <functional>
#include <type_traits>

#include "base/options.h"
#include "mpi/abi/host_support.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/requests/request.h"
#include "mpi/datatype/elements.h"
#include "mpi/p2p/kept_type.h"
#include "observe/statistics.h"

#if !defined(OPEN_MPI)

namespace fairlead::mpi {
namespace {

class StreamMessage : public Operation {
 public:
  using Host = std::function<int(void* buf, MPI_Datatype datatype, MPI_Request* request)>;
  StreamMessage(const UserBuffer& buffer, bool sends, MPI_Comm comm, Host host)
      : Operation(comm),
        sends_(sends),
        type_(buffer.datatype),
        elements_({buffer.address, buffer.count, type_.get()}),
        image_(elements_, true),
        host_(std::move(host)) {
    set_empty(&status_);
  }
  int start() override {
    begin();
    const Traffic path = sends_ ? Traffic::host_message_sent : Traffic::host_message_received;
    count(path, elements_.bytes());
    record_.set_path(path, elements_.bytes());
    return image_.valid() ? host_(image_.address(), type_.get(), &message_) : raise(MPI_ERR_OTHER);
  }
  // Raises nothing: the engine's mutex is held.
  void advance() override {
    int here = 0;
    if (complete()) return;
    if (PMPI_Request_get_status(message_, &here, &status_) != MPI_SUCCESS || here)
      complete_.store(true, std::memory_order_release);
  }
  void quiesce() override {}
  void cancel() override { real.Cancel(&message_); }
  int finish(MPI_Status* status) override {
    const int result = real.Wait(&message_, &status_);
    int cancelled = 0;
    PMPI_Test_cancelled(&status_, &cancelled);
    record_.end();
    *status = status_;
    const bool stored =
        result != MPI_SUCCESS || cancelled || sends_ || image_.write_back(byte_count(status_));
    return stored ? result : raise(MPI_ERR_OTHER);
  }
  void describe(MPI_Status* status) override { *status = status_; }
  std::string description() const override {
    return "a message of " + bytes_in_words(elements_.layout().bytes) + " between streams";
  }

 private:
  const bool sends_;
  KeptType type_;
  const Elements elements_;
  const HostElements image_;
  const Host host_;
  MPI_Status status_{};
};

int complete(std::unique_ptr<StreamMessage> message) {
  return run(*message, MPI_STATUS_IGNORE);
}
int complete(std::unique_ptr<StreamMessage> message, MPI_Status* status) {
  return run(*message, status);
}
int complete(std::unique_ptr<StreamMessage> message, MPI_Request* request) {
  return hand_out(std::move(message), request);
}

// `starting` is the nonblocking form of the function `name`, whose last parameter may be a `result`.
template <class Count, class... Result>
int exchange(const char* name, const char* starting, bool sends, const void* buf, Count count,
             MPI_Datatype datatype, int peer, int tag, MPI_Comm comm, int from, int to, Result... result) {
  using Function = int (*)(const void*, Count, MPI_Datatype, int, int, MPI_Comm, int, int, Result...);
  using Starting = int (*)(const void*, Count, MPI_Datatype, int, int, MPI_Comm, int, int, MPI_Request*);
  const auto function = reinterpret_cast<Function>(next_function(name));
  const auto start = reinterpret_cast<Starting>(next_function(starting));
  if (!function || !start) return refuse_call(comm, name, MPI_ERR_OTHER, "this MPI has no such function");
  UserBuffer buffer{const_cast<void*>(buf), count, datatype};
  if (!intercepting() || is_invalid(buf, count, datatype) || is_refused(count, datatype) ||
      !is_device(&buffer)) {
    std::conditional_t<(std::is_same_v<Result, MPI_Request*> || ...), int, BlockingHostCall> blocking_call{};
    (void)blocking_call;
    return function(buf, count, datatype, peer, tag, comm, from, to, result...);
  }
  if (!options().gpu_support) return refuse_device_memory(comm);
  if (checks_streams())
    check_streams(buffer.found.memory.device, buf, layout_of(count, datatype),
                  sends ? BufferUse::sent : BufferUse::received);
  return complete(std::make_unique<StreamMessage>(buffer, sends, comm,
                                                  [=](void* image, MPI_Datatype kept, MPI_Request* request) {
                                                    return start(image, count, kept, peer, tag, comm, from,
                                                                 to, request);
                                                  }),
                  result...);
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

#define FAIRLEAD_STREAM_MESSAGE(name, starting, sends, Buffer, Count, ...)                                  \
  FAIRLEAD_MPIX(Stream_##name, (Buffer buf, Count count, MPI_Datatype datatype, int peer, int tag,          \
                                MPI_Comm comm, int from, int to __VA_OPT__(, __VA_ARGS__ result))) {        \
    return exchange("MPIX_Stream_" #name, "MPIX_Stream_" #starting, sends, buf, count, datatype, peer, tag, \
                    comm, from, to __VA_OPT__(, result));                                                   \
  }
FAIRLEAD_STREAM_MESSAGE(send, isend, true, const void*, int)
FAIRLEAD_STREAM_MESSAGE(isend, isend, true, const void*, int, MPI_Request*)
FAIRLEAD_STREAM_MESSAGE(recv, irecv, false, void*, int, MPI_Status*)
FAIRLEAD_STREAM_MESSAGE(irecv, irecv, false, void*, int, MPI_Request*)
FAIRLEAD_STREAM_MESSAGE(send_c, isend_c, true, const void*, MPI_Count)
FAIRLEAD_STREAM_MESSAGE(isend_c, isend_c, true, const void*, MPI_Count, MPI_Request*)
FAIRLEAD_STREAM_MESSAGE(recv_c, irecv_c, false, void*, MPI_Count, MPI_Status*)
FAIRLEAD_STREAM_MESSAGE(irecv_c, irecv_c, false, void*, MPI_Count, MPI_Request*)

#endif
