// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/one_sided.h"

#include "mpi/core/error_handler.h"
#include "mpi/core/operation.h"
#include "mpi/core/requests/request.h"
#include "mpi/datatype/reduction_types.h"

namespace fairlead::mpi {

namespace {

// What error messages say about an access. It composes the text only on request: requests keep it, and few of
// them fail.
class AccessName {
 public:
  explicit AccessName(const AccessCall& call)
      : bytes_(call.target_count >= 0 && call.target_datatype != MPI_DATATYPE_NULL
                   ? packed_bytes(call.target_count, call.target_datatype)
                   : -1),
        rank_(call.target_rank),
        disp_(call.target_disp) {}
  // "an access of 8 bytes to rank 1 at displacement 64"
  std::string description() const {
    return "an access of " + (bytes_ >= 0 ? bytes_in_words(bytes_) : "no valid bytes") + " to rank " +
           std::to_string(rank_) + " at displacement " + std::to_string(disp_);
  }

 private:
  MPI_Count bytes_;
  int rank_;
  MPI_Aint disp_;
};

// The class of the error for the arguments that the host MPI would check before the memory.
int error_of_arguments(const AccessCall& call, const Targets& targets) {
  if (call.target_rank != MPI_PROC_NULL && (call.target_rank < 0 || call.target_rank >= targets.size()))
    return MPI_ERR_RANK;
  int error = error_of_elements(call.target_count, call.target_datatype);
  if (error == MPI_SUCCESS && call.reads())
    error = error_of_elements(call.origin_count, call.origin_datatype);
  if (error == MPI_SUCCESS && call.writes())
    error = error_of_elements(call.result_count, call.result_datatype);
  if (error == MPI_SUCCESS && call.target_disp < 0 && !targets.dynamic()) error = MPI_ERR_DISP;
  return error;
}

// True if the host MPI may refuse the type. An access of one element needs a predefined type, and a swap
// needs an integer, a logical or a byte.
bool has_doubtful_type(const AccessCall& call) {
  if (!call.of_one_element) return false;
  return !is_plain(call.target_datatype) ||
         (call.kind == AccessKind::compare_and_swap && !can_be_swapped(call.target_datatype));
}

// Makes the same access to MPI_PROC_NULL in the host MPI. An error that it returns has already gone through
// the program's error handler.
int ask_host(const AccessCall& call) {
  return call.kind == AccessKind::compare_and_swap
             ? real.Compare_and_swap(call.origin_addr, call.compare_addr, call.result_addr,
                                     call.target_datatype, MPI_PROC_NULL, 0, call.win)
             : real.Fetch_and_op(call.origin_addr, call.result_addr, call.target_datatype, MPI_PROC_NULL, 0,
                                 call.op, call.win);
}

// An access whose request the program holds.
class RequestedAccess : public Operation {
 public:
  RequestedAccess(std::shared_ptr<Window> window, std::shared_ptr<Access> access, const AccessName& name)
      : Operation(window->targets().comm()),
        window_(std::move(window)),
        access_(std::move(access)),
        name_(name) {}
  int start() override {
    begin();
    const int error = access_ ? window_->epochs().start_access(access_) : MPI_SUCCESS;
    return error == MPI_SUCCESS ? error : window_->raise(error, name_.description());
  }
  void advance() override {
    if (access_) access_->advance();
    if (!access_ || access_->over()) complete_.store(true, std::memory_order_release);
  }
  void quiesce() override {}
  void end_if_failed(Failures& failures) override {
    failure_ = failures.of_members(comm_);
    if (failed()) complete_.store(true, std::memory_order_release);
  }
  int finish(MPI_Status* status) override {
    describe(status);
    record_.end();
    const int error = failed() ? failure_ : access_ ? access_->error() : MPI_SUCCESS;
    return error == MPI_SUCCESS ? error : window_->raise(error, name_.description());
  }
  void describe(MPI_Status* status) override { set_empty(status); }
  std::string description() const override { return name_.description(); }

 private:
  std::shared_ptr<Window> window_;
  std::shared_ptr<Access> access_;
  AccessName name_;
};

}  // namespace

int detail::access_window(const AccessCall& call, const std::shared_ptr<Window>& window) {
  int error = error_of_arguments(call, window->targets());
  if (error == MPI_SUCCESS && has_doubtful_type(call))
    if (int refused = ask_host(call); refused != MPI_SUCCESS) return refused;
  std::shared_ptr<Access> access;  // null for MPI_PROC_NULL
  if (error == MPI_SUCCESS && call.target_rank != MPI_PROC_NULL)
    error = Access::make(call, window->targets(), &access);
  if (error == MPI_SUCCESS && call.request)
    return hand_out(std::make_unique<RequestedAccess>(window, access, AccessName(call)), call.request);
  if (error == MPI_SUCCESS && access) error = window->epochs().start_access(access);
  return error == MPI_SUCCESS ? error : window->raise(error, AccessName(call).description());
}

}  // namespace fairlead::mpi
