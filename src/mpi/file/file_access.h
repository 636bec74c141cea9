// SPDX-License-Identifier: Apache-2.0
//
// What the functions that read and write files (generated/file_calls.cpp) do: calls with host memory go to
// the host MPI unchanged; for device memory, the host MPI gets host memory in its place.
//
// `host` calls the host MPI's function of the same name with another buffer. Functions with an explicit
// offset add `further`, in etypes of the view, to the program's.

#pragma once

#include <functional>

#include "mpi/core/gather.h"
#include "mpi/core/interception.h"
#include "mpi/file/pointer_turn.h"

namespace fairlead::mpi {

struct FileCall {
  MPI_File file;
  UserBuffer buffer;
  bool writes;        // to the file
  MPI_Offset offset;  // in etypes of the view
  // May several calls of the host MPI read or write the bytes one after the other? Not if other ranks take
  // part, nor at the shared file pointer, which other ranks move.
  bool may_split = false;
  bool together = false;  // a blocking call that all ranks of the file make
};

template <class Result>
using FileHost =
    std::function<int(MPI_Offset further, void* buf, MPI_Count count, MPI_Datatype datatype, Result* result)>;
using BlockingFileHost = FileHost<MPI_Status>;
using StartingFileHost = FileHost<MPI_Request>;

namespace file {

int access_staged(const FileCall& call, MPI_Status* status, const BlockingFileHost& host);
int start_staged(const FileCall& call, StartingFileHost host, MPI_Request* request);
int begin_staged(const FileCall& call, const BlockingFileHost& host);
// Ends what begin_staged() has begun; false if that did not begin on this file with this buffer.
using EndOfHost = std::function<int(void* buf, MPI_Status* status)>;
bool end_staged(MPI_File file, void* buf, MPI_Status* status, const EndOfHost& host, int* result);
bool any_begun();

// Is the buffer device memory, and does the host MPI accept the arguments?
bool is_accepted(const FileCall& call);
inline bool is_staged(FileCall* call) {
  const UserBuffer& buffer = call->buffer;
  return !is_invalid(buffer.address, buffer.count, buffer.datatype) && is_device(&call->buffer) &&
         is_accepted(*call);
}

template <class Host, class Result>
int call_host(const FileCall& call, const Host& host, Result* result) {
  PointerTurn turn(call.file, call.offset);
  return host(0, call.buffer.address, call.buffer.count, call.buffer.datatype, result);
}

}  // namespace file

template <class Host>
int access_file(FileCall call, MPI_Status* status, const Host& host) {
  if (call.together) gather_file_before(call.file);
  if (file::is_staged(&call)) return file::access_staged(call, status, host);
  BlockingHostCall blocking_call;
  return file::call_host(call, host, status);
}

template <class Host>
int start_file_access(FileCall call, MPI_Request* request, const Host& host) {
  return file::is_staged(&call) ? file::start_staged(call, host, request)
                                : file::call_host(call, host, request);
}

template <class Host>
int begin_file_access(FileCall call, const Host& host) {
  gather_file_before(call.file);
  if (file::is_staged(&call)) return file::begin_staged(call, host);
  BlockingHostCall blocking_call;
  return file::call_host<Host, MPI_Status>(call, host, nullptr);
}

template <class Host>
int end_file_access(MPI_File file, void* buf, MPI_Status* status, const Host& host) {
  gather_file_before(file);
  int result;
  if (file::any_begun() && file::end_staged(file, buf, status, host, &result)) return result;
  BlockingHostCall blocking_call;
  return host(buf, status);
}

}  // namespace fairlead::mpi
