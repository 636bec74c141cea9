// SPDX-License-Identifier: Apache-2.0
//
// Memory of every rank in a window, for tests of one-sided communication.

#pragma once

#include <cstring>

#include "harness/harness.h"

namespace ranks {

// The same number of bytes on every rank, in a place that may differ; the window returns its errors.
class Exposed {
 public:
  Exposed(Place place, size_t bytes, int disp_unit = 1, MPI_Comm comm = MPI_COMM_WORLD)
      : memory_(place, bytes) {
    MUST(MPI_Win_create(memory_.data(), static_cast<MPI_Aint>(bytes), disp_unit, MPI_INFO_NULL, comm,
                        &window_));
    MUST(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN));
  }
  ~Exposed() { MUST(MPI_Win_free(&window_)); }
  Exposed(const Exposed&) = delete;
  Exposed& operator=(const Exposed&) = delete;
  operator MPI_Win() const { return window_; }
  Memory& memory() { return memory_; }

  template <class Value>
  std::vector<Value> values() const {
    std::vector<Value> found(memory_.bytes() / sizeof(Value));
    memory_.read(found.data(), found.size() * sizeof(Value));
    return found;
  }
  // The same value everywhere.
  template <class Value>
  void fill_with(Value value) {
    const std::vector<Value> all(memory_.bytes() / sizeof(Value), value);
    memory_.write(all.data(), all.size() * sizeof(Value));
  }

 private:
  Memory memory_;
  MPI_Win window_ = MPI_WIN_NULL;
};

// A buffer that holds these values.
template <class Value>
Memory memory_of(Place place, const std::vector<Value>& values) {
  Memory memory(place, values.size() * sizeof(Value));
  memory.write(values.data(), values.size() * sizeof(Value));
  return memory;
}
template <class Value>
Value value_in(const Memory& memory, size_t index = 0) {
  Value value;
  memory.read(&value, sizeof value, index * sizeof value);
  return value;
}

}  // namespace ranks
