// SPDX-License-Identifier: Apache-2.0
//
// A collective that passes device memory, or one of host memory that must wait for other collectives of its
// communicator, from the call to its completion. It arrives at the communicator's collective slot. Then it
// runs on the GPU; or it runs in the host MPI, in the order of the calls and with copies of its buffers in
// host memory.
//
// A blocking call cannot use the host MPI's nonblocking form, which would not match the blocking form on the
// other ranks. If such an operation must be staged it is complete, and its caller stages it (collective.cpp).

#pragma once

#include <functional>

#include "base/report_timer.h"
#include "coll/gpu_collective.h"
#include "mpi/coll/argument_arrays.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/coll/host_image.h"
#include "mpi/core/deferred_free.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

// Calls the nonblocking form of the collective in the host MPI, with these buffers and with the arrays of
// `call`.
using StartInHost = std::function<int(const CollectiveCall& call, MPI_Comm comm, const void* sendbuf,
                                      void* recvbuf, MPI_Request* request)>;

class CollectiveOperation : public Operation {
 public:
  // `start_in_host` is null for a blocking call.
  CollectiveOperation(std::shared_ptr<CommunicatorState> point, const CollectiveCall& call, Regions regions,
                      StartInHost start_in_host);

  int start() override;
  void advance() override;
  void quiesce() override;
  bool quiesced() const override;
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::string in_words() const override { return mpi::in_words(regions_); }

  // Only for a blocking call that is complete.
  bool must_stage() const { return must_stage_; }
  const Regions& regions() const { return regions_; }
  // Call it when the caller has staged the call.
  void note_staged();
  // Like advance(), but calls no host MPI function: the progress thread uses it while the program's threads
  // are elsewhere.
  void advance_on_gpu();

 private:
  coll::Work take_work();
  void arrive();
  void decide();
  void report_stall();
  void run_by_nccl();
  void run_on_gpu();
  void take_turn();
  void finish_in_host();
  void note_result(int result);
  void over(int error);
  void took(Traffic path);
  void complain_of_missing();

  std::shared_ptr<CommunicatorState> point_;
  CollectiveCall call_;
  Regions regions_;
  StartInHost start_in_host_;
  std::optional<KeptHandles> kept_;
  KeptArrays arrays_;
  coll::Capability capability_ = coll::Capability::host, arrived_with_ = coll::Capability::none;
  coll::Work work_;
  bool has_work_ = false;
  uint64_t number_ = 0;
  bool cleared_ = false;

  enum class Step {
    arriving,
    deciding,
    by_nccl,
    on_gpu,
    waiting_for_turn,
    in_host,
    over
  } step_ = Step::arriving;
  std::optional<coll::GpuCollective> gpu_;
  StagedBuffers staged_;
  bool loaded_ = false;
  ReportTimer report_timer_;
  int error_ = MPI_SUCCESS;
  bool raised_ = false;  // the host MPI has raised the error on the call's communicator
  bool must_stage_ = false;
  Fallback why_staged_ = Fallback::chosen_staged;
};

}  // namespace fairlead::mpi
