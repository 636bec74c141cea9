// SPDX-License-Identifier: Apache-2.0
//
// What one-sided accesses are compared with: what rank 0 takes, without MPI, for the driver's copies between
// its GPU and that of rank 1, or for an empty kernel. As in Fairlead's accesses the streams are of the
// origin's GPU.

#pragma once

#include <mpi.h>

#include <optional>
#include <vector>

#include "bench/buffer.h"
#include "bench/device_copy.h"
#include "bench/message_report.h"
#include "bench/mpi/ranks.h"

namespace fairlead::tools {

class Yardstick {
 public:
  // Collective over the two ranks; the others' MPI_COMM_NULL measures nothing. `near` is memory of this
  // rank's GPU that a step accesses, `near_back` what the other rank accesses here: `bytes` each at most.
  // Throws a cannot_run Failure where rank 0 does not see the GPU of rank 1.
  Yardstick(const BenchArguments& arguments, const Ranks& ranks, MPI_Comm pair, Buffer& near,
            Buffer& near_back, uint64_t bytes);

  // In rank 0; nothing in the other one.
  void measure(Measurement* m);

 private:
  struct Direction {
    Buffer *to, *from;
    OwnedStream* stream;
  };
  int device_of_partner(MPI_Comm pair, int own);
  void open_copies(int own, int theirs, Buffer& near, Buffer& near_back, uint64_t bytes);
  void copies(uint64_t bytes, int count);
  void find_kernel(int device);
  void launch();

  const BenchArguments& arguments_;
  device::Runtime* runtime_ = nullptr;
  bool measures_ = false;
  std::optional<Buffer> far_, far_back_;
  std::optional<OwnedStream> stream_, stream_back_;
  std::vector<Direction> directions_;
  device::Kernel empty_ = nullptr;
};

}  // namespace fairlead::tools
