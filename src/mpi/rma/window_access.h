// SPDX-License-Identifier: Apache-2.0
//
// One-sided accesses: the arguments of a call, for all ten functions and in either count form, and their
// execution. For a mapped target, a copy engine or a kernel of this process moves the bytes at once. For an
// active-message target, the origin sends as many requests as the access has pieces.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "mpi/abi/host_mpi.h"
//
#include "mpi/core/interception.h"
#include "mpi/core/operation.h"
#include "mpi/datatype/layout.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/rma/window.h"
#include "rma/accumulate.h"

namespace fairlead::mpi {

enum class AccessKind { put, get, accumulate, fetch, compare_and_swap };

struct AccessCall {
  AccessKind kind;
  MPI_Win win;
  // The buffers that the origin reads and those that it writes.
  const void* origin_addr = nullptr;
  MPI_Count origin_count = 0;
  MPI_Datatype origin_datatype = MPI_DATATYPE_NULL;
  const void* compare_addr = nullptr;
  void* result_addr = nullptr;
  MPI_Count result_count = 0;
  MPI_Datatype result_datatype = MPI_DATATYPE_NULL;
  int target_rank = MPI_PROC_NULL;
  MPI_Aint target_disp = 0;
  MPI_Count target_count = 0;
  MPI_Datatype target_datatype = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  bool of_one_element = false;  // predefined type: MPI_Fetch_and_op, MPI_Compare_and_swap
  MPI_Request* request = nullptr;

  bool reads() const { return kind != AccessKind::get && op != MPI_NO_OP; }
  bool writes() const {
    return kind == AccessKind::get || kind == AccessKind::fetch || kind == AccessKind::compare_and_swap;
  }
};

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
  static int make(const AccessCall& call, const Window& window, std::shared_ptr<Access>* access);

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

  // The target buffer, in a window that begins at `window`, in memory of `device` (-1: host memory).
  rma::Buffer target_in(char* window, int device) const { return {layout_from(window), device}; }
  // For memory that this process can access. accumulate() is complete on return: it waits for the accumulate
  // lock, and the caller must not hold the engine's lock. start() needs the engine's lock; unless `alone`,
  // the access may start together with others.
  void start(const rma::Buffer& target, bool alone);
  void accumulate(const rma::Buffer& target, rma::AccumulateLock& accumulate_lock);
  // Sends requests for the next pieces; false if more remain. The caller holds the engine's lock.
  bool ask(WindowService& service, const std::shared_ptr<Access>& self);
  // From now on ask() executes this access.
  void use_messages() { by_messages_ = true; }
  bool by_messages() const { return by_messages_; }
  void advance();

 private:
  packing::View layout_from(char* window) const;
  rma::Header header() const;
  void note(device::Error error);
  void end();
  void fail(int error);
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

// Waits for the accumulate lock. False if its owner is dead.
bool take_accumulate_lock(rma::AccumulateLock& accumulate_lock);

// Describes an operation on elements of this type as src/rma needs it. False if MPI does not allow the
// operation.
bool combination_of(MPI_Op op, MPI_Datatype element, rma::Combination* combination);
// The predefined type of which all of this datatype consists.
MPI_Datatype element_of(MPI_Datatype datatype);

namespace detail {
int access_ours(const AccessCall& call, const std::shared_ptr<Window>& window);

// Device memory in accesses to windows of the host MPI: window_staged.cpp.
using AccessInHost =
    std::function<int(const void* origin, const void* compare, void* result, MPI_Request* request)>;
bool brings_device_memory(const AccessCall& call);
int access_staged(const AccessCall& call, const AccessInHost& host);
}  // namespace detail

// `host` calls the host MPI's function with the given buffers.
template <class Host>
int one_sided(const AccessCall& call, const Host& host) {
  if (any_windows())
    if (std::shared_ptr<Window> window = find_window(call.win)) return detail::access_ours(call, window);
  if (detail::brings_device_memory(call)) return detail::access_staged(call, host);
  BlockingHostCall parked;
  return host(call.origin_addr, call.compare_addr, call.result_addr, call.request);
}

}  // namespace fairlead::mpi
