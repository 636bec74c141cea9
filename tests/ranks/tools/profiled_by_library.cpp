// SPDX-License-Identifier: Apache-2.0
//
// A program that calls MPI only through a library that it is linked with (counted.cpp).

extern "C" int run();

int main() {
  return run();
}
