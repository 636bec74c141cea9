// SPDX-License-Identifier: Apache-2.0
//
// Programs with and without a missing synchronisation, written for CUDA's runtime: FAIRLEAD_CHECK=streams
// sees them by CUPTI, FAIRLEAD_CHECK=accesses by the Sanitizer API. `cuda-races` compiles and runs it. Each
// case prints its name and what it expects before it runs: right, wrong, or the name of the check that names
// it:
//
//   case wrong a send behind a kernel
//   case accesses a kernel with a pointer in device memory
//
// The theme `races` of the rank tests has the same for fairlead/device.h.

#include <cuda_runtime.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#define CUDA(call)                                               \
  do {                                                           \
    const cudaError_t error = (call);                            \
    if (error != cudaSuccess) {                                  \
      std::printf("%s: %s\n", #call, cudaGetErrorString(error)); \
      std::exit(1);                                              \
    }                                                            \
  } while (0)

constexpr int count = 1000, tag = 5;

__global__ void produce(double* to, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = i;
}
template <class T>
__global__ void consume(const T* from, T* sum, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum[i] += from[i];
}
struct Field {
  int width;
  double* data;
};
__global__ void produce_field(Field field) {
  if (threadIdx.x < field.width) field.data[threadIdx.x] = 1;
}
__global__ void delayed(long long cycles, double* to) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
  *to = 1;
}

__global__ void produce_at(double* to, int first, int step, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[first + i * step] = i;
}
__global__ void produce_behind(double** to, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[0][i] = i;
}
__global__ void only_read(double* from, double* sum) {
  if (from[threadIdx.x] == 3) *sum = 4;
}

double *buffer, *other, *host;
cudaStream_t alone, blocking;
int rank;

#define HERE __attribute__((always_inline)) inline

