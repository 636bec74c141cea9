// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace fairlead {

// The commit of the sources; "+changes" behind it where they differ from it, "unknown" if nothing tells.
const char* built_from_commit();

}  // namespace fairlead
