/* SPDX-License-Identifier: Apache-2.0
 *
 * An ordinary program of MPI with GPUs: every rank fills a buffer in the memory of its GPU and passes the
 * device pointer to MPI_Send; its right-hand neighbour receives into device memory and checks the bytes. It
 * crashes on an MPI that is not GPU-aware, and works with Fairlead.
 *
 *   fairlead run -n 2 sndrcv-openmpi [bytes per message, default 1 MiB]
 */
#include <errno.h>
#include <fairlead/device.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int rank;

/* Ends the job if a GPU call fails. */
static void need(int error, const char* what) {
  if (error == FAIRLEAD_DEVICE_SUCCESS) return;
  fprintf(stderr, "sndrcv: rank %d cannot %s: %s\n", rank, what, fairlead_device_error_text());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint8_t expected_byte(int sender, size_t i) {
  return (uint8_t)(31 * (size_t)sender + 7 * i + i / 251 + 1);
}

static size_t message_bytes(int argc, char** argv) {
  if (argc < 2) return 1 << 20;
  char* end = argv[1];
  errno = 0;
  unsigned long long bytes = strtoull(argv[1], &end, 10);
  if (*argv[1] >= '1' && *argv[1] <= '9' && !*end && !errno && bytes <= 1u << 30) return (size_t)bytes;
  if (rank == 0)
    fprintf(stderr, "sndrcv: '%s' is not accepted; accepted: bytes per message, 1 to 1073741824\n", argv[1]);
  MPI_Finalize();
  exit(2);
}

/* Ranks of one node take its GPUs in turn. */
static int choose_device(void) {
  MPI_Comm node;
  int local_rank, devices = fairlead_device_count();
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local_rank);
  MPI_Comm_free(&node);
  if (devices == 0) {
    if (rank == 0) fprintf(stderr, "sndrcv: no GPU here; FAIRLEAD_DEVICE=sim simulates one\n");
    MPI_Finalize();
    exit(77);
  }
  need(fairlead_device_set(local_rank % devices), "choose its device");
  return local_rank % devices;
}

int main(int argc, char** argv) {
  int ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  size_t bytes = message_bytes(argc, argv);
  int device = choose_device();
  if (ranks == 1)
    fprintf(stderr, "sndrcv: this job has one rank, which sends to itself; for more: fairlead run -n 2 %s\n",
            argv[0]);
  int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;

  uint8_t* host = malloc(bytes);
  void *outgoing, *incoming;
  need(fairlead_device_malloc(&outgoing, bytes), "allocate device memory");
  need(fairlead_device_malloc(&incoming, bytes), "allocate device memory");
  for (size_t i = 0; i < bytes; i++) host[i] = expected_byte(rank, i);
  need(fairlead_device_copy(outgoing, host, bytes), "fill its message");
  need(fairlead_device_fill(incoming, 0, bytes), "clear its receive buffer");

  /* A single rank sends to itself, so the receive must be posted before the send. */
  MPI_Request request;
  MPI_Status status;
  if (rank % 2 == 0 && ranks > 1) {
    MPI_Send(outgoing, (int)bytes, MPI_BYTE, right, 0, MPI_COMM_WORLD);
    MPI_Recv(incoming, (int)bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, &status);
  } else {
    MPI_Irecv(incoming, (int)bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, &request);
    MPI_Send(outgoing, (int)bytes, MPI_BYTE, right, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
  }

  int count;
  size_t wrong = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  need(fairlead_device_copy(host, incoming, bytes), "read what it received");
  for (size_t i = 0; i < bytes; i++) wrong += host[i] != expected_byte(left, i);
  int good = wrong == 0 && count >= 0 && (size_t)count == bytes;
  printf("rank %d on %s device %d (%s): %d bytes from rank %d, device to device, %s\n", rank,
         fairlead_device_provider(), device, fairlead_device_name(device), count, left,
         good ? "all correct" : "WRONG");

  int all_good;
  MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  fairlead_device_free(outgoing);
  fairlead_device_free(incoming);
  free(host);
  MPI_Finalize();
  return all_good ? 0 : 1;
}
