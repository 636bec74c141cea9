// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/deferred_free.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "mpi/abi/mutex.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/datatype/layout.h"
#include "mpi/info/memory_kinds.h"

namespace fairlead::mpi {
namespace {

// The handles of one kind that are in use.
template <class Handle>
class InUse {
 public:
  void add_user(Handle handle) {
    std::lock_guard lock(mutex_);
    ++handles_[handle].users;
  }
  // Leaves the free to the last user of the handle. Returns false if it has no user: the caller may free it
  // at once.
  bool leave_to_users(Handle handle) {
    std::lock_guard lock(mutex_);
    auto found = handles_.find(handle);
    if (found == handles_.end()) return false;
    found->second.left = true;
    return true;
  }
  // Returns true if this was the last user and the program has freed the handle: the caller must free it.
  bool remove_user(Handle handle) {
    std::lock_guard lock(mutex_);
    auto found = handles_.find(handle);
    if (--found->second.users > 0) return false;
    bool left = found->second.left;
    handles_.erase(found);
    return left;
  }

 private:
  struct State {
    int users = 0;
    bool left = false;
  };
  Mutex mutex_;
  std::unordered_map<Handle, State> handles_;
};

auto& communicators = *new InUse<MPI_Comm>;
auto& operations = *new InUse<MPI_Op>;
auto& datatypes = *new InUse<MPI_Datatype>;

}  // namespace

KeptCommunicator::KeptCommunicator(MPI_Comm comm) : comm_(comm) {
  communicators.add_user(comm_);
}

// The last free of a handle may call functions of the program, so neither this destructor nor the next one
// may run with a lock held.
KeptCommunicator::~KeptCommunicator() {
  if (communicators.remove_user(comm_)) real.Comm_free(&comm_);
}

KeptHandles::KeptHandles(MPI_Comm comm, MPI_Op op, const std::vector<MPI_Datatype>& types)
    : comm_(comm), op_(op) {
  for (MPI_Datatype type : types)
    if (!is_plain(type) && (types_.empty() || types_.back() != type)) types_.push_back(type);
  operations.add_user(op_);
  for (MPI_Datatype type : types_) {
    datatypes.add_user(type);
    MPI_Datatype made = MPI_DATATYPE_NULL;
    if (PMPI_Type_contiguous(1, type, &made) == MPI_SUCCESS) made_of_them_.push_back(made);
  }
}

KeptHandles::~KeptHandles() {
  for (MPI_Datatype& type : made_of_them_) PMPI_Type_free(&type);
  for (MPI_Datatype type : types_)
    if (datatypes.remove_user(type)) real.Type_free(&type);
  if (operations.remove_user(op_)) real.Op_free(&op_);
}

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Type_free, (MPI_Datatype * datatype)) {
  CallRecord record(Function::Type_free);
  if (!datatype) return real.Type_free(datatype);
  forget_recorded_type(*datatype);
  if (!intercepting() || !datatypes.leave_to_users(*datatype)) return real.Type_free(datatype);
  *datatype = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

FAIRLEAD_MPI(Op_free, (MPI_Op * op)) {
  CallRecord record(Function::Op_free);
  if (!op || !intercepting() || !operations.leave_to_users(*op)) return real.Op_free(op);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

FAIRLEAD_MPI(Comm_free, (MPI_Comm * comm)) {
  CallRecord record(Function::Comm_free, together(comm ? *comm : MPI_COMM_NULL));
  if (comm) forget_recorded_comm(*comm);
  if (!comm || !intercepting()) return real.Comm_free(comm);
  forget_assertion(object_id(*comm));
  const int error = end_operations_on(*comm);
  if (!communicators.leave_to_users(*comm)) {
    BlockingHostCall blocking_call;
    const int result = real.Comm_free(comm);
    return result == MPI_SUCCESS ? error : result;
  }
  *comm = MPI_COMM_NULL;
  return error;
}
