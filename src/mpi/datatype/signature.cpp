// SPDX-License-Identifier: Apache-2.0

#include "mpi/datatype/signature.h"

#include <cstddef>
#include <optional>

#include "base/mix.h"
#include "mpi/datatype/reduction_types.h"
#include "mpi/datatype/type_origin.h"

namespace fairlead::mpi {
namespace {

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) result *= base;
  return result;
}

// One sequence behind the other.
Signature operator+(const Signature& first, const Signature& second) {
  constexpr uint64_t base = 0xd1342543de82ef95;
  return {first.length + second.length, first.number + power(base, first.length) * second.number};
}

Signature repeated(Signature sequence, uint64_t times) {
  Signature result;
  for (; times > 0; times /= 2, sequence = sequence + sequence)
    if (times % 2) result = result + sequence;
  return result;
}

uint64_t size_of(MPI_Datatype datatype) {
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  return size > 0 ? static_cast<uint64_t>(size) : 0;
}

// Handles differ between processes, names do not.
Signature of_predefined(MPI_Datatype datatype) {
  constexpr uint64_t known = 1, named = 2;
  if (std::optional<kernels::Element> element = kernel_element_of(datatype))
    return {1, mixed(known, static_cast<uint64_t>(*element))};
  uint64_t number = mixed(named, size_of(datatype));
  for (const char letter : name_of_type(datatype)) number = mixed(number, static_cast<unsigned char>(letter));
  return {1, number};
}

Signature of_one(MPI_Datatype datatype) {
  const uint64_t size = size_of(datatype);
  if (size == 0) return {};
  if (is_predefined(datatype)) return of_predefined(datatype);
  const TypeContents made(datatype);
  Signature all;
  if (made.combiner() == MPI_COMBINER_STRUCT) {
    for (size_t i = 0; i < made.types().size(); ++i)
      all = all + signature_of(made.number(1 + i), made.types()[i]);
    return all;
  }
  // Of one datatype, so often as its bytes are in it.
  const MPI_Datatype element = made.types().at(0);
  return repeated(of_one(element), size / size_of(element));
}

}  // namespace

Signature signature_of(MPI_Count count, MPI_Datatype datatype) {
  return count > 0 ? repeated(of_one(datatype), static_cast<uint64_t>(count)) : Signature();
}

std::string name_of_type(MPI_Datatype datatype) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Type_get_name(datatype, name, &length);
  return {name, static_cast<size_t>(length)};
}

}  // namespace fairlead::mpi
