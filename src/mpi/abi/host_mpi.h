// SPDX-License-Identifier: Apache-2.0
//
// The host MPI's header, and the host MPI functions that Fairlead calls but does not interpose.
//
// Fairlead calls all of them by their PMPI names and declares them weak, like the host MPI's data: LD_PRELOAD
// loads this library into every process of a job, including shells and launchers without any MPI, and it must
// load there.

#pragma once

#include <mpi.h>

// clang warns of names that the header of an MPI lacks, everywhere but in headers of the system.
#ifdef __clang__
#pragma clang system_header
#endif

#pragma weak PMPI_Abort
#pragma weak PMPI_Cart_shift
#pragma weak PMPI_Cartdim_get
#pragma weak PMPI_Comm_call_errhandler
#pragma weak PMPI_Comm_create_keyval
#pragma weak PMPI_Comm_delete_attr
#pragma weak PMPI_Comm_free
#pragma weak PMPI_Comm_free_keyval
#pragma weak PMPI_Comm_get_attr
#pragma weak PMPI_Comm_get_errhandler
#pragma weak PMPI_Comm_group
#pragma weak PMPI_Comm_rank
#pragma weak PMPI_Comm_remote_group
#pragma weak PMPI_Comm_remote_size
#pragma weak PMPI_Comm_set_attr
#pragma weak PMPI_Comm_set_errhandler
#pragma weak PMPI_Comm_size
#pragma weak PMPI_Comm_test_inter
#pragma weak PMPI_Dist_graph_neighbors
#pragma weak PMPI_Dist_graph_neighbors_count
#pragma weak PMPI_Errhandler_free
#pragma weak PMPI_Error_class
#pragma weak PMPI_Error_string
#pragma weak PMPI_File_call_errhandler
#pragma weak PMPI_File_f2c
#pragma weak PMPI_File_get_atomicity
#pragma weak PMPI_File_get_byte_offset
#pragma weak PMPI_File_get_errhandler
#pragma weak PMPI_File_get_group
#pragma weak PMPI_File_get_position
#pragma weak PMPI_File_get_size
#pragma weak PMPI_File_get_view
#pragma weak PMPI_Finalized
#pragma weak PMPI_Get_count
#pragma weak PMPI_Get_elements_x
#pragma weak PMPI_Graph_neighbors
#pragma weak PMPI_Graph_neighbors_count
#pragma weak PMPI_Grequest_complete
#pragma weak PMPI_Grequest_start
#pragma weak PMPI_Group_free
#pragma weak PMPI_Group_from_session_pset
#pragma weak PMPI_Group_incl
#pragma weak PMPI_Group_range_incl
#pragma weak PMPI_Group_rank
#pragma weak PMPI_Group_size
#pragma weak PMPI_Group_translate_ranks
#pragma weak PMPI_Group_union
#pragma weak PMPI_Info_create
#pragma weak PMPI_Info_delete
#pragma weak PMPI_Info_dup
#pragma weak PMPI_Info_free
#pragma weak PMPI_Info_get
#pragma weak PMPI_Info_set
#pragma weak PMPI_Initialized
#pragma weak PMPI_Iprobe
#pragma weak PMPI_Pack_external
#pragma weak PMPI_Pack_external_size
#pragma weak PMPI_Query_thread
#pragma weak PMPI_Request_get_status
#pragma weak PMPI_Status_c2f
#pragma weak PMPI_Status_f2c
#pragma weak PMPI_Status_set_cancelled
#pragma weak PMPI_Status_set_elements_x
#pragma weak PMPI_Test_cancelled
#pragma weak PMPI_Topo_test
#pragma weak PMPI_Type_commit
#pragma weak PMPI_Type_contiguous
#pragma weak PMPI_Type_create_hindexed
#pragma weak PMPI_Type_create_hindexed_block
#pragma weak PMPI_Type_create_keyval
#pragma weak PMPI_Type_free
#pragma weak PMPI_Type_free_keyval
#pragma weak PMPI_Type_get_attr
#pragma weak PMPI_Type_get_contents
#pragma weak PMPI_Type_get_envelope
#pragma weak PMPI_Type_get_extent_x
#pragma weak PMPI_Type_get_name
#pragma weak PMPI_Type_get_true_extent_x
#pragma weak PMPI_Type_set_attr
#pragma weak PMPI_Type_size
#pragma weak PMPI_Type_size_x
#pragma weak PMPI_Win_call_errhandler
#pragma weak PMPI_Win_get_errhandler
#pragma weak PMPI_Win_get_group

// Open MPI and, since 4.2, MPICH convert handles by functions.
#pragma weak PMPI_Comm_c2f
#pragma weak PMPI_Comm_f2c
#pragma weak PMPI_File_c2f
#pragma weak PMPI_Group_c2f
#pragma weak PMPI_Group_f2c
#pragma weak PMPI_Info_c2f
#pragma weak PMPI_Info_f2c
#pragma weak PMPI_Message_c2f
#pragma weak PMPI_Message_f2c
#pragma weak PMPI_Op_c2f
#pragma weak PMPI_Op_f2c
#pragma weak PMPI_Request_c2f
#pragma weak PMPI_Request_f2c
#pragma weak PMPI_Session_c2f
#pragma weak PMPI_Session_f2c
#pragma weak PMPI_Type_c2f
#pragma weak PMPI_Type_f2c
#pragma weak PMPI_Win_c2f
#pragma weak PMPI_Win_f2c

// Open MPI's handles are addresses of its data.
#if defined(OPEN_MPI)
#pragma weak ompi_mpi_comm_null
#pragma weak ompi_mpi_comm_self
#pragma weak ompi_mpi_comm_world
#pragma weak ompi_mpi_byte
#pragma weak ompi_mpi_int
#pragma weak ompi_mpi_int64_t
#pragma weak ompi_mpi_uint64_t
#pragma weak ompi_mpi_op_band
#pragma weak ompi_mpi_op_bor
#pragma weak ompi_mpi_op_bxor
#pragma weak ompi_mpi_op_land
#pragma weak ompi_mpi_op_lor
#pragma weak ompi_mpi_op_lxor
#pragma weak ompi_mpi_op_max
#pragma weak ompi_mpi_op_maxloc
#pragma weak ompi_mpi_op_min
#pragma weak ompi_mpi_op_minloc
#pragma weak ompi_mpi_op_no_op
#pragma weak ompi_mpi_op_null
#pragma weak ompi_mpi_op_prod
#pragma weak ompi_mpi_op_replace
#pragma weak ompi_mpi_op_sum
#pragma weak OMPI_C_MPI_COMM_NULL_COPY_FN
#pragma weak ompi_request_null
#pragma weak ompi_message_null
#pragma weak ompi_mpi_group_null
#pragma weak ompi_mpi_info_env
#pragma weak ompi_mpi_info_null
#pragma weak ompi_mpi_datatype_null
#pragma weak ompi_mpi_errhandler_null
#pragma weak ompi_mpi_errors_abort
#pragma weak ompi_mpi_errors_are_fatal
#pragma weak ompi_mpi_errors_return
#pragma weak ompi_mpi_file_null
#pragma weak ompi_message_no_proc
#pragma weak ompi_mpi_win_null
#endif
