// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/argument_check.h"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "mpi/abi/real.h"
#include "mpi/core/engine.h"
#include "mpi/core/interception.h"
#include "mpi/datatype/reduction_types.h"

namespace fairlead::mpi {
namespace {

// What calls that move nothing are given: never read nor written.
char nothing[64];

int class_of(int code) {
  int error_class = code;
  if (code != MPI_SUCCESS) PMPI_Error_class(code, &error_class);
  return error_class;
}

// By a message to nobody. MPICH looks at the types of messages that have elements only.
int ask_about_elements(MPI_Count count, MPI_Datatype datatype) {
  const int asked = static_cast<int>(std::clamp<MPI_Count>(count, -1, 1));
  return class_of(real.Send(nothing, asked, datatype, MPI_PROC_NULL, 0, engine().self()));
}

bool is_accepted(MPI_Datatype datatype) {
  return ask_about_elements(1, datatype) == MPI_SUCCESS;
}

// By a reduction in place of one process, of whose result nothing is to be computed or moved.
int ask_about_reduction(MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  static auto& mutex = *new std::mutex;
  const int asked = static_cast<int>(std::clamp<MPI_Count>(count, -1, 1));
  std::lock_guard lock(mutex);  // the collectives of a communicator come one by one
  return class_of(real.Allreduce(MPI_IN_PLACE, nothing, asked, datatype, op, engine().self()));
}

}  // namespace

bool begins_at_null(MPI_Datatype datatype) {
  return packed_bytes(1, datatype) > 0 && !first_data_byte(nullptr, datatype);
}

int error_of_elements(MPI_Count count, MPI_Datatype datatype) {
  if (is_invalid(count, datatype)) return ask_about_elements(count, datatype);
  if (is_plain(datatype)) return MPI_SUCCESS;
  if (count == 0) return ask_about_elements(count, datatype);
  return is_committed(datatype, is_accepted) ? MPI_SUCCESS : ask_about_elements(count, datatype);
}

int error_of_reduction(MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  // Some predefined pairs that this thread uses: other handles may come back for others.
  struct Pair {
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;
    bool operator==(const Pair&) const = default;
  };
  static thread_local Pair accepted[8];
  static thread_local size_t next = 0;
  const Pair pair{datatype, op};
  if (count >= 0 && op != MPI_OP_NULL && std::ranges::find(accepted, pair) != std::end(accepted))
    return MPI_SUCCESS;
  const int error = ask_about_reduction(count, datatype, op);
  if (error == MPI_SUCCESS && count > 0 && is_plain(datatype) && is_allowed(op, datatype))
    accepted[next++ % std::size(accepted)] = pair;
  return error;
}

}  // namespace fairlead::mpi
