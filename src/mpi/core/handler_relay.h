// SPDX-License-Identifier: Apache-2.0
//
// Relays between the host MPI and the program's error handlers: the host MPI gets a relay in place of each
// handler, and the relay calls the handler while the thread holds no mutex of Fairlead's (mpi/abi/mutex.h).
// What the host MPI raises in a call that Fairlead makes under a mutex is therefore raised shortly after that
// call. Handlers of MPI_Errhandler_create, which MPI has removed, get no relay.

#pragma once

#include <array>
#include <cstdarg>
#include <mutex>
#include <type_traits>
#include <utility>

#include "mpi/abi/host_mpi.h"
#include "mpi/abi/mutex.h"
#include "mpi/abi/real.h"
#include "mpi/core/interception.h"

namespace fairlead::mpi {

template <class Handle>
using ErrorHandler = void(Handle*, int*, ...);

namespace detail {

// No argument tells a handler which one it is. Each function of the program therefore has a relay of its own.
constexpr size_t relays_at_most = 64;
template <Function maker, class Handle>
inline std::array<ErrorHandler<Handle>*, relays_at_most> relayed_to{};

// The result may not show that a message was truncated (noted()): quirk error_hidden_by_handler.
// Open MPI passes a handler in C the name of the function and a null pointer as well.
template <Function maker, class Handle, size_t number>
void relay(Handle* handle, int* code, ...) {
  const char* function = nullptr;
#if defined(MPICH_VERSION)
  if (maker == Function::Comm_create_errhandler) noted(*code);
#elif defined(OPEN_MPI)
  if constexpr (!std::is_same_v<Handle, MPI_Fint>) {
    std::va_list others;
    va_start(others, code);
    function = va_arg(others, const char*);
    va_end(others);
  }
#endif
  call_without_mutexes([handle = *handle, code = *code, function]() mutable {
    relayed_to<maker, Handle>[number](&handle, &code, function, nullptr);
  });
}

template <Function maker, class Handle, size_t... number>
constexpr std::array<ErrorHandler<Handle>*, relays_at_most> all_relays(std::index_sequence<number...>) {
  return {relay<maker, Handle, number>...};
}

}  // namespace detail

// The relay to a handler that the program passes to `maker`. When all are taken, the host MPI calls the
// program's function directly.
template <Function maker, class Handle>
ErrorHandler<Handle>* relay_to(ErrorHandler<Handle>* handler) {
  static Mutex mutex;
  static constexpr auto relays =
      detail::all_relays<maker, Handle>(std::make_index_sequence<detail::relays_at_most>());
  auto& users = detail::relayed_to<maker, Handle>;
  std::lock_guard lock(mutex);
  for (size_t i = 0; handler && i < users.size(); ++i) {
    if (!users[i]) users[i] = handler;
    if (users[i] == handler) return relays[i];
  }
  return handler;
}

}  // namespace fairlead::mpi
