/* SPDX-License-Identifier: Apache-2.0
 *
 * Open MPI's mpi-ext.h as it is for programs that run with Fairlead on GPUs of this vendor: where the next
 * header of this name has the macro by which they ask, the answer is yes. MPIX_Query_cuda_support() tells at
 * run time.
 */
#pragma GCC system_header
#include_next <mpi-ext.h>
#if defined(MPIX_CUDA_AWARE_SUPPORT)
#undef MPIX_CUDA_AWARE_SUPPORT
#define MPIX_CUDA_AWARE_SUPPORT 1
#endif
