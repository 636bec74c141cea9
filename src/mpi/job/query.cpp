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
#include "mpi/job/release.h"
#include "observe/json/json.h"

namespace fairlead::mpi {
namespace {

using observe::json_array;
using observe::JsonObject;

std::vector<std::string> json_of_devices(device::PromptRuntime* runtime) {
  std::vector<std::string> devices;
  int count = 0;
  if (!runtime || runtime->initialize() != device::Error::none ||
      runtime->device_count(&count) != device::Error::none)
    return devices;
  for (int device = 0; device < count; ++device) {
    device::DeviceInfo info{};
    if (runtime->device_info(device, &info) == device::Error::none)
      devices.push_back(
          JsonObject().add("name", info.name).add("pci", info.pci).add("memory", info.memory).text());
  }
  return devices;
}

std::vector<std::string> json_of_options() {
  std::vector<std::string> changed;
  for (const OptionReport& option : describe_options())
    if (option.origin != "default")
      changed.push_back(JsonObject()
                            .add("name", option.name)
                            .add("variable", option.variable)
                            .add("value", option.value)
                            .add("origin", option.origin)
                            .text());
  return changed;
}

std::string info() {
  device::PromptRuntime* runtime = options().enabled ? device::runtime() : nullptr;
  const std::string devices =
      json_array(json_of_devices(runtime));  // initializes the driver, as version() needs
  return JsonObject()
             .add("version", release())
             .add("abi", own_abi)
             .add("mpi", host_version())
             .add("provider", runtime ? runtime->name() : "none")
             .add("driver", runtime ? runtime->version() : 0)
             .add("active", intercepting())
             .add_json("devices", devices)
             .add_json("options", json_array(json_of_options()))
             .text() +
         "\n";
}

size_t copy_out(const std::string& from, char* text, size_t bytes) {
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
  return fairlead::mpi::copy_out(fairlead::mpi::info(), text, bytes);
}

extern "C" FAIRLEAD_EXPORT size_t fairlead_statistics(char* text, size_t bytes) {
  return fairlead::mpi::copy_out(fairlead::mpi::statistics_as_json(), text, bytes);
}
