// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/argument_check.h"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "mpi/abi/mutex.h"
#include "mpi/abi/real.h"
#include "mpi/core/engine.h"
#include "mpi/core/interception.h"
#include "mpi/datatype/reduction_types.h"

namespace fairlead::mpi {
namespace {

// Buffer for calls that move no data, or one int to where it is.
alignas(int) char nothing[64];

int class_of(int code) {
  int error_class = code;
  if (code != MPI_SUCCESS) PMPI_Error_class(code, &error_class);
  return error_class;
}

// Sends to MPI_PROC_NULL. A message without elements is no question: quirk no_elements_unchecked.
int ask_about_elements(MPI_Count count, MPI_Datatype datatype) {
  const int asked = static_cast<int>(std::clamp<MPI_Count>(count, -1, 1));
  return class_of(real.Send(nothing, asked, datatype, MPI_PROC_NULL, 0, engine().self()));
}

bool is_accepted(MPI_Datatype datatype) {
  return ask_about_elements(1, datatype) == MPI_SUCCESS;
}

auto& mutex_of_questions = *new Mutex;  // collectives on one communicator must not be concurrent

// Reduces in place on a communicator of one process, so the host MPI neither computes nor moves a result.
int ask_about_reduction(MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  const int asked = static_cast<int>(std::min<MPI_Count>(count, 1));
  std::lock_guard lock(mutex_of_questions);
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
  // The predefined pairs that the host MPI last accepted from this thread. Other handles are not kept,
  // because the host MPI may reuse them for other objects.
  struct Pair {
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;
    bool operator==(const Pair&) const = default;
  };
  static thread_local Pair accepted[8];
  static thread_local size_t next = 0;
  const Pair pair{datatype, op};
  // Quirk negative_reduction.
  if (count < 0) return ask_about_elements(count, datatype);
  if (op != MPI_OP_NULL && std::ranges::find(accepted, pair) != std::end(accepted)) return MPI_SUCCESS;
  const int error = ask_about_reduction(count, datatype, op);
  if (error == MPI_SUCCESS && count > 0 && is_plain(datatype) && is_allowed(op, datatype))
    accepted[next++ % std::size(accepted)] = pair;
  return error;
}

int error_of_aliasing(bool at_root) {
  std::lock_guard lock(mutex_of_questions);
  return class_of(at_root ? real.Reduce(nothing, nothing, 1, MPI_INT, MPI_SUM, 0, engine().self())
                          : real.Allreduce(nothing, nothing, 1, MPI_INT, MPI_SUM, engine().self()));
}

}  // namespace fairlead::mpi
