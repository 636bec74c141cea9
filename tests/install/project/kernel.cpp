// SPDX-License-Identifier: Apache-2.0
//
// Launches the user's own kernel, and checks what it wrote.

#include <fairlead/device.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

static void need(int error) {
  if (error == FAIRLEAD_DEVICE_SUCCESS) return;
  std::fprintf(stderr, "%s\n", fairlead_device_error_text());
  std::exit(1);
}

int main() {
  std::vector<double> values(1000), scaled(values.size());
  std::iota(values.begin(), values.end(), 0.0);
  const size_t bytes = values.size() * sizeof(double);
  void* memory = nullptr;
  need(fairlead_device_malloc(&memory, bytes));
  need(fairlead_device_copy(memory, values.data(), bytes));

  double factor = 2.5;
  unsigned long count = values.size();
  void* arguments[] = {&memory, &factor, &count};
  need(fairlead_device_launch("scale", 4, 64, arguments));
  need(fairlead_device_synchronize());

  need(fairlead_device_copy(scaled.data(), memory, bytes));
  for (size_t i = 0; i < values.size(); ++i)
    if (scaled[i] != values[i] * factor) return 1;
  need(fairlead_device_free(memory));
  std::printf("%zu elements were scaled on %s\n", values.size(), fairlead_device_provider());
}
