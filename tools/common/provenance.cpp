// SPDX-License-Identifier: Apache-2.0

#include "common/provenance.h"

#include <nlohmann/json.hpp>

namespace fairlead::tools {

nlohmann::ordered_json to_json(const Provenance& provenance) {
  return nlohmann::ordered_json::parse(observe::as_json(provenance));
}

}  // namespace fairlead::tools