HERE void send() {
  MPI_Sendrecv(buffer, count, MPI_DOUBLE, rank, tag, host, count, MPI_DOUBLE, rank, tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}
HERE void receive(double* to = buffer, int n = count) {
  MPI_Sendrecv(host, n, MPI_DOUBLE, rank, tag, to, n, MPI_DOUBLE, rank, tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

void begin(const char* expected, const char* name) {
  CUDA(cudaDeviceSynchronize());
  std::fprintf(stderr, "case %s %s\n", expected, name);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CUDA(cudaMalloc(&buffer, count * sizeof *buffer));
  CUDA(cudaMalloc(&other, count * sizeof *buffer));
  CUDA(cudaMallocHost(&host, count * sizeof *buffer));
  CUDA(cudaStreamCreateWithFlags(&alone, cudaStreamNonBlocking));
  CUDA(cudaStreamCreate(&blocking));
  double** pointer;
  CUDA(cudaMalloc(&pointer, sizeof *pointer));
  CUDA(cudaMemcpy(pointer, &buffer, sizeof buffer, cudaMemcpyHostToDevice));
  cudaEvent_t event;
  CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  send(), receive();

  begin("wrong", "a send behind a kernel of a stream that does not block");
  produce<<<1, 32, 0, alone>>>(buffer, count);
  send();
  begin("wrong", "a send behind a kernel that runs for long");
  delayed<<<1, 1, 0, alone>>>(100000000, buffer);
  send();
  begin("wrong", "a send behind a kernel of a blocking stream");
  produce<<<1, 32, 0, blocking>>>(buffer, count);
  send();
  begin("wrong", "a send behind a kernel of the default stream");
  produce<<<1, 32>>>(buffer, count);
  send();
  begin("wrong", "a send behind a kernel with a structure");
  produce_field<<<1, 32, 0, alone>>>(Field{32, buffer});
  send();
  begin("wrong", "a send behind a copy");
  CUDA(cudaMemcpyAsync(buffer, host, count * sizeof *buffer, cudaMemcpyHostToDevice, alone));
  send();
  begin("wrong", "a send behind a memset");
  CUDA(cudaMemsetAsync(buffer, 0, count * sizeof *buffer, alone));
  send();
  begin("wrong", "an event that was recorded too early");
  CUDA(cudaEventRecord(event, alone));
  produce<<<1, 32, 0, alone>>>(buffer, count);
  CUDA(cudaEventSynchronize(event));
  send();
  begin("wrong", "the other stream is waited for");
  produce<<<1, 32, 0, alone>>>(buffer, count);
  CUDA(cudaStreamSynchronize(blocking));
  send();
  begin("wrong", "a receive into what a kernel reads");
  consume<<<1, 32, 0, alone>>>(buffer, other, count);
  receive();
  begin("wrong", "a kernel while a receive is under way");
  {
    MPI_Request requests[2];
    MPI_Irecv(buffer, count, MPI_DOUBLE, rank, tag, MPI_COMM_WORLD, &requests[0]);
    consume<<<1, 32, 0, alone>>>(buffer, other, count);
    MPI_Isend(host, count, MPI_DOUBLE, rank, tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CUDA(cudaStreamBeginCapture(alone, cudaStreamCaptureModeThreadLocal));
  produce<<<1, 32, 0, alone>>>(buffer, count);
  CUDA(cudaStreamEndCapture(alone, &graph));
  CUDA(cudaGraphInstantiate(&executable, graph, 0));
  begin("right", "a kernel that is captured");
  send();
  begin("wrong", "a graph");
  CUDA(cudaGraphLaunch(executable, alone));
  send();

  begin("wrong", "a graph that was uploaded before");
  CUDA(cudaGraphUpload(executable, alone));
  CUDA(cudaGraphLaunch(executable, alone));
  send();
  begin("accesses", "an edge that a kernel writes by a pointer to the whole field");
  produce_at<<<1, 32, 0, alone>>>(buffer, count - 10, 1, 10);
  receive(buffer + count - 10, 10);
  begin("right", "the last element before such an edge");
  produce_at<<<1, 32, 0, alone>>>(buffer, count - 10, 1, 10);
  receive(buffer + count - 11, 1);
  begin("accesses", "one element of those that a kernel writes");
  produce_at<<<1, 32, 0, alone>>>(buffer, 1, 2, count / 2);
  receive(buffer + 101, 1);
  begin("right", "one element between those that a kernel writes");
  produce_at<<<1, 32, 0, alone>>>(buffer, 1, 2, count / 2);
  receive(buffer + 100, 1);
  begin("accesses", "a kernel with a pointer in device memory");
  produce_behind<<<1, 32, 0, alone>>>(pointer, count);
  send();
  begin("streams", "a kernel that only reads, by its parameter without const");
  only_read<<<1, 32, 0, alone>>>(buffer, other);
  send();
  cudaGraphExec_t graph_of_edge;
  CUDA(cudaStreamBeginCapture(alone, cudaStreamCaptureModeThreadLocal));
  CUDA(cudaMemsetAsync(buffer, 0, 10 * sizeof *buffer, alone));
  produce_at<<<1, 32, 0, alone>>>(buffer, count - 10, 1, 5);
  produce_at<<<1, 32, 0, alone>>>(buffer, count - 5, 1, 5);
  CUDA(cudaStreamEndCapture(alone, &graph));
  CUDA(cudaGraphInstantiate(&graph_of_edge, graph, 0));
  begin("accesses", "an edge that a graph writes");
  CUDA(cudaGraphLaunch(graph_of_edge, alone));
  receive(buffer + count - 10, 5);
  begin("accesses", "an edge that another kernel of the graph writes");
  CUDA(cudaGraphLaunch(graph_of_edge, alone));
  receive(buffer + count - 5, 5);
  begin("wrong", "an edge that a memset of the graph writes");
  CUDA(cudaGraphLaunch(graph_of_edge, alone));
  receive(buffer, 10);
  begin("right", "the last element before what a graph writes");
  CUDA(cudaGraphLaunch(graph_of_edge, alone));
  receive(buffer + count - 11, 1);
  begin("right", "a graph and its stream");
  CUDA(cudaGraphLaunch(executable, alone));
  CUDA(cudaStreamSynchronize(alone));
  send();
  begin("right", "a stream that is waited for");
  produce<<<1, 32, 0, alone>>>(buffer, count);
  CUDA(cudaStreamSynchronize(alone));
  send();
  begin("right", "the device is waited for");
  produce<<<1, 32, 0, alone>>>(buffer, count);
  CUDA(cudaDeviceSynchronize());
  send();
  begin("right", "an event behind the kernel");
  produce<<<1, 32, 0, alone>>>(buffer, count);
  CUDA(cudaEventRecord(event, alone));
  CUDA(cudaEventSynchronize(event));
  send();
  begin("right", "an event in another stream");
  produce<<<1, 32, 0, alone>>>(buffer, count);
  CUDA(cudaEventRecord(event, alone));
  CUDA(cudaStreamWaitEvent(blocking, event, 0));
  CUDA(cudaStreamSynchronize(blocking));
  send();
  begin("right", "a question until it is over");
  produce<<<1, 32, 0, alone>>>(buffer, count);
  while (cudaStreamQuery(alone) == cudaErrorNotReady) {
  }
  send();
  begin("right", "a blocking stream and the default stream");
  produce<<<1, 32, 0, blocking>>>(buffer, count);
  CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  send();
  begin("right", "a copy that returns when it is over");
  produce<<<1, 32>>>(buffer, count);
  CUDA(cudaMemcpy(host, buffer, count * sizeof *buffer, cudaMemcpyDeviceToHost));
  send();
  begin("right", "a copy of rows, likewise");
  produce<<<1, 32>>>(buffer, count);
  CUDA(cudaMemcpy2D(host, 80, buffer, 80, 80, 100, cudaMemcpyDeviceToHost));
  send();
  begin("right", "a copy to pageable memory");
  {
    static double pageable[count];
    produce<<<1, 32, 0, alone>>>(buffer, count);
    CUDA(cudaMemcpyAsync(pageable, buffer, sizeof pageable, cudaMemcpyDeviceToHost, alone));
    send();
  }
  begin("right", "a send of what a kernel reads");
  consume<<<1, 32, 0, alone>>>(buffer, other, count);
  send();
  begin("right", "the edge of a field whose interior a kernel writes");
  produce<<<1, 32, 0, alone>>>(buffer, count / 2);
  receive(buffer + count - 10, 10);
  begin("right", "a copy of another part");
  CUDA(cudaMemcpyAsync(buffer, host, 100, cudaMemcpyHostToDevice, alone));
  receive(buffer + count / 2, count / 2);
  begin("right", "a buffer of the pool that was given back");
  {
    void *first, *second;
    CUDA(cudaMallocAsync(&first, 8000, alone));
    produce<<<1, 32, 0, alone>>>(static_cast<double*>(first), count);
    CUDA(cudaFreeAsync(first, alone));
    CUDA(cudaMallocAsync(&second, 8000, alone));
    CUDA(cudaStreamSynchronize(blocking));
    receive(static_cast<double*>(second));
    CUDA(cudaFreeAsync(second, alone));
  }
  begin("right", "the end");
  MPI_Finalize();
  return 0;
}
