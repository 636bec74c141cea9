// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/host_call.h"

#include "mpi/abi/real.h"

namespace fairlead::mpi {
namespace {

// Converts to what the form takes.
struct HostCount {
  MPI_Count value;
  operator int() const { return static_cast<int>(value); }
  operator MPI_Count() const { return value; }
};

struct HostCall {
  const CollectiveCall& call;
  MPI_Comm comm;
  const void* sendbuf;
  void* recvbuf;
  enum class Form { blocking, nonblocking, persistent } form;
  MPI_Request* request = nullptr;
  MPI_Info info = MPI_INFO_NULL;

  // Calls one of the six forms of a function.
  template <auto blocking, auto nonblocking, auto init, auto blocking_c, auto nonblocking_c, auto init_c,
            class... Arguments>
  int by(const Arguments&... arguments) const {
    if (form == Form::persistent)
      return call.large ? (real.*init_c)(arguments..., info, request)
                        : (real.*init)(arguments..., info, request);
    if (form == Form::nonblocking)
      return call.large ? (real.*nonblocking_c)(arguments..., request)
                        : (real.*nonblocking)(arguments..., request);
    return call.large ? (real.*blocking_c)(arguments...) : (real.*blocking)(arguments...);
  }
};

template <Collective function>
int in_host(const HostCall& host);
#include "mpi/coll/generated/host_calls.inc"

constexpr int (*host_calls[])(const HostCall&) = {
#define FAIRLEAD_COLLECTIVE(name, ...) in_host<Collective::name>,
#define FAIRLEAD_NEIGHBORS(name, ...) in_host<Collective::name>,
#include "mpi/coll/shape.def"
#undef FAIRLEAD_COLLECTIVE
#undef FAIRLEAD_NEIGHBORS
};

int run(const HostCall& host) {
  return host_calls[static_cast<size_t>(host.call.function)](host);
}

}  // namespace

int call_host(const CollectiveCall& call, MPI_Comm comm, const void* sendbuf, void* recvbuf) {
  return run({call, comm, sendbuf, recvbuf, HostCall::Form::blocking});
}

int call_host(const CollectiveCall& call, MPI_Comm comm, const void* sendbuf, void* recvbuf,
              MPI_Request* request) {
  return run({call, comm, sendbuf, recvbuf, HostCall::Form::nonblocking, request});
}

int init_in_host(const CollectiveCall& call, MPI_Info info, MPI_Request* request) {
  return run({call, call.comm, call.sendbuf, call.recvbuf, HostCall::Form::persistent, request, info});
}

}  // namespace fairlead::mpi
