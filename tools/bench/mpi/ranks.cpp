// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/ranks.h"

#include <fairlead/device.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace fairlead::tools {
namespace {

bool library_is_loaded(const std::string& name) {
  struct Search {
    const std::string& name;
    bool found = false;
  } search{name};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto* search = static_cast<Search*>(data);
        search->found = search->found || std::strstr(object->dlpi_name, search->name.c_str()) != nullptr;
        return 0;
      },
      &search);
  return search.found;
}

// Soon, that is.
bool completes(MPI_Request* request) {
  constexpr auto timeout = std::chrono::seconds(10);
  auto start = std::chrono::steady_clock::now();
  for (int done = 0; std::chrono::steady_clock::now() - start < timeout;) {
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done) return true;
    usleep(1000);
  }
  return false;
}

}  // namespace

Ranks::Ranks() {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local_rank);
  MPI_Comm_size(node, &local_size);
  MPI_Comm_free(&node);
  const int first_of_node = local_rank == 0;
  MPI_Allreduce(&first_of_node, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

void Ranks::take_device(const BenchArguments& arguments) {
  std::string provider = fairlead_device_provider();
  std::string wanted = arguments.device.empty() ? "" : fmt::format(" (-d {})", arguments.device);
  int devices = fairlead_device_count();
  if (provider == "none" || devices == 0)
    throw cannot_run(fmt::format("{}: no GPU here{}; --sim N simulates GPUs, H H needs none",
                                 arguments.kind->name, wanted));
  if (!arguments.device.empty() && provider != arguments.device)
    throw cannot_run(
        fmt::format("{}: the provider is {}, not {}", arguments.kind->name, provider, arguments.device));
  device = local_rank % devices;
  if (fairlead_device_set(device) != FAIRLEAD_DEVICE_SUCCESS)
    throw cannot_run(fmt::format("{}: cannot use device {}: {}", arguments.kind->name, device,
                                 fairlead_device_error_text()));
}

void Ranks::together(const std::function<void()>& step) const {
  std::string line;
  int code = exit_success;
  try {
    step();
  } catch (const Failure& failure) {
    line = failure.what();
    code = failure.code();
  }
  int mine = code == exit_success ? size : rank, first = size;
  MPI_Request agreement = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &agreement);
  if (code == exit_success)
    MPI_Wait(&agreement, MPI_STATUS_IGNORE);
  else if (!completes(&agreement))  // the others wait for this rank inside the step
    throw Failure(static_cast<ExitCode>(code), line);
  if (first == size) return;
  int length = static_cast<int>(line.size());
  MPI_Bcast(&length, 1, MPI_INT, first, MPI_COMM_WORLD);
  line.resize(static_cast<size_t>(length));
  MPI_Bcast(line.data(), length, MPI_CHAR, first, MPI_COMM_WORLD);
  MPI_Bcast(&code, 1, MPI_INT, first, MPI_COMM_WORLD);
  throw AgreedFailure(static_cast<ExitCode>(code), line);
}

void Ranks::wait_for_all() const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return;
    usleep(1000);
  }
}

std::vector<std::string> Ranks::devices(MPI_Comm members) const {
  int number = 0;
  MPI_Comm_size(members, &number);
  std::vector<int> taken(static_cast<size_t>(number));
  MPI_Allgather(&device, 1, MPI_INT, taken.data(), 1, MPI_INT, members);
  std::vector<std::string> names;
  for (int each : taken) names.push_back(each < 0 ? "none" : std::to_string(each));
  return names;
}

std::string text_of_error(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::replace(text, text + length, '\n', ' ');
  return text;
}

Context Ranks::context(const std::string& via, const std::string& devices) const {
  Context context;
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(version, &length);
  // MPICH's runs over many lines: "MPICH Version:      4.0.2".
  for (const char* c = version; *c && *c != '\n' && *c != ','; ++c) {
    char next = *c == '\t' ? ' ' : *c;
    bool blank_again = next == ' ' && !context.mpi_library.empty() && context.mpi_library.back() == ' ';
    if (!blank_again) context.mpi_library += next;
  }
  context.mpi_abi = FAIRLEAD_MPI_ABI;
  context.preloaded = library_is_loaded("libfairlead-" FAIRLEAD_MPI_ABI ".so");
  context.ranks = size;
  context.nodes = nodes;
  context.via = via;
  context.devices = devices;
  return context;
}

}  // namespace fairlead::tools
