// SPDX-License-Identifier: Apache-2.0
//
// One-sided accesses to targets, from their start to their completion. For a mapped target, a copy engine or
// a kernel of this process moves the bytes at once. For an active-message target, the origin sends as many
// requests as the access has pieces.

#pragma once

#include <atomic>
#include <list>
#include <memory>

#include "mpi/core/record.h"
#include "mpi/datatype/layout.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/rma/access_call.h"
#include "mpi/rma/active_messages.h"
#include "mpi/rma/targets.h"
#include "rma/accumulate.h"

namespace fairlead::mpi {

// A buffer of the program that an access uses.
class OriginBuffer {
 public:
  // False if the bytes cannot be read or packed.
  bool open(const void* address, MPI_Count count, MPI_Datatype datatype, bool written);
  // Call it when the written bytes have arrived; it unpacks them where necessary. False if that fails.
  bool finish();
  const rma::Buffer& buffer() const { return buffer_; }
  uint64_t bytes() const { return static_cast<uint64_t>(layout_.bytes); }

 private:
  Layout layout_;
  rma::Buffer buffer_;
  HostBuffer packed_;  // where only the host MPI knows the layout
  std::optional<KeptType> kept_;
  UserBuffer unpacked_{};
};

class Access {
 public:
  // Checks the arguments. Returns an MPI error code.
  static int make(const AccessCall& call, const Targets& targets, std::shared_ptr<Access>* access);

  int target() const { return target_; }
  // The device of the program's buffers; -1: host memory.
  int device() const { return std::max(origin_.buffer().device, result_.buffer().device); }
  // The bytes that the access touches, relative to the beginning of the window.
  int64_t low() const { return at_target_ + layout_.first; }
  int64_t high() const { return low() + layout_.span; }
  bool over() const { return over_.load(std::memory_order_acquire); }
  int error() const { return error_; }
  bool in_request() const { return in_request_; }
  bool accumulates() const { return kind_ >= AccessKind::accumulate; }

  // The target buffer, in a window that begins there.
  rma::Buffer target_in(const MappedTarget& window) const {
    return {.view = layout_from(window.address), .device = window.device, .by_kernel = window.by_kernel};
  }
  // For memory that this process can access. accumulate() is complete on return: it waits for the accumulate
  // lock, and the caller must not hold the engine's lock. start() needs the engine's lock; unless `alone`,
  // the access may start together with others.
  void start(const rma::Buffer& target, bool alone);
  void accumulate(const rma::Buffer& target, rma::AccumulateLock& accumulate_lock);
  // Sends requests for the next pieces; false if more remain. The caller holds the engine's lock.
  bool ask(ActiveMessages& messages, const std::shared_ptr<Access>& self);
  // From now on ask() executes this access.
  void use_messages() { by_messages_ = true; }
  bool by_messages() const { return by_messages_; }
  void advance();

 private:
  packing::View layout_from(char* window) const;
  rma::Header header() const;
  void note(device::Error error);
  void end();
  void take_answer(const rma::Message& answer, uint64_t at, uint64_t bytes);

  AccessKind kind_ = AccessKind::put;
  int target_ = 0;
  bool in_request_ = false;
  OriginBuffer origin_, compare_, result_;
  rma::Combination combination_;
  int op_ = 0, type_ = 0;  // Fortran handles
  Layout layout_;
  int64_t at_target_ = 0;  // the address of the target's buffer, relative to the beginning of the window
  uint64_t bytes_ = 0;

  MessageRecord record_;
  rma::Transfer transfer_;
  bool by_messages_ = false;
  uint64_t asked_ = 0, answered_ = 0;
  std::atomic<bool> over_ = false;
  int error_ = MPI_SUCCESS;
};

// The accesses of this rank on a window that are not complete. The engine's lock guards them.
class Accesses {
 public:
  Accesses(Targets& targets, ActiveMessages& messages) : targets_(targets), messages_(messages) {}
  // Starts the access, which an epoch allows. Returns an MPI error code.
  int start(const std::shared_ptr<Access>& access);
  // Waits until the accesses to a target, or to all_targets, are complete at origin and target. Returns the
  // error of any of them.
  int complete(int target);
  // The caller holds the engine's lock from here on.
  void advance();
  // Can start() proceed without waiting for earlier accesses?
  bool has_room();
  uint64_t started() const { return started_; }
  // complete() without waiting, for the first `last` accesses. Stores the error if it returns true.
  bool are_complete(int target, uint64_t last, int* error);

 private:
  struct Pending {
    uint64_t number;  // in the order of their starts
    std::shared_ptr<Access> access;
  };
  bool any_pending(int target, uint64_t up_to) const;

  Targets& targets_;
  ActiveMessages& messages_;
  std::list<Pending> pending_;
  uint64_t started_ = 0;
  int error_ = MPI_SUCCESS;  // of a completed access
};

}  // namespace fairlead::mpi
