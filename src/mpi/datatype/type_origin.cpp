// SPDX-License-Identifier: Apache-2.0

#include "mpi/datatype/type_origin.h"

#include <dlfcn.h>

namespace fairlead::mpi {
namespace {

struct Envelope {
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
  int combiner = MPI_COMBINER_NAMED;
};

// Headers before MPI 4 do not declare these functions.
using GetEnvelope = int(MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*);
using GetContents = int(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int*, MPI_Aint*, MPI_Count*,
                        MPI_Datatype*);
struct LargeFunctions {
  GetEnvelope* envelope = reinterpret_cast<GetEnvelope*>(dlsym(RTLD_DEFAULT, "PMPI_Type_get_envelope_c"));
  GetContents* contents = reinterpret_cast<GetContents*>(dlsym(RTLD_DEFAULT, "PMPI_Type_get_contents_c"));
  explicit operator bool() const { return envelope && contents; }
};
const LargeFunctions& large_functions() {
  static const LargeFunctions found;
  return found;
}

Envelope envelope_of(MPI_Datatype datatype) {
  Envelope it;
  if (large_functions()) {
    large_functions().envelope(datatype, &it.integers, &it.addresses, &it.counts, &it.types, &it.combiner);
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

bool is_predefined(MPI_Datatype datatype) {
  switch (combiner_of(datatype)) {
    case MPI_COMBINER_NAMED:
    case MPI_COMBINER_F90_REAL:
    case MPI_COMBINER_F90_COMPLEX:
    case MPI_COMBINER_F90_INTEGER:
      return true;
    default:
      return false;
  }
}

TypeContents::TypeContents(MPI_Datatype made) {
  const Envelope it = envelope_of(made);
  combiner_ = it.combiner;
  if (combiner_ == MPI_COMBINER_NAMED) return;
  large_ = it.counts > 0;
  integers_.resize(static_cast<size_t>(it.integers));
  std::vector<MPI_Aint> addresses(static_cast<size_t>(it.addresses));
  wide_.resize(static_cast<size_t>(it.counts));
  types_.resize(static_cast<size_t>(it.types));
  if (large_functions())
    large_functions().contents(made, it.integers, it.addresses, it.counts, it.types, integers_.data(),
                               addresses.data(), wide_.data(), types_.data());
  else
    PMPI_Type_get_contents(made, static_cast<int>(it.integers), static_cast<int>(it.addresses),
                           static_cast<int>(it.types), integers_.data(), addresses.data(), types_.data());
  wide_.insert(wide_.end(), addresses.begin(), addresses.end());
}

TypeContents::~TypeContents() {
  for (MPI_Datatype& type : types_)
    if (!is_predefined(type)) PMPI_Type_free(&type);
}

}  // namespace fairlead::mpi
