// SPDX-License-Identifier: Apache-2.0
//
// Kernels of device_api_test that no product code needs.

#include <fairlead/kernel.h>

namespace {
struct Pair {
  double factor;
  char padding[100];
  int summand;
};
}  // namespace

// Parameters of different sizes, one of them a structure, and a null pointer that is only compared.
FAIRLEAD_KERNEL(scale_and_add, (double* x, Pair by, unsigned char count, const int* absent)) {
  unsigned long i = fairlead::kernel::global_index();
  if (i < count && !absent) x[i] = x[i] * by.factor + by.summand;
}

FAIRLEAD_KERNEL(touch, (char* bytes)) {
  bytes[0] = 1;
}

// out[0] += what each thread finds at the start of each array; the block's last thread writes the sum to
// out[1].
FAIRLEAD_KERNEL(add_firsts, (unsigned* out, fairlead::kernel::Pointers<3> arrays)) {
  using namespace fairlead::kernel;
  for (void* array : arrays.at)
    if (array) atomic_add(out, load<unsigned>(array));
  block_barrier();
  if (is_last_thread()) store(out + 1, atomic_add(out, 0u));
}

struct Addition {
  static constexpr unsigned pointers = 1;
  unsigned* to;
  unsigned amount;
};
FAIRLEAD_KERNEL(add_amount, (Addition addition)) {
  fairlead::kernel::atomic_add(addition.to, addition.amount);
}

// What each thread of a small grid takes itself for.
FAIRLEAD_KERNEL(write_positions, (unsigned* out)) {
  using namespace fairlead::kernel;
  out[global_index()] =
      block_index() * 1000000 + thread_index() * 10000 + block_size() * 100 + grid_size() + global_size() * 0;
}
