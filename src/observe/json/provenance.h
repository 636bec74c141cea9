// SPDX-License-Identifier: Apache-2.0
//
// Where a JSON file comes from. Each one that Fairlead's library and tools write has these fields in its
// member "provenance" (docs/reference/json.md), so that `fairlead compare` can say what differs between two
// runs.

#pragma once

#include <string>

namespace fairlead::observe {

struct Provenance {
  // Of this process, unless something else is given.
  std::string program = own_program(), command = own_command();
  // Without MPI, all three are "". `mpi_library`: what MPI_Get_library_version() says; or name and version.
  std::string mpi_abi = {}, mpi_library = {}, mpi_version = {};
  int ranks = 0, nodes = 0;  // 0: unknown
  struct Gpus {
    std::string provider = {};  // "cuda", "rocm", "sim" or "none"; "" if nobody has looked
    int count = 0;
    std::string name = {};  // of the first
    std::string driver = {};
  } gpus = {};

  static std::string own_program();
  static std::string own_command();
  // What this process sees by fairlead/device.h, which may open the driver. `driver`: its number, 0 if it has
  // none.
  static Gpus gpus_seen(int driver);
};

std::string utc_date();  // 2025-01-31T12:00:00Z
std::string host_name();

// An object that has all fields. What is not known is null.
std::string as_json(const Provenance& provenance);

// The member's name.
inline constexpr const char* provenance_key = "provenance";

}  // namespace fairlead::observe
