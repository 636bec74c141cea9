// SPDX-License-Identifier: Apache-2.0
//
// A program of host memory only behaves with Fairlead loaded as without, also when it has no GPU provider
// (FAIRLEAD_DEVICE=none) or is switched off (FAIRLEAD_ENABLED=off): values, statuses, errors, and the calls
// that are allowed before MPI_Init and after MPI_Finalize. It links no device library, as most programs do.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

int rank = -1;
int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  fprintf(stderr, "passthrough: rank %d: %s\n", rank, what);
}

void expect_allowed_outside(bool before, bool after) {
  int flag = -1, version = 0, subversion = 0, length = 0;
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  expect(MPI_Initialized(&flag) == MPI_SUCCESS && (flag != 0) == !before, "Initialized is wrong");
  expect(MPI_Finalized(&flag) == MPI_SUCCESS && (flag != 0) == after, "Finalized is wrong");
  expect(MPI_Get_version(&version, &subversion) == MPI_SUCCESS && version >= 3, "Get_version is wrong");
  expect(MPI_Get_library_version(text, &length) == MPI_SUCCESS && length > 0, "Get_library_version is wrong");
}

void exchange_with_neighbours(int size) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int count : {0, 1, 16, 17, 100000}) {
    std::vector<int> out(count), in(count, -1), wanted(count);
    std::iota(out.begin(), out.end(), rank * 1000);
    std::iota(wanted.begin(), wanted.end(), left * 1000);
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    int received = -1;
    MPI_Irecv(in.data(), count, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out.data(), count, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[2]);
    expect(MPI_Waitall(3, requests, statuses) == MPI_SUCCESS, "Waitall failed");
    MPI_Get_count(&statuses[0], MPI_INT, &received);
    expect(received == count && statuses[0].MPI_SOURCE == left && statuses[0].MPI_TAG == 5,
           "a status is wrong");
    expect(in == wanted, "a message is wrong");
    expect(MPI_Sendrecv_replace(in.data(), count, MPI_INT, left, 6, right, 6, MPI_COMM_WORLD, &statuses[0]) ==
               MPI_SUCCESS,
           "Sendrecv_replace failed");
    expect(in == out, "a message did not come back");
  }
}

void probe_a_message_to_oneself() {
  double out = 2.5, in = 0;
  MPI_Request request;
  MPI_Status status;
  MPI_Message message;
  int count = 0;
  MPI_Isend(&out, 1, MPI_DOUBLE, 0, 9, MPI_COMM_SELF, &request);
  MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &message, &status);
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  expect(count == 1 && status.MPI_TAG == 9, "a probe is wrong");
  MPI_Mrecv(&in, 1, MPI_DOUBLE, &message, &status);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(in == out, "a probed message is wrong");
}

void reduce_and_derived_types(int size) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(sum == size * (size - 1) / 2, "a sum is wrong");
  // Columns travel by a strided type, which Fairlead has no business with on the host.
  double matrix[4][4] = {}, column[4] = {};
  for (int row = 0; row < 4; ++row) matrix[row][1] = row + rank;
  MPI_Datatype column_type;
  MPI_Type_vector(4, 1, 4, MPI_DOUBLE, &column_type);
  MPI_Type_commit(&column_type);
  MPI_Sendrecv(&matrix[0][1], 1, column_type, 0, 1, column, 4, MPI_DOUBLE, 0, 1, MPI_COMM_SELF,
               MPI_STATUS_IGNORE);
  MPI_Type_free(&column_type);
  for (int row = 0; row < 4; ++row) expect(column[row] == row + rank, "a strided type arrived wrong");
}

void errors_are_the_host_mpis_own() {
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int value = 0, error_class = MPI_SUCCESS;
  const int result = MPI_Send(&value, 1, MPI_INT, 7, 0, MPI_COMM_SELF);
  expect(result != MPI_SUCCESS, "a send to a rank that does not exist succeeded");
  MPI_Error_class(result, &error_class);
  expect(error_class == MPI_ERR_RANK, "a send to a rank that does not exist gives another error");
}

}  // namespace

int main(int argc, char** argv) {
  expect_allowed_outside(true, false);
  int provided = -1;
  if (argc > 1 && strcmp(argv[1], "threads") == 0) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    expect(provided >= MPI_THREAD_SINGLE, "Init_thread provides nothing");
  } else {
    MPI_Init(&argc, &argv);
  }
  int size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  expect_allowed_outside(false, false);
  exchange_with_neighbours(size);
  probe_a_message_to_oneself();
  reduce_and_derived_types(size);
  errors_are_the_host_mpis_own();
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%s passthrough\n", all == 0 ? "ok  " : "FAIL");
  MPI_Finalize();
  expect_allowed_outside(false, true);
  return all + failures == 0 ? 0 : 1;
}
