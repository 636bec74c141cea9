// SPDX-License-Identifier: Apache-2.0

#include "mpi/datatype/reduction_types.h"

// Open MPI declares its own types, among them 16-bit floating point, in a separate header.
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

// Handles that the host MPI's header declares and its library may lack (host_mpi.h explains why this must be
// harmless).
#if defined(OPEN_MPI)
#pragma weak ompi_mpi_2dblprec
#pragma weak ompi_mpi_2int
#pragma weak ompi_mpi_2integer
#pragma weak ompi_mpi_2real
#pragma weak ompi_mpi_aint
#pragma weak ompi_mpi_c_bool
#pragma weak ompi_mpi_c_double_complex
#pragma weak ompi_mpi_c_float_complex
#pragma weak ompi_mpi_complex16
#pragma weak ompi_mpi_complex8
#pragma weak ompi_mpi_count
#pragma weak ompi_mpi_cplex
#pragma weak ompi_mpi_cxx_bool
#pragma weak ompi_mpi_cxx_cplex
#pragma weak ompi_mpi_cxx_dblcplex
#pragma weak ompi_mpi_dblcplex
#pragma weak ompi_mpi_dblprec
#pragma weak ompi_mpi_double
#pragma weak ompi_mpi_double_int
#pragma weak ompi_mpi_float
#pragma weak ompi_mpi_float_int
#pragma weak ompi_mpi_int16_t
#pragma weak ompi_mpi_int32_t
#pragma weak ompi_mpi_int8_t
#pragma weak ompi_mpi_integer
#pragma weak ompi_mpi_integer1
#pragma weak ompi_mpi_integer2
#pragma weak ompi_mpi_integer4
#pragma weak ompi_mpi_integer8
#pragma weak ompi_mpi_logical
#pragma weak ompi_mpi_logical1
#pragma weak ompi_mpi_logical2
#pragma weak ompi_mpi_logical4
#pragma weak ompi_mpi_logical8
#pragma weak ompi_mpi_long
#pragma weak ompi_mpi_long_int
#pragma weak ompi_mpi_long_long_int
#pragma weak ompi_mpi_offset
#pragma weak ompi_mpi_real
#pragma weak ompi_mpi_real4
#pragma weak ompi_mpi_real8
#pragma weak ompi_mpi_short
#pragma weak ompi_mpi_short_int
#pragma weak ompi_mpi_signed_char
#pragma weak ompi_mpi_uint16_t
#pragma weak ompi_mpi_uint32_t
#pragma weak ompi_mpi_uint8_t
#pragma weak ompi_mpi_unsigned
#pragma weak ompi_mpi_unsigned_char
#pragma weak ompi_mpi_unsigned_long
#pragma weak ompi_mpi_unsigned_long_long
#pragma weak ompi_mpi_unsigned_short
#ifdef MPIX_SHORT_FLOAT
#pragma weak ompi_mpi_short_float
#endif
#endif

