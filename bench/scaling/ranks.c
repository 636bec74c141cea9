/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job costs that grows with its ranks: the time of MPI_Init, MPI_Comm_split, a first and a second
 * message of 8 bytes to every other rank, and MPI_Finalize, and the memory of each rank. Rank 0 prints one
 * JSON object when MPI_Finalize has returned. Times are in seconds, memory is in bytes. Where ranks share
 * processors, the time that a rank computes tells more than the time that passes.
 *
 * Messages are in device memory if Fairlead is loaded, else in host memory; one program serves both, because
 * it looks for Fairlead's functions at run time. In round d each rank sends to the rank d behind it and
 * receives from the rank d before it, so that no rank is swamped.
 *
 *     ranks [RANKS_OF_A_NODE]      for the split by node; default: the ranks that share memory
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Seconds that this process has computed. */
static double computed(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* The sum of a field over the mappings of this process whose name contains `name` (NULL: over all). */
static double memory(const char* field, const char* name) {
  FILE* file = fopen(name ? "/proc/self/smaps" : "/proc/self/smaps_rollup", "r");
  if (!file) return 0;
  char line[4096];
  double sum = 0;
  int counts = !name;
  while (fgets(line, sizeof line, file)) {
    const char* colon = strchr(line, ':');
    unsigned long from, to;
    if (name && sscanf(line, "%lx-%lx ", &from, &to) == 2) {
      counts = strstr(line, name) != NULL;
    } else if (counts && colon && (size_t)(colon - line) == strlen(field) &&
               strncmp(line, field, strlen(field)) == 0) {
      sum += 1024 * strtod(colon + 1, NULL);
    }
  }
  fclose(file);
  return sum;
}

static double status(const char* field) {
  FILE* file = fopen("/proc/self/status", "r");
  if (!file) return 0;
  char line[512];
  double value = 0;
  while (fgets(line, sizeof line, file))
    if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
      value = 1024 * strtod(line + strlen(field) + 1, NULL);
  fclose(file);
  return value;
}

/* What every rank measures. */
enum {
  INIT,
  SPLIT_HALVES,
  SPLIT_NODES,
  FIRST,
  SECOND,
  INIT_CPU,
  FIRST_CPU,
  SECOND_CPU,
  RSS,
  PSS,
  SIZE,
  NODE_RSS,
  NODE_PSS,
  NODE_SIZE,
  GPU_PSS,
  VALUES
};
static const char* const names[VALUES] = {"init",     "split_halves", "split_nodes", "first",     "second",
                                          "init_cpu", "first_cpu",    "second_cpu",  "rss",       "pss",
                                          "size",     "node_rss",     "node_pss",    "node_size", "gpu_pss"};

static double split(int color, int rank) {
  MPI_Comm part;
  MPI_Barrier(MPI_COMM_WORLD);
  double start = now();
  MPI_Comm_split(MPI_COMM_WORLD, color, rank, &part);
  double time = now() - start;
  MPI_Comm_free(&part);
  return time;
}

static double exchange(char* to_send, char* to_receive, int rank, int ranks, double* cpu) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = now(), before = computed();
  for (int distance = 1; distance < ranks; ++distance)
    MPI_Sendrecv(to_send, 8, MPI_BYTE, (rank + distance) % ranks, 1, to_receive, 8, MPI_BYTE,
                 (rank - distance + ranks) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  *cpu = computed() - before;
  return now() - start;
}

static int ascending(const void* one, const void* other) {
  const double a = *(const double*)one, b = *(const double*)other;
  return (a > b) - (a < b);
}

int main(int argc, char** argv) {
  double mine[VALUES] = {0};
  double start = now(), before = computed();
  MPI_Init(&argc, &argv);
  mine[INIT] = now() - start;
  mine[INIT_CPU] = computed() - before;
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int of_node = argc > 1 ? atoi(argv[1]) : ranks;
  if (of_node < 1) {
    if (rank == 0) fprintf(stderr, "ranks: '%s' is no number of ranks\n", argv[1]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }

  int (*allocate)(void**, size_t) = (int (*)(void**, size_t))dlsym(RTLD_DEFAULT, "fairlead_device_malloc");
  int (*release)(void*) = (int (*)(void*))dlsym(RTLD_DEFAULT, "fairlead_device_free");
  static char host[16];
  void* buffer = host;
  if (allocate && allocate(&buffer, 16) != 0) {
    fprintf(stderr, "ranks: no device memory\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  mine[SPLIT_HALVES] = split(rank < ranks / 2, rank);
  mine[SPLIT_NODES] = split(rank / of_node, rank);
  mine[FIRST] = exchange(buffer, (char*)buffer + 8, rank, ranks, &mine[FIRST_CPU]);
  mine[SECOND] = exchange(buffer, (char*)buffer + 8, rank, ranks, &mine[SECOND_CPU]);
  MPI_Barrier(MPI_COMM_WORLD);
  mine[RSS] = status("VmRSS");
  mine[SIZE] = status("VmSize");
  mine[PSS] = memory("Pss", NULL);
  mine[NODE_RSS] = memory("Rss", "memfd:fairlead (");
  mine[NODE_PSS] = memory("Pss", "memfd:fairlead (");
  mine[NODE_SIZE] = memory("Size", "memfd:fairlead (");
  mine[GPU_PSS] = memory("Pss", "memfd:fairlead-sim");
  MPI_Barrier(MPI_COMM_WORLD);

  double* all = rank == 0 ? malloc(sizeof mine * (size_t)ranks) : NULL;
  MPI_Gather(mine, VALUES, MPI_DOUBLE, all, VALUES, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (allocate) release(buffer);
  MPI_Barrier(MPI_COMM_WORLD);
  start = now();
  MPI_Finalize();
  double finalize = now() - start;
  if (rank != 0) return 0;

  double* values = malloc(sizeof(double) * (size_t)ranks);
  printf("{\"ranks\": %d, \"of_node\": %d, \"device\": %s", ranks, of_node, allocate ? "true" : "false");
  for (int value = 0; value < VALUES; ++value) {
    double sum = 0;
    for (int i = 0; i < ranks; ++i) sum += values[i] = all[i * VALUES + value];
    qsort(values, (size_t)ranks, sizeof *values, ascending);
    printf(", \"%s\": {\"least\": %.9g, \"median\": %.9g, \"most\": %.9g, \"sum\": %.9g}", names[value],
           values[0], values[ranks / 2], values[ranks - 1], sum);
  }
  printf(", \"finalize\": %.9g}\n", finalize);
  free(values);
  free(all);
  return 0;
}
