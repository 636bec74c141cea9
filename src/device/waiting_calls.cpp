// SPDX-License-Identifier: Apache-2.0

#include "device/waiting_calls.h"

namespace fairlead::device {

constinit thread_local bool WaitingCalls::in_thread_of_library = false;
constinit std::atomic<bool> WaitingCalls::program_has_threads = false;
constinit std::mutex WaitingCalls::mutex_;
constinit int WaitingCalls::forbidden_ = 0;
constinit int WaitingCalls::graph_waits_ = 0;
constinit unsigned WaitingCalls::periods_ = 0;

}  // namespace fairlead::device
