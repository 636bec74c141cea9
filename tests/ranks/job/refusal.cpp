// SPDX-License-Identifier: Apache-2.0
//
// Device memory that the user forbade, and arguments that make no sense, are MPI errors through the error
// handler, and a line on stderr says why. They never reach the host MPI.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "harness/harness.h"

using namespace ranks;

namespace {

// Collects what this process writes to stderr while it lives.
class CapturedErrors {
 public:
  CapturedErrors() {
    fflush(stderr);
    saved_ = dup(STDERR_FILENO);
    file_ = tmpfile();
    if (saved_ < 0 || file_ == nullptr || dup2(fileno(file_), STDERR_FILENO) < 0)
      give_up("cannot redirect stderr");
  }
  ~CapturedErrors() { restore(); }

  std::string text() {
    restore();
    std::string all;
    rewind(file_);
    for (int c = fgetc(file_); c != EOF; c = fgetc(file_)) all.push_back(static_cast<char>(c));
    return all;
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    fflush(stderr);
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }

  int saved_ = -1;
  FILE* file_ = nullptr;
};

}  // namespace

RANK_TEST(refusal, device_buffers_name_the_variable_that_forbids_them, 1) {
  const char* variable = "FAIRLEAD_GPU_SUPPORT";
  if (host_oracle || getenv(variable) == nullptr) return;
  Memory memory(Place::device, 100000);
  for (int count : {8, 100000}) {
    for (int call = 0; call < 4; ++call) {
      MPI_Request request = MPI_REQUEST_NULL;
      CapturedErrors errors;
      int result = MPI_SUCCESS;
      if (call == 0) result = CALL(MPI_Send(memory, count, MPI_BYTE, rank, 0, MPI_COMM_WORLD));
      if (call == 1) result = CALL(MPI_Isend(memory, count, MPI_BYTE, rank, 0, MPI_COMM_WORLD, &request));
      if (call == 2)
        result = CALL(MPI_Recv(memory, count, MPI_BYTE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      if (call == 3) result = CALL(MPI_Bcast(memory, count, MPI_BYTE, 0, MPI_COMM_WORLD));
      const std::string text = errors.text();
      EXPECT(error_class(result) == MPI_ERR_BUFFER, "call %d returned %s", call, error_name(result).c_str());
      EXPECT(text.find(variable) != std::string::npos, "call %d does not name the variable: %s", call,
             text.c_str());
    }
  }
}

RANK_TEST(refusal, invalid_counts_and_types_are_told_as_by_the_host_mpi, 1) {
  // Through the communicator's own handler: that of MPI_COMM_WORLD ends the job.
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_SELF, &comm));
  MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  struct {
    int count;
    MPI_Datatype datatype;
    int error;
  } const invalid[] = {{-1, MPI_INT, MPI_ERR_COUNT}, {1, MPI_DATATYPE_NULL, MPI_ERR_TYPE}};
  for (Place place : host_and_device) {
    for (auto [count, type, error] : invalid) {
      Memory buffer(place, 1000);
      MPI_Request request = MPI_REQUEST_NULL;
      EXPECT_ERROR(MPI_Send(buffer, count, type, 0, 0, comm), error);
      EXPECT_ERROR(MPI_Isend(buffer, count, type, 0, 0, comm, &request), error);
      EXPECT_ERROR(MPI_Send_init(buffer, count, type, 0, 0, comm, &request), error);
      EXPECT_ERROR(MPI_Recv(buffer, count, type, 0, 0, comm, MPI_STATUS_IGNORE), error);
      EXPECT_ERROR(MPI_Irecv(buffer, count, type, 0, 0, comm, &request), error);
      EXPECT_ERROR(MPI_Recv_init(buffer, count, type, 0, 0, comm, &request), error);
      EXPECT_ERROR(MPI_Sendrecv(buffer, count, type, 0, 0, buffer, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE),
                   error);
      EXPECT_ERROR(MPI_Sendrecv(buffer, 1, MPI_INT, 0, 0, buffer, count, type, 0, 0, comm, MPI_STATUS_IGNORE),
                   error);
      EXPECT_ERROR(MPI_Sendrecv_replace(buffer, count, type, 0, 0, 0, 0, comm, MPI_STATUS_IGNORE), error);
    }
  }
  MUST(MPI_Comm_free(&comm));
}

RANK_TEST(refusal, invalid_peers_and_tags_are_told_when_a_persistent_request_is_made, 1) {
  MPI_Comm comm;
  MUST(MPI_Comm_dup(MPI_COMM_SELF, &comm));
  MUST(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  for (Place place : host_and_device) {
    Memory buffer(place, 1000);
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_ERROR(MPI_Send_init(buffer, 1000, MPI_BYTE, 1, 0, comm, &request), MPI_ERR_RANK);
    EXPECT_ERROR(MPI_Send_init(buffer, 1000, MPI_BYTE, 0, -5, comm, &request), MPI_ERR_TAG);
    EXPECT_ERROR(MPI_Recv_init(buffer, 1000, MPI_BYTE, 1, 0, comm, &request), MPI_ERR_RANK);
  }
  MUST(MPI_Comm_free(&comm));
}
