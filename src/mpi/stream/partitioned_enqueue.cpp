// SPDX-License-Identifier: Apache-2.0
//
// Partitioned requests on GPU streams. Once the sender has joined the receiver's buffer
// (p2p/partition_channel.h), streams run whole rounds alone, by copies and words, and a graph may replay
// them. Until then, and where kernels mark partitions, the CPU starts the calls of MPI when the stream has
// come to them.

#include <span>
#include <utility>
#include <vector>

#include "mpi/core/error_handler.h"
#include "mpi/core/record.h"
#include "mpi/p2p/partitioned_operation.h"
#include "mpi/stream/streams.h"
#include "observe/statistics.h"

// Fairlead's own, which not every mpi.h declares.
extern "C" int fairlead_Pready_range(int low, int high, MPI_Request request) __asm__("MPI_Pready_range");
extern "C" int fairlead_Parrived(MPI_Request request, int partition, int* flag) __asm__("MPI_Parrived");

namespace fairlead::mpi {
namespace {

using device::Error;
using device::WordAccess;

constexpr bool waits = true, writes = false;

// Work of a stream for a round that it runs alone.
int run(const StreamCommunicator& mine, MPI_Comm comm, const GpuStream::Alone& work,
        std::function<bool()>* ended = nullptr) {
  const int earlier = take_error(mine);
  if (earlier != MPI_SUCCESS) return raise_error(comm, earlier, "an operation that was enqueued earlier");
  const Error error = mine.stream->run_alone(work, ended);
  return error == Error::none ? MPI_SUCCESS : raise_error(comm, MPI_ERR_OTHER, "an enqueued operation");
}

int refuse(MPI_Comm comm, const char* function, const char* why) {
  return refuse_call(comm, function, MPI_ERR_REQUEST, why);
}

int end_send(PartitionedSend& operation, MPI_Comm comm, MPI_Status* status) {
  operation.in_stream = false;
  if (status != MPI_STATUS_IGNORE) set_empty(status);
  if (operation.all_marked()) return MPI_SUCCESS;
  return refuse(comm, "MPIX_Wait_enqueue",
                "partitions of the send have not been marked; MPIX_Pready_enqueue() marks them before");
}

int end_receive(PartitionedReceive& operation, const std::shared_ptr<StreamCommunicator>& mine, MPI_Comm comm,
                MPI_Status* status) {
  operation.in_stream = false;
  if (status != MPI_STATUS_IGNORE) operation.describe(status);
  GpuStream::Alone work;
  for (bool kind : {waits, writes})
    for (int i = 0; i < operation.partitions(); ++i)
      work.before.push_back({kind, operation.offer().arrived(i), kind == waits});
  std::function<bool()> ended;
  const int error = run(*mine, comm, work, &ended);
  operation.offer().use_until(std::move(ended));
  count(Traffic::in_stream, operation.bytes_of(operation.partitions()));
  return error;
}

int start_alone(PartitionedSend& operation, const std::shared_ptr<StreamCommunicator>&, MPI_Comm comm,
                MPI_Request request) {
  operation.begin_in_stream();
  wait_for_request_by(request, comm,
                      [&operation, comm](MPI_Status* status) { return end_send(operation, comm, status); });
  return MPI_SUCCESS;
}

int start_alone(PartitionedReceive& operation, const std::shared_ptr<StreamCommunicator>& mine, MPI_Comm comm,
                MPI_Request request) {
  std::function<bool()> ended;
  const int error = run(*mine, comm, {.before = {{writes, operation.offer().open(), 1}}}, &ended);
  operation.offer().use_until(std::move(ended));
  if (error == MPI_SUCCESS)
    wait_for_request_by(request, comm, [&operation, mine, comm](MPI_Status* status) {
      return end_receive(operation, mine, comm, status);
    });
  return error;
}

template <class Type>
std::optional<int> start(Type* operation, const std::shared_ptr<StreamCommunicator>& mine, MPI_Comm comm,
                         MPI_Request request) {
  if (!operation) return std::nullopt;
  if (!operation->stream_may_run()) operation->use_on_gpu(!mine->stream->is_captured());
  operation->in_stream = operation->stream_may_run();
  if (!operation->in_stream) return std::nullopt;
  return start_alone(*operation, mine, comm, request);
}

int mark(int low, int high, MPI_Request request, MPI_Comm comm) {
  auto* operation = find_partitioned<PartitionedSend>(request);
  if (operation && (low > high || !operation->exists(low) || !operation->exists(high)))
    return refuse(comm, "MPIX_Pready_enqueue", "there are no such partitions");
  if (operation) operation->marks_in_stream = true;
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!operation || !operation->in_stream || !mine) {
    EnqueuedWork works[] = {{[=](MPI_Request* started) {
      *started = MPI_REQUEST_NULL;
      return fairlead_Pready_range(low, high, request);
    }}};
    return enqueue(comm, works);
  }
  const PartitionedSend::Write write = operation->write(low, high);
  GpuStream::Alone work{.copy = device::CopyItem{write.to, write.from, write.bytes}};
  if (write.open) work.before = {{waits, write.open, 1}, {writes, write.open, 0}};
  for (uint32_t* arrived : write.arrived) work.after.push_back({writes, arrived, p2p::partition_arrived});
  return run(*mine, comm, work);
}

int await(MPI_Request request, int partition, MPI_Comm comm) {
  auto* operation = find_partitioned<PartitionedReceive>(request);
  if (operation && !operation->exists(partition))
    return refuse(comm, "MPIX_Parrived_enqueue", "there is no such partition");
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!operation || !operation->in_stream || !mine) {
    EnqueuedWork works[] = {{[=](MPI_Request* started) {
      *started = MPI_REQUEST_NULL;
      int arrived = 0;
      const int error = fairlead_Parrived(request, partition, &arrived);
      return error != MPI_SUCCESS || arrived ? error : try_again;
    }}};
    return enqueue(comm, works);
  }
  return run(*mine, comm, {.before = {{waits, operation->offer().arrived(partition), 1}}});
}

}  // namespace

std::optional<int> start_partitioned(MPI_Request request, MPI_Comm comm) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!mine) return std::nullopt;
  auto* receive = find_partitioned<PartitionedReceive>(request);
  // Kernels behind the start must not see what arrived in the round before.
  if (receive && receive->clear_words_on(mine->stream->stream()) != Error::none)
    return raise_error(comm, MPI_ERR_OTHER, "the start");
  if (const auto started = start(receive, mine, comm, request)) return started;
  return start(find_partitioned<PartitionedSend>(request), mine, comm, request);
}

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPIX(Pready_range_enqueue, (int low, int high, MPI_Request request, MPI_Comm comm)) {
  const ExtensionCall call("MPIX_Pready_range_enqueue");
  return mark(low, high, request, comm);
}
FAIRLEAD_MPIX(Pready_enqueue, (int partition, MPI_Request request, MPI_Comm comm)) {
  const ExtensionCall call("MPIX_Pready_enqueue");
  return mark(partition, partition, request, comm);
}
FAIRLEAD_MPIX(Parrived_enqueue, (MPI_Request request, int partition, MPI_Comm comm)) {
  const ExtensionCall call("MPIX_Parrived_enqueue");
  return await(request, partition, comm);
}
