// SPDX-License-Identifier: Apache-2.0
//
// A libamdhip64.so of eight GPUs that can only be looked at: which of them a process sees follows from its
// environment as it does in ROCr and clr. All else is refused (fake_hip_rest.cpp).

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int success = 0, invalid_device = 101, gpus = 8;

// The entries of a variable that are among so many GPUs, up to the first that is not.
std::vector<int> chosen(const char* text, int among) {
  std::vector<int> found;
  const std::string list = text;
  for (size_t at = 0; at <= list.size();) {
    size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    const std::string entry = list.substr(at, end - at);
    const int number = std::atoi(entry.c_str());
    if (number < 0 || number >= among || entry != std::to_string(number)) break;
    found.push_back(number);
    at = end + 1;
  }
  return found;
}

const std::vector<int>& visible() {
  static const std::vector<int> found = [] {
    std::vector<int> all;
    for (int gpu = 0; gpu < gpus; ++gpu) all.push_back(gpu);
    if (const char* rocr = std::getenv("ROCR_VISIBLE_DEVICES")) all = chosen(rocr, gpus);
    const char *hip = std::getenv("HIP_VISIBLE_DEVICES"), *cuda = std::getenv("CUDA_VISIBLE_DEVICES");
    const char* list = hip && *hip ? hip : cuda;
    if (!list || !*list) return all;
    std::vector<int> left;
    for (int place : chosen(list, static_cast<int>(all.size())))
      left.push_back(all[static_cast<size_t>(place)]);
    return left;
  }();
  return found;
}

int known(int device) {
  return device >= 0 && device < static_cast<int>(visible().size()) ? success : invalid_device;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int hipInit(unsigned) {
  return success;
}
int hipDriverGetVersion(int* version) {
  *version = 60443483;
  return success;
}
const char* hipGetErrorName(int) {
  return "hipErrorOfAFake";
}
const char* hipGetErrorString(int) {
  return "this HIP is a fake";
}
int hipGetLastError() {
  return success;
}
int hipGetDeviceCount(int* count) {
  *count = static_cast<int>(visible().size());
  return success;
}
int hipDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return known(ordinal);
}
int hipDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<size_t>(bytes), "fake GPU");
  return known(device);
}
int hipDeviceGetUuid(unsigned char* uuid, int device) {
  std::memset(uuid, device + 1, 16);
  return known(device);
}
int hipDeviceGetPCIBusId(char* pci, int bytes, int device) {
  if (known(device) != success) return invalid_device;
  std::snprintf(pci, static_cast<size_t>(bytes), "0000:%02x:00.0", visible()[static_cast<size_t>(device)]);
  return success;
}
int hipDeviceTotalMem(size_t* bytes, int device) {
  *bytes = 1 << 30;
  return known(device);
}
int hipDeviceGetAttribute(int* value, int, int device) {
  *value = 1;
  return known(device);
}
int hipGetDevice(int* device) {
  *device = 0;
  return success;
}
int hipSetDevice(int device) {
  return known(device);
}
int hipStreamQuery(void*) {
  return success;
}
int hipModuleLoadData(void**, const void*) {
  return 303;  // what older HIP says of an image for another GPU
}

#pragma GCC visibility pop
}