namespace fairlead::mpi {
namespace {

using kernels::Element;
using kernels::ReduceOp;

const struct {
  MPI_Op op;
  ReduceOp kernel;
} operations[] = {
    {MPI_SUM, ReduceOp::sum},   {MPI_PROD, ReduceOp::prod},     {MPI_MIN, ReduceOp::min},
    {MPI_MAX, ReduceOp::max},   {MPI_LAND, ReduceOp::land},     {MPI_LOR, ReduceOp::lor},
    {MPI_LXOR, ReduceOp::lxor}, {MPI_BAND, ReduceOp::band},     {MPI_BOR, ReduceOp::bor},
    {MPI_BXOR, ReduceOp::bxor}, {MPI_MINLOC, ReduceOp::minloc}, {MPI_MAXLOC, ReduceOp::maxloc},
};

const struct {
  MPI_Datatype datatype;
  Element element;
} types[] = {
    {MPI_SIGNED_CHAR, Element::int8},
    {MPI_UNSIGNED_CHAR, Element::uint8},
    {MPI_SHORT, Element::int16},
    {MPI_UNSIGNED_SHORT, Element::uint16},
    {MPI_INT, Element::int32},
    {MPI_UNSIGNED, Element::uint32},
    {MPI_LONG, Element::int64},
    {MPI_UNSIGNED_LONG, Element::uint64},
    {MPI_LONG_LONG_INT, Element::int64},
    {MPI_UNSIGNED_LONG_LONG, Element::uint64},
    {MPI_INT8_T, Element::int8},
    {MPI_UINT8_T, Element::uint8},
    {MPI_INT16_T, Element::int16},
    {MPI_UINT16_T, Element::uint16},
    {MPI_INT32_T, Element::int32},
    {MPI_UINT32_T, Element::uint32},
    {MPI_INT64_T, Element::int64},
    {MPI_UINT64_T, Element::uint64},
    {MPI_AINT, Element::int64},
    {MPI_OFFSET, Element::int64},
    {MPI_COUNT, Element::int64},
    {MPI_BYTE, Element::byte},
    {MPI_FLOAT, Element::float32},
    {MPI_DOUBLE, Element::float64},
    {MPI_C_FLOAT_COMPLEX, Element::complex_float},
    {MPI_C_DOUBLE_COMPLEX, Element::complex_double},
    {MPI_C_BOOL, Element::boolean},
    {MPI_FLOAT_INT, Element::float_int},
    {MPI_DOUBLE_INT, Element::double_int},
    {MPI_LONG_INT, Element::long_int},
    {MPI_2INT, Element::int_int},
    {MPI_SHORT_INT, Element::short_int},
// If this MPI has them: MPI's proposed types, and those of Fortran and C++.
#ifdef MPIX_C_FLOAT16
    {MPIX_C_FLOAT16, Element::float16},
#elif defined(MPIX_SHORT_FLOAT)
    {MPIX_SHORT_FLOAT, Element::float16},
#endif
#ifdef MPIX_BFLOAT16
    {MPIX_BFLOAT16, Element::bfloat16},
#endif
#ifdef MPI_CXX_BOOL
    {MPI_CXX_BOOL, Element::boolean},
#endif
#ifdef MPI_CXX_FLOAT_COMPLEX
    {MPI_CXX_FLOAT_COMPLEX, Element::complex_float},
#endif
#ifdef MPI_CXX_DOUBLE_COMPLEX
    {MPI_CXX_DOUBLE_COMPLEX, Element::complex_double},
#endif
#ifdef MPI_INTEGER
    {MPI_INTEGER, Element::int32},
#endif
#ifdef MPI_REAL
    {MPI_REAL, Element::float32},
#endif
#ifdef MPI_DOUBLE_PRECISION
    {MPI_DOUBLE_PRECISION, Element::float64},
#endif
#ifdef MPI_COMPLEX
    {MPI_COMPLEX, Element::complex_float},
#endif
#ifdef MPI_DOUBLE_COMPLEX
    {MPI_DOUBLE_COMPLEX, Element::complex_double},
#endif
#ifdef MPI_LOGICAL
    {MPI_LOGICAL, Element::logical32},
#endif
#ifdef MPI_2REAL
    {MPI_2REAL, Element::float_float},
#endif
#ifdef MPI_2DOUBLE_PRECISION
    {MPI_2DOUBLE_PRECISION, Element::double_double},
#endif
#ifdef MPI_2INTEGER
    {MPI_2INTEGER, Element::int_int},
#endif
#ifdef MPI_INTEGER1
    {MPI_INTEGER1, Element::int8},
#endif
#ifdef MPI_INTEGER2
    {MPI_INTEGER2, Element::int16},
#endif
#ifdef MPI_INTEGER4
    {MPI_INTEGER4, Element::int32},
#endif
#ifdef MPI_INTEGER8
    {MPI_INTEGER8, Element::int64},
#endif
#ifdef MPI_REAL4
    {MPI_REAL4, Element::float32},
#endif
#ifdef MPI_REAL8
    {MPI_REAL8, Element::float64},
#endif
#ifdef MPI_COMPLEX8
    {MPI_COMPLEX8, Element::complex_float},
#endif
#ifdef MPI_COMPLEX16
    {MPI_COMPLEX16, Element::complex_double},
#endif
#ifdef MPI_LOGICAL1
    {MPI_LOGICAL1, Element::logical8},
#endif
#ifdef MPI_LOGICAL2
    {MPI_LOGICAL2, Element::logical16},
#endif
#ifdef MPI_LOGICAL4
    {MPI_LOGICAL4, Element::logical32},
#endif
#ifdef MPI_LOGICAL8
    {MPI_LOGICAL8, Element::logical64},
#endif
};

}  // namespace

std::optional<Element> kernel_element_of(MPI_Datatype datatype) {
  for (const auto& type : types) {
    if (type.datatype != datatype) continue;
    MPI_Count lower = 0, extent = 0;
    PMPI_Type_get_extent_x(datatype, &lower, &extent);
    // A Fortran compiler may be configured for other sizes.
    if (extent == static_cast<MPI_Count>(kernels::element_bytes(type.element))) return type.element;
    break;
  }
  return std::nullopt;
}

std::optional<ReduceOp> kernel_op_of(MPI_Op op) {
  for (const auto& known : operations)
    if (known.op == op) return known.kernel;
  return std::nullopt;
}

bool kernel_for(MPI_Op op, MPI_Datatype datatype, ReduceOp* kernel_op, Element* element) {
  const std::optional<ReduceOp> known = kernel_op_of(op);
  const std::optional<Element> type = known ? kernel_element_of(datatype) : std::nullopt;
  if (!type) return false;
  *kernel_op = *known;
  *element = *type;
  return kernels::has_kernel(*known, *type);
}

bool is_allowed(MPI_Op op, MPI_Datatype datatype) {
  for (const auto& known : operations) {
    if (known.op != op) continue;
    for (const auto& type : types)
      if (type.datatype == datatype) return kernels::has_kernel(known.kernel, type.element);
    return true;
  }
  return false;
}

bool can_be_swapped(MPI_Datatype datatype) {
  return is_allowed(MPI_BAND, datatype) || is_allowed(MPI_LAND, datatype);
}

}  // namespace fairlead::mpi
