// SPDX-License-Identifier: Apache-2.0
//
// The host MPI behind Fairlead's wrappers: real.Bcast(...) calls the next MPI_Bcast after Fairlead's. Every
// function of the manifest has one slot, with the signature that the manifest gives it.
//
// A slot binds itself at its first call: to the next MPI_X in load order (another preloaded tool, then the
// MPI), otherwise to PMPI_X. From then on a call costs one load and one indirect call. A slot needs no
// initialisation, so it works before main() and from any thread. If the host MPI lacks the function, a
// large-count function calls the ordinary one (large_count_fallback.h). Any other call logs one line and
// returns MPI_ERR_OTHER, and the slot stays unbound, because a later dlopen() may provide the function.

#pragma once

#include <mpi.h>

#include <atomic>
#include <type_traits>

#include "mpi/abi/parameters.h"

#define FAIRLEAD_EXPORT __attribute__((visibility("default")))

// Quirk sessions_not_declared.
#if defined(OPEN_MPI)
typedef struct ompi_instance_t* MPI_Session;
extern "C" int PMPI_Group_from_session_pset(MPI_Session session, const char* pset_name, MPI_Group* newgroup);
#endif

// Defines the function MPI_<name> with the parameters that src/mpi/abi/functions.def declares:
//
//   FAIRLEAD_MPI(Pready, (int partition, MPI_Request request)) {
//
// MPI headers differ in which arrays are const. The function therefore has its own C++ name and does not
// redeclare the header's function. If the header declares the function, its parameters must be the same apart
// from const.
#define FAIRLEAD_MPI(name, parameters)                                                                     \
  extern "C" FAIRLEAD_EXPORT int fairlead_##name parameters __asm__("MPI_" #name);                         \
  static_assert(std::is_same_v<decltype(fairlead_##name), decltype(fairlead::mpi::Real::name)::Signature>, \
                "MPI_" #name " has other parameters in src/mpi/abi/functions.def");                        \
  static_assert(fairlead::mpi::Takes<decltype(fairlead_##name)>::by(                                       \
                    [](auto... arguments) -> decltype(MPI_##name(arguments...)) { return MPI_SUCCESS; }),  \
                "MPI_" #name " has other parameters in mpi.h");                                            \
  int fairlead_##name parameters

// The same for a function of no standard, MPIX_<name>, which only some headers declare.
#define FAIRLEAD_MPIX(name, parameters)                                             \
  extern "C" FAIRLEAD_EXPORT int fairlead_##name parameters __asm__("MPIX_" #name); \
  int fairlead_##name parameters

// MPIX_<name> as another name of MPI_<name>: quirk persistent_names.
#if defined(OPEN_MPI)
#define FAIRLEAD_EARLIER_NAME(name)                                                                   \
  extern "C" FAIRLEAD_EXPORT decltype(fairlead_##name) fairlead_earlier_##name __asm__("MPIX_" #name) \
      __attribute__((alias("MPI_" #name)));
#else
#define FAIRLEAD_EARLIER_NAME(name)
#endif

namespace fairlead::mpi {

// Every function of the manifest, in its order; large-count forms end in _c.
enum class Function : int {
#include "mpi/abi/generated/function_ids.inc"
};

const char* to_string(Function function);  // "MPI_Bcast"

// The next definition of a function after Fairlead's in the loader's order; null if there is none. MPIs
// opened by dlopen() are outside this order.
void* next_symbol(const char* name);

// Does the host MPI have the function? Searches at every call: for decisions, not for hot paths.
bool available(Function function);

namespace detail {
void* find(Function function);          // null if the host MPI lacks it
void* fallback_of(Function function);   // its replacement in that case; null if there is none
int report_missing(Function function);  // logs once per function; returns MPI_ERR_OTHER
}  // namespace detail

template <Function function, class Signature>
class Slot;

template <Function function, class... Parameters>
class Slot<function, int(Parameters...)> {
 public:
  static constexpr Function id = function;
  using Signature = int(Parameters...);

  int operator()(Parameters... parameters) {
    Address address = address_.load(std::memory_order_relaxed);
    if (!address && !(address = bind())) return detail::report_missing(function);
    return address(parameters...);
  }

 private:
  using Address = int (*)(Parameters...);

  // Threads that bind a slot at the same time find and store the same address.
  [[gnu::cold, gnu::noinline]] Address bind() {
    Address address = reinterpret_cast<Address>(detail::find(function));
    if (!address) address = reinterpret_cast<Address>(detail::fallback_of(function));
    address_.store(address, std::memory_order_relaxed);
    return address;
  }

  std::atomic<Address> address_ = nullptr;
};

struct Real {
#include "mpi/abi/generated/real_slots.inc"
};

extern Real real;

}  // namespace fairlead::mpi
