// SPDX-License-Identifier: Apache-2.0
//
// While it lives, captures of the program's do not concern this thread: its driver calls are allowed and
// invalidate none.

#pragma once

#include "device/runtime.h"

namespace fairlead::device {

class BesideCaptures {
 public:
  BesideCaptures() { exchange(); }
  ~BesideCaptures() { exchange(); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  void exchange() { runtime()->exchange_capture_mode(&mode_); }
  CaptureMode mode_ = CaptureMode::relaxed;
};

}  // namespace fairlead::device
