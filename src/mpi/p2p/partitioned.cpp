// SPDX-License-Identifier: Apache-2.0
//
// The functions of partitioned messages, and MPIX_Prequest_create() for kernels that take part.

#include <fairlead/partitioned.h>

#include <map>
#include <mutex>

#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/partitioned_operation.h"

namespace fairlead::mpi {
namespace {

// Returns null if the host MPI can handle the call alone, or refuses it.
template <class Type>
std::unique_ptr<Type> make(const UserBuffer& buffer, int partitions, int peer, int tag, MPI_Comm comm) {
  if (!intercepting() || partitions <= 0 || is_invalid(buffer.address, buffer.count, buffer.datatype) ||
      !is_device(buffer.address, buffer.datatype) || is_refused(buffer.count, buffer.datatype))
    return nullptr;
  return std::make_unique<Type>(buffer, partitions, peer, tag, comm);
}

// Counts the message whether or not its memory is a device's: the other rank does not know.
template <class Type, class Init>
int init_partitioned(const UserBuffer& buffer, int partitions, int peer, int tag, MPI_Comm comm, Init init,
                     MPI_Request* request) {
  static Mutex counting;  // in the order of the host MPI, which matches them so
  std::unique_ptr<Type> operation = make<Type>(buffer, partitions, peer, tag, comm);
  std::unique_lock lock(counting);
  const int result = operation ? operation->make_request(init)
                               : init(buffer.address, buffer.count, buffer.datatype, request);
  if (result != MPI_SUCCESS) return result;
  const p2p::MessageKey key = count_partitioned(Type::direction, peer, tag, comm);
  lock.unlock();
  if (!operation) return MPI_SUCCESS;
  operation->set_key(key);
  MPI_Request handle = operation->own_handle();
  hand_out_persistent(std::move(operation), handle, request);
  return MPI_SUCCESS;
}

int refuse(const char* function, const std::string& why, MPI_Comm comm = comm_of_no_object()) {
  return refuse_call(comm, function, MPI_ERR_REQUEST, why);
}

// The words of all MPIX_Prequest that are not freed, by their address.
struct Prequests {
  Mutex mutex;
  std::map<const void*, std::shared_ptr<PartitionWords>> words;
};
auto& prequests = *new Prequests;

int create(MPI_Request request, MPIX_Prequest* prequest) {
  const char* name = "MPIX_Prequest_create";
  auto* operation = find_partitioned<Partitioned>(request);
  if (!operation)
    return refuse(name,
                  "the request is not one of MPI_Psend_init or MPI_Precv_init for device memory; a kernel "
                  "cannot mark partitions of host memory");
  if (operation->active || operation->has_words() || operation->in_stream)
    return refuse(
        name, operation->has_words() ? "the request has an MPIX_Prequest already" : "the request is active",
        operation->comm());
  if (const std::string why = why_no_progress_thread(); !why.empty())
    return refuse(name, why, operation->comm());
  std::shared_ptr<PartitionWords> words = PartitionWords::make(operation->partitions());
  if (!words) return refuse(name, "the driver gives no page-locked memory for it", operation->comm());
  if (!operation->use(words))
    return refuse(name, "rounds of the request have run in GPU streams; create it before these",
                  operation->comm());
  *prequest = {words->data(), operation->partitions()};
  std::lock_guard lock(prequests.mutex);
  prequests.words[words->data()] = std::move(words);
  return MPI_SUCCESS;
}

// A stream's rounds are not active.
template <class Type>
bool is_run_by_stream(const Type* operation) {
  return operation && operation->in_stream && !operation->active;
}

int refuse_to_mark(const PartitionedSend& operation, const char* function) {
  return refuse(function, "a GPU stream runs the request; MPIX_Pready_enqueue() marks a partition",
                operation.comm());
}

int free_prequest(MPIX_Prequest* prequest) {
  std::unique_lock lock(prequests.mutex);
  const bool found = prequests.words.erase(prequest->words) > 0;
  lock.unlock();
  if (!found) return refuse("MPIX_Prequest_free", "this is not what MPIX_Prequest_create has returned");
  *prequest = {};
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPIX(Prequest_create, (MPI_Request request, MPIX_Prequest* prequest)) {
  return create(request, prequest);
}

FAIRLEAD_MPIX(Prequest_free, (MPIX_Prequest * prequest)) {
  return free_prequest(prequest);
}

FAIRLEAD_MPI(Psend_init, (const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
                          int tag, MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
  CallRecord record(Function::Psend_init, a_send(partitions * count, datatype, dest, tag, comm, request));
  return init_partitioned<PartitionedSend>(
      {const_cast<void*>(buf), count, datatype}, partitions, dest, tag, comm,
      [&](const void* host, MPI_Count host_count, MPI_Datatype host_type, MPI_Request* into) {
        return real.Psend_init(host, partitions, host_count, host_type, dest, tag, comm, info, into);
      },
      request);
}

FAIRLEAD_MPI(Precv_init, (void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source,
                          int tag, MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
  CallRecord record(Function::Precv_init,
                    a_receive(partitions * count, datatype, source, tag, comm, request));
  return init_partitioned<PartitionedReceive>(
      {buf, count, datatype}, partitions, source, tag, comm,
      [&](void* host, MPI_Count host_count, MPI_Datatype host_type, MPI_Request* into) {
        return real.Precv_init(host, partitions, host_count, host_type, source, tag, comm, info, into);
      },
      request);
}

FAIRLEAD_MPI(Pready, (int partition, MPI_Request request)) {
  CallRecord record(Function::Pready);
  auto tell_host = [&] { return real.Pready(partition, request); };
  auto* operation = find_partitioned<PartitionedSend>(request);
  if (is_run_by_stream(operation)) return refuse_to_mark(*operation, "MPI_Pready");
  return operation ? operation->mark_ready(partition, partition, tell_host) : tell_host();
}

FAIRLEAD_MPI(Pready_range, (int low, int high, MPI_Request request)) {
  CallRecord record(Function::Pready_range);
  auto tell_host = [&] { return real.Pready_range(low, high, request); };
  auto* operation = find_partitioned<PartitionedSend>(request);
  if (is_run_by_stream(operation)) return refuse_to_mark(*operation, "MPI_Pready_range");
  return operation ? operation->mark_ready(low, high, tell_host) : tell_host();
}

FAIRLEAD_MPI(Pready_list, (int length, const int partitions[], MPI_Request request)) {
  CallRecord record(Function::Pready_list);
  auto tell_host = [&] { return real.Pready_list(length, partitions, request); };
  auto* operation = find_partitioned<PartitionedSend>(request);
  if (is_run_by_stream(operation)) return refuse_to_mark(*operation, "MPI_Pready_list");
  if (!operation || length < 0) return tell_host();
  return operation->mark_ready({partitions, partitions + length}, tell_host);
}

FAIRLEAD_MPI(Parrived, (MPI_Request request, int partition, int* flag)) {
  CallRecord record(Function::Parrived);
  if (intercepting() && engine().busy()) engine().progress();
  auto* operation = find_partitioned<PartitionedReceive>(request);
  if (!operation) return real.Parrived(request, partition, flag);
  if (is_run_by_stream(operation))
    return refuse("MPI_Parrived",
                  "a GPU stream runs the request; MPIX_Parrived_enqueue() waits for a partition",
                  operation->comm());
  return operation->arrived(partition, flag);
}
