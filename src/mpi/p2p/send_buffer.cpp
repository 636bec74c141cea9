// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/send_buffer.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "mpi/abi/comm_self.h"
#include "mpi/abi/mutex.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"

namespace fairlead::mpi {
namespace {

struct Lent {
  void* given;    // the program's
  void* instead;  // what the host MPI has
};

Mutex mutex;
auto& lent = *new std::map<SendBufferOwner, Lent>;

template <auto host, class Count, class... Handle>
int attach(SendBufferOwner owner, MPI_Comm raises, void* buffer, Count bytes, Handle... handle) {
  CallRecord record(function_of<host>);
  if (!intercepting() || bytes < 0 || !is_device(buffer)) return (real.*host)(handle..., buffer, bytes);
  void* instead = std::malloc(static_cast<size_t>(bytes));
  if (!instead) return raise_error(raises, MPI_ERR_NO_MEM, "host memory for " + bytes_in_words(bytes));
  int result = (real.*host)(handle..., instead, bytes);
  if (result != MPI_SUCCESS) {
    std::free(instead);
    return result;
  }
  std::lock_guard lock(mutex);
  Lent& entry = lent[owner];
  std::free(entry.instead);  // not null if a detach call was not intercepted, or the owner was freed
  entry = {buffer, instead};
  return result;
}

}  // namespace

void give_back_send_buffer(SendBufferOwner owner, void* place) {
  std::lock_guard lock(mutex);
  const auto found = lent.find(owner);
  if (found == lent.end()) return;
  if (auto* address = static_cast<void**>(place)) {
    if (*address != found->second.instead) return;
    *address = found->second.given;
  }
  std::free(found->second.instead);
  lent.erase(found);
}

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

#define FAIRLEAD_ATTACH(suffix, Count)                                          \
  FAIRLEAD_MPI(Buffer_attach##suffix, (void* buffer, Count size)) {             \
    return attach<&Real::Buffer_attach##suffix>({}, comm_self(), buffer, size); \
  }
#define FAIRLEAD_ATTACH_TO(Owner, kind, raises, suffix, Count)                                               \
  FAIRLEAD_MPI(Owner##_attach_buffer##suffix, (MPI_##Owner handle, void* buffer, Count size)) {              \
    return attach<&Real::Owner##_attach_buffer##suffix>(SendBufferOwner::kind(handle), raises, buffer, size, \
                                                        handle);                                             \
  }

FAIRLEAD_ATTACH(, int)
FAIRLEAD_ATTACH(_c, MPI_Count)
#if MPI_VERSION * 10 + MPI_SUBVERSION >= 41
FAIRLEAD_ATTACH_TO(Comm, comm, handle, , int)
FAIRLEAD_ATTACH_TO(Comm, comm, handle, _c, MPI_Count)
FAIRLEAD_ATTACH_TO(Session, session, comm_self(), , int)
FAIRLEAD_ATTACH_TO(Session, session, comm_self(), _c, MPI_Count)
#endif
