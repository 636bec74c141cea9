// SPDX-License-Identifier: Apache-2.0
//
// The part of CUPTI's interface that cupti.cpp uses, declared here so that the build needs no CUDA toolkit.
// tests/hardware compares it with <cupti.h>.

#pragma once

#include <cstddef>

#include "device/program/calls.h"

namespace fairlead::device::program::cupti {

// CUpti_CallbackData
struct CallbackData {
  int site;
  const char* function_name;
  const void* parameters;
  const int* result;
  const char* symbol;
  const void* context;
};
inline constexpr int site_enter = 0, site_exit = 1, domain_driver = 1;

// What the driver's functions get: their parameters, one after the other. CUdeviceptr is an integer.
struct Launch {
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  Stream stream;
  void** parameters;
  void** packed;
};
struct LaunchEx {
  const LaunchConfig* config;
  void* function;
  void** parameters;
  void** packed;
};
struct CopyAsync {
  const void *to, *from;
  size_t bytes;
  Stream stream;
};
struct PeerCopyAsync {
  const void* to;
  const void* to_context;
  const void* from;
  const void* from_context;
  size_t bytes;
  Stream stream;
};
struct Copy2dAsync {
  const Copy2d* copy;
  Stream stream;
};
template <class Value>
struct FillAsync {
  const void* to;
  Value value;
  size_t count;
  Stream stream;
};
struct OnStream {
  Stream stream;
};
struct Free {
  const void* address;
  Stream stream;
};
struct OnEvent {
  Event event;
};
struct Record {
  Event event;
  Stream stream;
};
struct Wait {
  Stream stream;
  Event event;
};
struct Create {
  const Stream* stream;
  unsigned flags;
};
struct EndCapture {
  Stream stream;
  const void* const* graph;
};
struct Instantiate {
  const void* const* executable;
  const void* graph;
};
struct Update {
  const void* executable;
  const void* graph;
};
struct OnGraph {
  const void* graph;
};
struct GraphLaunch {
  const void* executable;
  Stream stream;
};

}  // namespace fairlead::device::program::cupti
