// SPDX-License-Identifier: Apache-2.0
//
// Which kinds of memory MPI calls of this process take, told under the info key `mpi_memory_alloc_kinds` (MPI
// 4.1, section 11.4.3; docs/reference/memory_kinds.md): what the host MPI says, and the memory of the GPU
// provider. All of it is told whether or not it was requested; a request adds only the program's own spelling
// of it, such as "cuda:host:device".
//
// The key `mpi_assert_memory_alloc_kinds` restricts what is told of one communicator, window or file. No
// correctness depends on it: each call looks at its buffer. The functions are called only while interception
// is enabled, and may be called by several threads at once.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/memory/memory_kinds.h"
#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// The value of a key; "" also if it is not there.
std::string value_of(MPI_Info info, const char* key);

// Notes what the info of MPI_Session_init requests.
void request_memory_kinds(MPI_Info info);

// The object of a handle. No two objects have the same, whatever they are: MPICH's int handles contain the
// type of the object, other handles are addresses.
using ObjectId = uintptr_t;
template <class Handle>
ObjectId object_id(Handle handle) {
  return (ObjectId)handle;  // NOLINT: int or pointer
}

// Notes and returns what this info asserts of the object. As the standard demands, it is nothing if the info
// contains a kind that this process does not provide.
std::optional<KindList> note_assertion(ObjectId object, MPI_Info info);
// Call it when the object is freed.
void forget_assertion(ObjectId object);

// Adds the key to the host MPI's answer to MPI_Comm_get_info and its like.
void tell_memory_kinds(ObjectId object, MPI_Info info);

// In place of MPI_INFO_ENV a copy of it with the key, which this module owns; any other info unchanged.
MPI_Info with_memory_kinds(MPI_Info info);
void release_info_env();

// Adds the GPUs that this process sees to the host MPI's answer to MPI_Get_hw_resource_info.
void tell_gpus(MPI_Info info);

}  // namespace fairlead::mpi
