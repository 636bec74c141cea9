// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/mutex.h"

#include <memory>
#include <utility>

namespace fairlead::mpi {

constinit thread_local int detail::mutexes_held = 0;
constinit thread_local std::vector<std::function<void()>>* detail::put_off = nullptr;

void detail::make_calls_put_off() {
  const std::unique_ptr<std::vector<std::function<void()>>> calls(std::exchange(put_off, nullptr));
  for (const std::function<void()>& call : *calls) call();
}

void call_without_mutexes(std::function<void()> call) {
  using namespace detail;
  if (mutexes_held == 0) return call();
  if (!put_off) put_off = new std::vector<std::function<void()>>;
  put_off->push_back(std::move(call));
}

}  // namespace fairlead::mpi
