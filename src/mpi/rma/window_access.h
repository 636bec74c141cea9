// SPDX-License-Identifier: Apache-2.0
//
// One-sided accesses: the arguments of a call, whichever of the ten functions it is and in either count form,
// and what becomes of them. The bytes of a direct target move at once, by a copy engine or a kernel of this
// process; a served one is asked, by as many requests as the access has pieces.

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
  // What is read here, and what is written here.
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
  bool of_one_element = false;  // of a predefined type: MPI_Fetch_and_op and MPI_Compare_and_swap
  MPI_Request* request = nullptr;

  bool reads() const { return kind != AccessKind::get && op != MPI_NO_OP; }
  bool writes() const {
    return kind == AccessKind::get || kind == AccessKind::fetch || kind == AccessKind::compare_and_swap;
  }
};

// A buffer of the program in an access.
class OriginBuffer {
 public:
  // False when its bytes cannot be had.
  bool open(const void* address, MPI_Count count, MPI_Datatype datatype, bool written);
  // What was written has come; false when it cannot be put where it belongs.
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
  // Looks at the arguments; an MPI error code.
  static int make(const AccessCall& call, const Window& window, std::shared_ptr<Access>* access);

  int target() const { return target_; }
  // Of the program's buffers; -1: host memory.
  int device() const { return std::max(origin_.buffer().device, result_.buffer().device); }
  // The bytes that it touches, from the beginning of the window.
  int64_t low() const { return at_target_ + layout_.first; }
  int64_t high() const { return low() + layout_.span; }
  bool over() const { return over_.load(std::memory_order_acquire); }
  int error() const { return error_; }
  bool in_request() const { return in_request_; }
  bool accumulates() const { return kind_ >= AccessKind::accumulate; }

  // Its buffer, in a window that begins there, of this device's memory (-1: of host memory).
  rma::Buffer target_in(char* window, int device) const { return {layout_from(window), device}; }
  // On memory that this process reaches. An accumulate is over when this returns: it waits for the ownership,
  // and comes without the engine's lock, the others with it. What is not `alone` may start together with
  // others.
  void start(const rma::Buffer& target, bool alone);
  void accumulate(const rma::Buffer& target, rma::AccumulateLock& accumulate_lock);
  // Asks for the next pieces; false while there are more. With the engine's lock.
  bool ask(WindowService& service, const std::shared_ptr<Access>& self);
  // From now on it is one for ask().
  void use_messages() { by_messages_ = true; }
  bool by_messages() const { return by_messages_; }
  void advance();

 private:
  datatype::View layout_from(char* window) const;
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
  int op_ = 0, type_ = 0;  // as Fortran numbers them
  Layout layout_;
  int64_t at_target_ = 0;  // the address of the target's buffer, from the beginning of the window
  uint64_t bytes_ = 0;

  MessageRecord record_;
  rma::Transfer transfer_;
  bool by_messages_ = false;
  uint64_t asked_ = 0, answered_ = 0;
  std::atomic<bool> over_ = false;
  int error_ = MPI_SUCCESS;
};

// Waits until nobody else accumulates there; false when whoever does is dead.
bool take_accumulate_lock(rma::AccumulateLock& accumulate_lock);

// What an operation on elements of this type is, in the words of src/rma; false where MPI does not allow it.
bool combination_of(MPI_Op op, MPI_Datatype element, rma::Combination* combination);
// The predefined type of which all of this one is made.
MPI_Datatype element_of(MPI_Datatype datatype);

namespace detail {
int access_ours(const AccessCall& call, const std::shared_ptr<Window>& window);

// Device memory for a window of the host MPI: window_staged.cpp.
using AccessInHost =
    std::function<int(const void* origin, const void* compare, void* result, MPI_Request* request)>;
bool brings_device_memory(const AccessCall& call);
int access_staged(const AccessCall& call, const AccessInHost& host);
}  // namespace detail

// `host` calls the function in the host MPI, with these buffers.
template <class Host>
int one_sided(const AccessCall& call, const Host& host) {
  if (any_windows())
    if (std::shared_ptr<Window> window = find_window(call.win)) return detail::access_ours(call, window);
  if (detail::brings_device_memory(call)) return detail::access_staged(call, host);
  BlockingHostCall parked;
  return host(call.origin_addr, call.compare_addr, call.result_addr, call.request);
}

}  // namespace fairlead::mpi
