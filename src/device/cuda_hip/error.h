// SPDX-License-Identifier: Apache-2.0
//
// Errors of drivers with a CUDA-like API: converts their result codes to errors of the contract, and stores
// each thread's last error message.

#pragma once

#include "device/cuda_hip/abi.h"
#include "device/runtime.h"

namespace fairlead::device {

inline thread_local char driver_error_text[256];

inline Error driver_error(int result) {
  using namespace driver_result;
  switch (result) {
    case success:
      return Error::none;
    case not_ready:
      return Error::not_ready;
    case not_initialized:
    case deinitialized:
    case no_device:
      return Error::not_initialized;
    case invalid_value:
    case invalid_device:
    case invalid_handle:
      return Error::invalid_value;
    case out_of_memory:
      return Error::out_of_memory;
    case not_permitted:
    case not_supported:
    case invalid_image:
    case no_binary_for_gpu:
    case invalid_kernel_file:
    case shared_object_failed:
      return Error::not_supported;
    case peer_access_unsupported:
    case peer_access_not_enabled:
      return Error::peer_unavailable;
    case already_mapped:
      return Error::already_mapped;
    case not_found:
      return Error::not_found;
    case stream_capture_unsupported:
    case stream_capture_implicit:
      return Error::capturing;
    default:
      return Error::failed;
  }
}

}  // namespace fairlead::device
