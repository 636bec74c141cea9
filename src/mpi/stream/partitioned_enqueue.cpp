// SPDX-License-Identifier: Apache-2.0
//
// Partitioned requests on GPU streams. A stream runs rounds alone as soon as the sender has joined the
// receiver's buffer (p2p/partition_channel.h), by kernels that hand partitions over. Where there are none, or
// the message is too long for them, it runs those of receives, by words. All else are the calls of MPI, which
// the CPU starts when the stream has come to them; a send then writes to that buffer. A stream cannot run a
// send by words: it would have to wait for the receiver where the program marks a partition, and MPI_Pready
// waits for nobody.

#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
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

// The stream handles words of channels, which their users keep as long.
int run(std::span<p2p::StreamUse* const> uses, const StreamCommunicator& mine, MPI_Comm comm,
        std::vector<WordAccess> accesses) {
  std::function<bool()> ended;
  if (mine.stream->run_alone(std::move(accesses), &ended) != Error::none)
    return raise_error(comm, MPI_ERR_OTHER, "an enqueued operation");
  for (p2p::StreamUse* use : uses) {
    if (!ended) use->in_graph_of(mine.stream->device());
    use->until(ended);
  }
  return MPI_SUCCESS;
}
int run(p2p::StreamUse& use, const StreamCommunicator& mine, MPI_Comm comm, const WordAccess& access) {
  p2p::StreamUse* const uses[] = {&use};
  return run(uses, mine, comm, std::vector<WordAccess>{access});
}

constexpr auto not_ended = [] { return false; };

// The stream launches a kernel that waits for nobody.
template <class User>
int hand_over(User& user, const StreamCommunicator& mine, MPI_Comm comm, const kernels::HandOver& call) {
  const int device = mine.stream->device();
  const auto launch = [&](device::Stream stream) { return kernels::launch_handover(device, stream, call); };
  const Error error = mine.stream->submit([&](device::Stream stream, bool captured) {
    if (captured && !device::runtime()->captures_words()) return Error::capturing;
    if (captured) user.use().in_graph_of(device);
    const device::Graph graph =
        captured ? nullptr : user.use().recorded().find(call, mine.stream->recording(), launch);
    return graph ? device::runtime()->launch_graph(graph, stream) : launch(stream);
  });
  if (error == Error::none) return MPI_SUCCESS;
  log_line(LogLevel::error, "a partition cannot be handed over: %s %s", device::to_string(error),
           device::runtime()->error_text());
  if (error != Error::capturing && !mine.stream->is_captured()) user.fail();
  return raise_error(comm, MPI_ERR_OTHER, "an enqueued operation");
}

// The first error of what was enqueued before, as an error of this call.
int earlier_error(const StreamCommunicator& mine, MPI_Comm comm) {
  const int earlier = take_error(mine);
  return earlier == MPI_SUCCESS ? earlier
                                : raise_error(comm, earlier, "an operation that was enqueued earlier");
}

void add_end(PartitionedReceive& operation, WaitAlone* together) {
  p2p::PartitionOffer& offer = operation.offer();
  for (int i = 0; i < operation.partitions(); ++i) {
    together->waits.push_back({waits, offer.arrived(i), 1});
    together->writes.push_back({writes, offer.arrived(i), 0});
  }
  together->uses.push_back(&offer.use());
  count(Traffic::in_stream, operation.bytes_of(operation.partitions()));
}
void add_end(PartitionedSend& operation, WaitAlone* together) {
  p2p::PartitionLink& link = operation.link();
  together->waits.push_back({waits, link.sent(), 1});
  together->writes.push_back({writes, link.sent(), 0});
  together->uses.push_back(&link.use());
}

// The stream runs the round, up to what the program enqueues for MPIX_Wait_enqueue().
template <class Type>
void run_until_wait(Type& started, MPI_Request request, MPI_Comm comm) {
  started.in_stream = true;
  wait_for_request_by(request, comm, [request, comm](MPI_Status* status, WaitAlone* together) {
    auto* operation = find_partitioned<Type>(request);
    std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
    if (!operation || !mine)
      return refuse(comm_of_no_object(), "MPIX_Wait_enqueue",
                    "the request or its communicator has been freed");
    operation->in_stream = false;
    if (status != MPI_STATUS_IGNORE) operation->describe(status);
    together->mine = std::move(mine);
    add_end(*operation, together);
    return int{MPI_SUCCESS};
  });
}

