// SPDX-License-Identifier: Apache-2.0
//
// Partitioned requests on GPU streams. A stream runs a receive alone, by words, as soon as the sender has
// joined its buffer (p2p/partition_channel.h). All else are the calls of MPI, which the CPU starts when the
// stream has come to them; a send then writes to that buffer. A stream does not run a send: it would have to
// wait for the receiver where the program marks a partition, and MPI_Pready waits for nobody.

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

int refuse(MPI_Comm comm, const char* function, const char* why) {
  return refuse_call(comm, function, MPI_ERR_REQUEST, why);
}

// The stream handles words of the receive.
int run(PartitionedReceive& operation, const StreamCommunicator& mine, MPI_Comm comm,
        std::vector<WordAccess> accesses) {
  std::function<bool()> ended;
  const Error error = mine.stream->run_alone(std::move(accesses), &ended);
  operation.offer().use_until(std::move(ended));
  return error == Error::none ? MPI_SUCCESS : raise_error(comm, MPI_ERR_OTHER, "an enqueued operation");
}

// What the program enqueues for MPIX_Wait_enqueue().
int end_receive(MPI_Request request, MPI_Comm comm, MPI_Status* status) {
  auto* operation = find_partitioned<PartitionedReceive>(request);
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!operation || !mine)
    return refuse(comm_of_no_object(), "MPIX_Wait_enqueue", "the request or its communicator has been freed");
  operation->in_stream = false;
  if (status != MPI_STATUS_IGNORE) operation->describe(status);
  std::vector<WordAccess> accesses;
  for (bool kind : {waits, writes})
    for (int i = 0; i < operation->partitions(); ++i)
      accesses.push_back({kind, operation->offer().arrived(i), kind == waits});
  const int error = run(*operation, *mine, comm, std::move(accesses));
  if (error == MPI_SUCCESS) count(Traffic::in_stream, operation->bytes_of(operation->partitions()));
  return error;
}

std::optional<int> start_receive(PartitionedReceive& operation, const StreamCommunicator& mine, MPI_Comm comm,
                                 MPI_Request request) {
  // Kernels behind the start must not see what arrived in the round before.
  if (operation.clear_words_on(mine.stream->stream()) != Error::none)
    return raise_error(comm, MPI_ERR_OTHER, "the start");
  if (!operation.stream_may_run()) {
    operation.use_on_gpu(!mine.stream->is_captured());
    return std::nullopt;
  }
  if (const int earlier = take_error(mine); earlier != MPI_SUCCESS)
    return raise_error(comm, earlier, "an operation that was enqueued earlier");
  const int error = run(operation, mine, comm, {{writes, operation.offer().open(), 1}});
  if (error != MPI_SUCCESS) return error;
  operation.in_stream = true;
  wait_for_request_by(request, comm,
                      [request, comm](MPI_Status* status) { return end_receive(request, comm, status); });
  return MPI_SUCCESS;
}

int mark(const char* name, int low, int high, MPI_Request request, MPI_Comm comm) {
  const auto* operation = find_partitioned<PartitionedSend>(request);
  if (operation && (low > high || !operation->exists(low) || !operation->exists(high)))
    return refuse(comm, name, "there are no such partitions");
  return enqueue_unwaited(comm, [=](MPI_Request* started) {
    *started = MPI_REQUEST_NULL;
    return fairlead_Pready_range(low, high, request);
  });
}

int await(MPI_Request request, int partition, MPI_Comm comm) {
  auto* operation = find_partitioned<PartitionedReceive>(request);
  if (operation && !operation->exists(partition))
    return refuse(comm, "MPIX_Parrived_enqueue", "there is no such partition");
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (operation && operation->in_stream && mine) {
    if (const int earlier = take_error(*mine); earlier != MPI_SUCCESS)
      return raise_error(comm, earlier, "an operation that was enqueued earlier");
    return run(*operation, *mine, comm, {{waits, operation->offer().arrived(partition), 1}});
  }
  EnqueuedWork works[] = {{[=](MPI_Request* started) {
    *started = MPI_REQUEST_NULL;
    int arrived = 0;
    // Without the host's question whether a stream runs the request: it may run the next round.
    auto* receive = find_partitioned<PartitionedReceive>(request);
    const int error =
        receive ? receive->arrived(partition, &arrived) : fairlead_Parrived(request, partition, &arrived);
    return error != MPI_SUCCESS || arrived ? error : try_again;
  }}};
  return enqueue(comm, works);
}

}  // namespace

std::optional<int> start_partitioned(MPI_Request request, MPI_Comm comm) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!mine) return std::nullopt;
  if (auto* receive = find_partitioned<PartitionedReceive>(request))
    return start_receive(*receive, *mine, comm, request);
  if (auto* send = find_partitioned<PartitionedSend>(request)) send->use_on_gpu(!mine->stream->is_captured());
  return std::nullopt;
}

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPIX(Pready_range_enqueue, (int low, int high, MPI_Request request, MPI_Comm comm)) {
  const ExtensionCall call("MPIX_Pready_range_enqueue");
  return mark("MPIX_Pready_range_enqueue", low, high, request, comm);
}
FAIRLEAD_MPIX(Pready_enqueue, (int partition, MPI_Request request, MPI_Comm comm)) {
  const ExtensionCall call("MPIX_Pready_enqueue");
  return mark("MPIX_Pready_enqueue", partition, partition, request, comm);
}
FAIRLEAD_MPIX(Parrived_enqueue, (MPI_Request request, int partition, MPI_Comm comm)) {
  const ExtensionCall call("MPIX_Parrived_enqueue");
  return await(request, partition, comm);
}
