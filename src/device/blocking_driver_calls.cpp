// SPDX-License-Identifier: Apache-2.0

#include "device/blocking_driver_calls.h"

namespace fairlead::device {

constinit thread_local bool BlockingDriverCalls::in_thread_of_library = false;
constinit std::atomic<bool> BlockingDriverCalls::program_has_threads = false;
constinit std::mutex BlockingDriverCalls::mutex_;
constinit int BlockingDriverCalls::excluded_ = 0;
constinit int BlockingDriverCalls::graph_waits_ = 0;
constinit unsigned BlockingDriverCalls::periods_ = 0;

}  // namespace fairlead::device
