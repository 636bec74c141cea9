// SPDX-License-Identifier: Apache-2.0
//
// The release that this library belongs to. All ranks of a job need the same one, since what ranks send to
// each other may change in any release (docs/reference/stability.md).

#pragma once

#include <string>

namespace fairlead::mpi {

const char* release();               // "0.2.0"
int release_number();                // grows with the release
std::string release_of(int number);  // "0.2.0"

}  // namespace fairlead::mpi