std::optional<int> start_receive(PartitionedReceive& operation, const StreamCommunicator& mine, MPI_Comm comm,
                                 MPI_Request request) {
  // Kernels behind the start must not see what arrived in the round before.
  if (operation.clear_words_on(mine.stream->stream()) != Error::none)
    return raise_error(comm, MPI_ERR_OTHER, "the start");
  if (!operation.stream_may_run(mine.stream->device())) {
    operation.use_on_gpu(!mine.stream->is_captured());
    return std::nullopt;
  }
  p2p::PartitionOffer& offer = operation.offer();
  int error = earlier_error(mine, comm);
  if (error != MPI_SUCCESS) return error;
  offer.use().until(not_ended);
  error = offer.by_kernels() ? hand_over(offer, mine, comm, offer.opening())
                             : run(offer.use(), mine, comm, {writes, offer.open(), 1});
  if (error != MPI_SUCCESS) return error;
  run_until_wait(operation, request, comm);
  return MPI_SUCCESS;
}

std::optional<int> start_send(PartitionedSend& operation, const StreamCommunicator& mine, MPI_Comm comm,
                              MPI_Request request, bool* noted) {
  if (!operation.stream_may_run(mine.stream->device())) {
    const bool captured = mine.stream->is_captured();
    operation.use_on_gpu(!captured);
    *noted = !captured;
    if (!captured) operation.note_start();
    return std::nullopt;
  }
  if (const int error = earlier_error(mine, comm); error != MPI_SUCCESS) return error;
  operation.link().use().until(not_ended);
  run_until_wait(operation, request, comm);
  return MPI_SUCCESS;
}

int mark(const char* name, int low, int high, MPI_Request request, MPI_Comm comm) {
  auto* operation = find_partitioned<PartitionedSend>(request);
  if (operation && (low > high || !operation->exists(low) || !operation->exists(high)))
    return refuse(comm, name, "there are no such partitions");
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (operation && operation->in_stream && mine) {
    if (!operation->is_on(mine->stream->device()))
      return refuse(comm, name, "the stream is one of another device than the buffer");
    if (const int error = earlier_error(*mine, comm); error != MPI_SUCCESS) return error;
    return hand_over(operation->link(), *mine, comm, operation->giving(low, high));
  }
  const bool captured = mine && mine->stream->is_captured();
  return enqueue_unwaited(comm, [=](MPI_Request* started) {
    *started = MPI_REQUEST_NULL;
    // The stream of the start may be looked at later.
    if (const auto* send = find_partitioned<PartitionedSend>(request);
        send && (captured ? !send->active : send->will_start()))
      return try_again;
    return fairlead_Pready_range(low, high, request);
  });
}

int await(MPI_Request request, int partition, MPI_Comm comm) {
  auto* operation = find_partitioned<PartitionedReceive>(request);
  if (operation && !operation->exists(partition))
    return refuse(comm, "MPIX_Parrived_enqueue", "there is no such partition");
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (operation && operation->in_stream && mine) {
    if (const int error = earlier_error(*mine, comm); error != MPI_SUCCESS) return error;
    return run(operation->offer().use(), *mine, comm, {waits, operation->offer().arrived(partition), 1});
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

int wait_alone(WaitAlone& together) {
  std::vector<WordAccess>& accesses = together.waits;
  accesses.insert(accesses.end(), together.writes.begin(), together.writes.end());
  return run(together.uses, *together.mine, together.comm, std::move(accesses));
}

std::optional<int> start_partitioned(MPI_Request request, MPI_Comm comm, bool* noted) {
  const std::shared_ptr<StreamCommunicator> mine = stream_communicator(comm);
  if (!mine) return std::nullopt;
  if (auto* receive = find_partitioned<PartitionedReceive>(request))
    return start_receive(*receive, *mine, comm, request);
  if (auto* send = find_partitioned<PartitionedSend>(request))
    return start_send(*send, *mine, comm, request, noted);
  return std::nullopt;
}

void forget_start(MPI_Request request) {
  if (auto* send = find_partitioned<PartitionedSend>(request)) send->note_start(-1);
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
