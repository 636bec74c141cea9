// SPDX-License-Identifier: Apache-2.0
//
// The member of every JSON that says where it comes from, as the library writes it too.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "observe/json/provenance.h"

namespace fairlead::tools {

using observe::host_name;
using observe::Provenance;
using observe::provenance_key;
using observe::utc_date;

nlohmann::ordered_json to_json(const Provenance& provenance);

}  // namespace fairlead::tools
