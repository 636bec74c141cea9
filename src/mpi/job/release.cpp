// SPDX-License-Identifier: Apache-2.0

#include "mpi/job/release.h"

#include <cstdio>

namespace fairlead::mpi {

const char* release() {
  return FAIRLEAD_VERSION;
}

// Read from the text, so that a test can change the release of a library.
int release_number() {
  int first = 0, second = 0, third = 0;
  std::sscanf(release(), "%d.%d.%d", &first, &second, &third);
  return (first * 1000 + second) * 1000 + third;
}

std::string release_of(int number) {
  return std::to_string(number / 1000000) + "." + std::to_string(number / 1000 % 1000) + "." +
         std::to_string(number % 1000);
}

}  // namespace fairlead::mpi
