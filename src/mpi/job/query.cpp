// SPDX-License-Identifier: Apache-2.0
//
// The functions behind include/fairlead/query.h.

#include <algorithm>
#include <cstring>
#include <string>

#include "base/options.h"
#include "device/runtime.h"
#include "mpi/abi/host_version.h"
#include "mpi/abi/real.h"
#include "mpi/core/interception.h"
#include "mpi/job/observation.h"
#include "observe/report.h"
#include "observe/text.h"

namespace fairlead::mpi {
namespace {

using observe::append;
using observe::json_string;

std::string json_of_devices(device::Runtime* runtime) {
  std::string text;
  int count = 0;
  if (!runtime || runtime->initialize() != device::Error::none ||
      runtime->device_count(&count) != device::Error::none)
    return text;
  for (int device = 0; device < count; ++device) {
    device::DeviceInfo info{};
    if (runtime->device_info(device, &info) != device::Error::none) continue;
    text += (text.empty() ? "" : ", ") + ("{\"name\": " + json_string(info.name));
    append(&text, ", \"pci\": \"%.15s\", \"memory\": %zu}", info.pci, info.memory);
  }
  return text;
}

std::string json_of_options() {
  std::string text;
  for (const OptionReport& option : describe_options()) {
    if (option.origin == "default") continue;
    text += (text.empty() ? "" : ", ") + ("{\"name\": " + json_string(option.name));
    text += ", \"variable\": " + json_string(option.variable) + ", \"value\": " + json_string(option.value) +
            ", \"origin\": " + json_string(option.origin) + "}";
  }
  return text;
}

std::string info() {
  device::Runtime* runtime = options().enabled ? device::runtime() : nullptr;
  const std::string devices = json_of_devices(runtime);  // initializes the driver, as version() needs
  std::string text = "{\"version\": \"" FAIRLEAD_VERSION "\", \"abi\": " + json_string(own_abi);
  text += ", \"mpi\": " + json_string(host_version());
  text += ", \"provider\": " + json_string(runtime ? runtime->name() : "none");
  append(&text, ", \"driver\": %d, \"active\": %s", runtime ? runtime->version() : 0,
         intercepting() ? "true" : "false");
  text += ", \"devices\": [" + devices + "], \"options\": [" + json_of_options() + "]}\n";
  return text;
}

size_t hand_out(const std::string& from, char* text, size_t bytes) {
  if (bytes > 0) {
    const size_t length = std::min(from.size(), bytes - 1);
    std::memcpy(text, from.data(), length);
    text[length] = '\0';
  }
  return from.size() + 1;
}

}  // namespace
}  // namespace fairlead::mpi

extern "C" FAIRLEAD_EXPORT size_t fairlead_info(char* text, size_t bytes) {
  return fairlead::mpi::hand_out(fairlead::mpi::info(), text, bytes);
}

extern "C" FAIRLEAD_EXPORT size_t fairlead_statistics(char* text, size_t bytes) {
  return fairlead::mpi::hand_out(fairlead::mpi::statistics_as_json(), text, bytes);
}
