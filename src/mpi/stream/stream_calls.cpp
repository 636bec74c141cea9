// SPDX-License-Identifier: Apache-2.0
//
// MPIX_Stream_create() and MPIX_Stream_comm_create() with their kin, as MPICH 5 declares them: a GPU stream
// is given in an info object, by the keys "type" ("cudaStream_t" or "hipStream_t") and "value" (the handle's
// bytes in hexadecimal, as MPIX_Info_set_hex() writes them). Streams of other types are the host MPI's, where
// it has them.

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "base/log.h"
#include "device/runtime.h"
#include "mpi/abi/host_support.h"
#include "mpi/abi/mutex.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/engine.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/operation.h"
#include "mpi/stream/streams.h"
#include "p2p/partition_channel.h"

namespace fairlead::mpi {
namespace {

constexpr StreamHandle no_stream = 0x3c000000;  // MPIX_STREAM_NULL
// MPICH numbers its own from 0x5c000000, 0x7c000000, 0x9c000000 and 0xbc000000.
constexpr StreamHandle first_handle = 0x1fa10000;

void* const per_thread_default_stream = reinterpret_cast<void*>(2);  // of CUDA and HIP

struct Handles {
  Mutex mutex;
  std::map<StreamHandle, std::shared_ptr<GpuStream>> streams;
  StreamHandle next = first_handle;
};
auto& handles = *new Handles;

std::shared_ptr<GpuStream> stream_of(StreamHandle handle) {
  std::lock_guard lock(handles.mutex);
  auto found = handles.streams.find(handle);
  return found == handles.streams.end() ? nullptr : found->second;
}

int refuse(const char* function, const std::string& why, MPI_Comm comm = comm_of_no_object()) {
  return refuse_call(comm, function, MPI_ERR_ARG, why);
}

// The host MPI's function of this name; raises an error on `comm` where there is none.
template <class... Arguments>
int ask_host_of(MPI_Comm comm, const char* name, const char* lacks, Arguments... arguments) {
  if (void* function = next_function(name))
    return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
  return refuse(name, lacks, comm);
}
template <class... Arguments>
int ask_host(const char* name, const char* lacks, Arguments... arguments) {
  return ask_host_of(comm_of_no_object(), name, lacks, arguments...);
}

std::string value_of(MPI_Info info, const char* key) {
  char text[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  if (info == MPI_INFO_NULL || PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, text, &found) != MPI_SUCCESS ||
      !found)
    return {};
  return text;
}

// The handle, from the hexadecimal digits of its bytes.
bool parse(const std::string& digits, void** native) {
  unsigned char bytes[sizeof *native];
  if (digits.size() != 2 * sizeof bytes) return false;
  for (size_t i = 0; i < sizeof bytes; ++i) {
    const char* at = digits.data() + 2 * i;
    if (std::from_chars(at, at + 2, bytes[i], 16).ptr != at + 2) return false;
  }
  std::memcpy(native, bytes, sizeof bytes);
  return true;
}

bool is_of_gpu(const std::string& type) {
  return type == "cudaStream_t" || type == "hipStream_t";
}

int create(MPI_Info info, StreamHandle* stream) {
  const std::string type = value_of(info, "type"), value = value_of(info, "value");
  const char* name = "MPIX_Stream_create";
  if (!is_of_gpu(type) || !intercepting())
    return ask_host(name,
                    "the info key \"type\" must be cudaStream_t or hipStream_t, and a GPU must be in use",
                    info, stream);
  const bool amd = device::runtime() && std::strcmp(device::runtime()->name(), "rocm") == 0;
  if (!device::runtime() || (type == "hipStream_t") != amd)
    return refuse(name, "\"type\" is " + type + ", but the GPUs in use are those of provider " +
                            (device::runtime() ? device::runtime()->name() : "none"));
  void* native = nullptr;
  if (!parse(value, &native))
    return refuse(name,
                  "\"value\" is '" + value + "'; accepted: what MPIX_Info_set_hex() writes of a " + type);
  if (native == per_thread_default_stream)
    return refuse(
        name,
        "the per-thread default stream is another one in each thread; accepted: a stream of your own, "
        "or 0, the default stream");
  std::string why_not;
  std::shared_ptr<GpuStream> made = GpuStream::make(native, &why_not);
  if (!made) return refuse(name, why_not);
  std::lock_guard lock(handles.mutex);
  *stream = handles.next++;
  handles.streams[*stream] = std::move(made);
  return MPI_SUCCESS;
}

int free_stream(StreamHandle* stream) {
  {
    std::lock_guard lock(handles.mutex);
    if (handles.streams.erase(*stream) > 0) {
      *stream = no_stream;
      return MPI_SUCCESS;
    }
  }
  return ask_host("MPIX_Stream_free", "there is no such stream", stream);
}

int create_communicator(MPI_Comm comm, int count, const StreamHandle* streams, MPI_Comm* made) {
  const char* name = "MPIX_Stream_comm_create";
  const std::shared_ptr<GpuStream> stream = count == 1 ? stream_of(streams[0]) : nullptr;
  const std::string why_not = stream ? why_no_progress_thread() : "";
  int mine = !why_not.empty() ? 0 : stream ? 2 : 1, least = 0;
  node::Node* const node = stream ? engine().node() : nullptr;
  if (node) {
    std::lock_guard lock(engine().mutex());
    p2p::open_channels(*node);
  }
  // Collective, so that all ranks return the same.
  if (int error = MPI_Comm_dup(comm, made); error != MPI_SUCCESS) return error;
  // Between two groups each gets the other's result, so the second time gives that of both.
  for (int round = 0; round < 2; ++round) {
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, *made);
    mine = least = std::min(mine, least);
  }
  if (least == 0) {
    MPI_Comm_free(made);
    return refuse(name, why_not.empty() ? "another rank cannot make progress for streams" : why_not, comm);
  }
  if (node) {
    const std::vector<int> node_ranks = communicator_state_of(*made)->node_ranks();
    std::lock_guard lock(engine().mutex());
    p2p::open_channels_to(*node, node_ranks, stream->device());
  }
  if (stream)
    set_stream(*made, stream, streams[0], least == 2 ? StreamCollective::make(*made, stream) : nullptr);
  return MPI_SUCCESS;
}

int get_stream(MPI_Comm comm, int index, StreamHandle* stream) {
  const auto mine = stream_communicator(comm);
  if (!mine)
    return ask_host_of(comm, "MPIX_Comm_get_stream", "the communicator has no stream", comm, index, stream);
  if (index != 0) return refuse("MPIX_Comm_get_stream", "the communicator has one stream, of index 0", comm);
  *stream = mine->handle;
  return MPI_SUCCESS;
}

int set_hex(MPI_Info info, const char* key, const void* value, int bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    const unsigned char byte = static_cast<const unsigned char*>(value)[i];
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return PMPI_Info_set(info, key, text.c_str());
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPIX(Stream_create, (MPI_Info info, StreamHandle* stream)) {
  return create(info, stream);
}
FAIRLEAD_MPIX(Stream_free, (StreamHandle * stream)) {
  return free_stream(stream);
}
FAIRLEAD_MPIX(Info_set_hex, (MPI_Info info, const char* key, const void* value, int value_size)) {
  return set_hex(info, key, value, value_size);
}
FAIRLEAD_MPIX(Stream_comm_create, (MPI_Comm comm, StreamHandle stream, MPI_Comm* newcomm)) {
  if (stream != no_stream && !stream_of(stream))
    return ask_host_of(comm, "MPIX_Stream_comm_create", "there is no such stream", comm, stream, newcomm);
  return create_communicator(comm, stream == no_stream ? 0 : 1, &stream, newcomm);
}
FAIRLEAD_MPIX(Stream_comm_create_multiplex,
              (MPI_Comm comm, int count, StreamHandle* streams, MPI_Comm* newcomm)) {
  if (count == 1 && stream_of(streams[0])) return create_communicator(comm, 1, streams, newcomm);
  return ask_host_of(comm, "MPIX_Stream_comm_create_multiplex",
                     "a communicator has one GPU stream; make one communicator for each stream", comm, count,
                     streams, newcomm);
}
// Progress is one for all streams, and its thread runs while operations are enqueued.
FAIRLEAD_MPIX(Stream_progress, (StreamHandle stream)) {
  const char* name = "MPIX_Stream_progress";
  if (intercepting() && engine().busy()) engine().progress();
  if (stream_of(stream) || (stream == no_stream && !next_function(name))) return MPI_SUCCESS;
  return ask_host(name, "there is no such stream", stream);
}
// Makes no progress, as in MPICH, but a send that the program waits for may be buffered.
FAIRLEAD_MPIX(Request_is_complete, (MPI_Request request)) {
  if (Operation* operation = intercepting() ? engine().find(request) : nullptr) {
    if (operation->active) operation->start_waiting();
    return !operation->active || operation->complete();
  }
  if (void* function = next_function("MPIX_Request_is_complete"))
    return reinterpret_cast<int (*)(MPI_Request)>(function)(request);
  int complete = 0;
  PMPI_Request_get_status(request, &complete, MPI_STATUS_IGNORE);
  return complete;
}

FAIRLEAD_MPIX(Start_progress_thread, (StreamHandle stream)) {
  if (stream_of(stream)) return MPI_SUCCESS;
  return ask_host("MPIX_Start_progress_thread", "there is no such stream", stream);
}
FAIRLEAD_MPIX(Stop_progress_thread, (StreamHandle stream)) {
  if (stream_of(stream)) return MPI_SUCCESS;
  return ask_host("MPIX_Stop_progress_thread", "there is no such stream", stream);
}
FAIRLEAD_MPIX(Comm_get_stream, (MPI_Comm comm, int index, StreamHandle* stream)) {
  return get_stream(comm, index, stream);
}
