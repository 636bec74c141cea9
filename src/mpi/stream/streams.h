// SPDX-License-Identifier: Apache-2.0
//
// The handles of streams (MPIX_Stream), the streams of communicators, and the progress of what is enqueued.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi/core/record.h"
#include "mpi/stream/stream.h"
#include "mpi/stream/stream_collective.h"
#include "p2p/partition_channel.h"

// If a program's streams will wait for MPI, it must call the first function before it uses the GPU and the
// second before MPI_Init, or the third if it asks for the thread level itself.
extern "C" FAIRLEAD_EXPORT void fairlead_prepare_streams();
extern "C" FAIRLEAD_EXPORT void fairlead_request_threads();
extern "C" FAIRLEAD_EXPORT void fairlead_keep_thread_level();

namespace fairlead::mpi {

using StreamHandle = int;  // MPIX_Stream of MPICH 5

// The stream of a communicator from MPIX_Stream_comm_create(), or null.
struct StreamCommunicator {
  explicit StreamCommunicator(MPI_Comm comm) : record(comm) {}
  std::shared_ptr<GpuStream> stream;
  StreamHandle handle = 0;
  std::shared_ptr<DeferredError> errors = std::make_shared<DeferredError>();
  std::shared_ptr<StreamCollective> collective;  // null: its collectives are operations of the CPU
  EnqueuedRecord record;
};
std::shared_ptr<StreamCommunicator> stream_communicator(MPI_Comm comm);
void set_stream(MPI_Comm comm, std::shared_ptr<GpuStream> stream, StreamHandle handle,
                std::shared_ptr<StreamCollective> collective);

// Enqueues on the stream of the communicator in one step, and makes the stream wait until all is complete.
// What is in `works` is moved from. `status`: of the first one. Returns the error of this call, or (for
// PartOfCall::first only) the first error of an earlier operation on the communicator.
enum class PartOfCall { first, second };
int enqueue(MPI_Comm comm, std::span<EnqueuedWork> works, MPI_Status* status = MPI_STATUS_IGNORE,
            PartOfCall part = PartOfCall::first);
// The stream goes on at once. `request` is for wait_enqueued(): a persistent one, which the operation starts,
// or MPI_REQUEST_NULL, which becomes a handle.
int enqueue(MPI_Comm comm, EnqueuedWork work, MPI_Request* request);
// The same on the stream of the communicator that the window was created with. Where the stream does not
// wait, nobody learns when the operation is complete; its start must not leave a request then.
int enqueue_on_window(MPI_Win win, bool waits, StartOperation start);
// Enqueues the collective. If it cannot run in the stream, the CPU does what `by_cpu` returns.
int enqueue_collective(Function function, const CollectiveCall& call,
                       const std::function<StartOperation()>& by_cpu);
// The stream goes on at once, and nobody learns when it is complete; its start must not leave a request.
int enqueue_unwaited(MPI_Comm comm, StartOperation start);
// Starts a partitioned request, if the stream of the communicator can run its round alone. Otherwise returns
// nullopt; the caller then uses enqueue(), and if the start was noted, for marks that come before it, calls
// forget_start() when that has failed or the CPU has started the request.
std::optional<int> start_partitioned(MPI_Request request, MPI_Comm comm, bool* noted);
void forget_start(MPI_Request request);
// What a stream waits for, and stores then, without the CPU, for requests that are waited for together.
struct WaitAlone {
  MPI_Comm comm = MPI_COMM_NULL;
  std::shared_ptr<StreamCommunicator> mine = nullptr;
  std::vector<device::WordAccess> waits = {}, writes = {};
  std::vector<p2p::StreamUse*> uses = {};  // of these words
};
// wait_enqueued() calls the function for this persistent request, which adds to `together`.
using AddWait = std::function<int(MPI_Status*, WaitAlone* together)>;
void wait_for_request_by(MPI_Request request, MPI_Comm comm, AddWait add);
int wait_alone(WaitAlone& together);
// The first error of the operations of a communicator since the last call that has returned one.
inline int take_error(const StreamCommunicator& communicator) {
  return communicator.errors->code.exchange(MPI_SUCCESS);
}
// `status(i)`: where the program wants that of requests[i].
int wait_enqueued(int count, MPI_Request* requests, const std::function<MPI_Status*(int)>& status);

// When MPI ends: nothing that is enqueued starts any more, and no stream waits for it.
void close_streams();

}  // namespace fairlead::mpi
