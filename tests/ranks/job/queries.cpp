// SPDX-License-Identifier: Apache-2.0
//
// A program that asks whose device memory MPI takes, in each way that programs do: functions that it is
// linked with, that it finds by weak references or dlsym(), and their Fortran names.
// TEST_HANDLED lists what must be answered with yes: cuda, rocm, ze. Every rank must get the same answers.
//
// Before MPI_Init the host MPI's functions answer (MPICH's end the program, so they are not asked here), and
// Fairlead for those that the host MPI lacks; TEST_ASKS_LATE leaves this out.

#include <dlfcn.h>
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#if defined(MPICH_VERSION)
constexpr bool is_mpich = true;
#else
constexpr bool is_mpich = false;
extern "C" {
int MPIX_Query_hip_support(void) __attribute__((weak));
int MPIX_Query_ze_support(void) __attribute__((weak));
int MPIX_GPU_query_support(int, int*) __attribute__((weak));
}
#if !defined(OPEN_MPI)
extern "C" int MPIX_Query_cuda_support(void) __attribute__((weak));
#endif
#endif
#if !defined(OMPI_HAVE_MPI_EXT_ROCM)
extern "C" int MPIX_Query_rocm_support(void) __attribute__((weak));
#endif

namespace {

int rank = -1;
int failures = 0;
int errors_seen = 0;

struct Query {
  const char* memory;
  const char* function;  // without MPIX_
  int (*(*linked)())();  // tells the address as code does: the linker decides weak references in data
  int type;              // of MPIX_GPU_query_support; negative: the same as another
};
const Query queries[] = {
    {"cuda", "Query_cuda_support", [] { return MPIX_Query_cuda_support; }, 0},
    {"rocm", "Query_rocm_support", [] { return MPIX_Query_rocm_support; }, -1},
    {"rocm", "Query_hip_support", [] { return MPIX_Query_hip_support; }, 2},
    {"ze", "Query_ze_support", [] { return MPIX_Query_ze_support; }, 1},
};

void expect(bool condition, const std::string& what) {
  if (condition) return;
  ++failures;
  fprintf(stderr, "queries: rank %d: %s\n", rank, what.c_str());
}

bool handled(const char* memory) {
  const char* all = getenv("TEST_HANDLED");
  return all && strstr(all, memory);
}

void expect_answer(int answer, const char* memory, const std::string& from) {
  expect(answer == handled(memory), from + " says " + std::to_string(answer) + " of " + memory);
}

template <class Signature>
Signature* find(const std::string& name) {
  auto* found = reinterpret_cast<Signature*>(dlsym(RTLD_DEFAULT, name.c_str()));
  expect(found, name + " is missing");
  return found;
}

void ask_before_init() {
  if (is_mpich) expect_answer(find<int()>("MPIX_Query_rocm_support")(), "rocm", "MPIX_Query_rocm_support");
  if (is_mpich) return;
  void* host = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);
  expect(host, "libmpi.so.40 is not loaded");
  for (const Query& query : queries) {
    // Open MPI answers for CUDA, and 5 for ROCm, too, that it was not built for it.
    const std::string name = std::string("MPIX_") + query.function;
    const bool by_host = dlsym(host, name.c_str());
    const int answer = find<int()>(name)();
    expect(answer == (!by_host && handled(query.memory)), std::string(query.function) + " before MPI_Init");
  }
}

void ask_in_c() {
  for (const Query& query : queries) {
    const std::string name = std::string("MPIX_") + query.function;
    auto* linked = query.linked();
    expect(linked, name + " is not linked");
    if (linked) expect_answer(linked(), query.memory, name);
    if (auto* found = find<int()>(name)) expect_answer(found(), query.memory, name);
    if (query.type < 0) continue;
    for (auto* by_type : {MPIX_GPU_query_support, find<int(int, int*)>("MPIX_GPU_query_support")}) {
      int answer = -1;
      expect(by_type && by_type(query.type, &answer) == MPI_SUCCESS, "MPIX_GPU_query_support fails");
      expect_answer(answer, query.memory, "MPIX_GPU_query_support");
    }
  }
}

void note_error(MPI_Comm*, int*, ...) {
  ++errors_seen;
}

void ask_wrongly() {
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(note_error, &handler);
  // Errors of calls without a communicator belong to MPI_COMM_SELF since MPI 4; earlier, and MPICH 4, to the
  // world.
  for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) MPI_Comm_set_errhandler(comm, handler);
  for (int type : {-1, 3, 77}) {
    int answer = 0, error_class = 0;
    const int before = errors_seen;
    MPI_Error_class(MPIX_GPU_query_support(type, &answer), &error_class);
    // MPICH answers itself: MPICH 4 by an error, MPICH 5 by no.
    const bool error_told = errors_seen == before + 1 && error_class == MPI_ERR_ARG;
    const bool says_no = errors_seen == before && error_class == MPI_SUCCESS && answer == 0;
    expect(error_told || (is_mpich && says_no), "an unknown type is neither an error nor answered by no");
  }
  for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
}

// As compilers name a subroutine; the last name is that of mpi_f08.
void ask_in_fortran() {
#if defined(OPEN_MPI) || defined(MPICH_VERSION)
  auto name_of = [](const std::string& function, int way) {
    std::string lower = "mpix_" + function, upper;
    for (char& letter : lower) letter = static_cast<char>(tolower(letter));
    for (char letter : lower) upper += static_cast<char>(toupper(letter));
    const std::string names[] = {lower + "_", lower + "__", lower, upper, lower + "_f08_"};
    return names[way];
  };
  MPI_Fint is_true = 1, error = -1;  // where no Fortran library tells another
  if (void* told = dlsym(RTLD_DEFAULT, "mpi_initialized_"))
    reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*)>(told)(&is_true, &error);
  for (int way = 0; way < 5; ++way)
    for (const Query& query : queries) {
      const std::string name = name_of(query.function, way), by_type = name_of("GPU_query_support", way);
      MPI_Fint answer = -1;
      if (auto* found = find<void(MPI_Fint*)>(name)) found(&answer);
      expect_answer(answer, query.memory, name);
      if (query.type < 0) continue;
      const MPI_Fint type = query.type;
      answer = error = -1;
      if (auto* found = find<void(const MPI_Fint*, MPI_Fint*, MPI_Fint*)>(by_type))
        found(&type, &answer, &error);
      expect(error == MPI_SUCCESS, by_type + " fails");
      expect(answer == (handled(query.memory) ? is_true : 0), by_type + " gives another LOGICAL");
    }
#endif
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int run() {
  if (!getenv("TEST_ASKS_LATE")) ask_before_init();
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ask_in_c();
  ask_in_fortran();
  ask_wrongly();
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}

int main() {
  return run();
}
