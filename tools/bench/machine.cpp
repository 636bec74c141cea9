// SPDX-License-Identifier: Apache-2.0

#include "bench/machine.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "common/words.h"

namespace fairlead::tools {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The text after "key   :" in files such as /proc/cpuinfo.
std::string field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return {};
}

uint64_t memory_field(const std::string& key) {
  return std::strtoull(field("/proc/meminfo", key).c_str(), nullptr, 10) * 1024;  // in kB
}

}  // namespace

std::string cpu_model() {
  std::string model = field("/proc/cpuinfo", "model name");
  // Processors that are not x86 say less there.
  if (model.empty()) model = first_line("/sys/firmware/devicetree/base/model");
  return model.empty() ? "unknown" : model;
}

int logical_cpus() {
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}
uint64_t memory_bytes() {
  return memory_field("MemTotal");
}
uint64_t available_memory_bytes() {
  return memory_field("MemAvailable");
}

std::string bound_cpus() {
  return field("/proc/self/status", "Cpus_allowed_list");
}

std::string closest_cpus(const std::string& pci) {
  std::string address = lower(pci);
  std::string cpus = address.empty() ? "" : first_line("/sys/bus/pci/devices/" + address + "/local_cpulist");
  return cpus.empty() ? first_line("/sys/devices/system/cpu/online") : cpus;
}

}  // namespace fairlead::tools
