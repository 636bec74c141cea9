// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/entry/collective.h"

#include "base/options.h"
#include "kernels/kernel_run.h"
#include "mpi/abi/comm_self.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/collective_operation.h"
#include "mpi/coll/entry/comparison.h"
#include "mpi/coll/host_call.h"
#include "mpi/coll/nodes/between_nodes.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"

namespace fairlead::mpi {
namespace {

bool maybe_on_device(CollectiveCall* call, const CommPosition& position) {
  // Blocks with datatypes of their own may lie anywhere; other buffers begin with their first block.
  auto is = [call](const void* buffer, bool any, MPI_Datatype datatype, const MPI_Datatype* datatypes) {
    if (buffer == MPI_IN_PLACE || !any) return false;
    if (datatypes) return !buffer || !device::certainly_host(buffer);
    return device::is_device_memory(first_data_byte(buffer, datatype), &call->found);
  };
  // A negative count is not for the host MPI: quirk negative_reduction.
  const bool any_received = call->recvcount != 0 || call->recvcounts,
             any_sent = call->sendcount != 0 || call->sendcounts || (call->reduces() && any_received);
  return (gives(*call, position) && is(call->sendbuf, any_sent, call->sendtype, call->sendtypes)) ||
         (gets(*call, position) && is(call->recvbuf, any_received, call->recvtype, call->recvtypes));
}

// Does the call lack arrays of counts and displacements that this rank needs? Arrays without elements may be
// null.
bool lacks_arrays(const CollectiveCall& call, const CommPosition& position) {
  const auto [sent, received] = array_lengths(call, position);
  return (sent > 0 && (!call.sendcounts || !call.sdispls)) ||
         (received > 0 && (!call.recvcounts || (!call.rdispls && !call.reduces())));
}

// Is the receive buffer MPI_IN_PLACE where that is invalid?
bool receives_in_place(const CollectiveCall& call, const CommPosition& position) {
  const InPlace valid = call.shape().in_place;
  return call.recvbuf == MPI_IN_PLACE && valid != InPlace::result &&
         (valid == InPlace::no || gets(call, position));
}

// Will the host MPI refuse the call, whatever its elements are?
bool is_invalid(const CollectiveCall& call, const CommPosition& position) {
  return (!position.inter && (call.root < 0 || call.root >= position.size)) ||
         (call.among_neighbors() && !position.topology) || lacks_arrays(call, position) ||
         receives_in_place(call, position);
}

// True if a quick check finds no bytes in the call.
bool maybe_empty(const CollectiveCall& call, const CommPosition& position) {
  if (call.among_neighbors() && position.neighbors.none()) return true;
  return call.shape().sent != Blocks::none && (call.sendcount == 0 || !gives(call, position)) &&
         (call.recvcount == 0 || !gets(call, position));
}

void add_bytes_of(const CollectiveCall& call, const CommPosition& position) {
  if (observe::OpenCall* open = observe::current_call()) open->bytes += regions_of(call, position).bytes();
}

bool is_refused(const Regions& regions) {
  return !options().gpu_support && regions.on_device();
}

// Counts a call with wrong arguments in the collective slot, because the arguments of the other members may
// be right.
void count_wrong_call(CommunicatorState& state, bool blocking) {
  if (blocking) state.join();
  std::lock_guard lock(engine().mutex());
  state.skip();
}

int error_of(const CollectiveCall& call, const Regions& regions) {
  if (regions.error() != MPI_SUCCESS || !regions.aliased) return regions.error();
  return error_of_aliasing(call.reduces() && call.shape().gets == Who::root);
}

int raise_error_of_arguments(const CollectiveCall& call, int error, CommunicatorState& state, bool blocking) {
  count_wrong_call(state, blocking);
  return raise_error(call.comm, error, "a collective whose arguments are wrong");
}

void compare(const CollectiveCall& call, CommunicatorState& state, Form form) {
  if (!node_limits().compares) return;
  const CommPosition& position = state.position();
  compare_ranks(state, call, form,
                is_invalid(call, position) || error_of(call, regions_of(call, position)) != MPI_SUCCESS);
}

// Returns null if the call goes to the host MPI at once: only host memory is involved, and the call has been
// announced in the collective slot, if there is one. Otherwise returns the state of the communicator.
std::shared_ptr<CommunicatorState> intercept(CollectiveCall* call, bool blocking) {
  if (call->comm == MPI_COMM_NULL) return nullptr;
  std::shared_ptr<CommunicatorState> state = communicator_state_of(call->comm);
  compare(*call, *state, blocking ? Form::blocking : Form::nonblocking);
  if (blocking)
    count_blocking(call, *state);
  else
    count_nonblocking(call, *state);
  if (is_invalid(*call, state->position())) {
    if (call->must_agree) decline_between_nodes(*call, *state);
    decline_nonblocking(*call, *state);
    count_wrong_call(*state, blocking);
    return nullptr;
  }
  if (recording()) add_bytes_of(*call, state->position());
  if (call->must_agree || call->asks || goes_between_nodes(*call) || maybe_on_device(call, state->position()))
    return state;
  if (!state->known()) {
    if (!blocking) return state;
    state->join();
  }
  if (state->open_calls() > 0) return state;
  if (!state->slot()) return nullptr;
  if (maybe_empty(*call, state->position())) return state;
  state->pass_by();
  return nullptr;
}

int run(const CallRecord& record, std::shared_ptr<CommunicatorState> state, const CollectiveCall& call) {
  Regions regions = regions_of(call, state->position());
  if (regions.on_device()) record.note_device();
  const int error = error_of(call, regions);
  if (call.must_agree && (error != MPI_SUCCESS || is_refused(regions))) decline_between_nodes(call, *state);
  if (error != MPI_SUCCESS) return raise_error_of_arguments(call, error, *state, true);
  if (is_refused(regions)) return refuse_device_memory(call.comm);
  if (call.must_agree || call.by_messages)
    if (std::optional<int> result = run_between_nodes(call, regions, state)) return *result;
  return run_collective(std::move(state), call, std::move(regions));
}

int start(const CallRecord& record, std::shared_ptr<CommunicatorState> state, const CollectiveCall& call,
          MPI_Request* request) {
  Regions regions = regions_of(call, state->position());
  if (regions.on_device()) record.note_device();
  const int error = error_of(call, regions);
  if (error != MPI_SUCCESS || is_refused(regions)) decline_nonblocking(call, *state);
  if (error != MPI_SUCCESS) return raise_error_of_arguments(call, error, *state, false);
  if (is_refused(regions)) return refuse_device_memory(call.comm);
  if (goes_between_nodes(call))
    return hand_out(operation_between_nodes(std::move(state), call, std::move(regions)), request);
  return hand_out(std::make_unique<CollectiveOperation>(std::move(state), call, std::move(regions),
                                                        CollectiveOperation::Form::nonblocking),
                  request);
}

}  // namespace

int recorded::collective(const CallRecord& record, CollectiveCall call) {
  if (!intercepting()) return call_host(call, call.comm, call.sendbuf, call.recvbuf);
  if (auto state = intercept(&call, true)) return run(record, std::move(state), call);
  return block_in_host(call, call.comm, call.sendbuf, call.recvbuf);
}

int recorded::start_collective(const CallRecord& record, CollectiveCall call, MPI_Request* request) {
  if (intercepting())
    if (auto state = intercept(&call, false)) return start(record, std::move(state), call, request);
  return call_host(call, call.comm, call.sendbuf, call.recvbuf, request);
}

// Each start makes a nonblocking call. It does not use a persistent request of the host MPI, because
// completion calls poll (quirk persistent_not_polled). The persistent collectives of an inter-communicator
// share that communicator and must be started in the same order.
int recorded::init_collective(CollectiveCall call, MPI_Info info, MPI_Request* request) {
  if (!intercepting()) return init_in_host(call, info, request);
  std::shared_ptr<CommunicatorState> state;
  if (call.comm != MPI_COMM_NULL) {
    state = communicator_state_of(call.comm);
    compare(call, *state, Form::persistent);
  }
  // The host MPI finds the error.
  if (!state || is_invalid(call, state->position()))
    return call_host(call, call.comm, call.sendbuf, call.recvbuf, request);
  Regions regions = regions_of(call, state->position());
  if (int error = error_of(call, regions); error != MPI_SUCCESS)
    return raise_error(call.comm, error, "a persistent collective whose arguments are wrong");
  if (is_refused(regions)) return refuse_device_memory(call.comm);
  std::shared_ptr<MPI_Comm> comm =
      state->position().inter ? std::make_shared<MPI_Comm>(call.comm) : state->lend_duplicate();
  if (!comm) return MPI_ERR_OTHER;
  agree_on_persistent(&call, regions, *state, *comm);
  MPI_Request token;
  if (int result = make_token(&token); result != MPI_SUCCESS) return result;
  if (goes_between_nodes(call)) {
    hand_out_persistent(operation_between_nodes(communicator_state_of(*comm), call, std::move(regions), comm),
                        token, request);
    return MPI_SUCCESS;
  }
  hand_out_persistent(
      std::make_unique<CollectiveOperation>(communicator_state_of(*comm), call, std::move(regions),
                                            CollectiveOperation::Form::persistent, comm),
      token, request);
  return MPI_SUCCESS;
}

namespace {

// Reduces on the GPU; false if that is not possible.
bool reduce_on_gpu(const void* inbuf, void* inoutbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  device::Allocation in = device::classify(inbuf), inout = device::classify(inoutbuf);
  kernels::ReduceOp kernel;
  kernels::Element element;
  if (in.kind != device::MemoryKind::device || inout.kind != in.kind || in.device != inout.device ||
      !kernel_for(op, datatype, &kernel, &element))
    return false;
  std::lock_guard lock(engine().mutex());
  if (!kernels::reductions_run_on(in.device, kernel, element)) return false;
  kernels::KernelRun run;
  const void* from[] = {inbuf, inoutbuf};
  if (run.reduce(in.device, kernel, element, from, 2, &inoutbuf, 1, static_cast<uint64_t>(count)) !=
      Attempt::made)
    return false;
  device::Error state;
  while ((state = run.poll()) == device::Error::not_ready) {
  }
  return state == device::Error::none;
}

template <auto slot, class Count>
int reduce_local(const void* inbuf, void* inoutbuf, Count count, MPI_Datatype datatype, MPI_Op op) {
  CallRecord record(function_of<slot>);
  record.add_bytes(count, datatype);
  if (!intercepting() || (!is_device(inbuf, datatype) && !is_device(inoutbuf, datatype)))
    return (real.*slot)(inbuf, inoutbuf, count, datatype, op);
  if (!options().gpu_support) return refuse_device_memory(comm_self());
  int error = error_of_reduction(count, datatype, op);
  if (error == MPI_SUCCESS && inbuf == inoutbuf && count > 0) error = error_of_aliasing(false);
  if (error != MPI_SUCCESS)
    return raise_error(comm_self(), error, "a local reduction whose arguments are wrong");
  if (count == 0 || reduce_on_gpu(inbuf, inoutbuf, count, datatype, op)) return MPI_SUCCESS;
  Regions regions;
  regions.read.address = const_cast<void*>(inbuf);
  regions.written.address = inoutbuf;
  regions.read.add({0, count, datatype});
  regions.written.add({0, count, datatype});
  regions.written_is_read = true;
  const CollectiveCall call{Collective::reduce, comm_self(), inbuf, inoutbuf};
  StagedCall staged;
  int of_host = MPI_SUCCESS;
  int result = staged.begin(call, regions, [&](const void* from, void* to) {
    return of_host = (real.*slot)(from, to, count, datatype, op);
  });
  if (result == MPI_SUCCESS) result = staged.end(regions);
  return result == of_host ? result : raise_error(comm_self(), result, description(regions));
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Reduce_local, (const void* inbuf, void* inoutbuf, int count, MPI_Datatype datatype, MPI_Op op)) {
  return reduce_local<&Real::Reduce_local>(inbuf, inoutbuf, count, datatype, op);
}

FAIRLEAD_MPI(Reduce_local_c,
             (const void* inbuf, void* inoutbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op)) {
  return reduce_local<&Real::Reduce_local_c>(inbuf, inoutbuf, count, datatype, op);
}
