// SPDX-License-Identifier: Apache-2.0

#include "mpi/fortran/fortran.h"

#include <dlfcn.h>

#include <string>
#include <vector>

#include "base/log.h"
#include "mpi/abi/array_lengths.h"
#include "mpi/abi/host_support.h"
#include "mpi/abi/real.h"
#include "mpi/rma/window.h"

namespace fairlead::mpi::fortran {
namespace {

// A Fortran constant such as MPI_BOTTOM is a variable that is identified by its address. The program uses the
// name that its compiler makes of the host MPI's, and the host MPI may define all of these names.
class Sentinel {
 public:
#if defined(OPEN_MPI)
  Sentinel(const char* lower, const char* upper) {
    const std::string name = lower;
    places_ = {find(name + "_"), find(name + "__"), find(name), find(upper)};
  }
#else
  explicit Sentinel(const char* name) {
    places_ = {find(name)};
  }
#endif

  bool is(const void* address) const {
    if (!address) return false;
    for (const void* place : places_)
      if (place == address) return true;
    return false;
  }

 private:
  static const void* find(const std::string& name) {
    return dlsym(RTLD_DEFAULT, name.c_str());
  }

  std::vector<const void*> places_;
};

struct Sentinels {
#if defined(OPEN_MPI)
  Sentinel bottom{"mpi_fortran_bottom", "MPI_FORTRAN_BOTTOM"};
  Sentinel in_place{"mpi_fortran_in_place", "MPI_FORTRAN_IN_PLACE"};
  Sentinel status_ignore{"mpi_fortran_status_ignore", "MPI_FORTRAN_STATUS_IGNORE"};
  Sentinel statuses_ignore{"mpi_fortran_statuses_ignore", "MPI_FORTRAN_STATUSES_IGNORE"};
#else
  Sentinel bottom{"MPIR_F08_MPI_BOTTOM"};
  Sentinel in_place{"MPIR_F08_MPI_IN_PLACE"};
  Sentinel status_ignore{"MPIR_F08_MPI_STATUS_IGNORE_OBJ"};
  Sentinel statuses_ignore{"MPIR_F08_MPI_STATUSES_IGNORE_OBJ"};
#endif
};

const Sentinels& sentinels() {
  static const Sentinels found;
  return found;
}

constexpr int status_integers = sizeof(MPI_Status) / sizeof(Integer);

// Returns what the host MPI stores for a true LOGICAL: after MPI_Init, MPI_Initialized stores that value.
Integer ask_for_true() {
#if defined(OPEN_MPI)
  constexpr const char* name = "mpi_initialized_";
#else
  constexpr const char* name = "mpi_initialized_f08_";
#endif
  Integer flag = 0, error = MPI_SUCCESS;
  if (void* initialized = next_function(name))
    reinterpret_cast<void (*)(Integer*, Integer*)>(initialized)(&flag, &error);
  return flag ? flag : 1;
}

}  // namespace

void* HostEntry::bind() {
  void* address = next_function(symbol_);
  address_.store(address, std::memory_order_relaxed);
  return address;
}

bool f08_hands_over_descriptors() {
  static const bool descriptors = [] {
    const bool found = next_function("ompi_send_wrapper_f08");  // Open MPI after 5 has it
    if (found && intercepting())
      log_line(LogLevel::warn,
               "the module mpi_f08 of this Open MPI passes array descriptors, which Fairlead does not "
               "support: device buffers in it are not handled; use the module mpi");
    return found;
  }();
  return descriptors;
}

void* choice(void* address) {
  if (sentinels().in_place.is(address)) return MPI_IN_PLACE;
  if (sentinels().bottom.is(address)) return MPI_BOTTOM;
  return address;
}

Status::Status(Integer* argument) : argument_(argument), ignored_(sentinels().status_ignore.is(argument)) {
  if (!ignored_) PMPI_Status_f2c(argument_, &status_);
}

Status::~Status() {
  if (!ignored_) PMPI_Status_c2f(&status_, argument_);
}

Statuses::Statuses(Integer* places, int count)
    : places_(places), ignored_(sentinels().statuses_ignore.is(places)), statuses_(ignored_ ? 0 : count) {
  for (int i = 0; i < statuses_.count(); ++i)
    PMPI_Status_f2c(places_ + i * status_integers, statuses_.data() + i);
}

Statuses::~Statuses() {
  for (int i = 0; i < statuses_.count(); ++i)
    PMPI_Status_c2f(statuses_.data() + i, places_ + i * status_integers);
}

Logical::~Logical() {
  static const Integer is_true = ask_for_true();
  *argument_ = flag_ ? is_true : 0;
}

bool tell_attribute(const Integer* win, const Integer* keyval, void* value, Integer* flag) {
  const std::shared_ptr<Window> window = find_window(Win::from(win));
  if (!window) return false;
#if defined(MPICH_VERSION)
  const int in_c = *keyval - 1;
#else
  const int in_c = *keyval;
#endif
  const void* found = window->attribute(in_c);
  if (!found && in_c != MPI_WIN_BASE) return false;
  MPI_Aint number = 0;
  if (in_c == MPI_WIN_BASE)
    number = reinterpret_cast<MPI_Aint>(found);
  else if (in_c == MPI_WIN_SIZE)
    number = *static_cast<const MPI_Aint*>(found);
  else
    number = *static_cast<const int*>(found);
  *static_cast<MPI_Aint*>(value) = number;
  *Logical(flag) = 1;
  return true;
}

const MPI_Datatype* kept_types(const Integer* types, void* buffer, const Integer* comm, Peers peers) {
  if (choice(buffer) == MPI_IN_PLACE) return nullptr;
  const MPI_Comm communicator = Comm::from(comm);
  const int number = peers == Peers::ranks     ? peers_of(communicator)
                     : peers == Peers::sources ? sources_of(communicator)
                                               : destinations_of(communicator);
  std::vector<MPI_Datatype> converted;
  for (int i = 0; i < number; ++i) converted.push_back(Datatype::from(&types[i]));
  return kept(std::move(converted));
}

}  // namespace fairlead::mpi::fortran
