// SPDX-License-Identifier: Apache-2.0

#include "mpi/file/pointer_turn.h"

#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "mpi/abi/mutex.h"
#include "mpi/core/engine.h"

namespace fairlead::mpi {

namespace {

struct Users {
  int turns = 0, waiting = 0;
  std::thread::id alone;  // none: of no thread
};

auto& users_mutex = *new Mutex;
auto& changed = *new std::condition_variable_any;
auto& users_of = *new std::unordered_map<MPI_File, Users>;  // of the files whose pointers are in use

}  // namespace

PointerTurn::PointerTurn(MPI_File file, MPI_Offset offset, With with) {
  if (offset != own_pointer || !engine().threads()) return;
  file_ = file;
  std::unique_lock lock(users_mutex);
  Users& users = users_of[file];  // stays where it is while others come and go
  ++users.waiting;
  const std::thread::id me = std::this_thread::get_id();
  changed.wait(lock, [&] { return users.alone == std::thread::id() || users.alone == me; });
  --users.waiting;
  alone_ = with == With::nobody_if_free && users.turns == 0;
  if (alone_) users.alone = me;
  ++users.turns;
}

PointerTurn::~PointerTurn() {
  if (!file_) return;
  std::lock_guard lock(users_mutex);
  const auto found = users_of.find(*file_);
  if (alone_) found->second.alone = {};
  if (--found->second.turns == 0 && found->second.waiting == 0) users_of.erase(found);
  if (alone_) changed.notify_all();
}

bool PointerTurn::is_alone(MPI_File file) {
  if (!engine().threads()) return true;
  std::lock_guard lock(users_mutex);
  const auto found = users_of.find(file);
  return found != users_of.end() && found->second.alone == std::this_thread::get_id();
}

}  // namespace fairlead::mpi
