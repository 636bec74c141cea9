// SPDX-License-Identifier: Apache-2.0
//
// probe-<abi>: two ranks that `fairlead doctor` starts to see for itself. Each step is tried in both ranks,
// its bytes are verified, and a line tells how it went before the next one begins: what crashes is the step
// that is not told.

#include <dlfcn.h>
#include <fairlead/device.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/launched_job.h"
#include "bench/buffer.h"
#include "common/failure.h"
#include "device/runtime.h"
#include "doctor/probe/steps.h"

namespace fairlead::tools::doctor {
namespace {

constexpr unsigned seconds_to_live = 25;
// Beyond what is sent eagerly or bounced by any MPI, and a short one.
constexpr size_t sizes[] = {64, 1 << 20};

struct Rank {
  int rank = 0, size = 0, peer = 0;
  int device = -1;
};

// The file that doctor made for reports; without it, on another machine, standard output serves, whose lines
// launchers may mix.
int report_file = STDOUT_FILENO;

void report(const Rank& me, const char* step, bool good, const std::string& fact) {
  nlohmann::ordered_json step_as_json = {{"rank", me.rank}, {"step", step}, {"good", good}, {"fact", fact}};
  const std::string line = fmt::format(
      "{}{}\n", probe_mark, step_as_json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  if (write(report_file, line.data(), line.size()) < 0)
    throw cannot_run(fmt::format("the report cannot be written: {}", std::strerror(errno)));
}

std::string object_of(void* function) {
  Dl_info info{};
  return function && dladdr(function, &info) && info.dli_fname ? info.dli_fname : "";
}

// The object whose MPI_Send this program's call reaches.
void look_for_fairlead(const Rank& me) {
  std::string object = object_of(dlsym(RTLD_DEFAULT, "MPI_Send"));
  report(me, step_loaded, object.find("libfairlead-") != std::string::npos, object);
  std::error_code error;
  report(me, step_library, true,
         std::filesystem::canonical(object_of(dlsym(RTLD_DEFAULT, "PMPI_Send")), error).string());
}

// What the MPI says of itself: its own functions, not those of the same names that Fairlead puts before them.
// They are extensions: an MPI has some or none.
void ask_mpi(const Rank& me) {
  void* mpi = dlopen(object_of(dlsym(RTLD_DEFAULT, "PMPI_Send")).c_str(), RTLD_LAZY | RTLD_NOLOAD);
  std::string told;
  bool yes = false;
  auto note = [&](const char* name, bool answer) {
    told += fmt::format("{}{} says {}", told.empty() ? "" : ", ", name, answer ? "yes" : "no");
    yes = yes || answer;
  };
  for (const char* name : {"MPIX_Query_cuda_support", "MPIX_Query_rocm_support", "MPIX_Query_hip_support"})
    if (auto* query = reinterpret_cast<int (*)()>(dlsym(mpi, name))) note(name, query() == 1);
  if (auto* query = reinterpret_cast<int (*)(int, int*)>(dlsym(mpi, "MPIX_GPU_query_support")))
    for (auto [kind, name] :
         {std::pair{0, "MPIX_GPU_query_support(CUDA)"}, std::pair{2, "MPIX_GPU_query_support(HIP)"}}) {
      int answer = 0;
      if (query(kind, &answer) == MPI_SUCCESS) note(name, answer != 0);
    }
  report(me, step_query, yes,
         told.empty() ? "this MPI has no function that tells whether it is GPU-aware" : told);
}

std::string link_target(const char* path) {
  char text[64] = {};
  ssize_t length = readlink(path, text, sizeof text - 1);
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : "unknown";
}

void tell_namespaces(const Rank& me) {
  report(me, step_namespaces, true,
         fmt::format("{} {} uid {}", link_target("/proc/self/ns/pid"), link_target("/proc/self/ns/ipc"),
                     getuid()));
}

// As a program does that chooses its GPU before MPI_Init: Fairlead then tries the host MPI in MPI_Init, and
// not beside messages that may be over before the trial is. The steps tell what is wrong with a GPU.
void use_gpu() try {
  const std::optional<Job> job = job_from_environment();
  const int count = fairlead_device_count();
  if (count > 0 && fairlead_device_set(job ? std::max(job->rank, 0) % count : 0) == FAIRLEAD_DEVICE_SUCCESS)
    Buffer(Place::device, sizes[0]).clear(0, sizes[0]);
} catch (const Failure&) {
}

// Ranks of a node take GPUs in turn, as most programs do.
void take_device(Rank& me) {
  int count = fairlead_device_count();
  const char* provider = fairlead_device_provider();
  if (count == 0) return report(me, step_device, false, fmt::format("sees no GPU (provider {})", provider));
  int device = me.rank % count;
  if (fairlead_device_set(device) != FAIRLEAD_DEVICE_SUCCESS)
    return report(me, step_device, false,
                  fmt::format("cannot use GPU {}: {}", device, fairlead_device_error_text()));
  me.device = device;
  const bool simulated = provider == std::string("sim");
  report(me, step_real, !simulated, device::why_simulated());
  std::string pci = fairlead_device_pci(device);
  report(me, step_device, true,
         fmt::format("sees {} GPU{}, takes {}: {}{}{}", count, count == 1 ? "" : "s", device,
                     fairlead_device_name(device), pci.empty() ? "" : " at ", pci));
}

// One message each way; every rank verifies what it gets.
std::string exchange(const Rank& me, Place send_from, Place receive_in, size_t bytes) {
  Buffer sent(send_from, bytes), received(receive_in, bytes);
  sent.write_pattern(0, bytes, static_cast<uint64_t>(me.rank));
  received.clear(0, bytes);
  for (int turn = 0; turn < 2; ++turn) {
    int error = turn == me.rank
                    ? MPI_Send(sent.address(), static_cast<int>(bytes), MPI_BYTE, me.peer, 1, MPI_COMM_WORLD)
                    : MPI_Recv(received.address(), static_cast<int>(bytes), MPI_BYTE, me.peer, 1,
                               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) {
      char text[MPI_MAX_ERROR_STRING] = {};
      int length = 0;
      MPI_Error_string(error, text, &length);
      return fmt::format("MPI error: {}", text);
    }
  }
  if (auto wrong = received.first_wrong(0, bytes, static_cast<uint64_t>(me.peer)))
    return fmt::format("wrong bytes in a message of {}, from byte {} on", bytes, *wrong);
  return {};
}

void try_messages(const Rank& me, const char* step, Place send_from, Place receive_in) {
  for (size_t bytes : sizes)
    if (std::string wrong = exchange(me, send_from, receive_in, bytes); !wrong.empty())
      return report(me, step, false, fmt::format("{}: {}", step, wrong));
  report(me, step, true,
         fmt::format("messages from {} memory, of {} and {} bytes, arrived right", step, sizes[0], sizes[1]));
}

// Device memory of the other rank, mapped and read without MPI's or Fairlead's doing.
std::string read_over_ipc(device::Runtime& runtime, const Rank& me, const device::IpcHandle& handle) {
  using device::Error;
  auto because = [&](const char* what, Error error) {
    std::string words = runtime.error_text();
    return fmt::format("{}: {}", what, words.empty() ? to_string(error) : words);
  };
  void* theirs = nullptr;
  if (Error error = runtime.ipc_import(me.device, handle, -1, &theirs); error != Error::none)
    return because("memory of the other rank cannot be mapped", error);
  Buffer mine(Place::device, sizes[1]);
  mine.clear(0, sizes[1]);
  device::Stream stream = nullptr;
  Error error = runtime.create_stream(me.device, &stream);
  if (error == Error::none) error = runtime.copy(mine.address(), theirs, sizes[1], stream);
  if (error == Error::none) error = runtime.synchronize_stream(stream);
  std::string wrong = error == Error::none ? "" : because("memory of the other rank cannot be copied", error);
  if (error == Error::none && !mine.holds_pattern(0, sizes[1], static_cast<uint64_t>(me.peer)))
    wrong = "the mapping shows other bytes than the other rank wrote";
  if (stream) runtime.destroy_stream(stream);
  runtime.ipc_close(me.device, theirs);
  return wrong;
}

void try_ipc(const Rank& me) {
  device::Runtime* runtime = device::whole_runtime();
  Buffer memory(Place::device, sizes[1]);
  memory.write_pattern(0, sizes[1], static_cast<uint64_t>(me.rank));
  struct Export {
    int exported;
    device::IpcHandle handle;
  } mine{}, theirs{};
  device::Allocation allocation;
  int file = -1;
  std::string why;
  if (runtime->query(memory.address(), &allocation) == device::Error::none &&
      allocation.base == reinterpret_cast<uintptr_t>(memory.address()))
    mine.exported = runtime->ipc_export(memory.address(), &mine.handle, &file) == device::Error::none;
  if (!mine.exported) why = fmt::format("this rank's memory cannot be exported: {}", runtime->error_text());
  if (file >= 0) close(file);
  MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, me.peer, 2, &theirs, sizeof theirs, MPI_BYTE, me.peer, 2,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (why.empty() && !theirs.exported) why = "the other rank's memory cannot be exported";
  if (why.empty()) why = read_over_ipc(*runtime, me, theirs.handle);
  MPI_Barrier(MPI_COMM_WORLD);  // the memory must outlive its mapping
  report(me, step_ipc, why.empty(),
         why.empty()
             ? fmt::format("the other rank's device memory can be mapped, and {} bytes of it were read right",
                           sizes[1])
             : why);
}

void try_allreduce(const Rank& me) {
  constexpr int count = 1000;
  std::vector<int> values(count);
  for (int i = 0; i < count; ++i) values[i] = i + me.rank;
  Buffer from(Place::device, count * sizeof(int)), to(Place::device, count * sizeof(int));
  from.write(0, values.data(), count * sizeof(int));
  to.clear(0, count * sizeof(int));
  int error = MPI_Allreduce(from.address(), to.address(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  to.read(0, values.data(), count * sizeof(int));
  bool right = error == MPI_SUCCESS;
  for (int i = 0; i < count; ++i) right = right && values[i] == 2 * i + 1;
  report(me, step_allreduce, right,
         fmt::format("the sum of {} ints over device memory of both ranks is {}", count,
                     right ? "right" : "wrong"));
}

void run(Rank& me) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  look_for_fairlead(me);
  ask_mpi(me);
  tell_namespaces(me);
  take_device(me);
  int here = me.device >= 0, both = 0;
  MPI_Allreduce(&here, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  try_messages(me, step_host, Place::aligned, Place::aligned);
  if (!both) return;
  const std::function<void()> steps[] = {
      [&] { try_ipc(me); },
      [&] { try_messages(me, step_device_device, Place::device, Place::device); },
      [&] { try_messages(me, step_device_host, Place::device, Place::aligned); },
      [&] { try_messages(me, step_host_device, Place::aligned, Place::device); },
      [&] { try_allreduce(me); },
  };
  for (const auto& step : steps) {
    // A rank that crashes takes the other one with it: both tell of a step before the next one begins.
    MPI_Barrier(MPI_COMM_WORLD);
    step();
  }
}

}  // namespace
}  // namespace fairlead::tools::doctor

int main(int argc, char** argv) {
  using namespace fairlead::tools;
  alarm(doctor::seconds_to_live);  // a hang ends here
  doctor::Rank me;
  if (argc > 2 && argv[2] == std::string(doctor::use_gpu_first)) doctor::use_gpu();
  MPI_Init(&argc, &argv);
  if (int file = argc > 1 ? open(argv[1], O_WRONLY | O_APPEND | O_CLOEXEC) : -1; file >= 0)
    doctor::report_file = file;
  MPI_Comm_rank(MPI_COMM_WORLD, &me.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &me.size);
  if (me.size != 2) {
    std::fprintf(stderr, "this program is started by `fairlead doctor`, in two ranks; this is a job of %d\n",
                 me.size);
    MPI_Finalize();
    return exit_usage;
  }
  me.peer = 1 - me.rank;
  try {
    doctor::run(me);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "rank %d: %s\n", me.rank, failure.what());
    MPI_Abort(MPI_COMM_WORLD, failure.code());
  }
  MPI_Finalize();
  return exit_success;
}
