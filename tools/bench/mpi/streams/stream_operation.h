// SPDX-License-Identifier: Apache-2.0
//
// What a step of a chain on a GPU stream does between its two kernels, in each of the ways that are compared.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/mpi/nccl.h"
#include "bench/mpi/ranks.h"

namespace fairlead::tools {

class StreamOperation {
 public:
  virtual ~StreamOperation() = default;
  StreamOperation(const StreamOperation&) = delete;
  StreamOperation& operator=(const StreamOperation&) = delete;

  virtual void block() = 0;  // plain MPI, when the stream is idle
  // The same in the stream of a communicator; the first way has the benchmark's name.
  struct Way {
    std::string key, heading;
    std::function<void(MPI_Comm)> enqueue;
  };
  const std::vector<Way>& ways() const { return ways_; }
  virtual void by_nccl(NcclRanks& nccl, void* stream) = 0;

  // Of the kernels, which count in the first element that is sent and add what comes of it to a sum.
  virtual const char* counts() const = 0;
  virtual const char* adds() const = 0;
  void* sent() const { return sent_.address(); }
  void* received() const { return received_.address(); }
  void* sum() const { return sum_.address(); }

  // The buffers of a new chain, and whether they are right after so many steps of it.
  void begin();
  bool right(int64_t steps) const;

 protected:
  explicit StreamOperation(uint64_t bytes)
      : bytes_(bytes),
        sent_(Place::device, bytes),
        received_(Place::device, bytes),
        sum_(Place::device, sizeof(unsigned long)) {}

  virtual void fill() = 0;  // what is sent, before the first step
  // The sum after so many steps, and all that the last one received, in `received`.
  virtual unsigned long expect(int64_t steps, Buffer* received) const = 0;

  std::vector<Way> ways_;
  uint64_t bytes_;
  Buffer sent_, received_, sum_;
};

// Of the benchmark's name, in this rank; `comm`: for plain MPI, of all ranks.
std::unique_ptr<StreamOperation> make_stream_operation(const BenchArguments& arguments, const Ranks& ranks,
                                                       uint64_t bytes, MPI_Comm comm);

}  // namespace fairlead::tools
