// SPDX-License-Identifier: Apache-2.0
//
// A collective that passes device memory, or one of host memory that must wait for other collectives of its
// communicator, from the call to its completion. It arrives at the communicator's collective slot. Then it
// runs on the GPU; or it runs in the host MPI, in the order of the calls and with copies of its buffers in
// host memory (staging.h).
//
// The operation calls the form of the host MPI function that the program called, because the blocking form
// and the nonblocking one do not match. The nonblocking form is called when the call has its turn, and
// polled. The blocking form is called by finish(), which holds no lock.

#pragma once

#include <memory>
#include <optional>

#include "base/rate_limit.h"
#include "base/report_timer.h"
#include "coll/gpu_collective.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/coll/staging.h"
#include "mpi/core/deferred_free.h"
#include "mpi/core/interception.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

class CollectiveOperation : public Operation {
 public:
  enum class Form { blocking, nonblocking, persistent };
  // `lent` is the communicator of a persistent collective, which the operation holds, else null.
  CollectiveOperation(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call, Regions regions,
                      Form form, std::shared_ptr<MPI_Comm> lent = nullptr);

  int start() override;
  void advance() override;
  void advance_without_host() override;
  uint64_t bytes() const override { return static_cast<uint64_t>(regions_.bytes()); }
  bool needs_help() const override { return !left_to_others(); }
  void quiesce() override;
  void end_if_failed(Failures& failures) override;
  bool quiesced() const override;
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::string description() const override { return mpi::description(regions_); }

 private:
  void plan(Form form = Form::blocking);
  coll::CollectiveWork take_work();
  bool exports_late() const {
    return arrived_with_ == coll::Capability::nccl || arrived_with_ == coll::Capability::meets;
  }
  bool needs_thread() const;
  bool left_to_others() const {
    return (step_ == Step::deciding || step_ == Step::on_gpu) && gpu_ && gpu_->left_to_others();
  }
  void arrive();
  void decide();
  void expose_late();
  void run_by_nccl();
  void run_by_meeting();
  void run_on_gpu();
  void take_turn();
  bool is_possible(coll::Decision outcome) const;
  int call_host();
  void poll_host();
  void end_in_host(int result);
  int result_of_host(int result);
  void over(int error);
  bool leave_slot(Failures& failures);
  void set_path(Traffic path);
  void log_path(Traffic path) const;
  void go_on_waiting();
  void lose();

  std::shared_ptr<CommunicatorState> state_;
  std::shared_ptr<MemoryQuestion> question_;  // null, or asked with the call
  CollectiveCall call_;
  Regions regions_;
  const bool blocking_;
  const std::shared_ptr<MPI_Comm> lent_;
  std::optional<KeptHandles> kept_;
  KeptArrays arrays_;
  coll::Capability capability_ = coll::Capability::host, arrived_with_ = coll::Capability::none;
  coll::CollectiveWork work_;
  bool has_work_ = false, planned_ = false;
  std::optional<coll::MeetCall> meeting_;  // if the ranks may meet: the call is planned only if they do not
  uint64_t number_ = 0;
  bool cleared_ = false;

  enum class Step {
    arriving,
    deciding,
    by_nccl,
    meeting,
    on_gpu,
    waiting_for_turn,
    in_host,
    over
  } step_ = Step::arriving;
  std::optional<coll::GpuCollective> gpu_;
  StagedCall staged_;
  ReportTimer report_timer_;
  RareLook rare_look_;
  int error_ = MPI_SUCCESS;
  bool raised_ = false;  // the host MPI has raised the error on the call's communicator
  Fallback why_staged_ = Fallback::chosen_staged;
};

// A blocking collective on this communicator alone: on its GPUs, or staged.
int run_collective(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call, Regions regions);

}  // namespace fairlead::mpi
