// SPDX-License-Identifier: Apache-2.0

#include "mpi/type_origin.h"

#include <dlfcn.h>

#include <vector>

namespace fairlead::mpi {
namespace {

struct Envelope {
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
  int combiner = MPI_COMBINER_NAMED;
};

// Headers before MPI 4 do not declare them.
using GetEnvelope = int(MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*);
using GetContents = int(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int*, MPI_Aint*, MPI_Count*,
                        MPI_Datatype*);
struct LargeFunctions {
  GetEnvelope* envelope = reinterpret_cast<GetEnvelope*>(dlsym(RTLD_DEFAULT, "PMPI_Type_get_envelope_c"));
  GetContents* contents = reinterpret_cast<GetContents*>(dlsym(RTLD_DEFAULT, "PMPI_Type_get_contents_c"));
  explicit operator bool() const { return envelope && contents; }
};
const LargeFunctions& large() {
  static const LargeFunctions found;
  return found;
}

Envelope envelope_of(MPI_Datatype datatype) {
  Envelope it;
  if (large()) {
    large().envelope(datatype, &it.integers, &it.addresses, &it.counts, &it.types, &it.combiner);
    return it;
  }
  int integers = 0, addresses = 0, types = 0;
  PMPI_Type_get_envelope(datatype, &integers, &addresses, &types, &it.combiner);
  it.integers = integers, it.addresses = addresses, it.types = types;
  return it;
}

}  // namespace

int combiner_of(MPI_Datatype datatype) {
  return envelope_of(datatype).combiner;
}

OriginalType::OriginalType(MPI_Datatype made) {
  const Envelope it = envelope_of(made);
  std::vector<int> integers(static_cast<size_t>(it.integers));
  std::vector<MPI_Aint> addresses(static_cast<size_t>(it.addresses));
  std::vector<MPI_Count> counts(static_cast<size_t>(it.counts));
  std::vector<MPI_Datatype> types(static_cast<size_t>(it.types));
  if (large())
    large().contents(made, it.integers, it.addresses, it.counts, it.types, integers.data(), addresses.data(),
                     counts.data(), types.data());
  else
    PMPI_Type_get_contents(made, static_cast<int>(it.integers), static_cast<int>(it.addresses),
                           static_cast<int>(it.types), integers.data(), addresses.data(), types.data());
  if (!types.empty()) type_ = types.front();
}

OriginalType::~OriginalType() {
  if (type_ != MPI_DATATYPE_NULL && combiner_of(type_) != MPI_COMBINER_NAMED) PMPI_Type_free(&type_);
}

}  // namespace fairlead::mpi
