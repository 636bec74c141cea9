// SPDX-License-Identifier: Apache-2.0
//
// Sets of logical CPUs, and the lists in which the kernel writes them: "0-3,8".

#pragma once

#include <set>
#include <string>

namespace fairlead::tools {

using Cpus = std::set<int>;

// If the text is no such list, returns the CPUs before the error.
Cpus cpus_of(const std::string& list);
std::string to_text(const Cpus& cpus);
Cpus common(const Cpus& a, const Cpus& b);

Cpus own_cpus();  // those this process may run on
// Throws a usage Failure where the kernel refuses.
void bind_to(const Cpus& cpus);

}  // namespace fairlead::tools
