// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/one_sided/window.h"

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>

#include "bench/mpi/ranks.h"
#include "common/failure.h"
#include "device/runtime.h"

namespace fairlead::tools {
namespace {

// MPICH 4.0 takes the memory of one rank for that of another where windows of MPI_Win_allocate are shorter.
constexpr uint64_t least_bytes = 4096;

// Asks Fairlead for device memory: MPI itself has no word for that.
class DeviceMemoryInfo {
 public:
  explicit DeviceMemoryInfo(Place place) {
    if (place != Place::device) return;
    MPI_Info_create(&info_);
    MPI_Info_set(info_, "fairlead_win_allocate", "device");
  }
  ~DeviceMemoryInfo() {
    if (info_ != MPI_INFO_NULL) MPI_Info_free(&info_);
  }
  DeviceMemoryInfo(const DeviceMemoryInfo&) = delete;
  DeviceMemoryInfo& operator=(const DeviceMemoryInfo&) = delete;
  MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

bool is_of(Place place, void* address) {
  if (place != Place::device && place != Place::managed) return true;
  device::Allocation found;
  return device::whole_runtime()->query(address, &found) == device::Error::none &&
         found.kind == (place == Place::device ? device::MemoryKind::device : device::MemoryKind::managed);
}

}  // namespace

OwnedWindow::OwnedWindow(const BenchArguments& arguments, uint64_t bytes, MPI_Comm members)
    : arguments_(arguments), place_(place_of(arguments.placement[1][0])) {
  bytes = std::max(bytes, least_bytes);
  int ranks = 1;
  MPI_Comm_size(members, &ranks);
  starts_.resize(static_cast<size_t>(ranks));
  if (arguments.window_kind != "allocate") memory_.emplace(place_, bytes);
  // Errors of creating are the communicator's, later ones the window's.
  MPI_Comm_set_errhandler(members, MPI_ERRORS_RETURN);
  const auto size = static_cast<MPI_Aint>(bytes);
  if (arguments.window_kind == "allocate")
    allocate(size, members);
  else if (arguments.window_kind == "dynamic")
    attach(size, members);
  else
    require(MPI_Win_create(memory_->address(), size, 1, MPI_INFO_NULL, members, &window_), "MPI_Win_create");
}

void OwnedWindow::require(int code, const char* call) const {
  if (code == MPI_SUCCESS) return;
  throw cannot_run(fmt::format("{}{} of {} memory: {}", arguments_.name_in_refusals(), call, describe(place_),
                               text_of_error(code)));
}

void OwnedWindow::allocate(MPI_Aint bytes, MPI_Comm members) {
  const DeviceMemoryInfo info(place_);
  void* base = nullptr;
  require(MPI_Win_allocate(bytes, 1, info.get(), members, &base, &window_), "MPI_Win_allocate");
  if (is_of(place_, base)) {
    memory_.emplace(place_, Buffer::Lent{base});
    return;
  }
  MPI_Win_free(&window_);
  throw cannot_run(fmt::format(
      "{}-w allocate: MPI_Win_allocate gives host memory here, not {} memory; accepted: -w create, "
      "or H for the window",
      arguments_.name_in_refusals(), describe(place_)));
}

void OwnedWindow::attach(MPI_Aint bytes, MPI_Comm members) {
  require(MPI_Win_create_dynamic(MPI_INFO_NULL, members, &window_), "MPI_Win_create_dynamic");
  MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
  require(MPI_Win_attach(window_, memory_->address(), bytes), "MPI_Win_attach");
  MPI_Win_set_errhandler(window_, MPI_ERRORS_ARE_FATAL);
  MPI_Aint start = 0;
  MPI_Get_address(memory_->address(), &start);
  MPI_Allgather(&start, 1, MPI_AINT, starts_.data(), 1, MPI_AINT, members);
}

OwnedWindow::~OwnedWindow() {
  if (arguments_.window_kind == "dynamic") MPI_Win_detach(window_, memory_->address());
  MPI_Win_free(&window_);
}

}  // namespace fairlead::tools
