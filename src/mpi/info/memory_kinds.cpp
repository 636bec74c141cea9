// SPDX-License-Identifier: Apache-2.0

#include "mpi/info/memory_kinds.h"

#include <atomic>
#include <map>
#include <mutex>

#include "base/launched_job.h"
#include "base/log.h"
#include "base/options.h"
#include "device/runtime.h"
#include "mpi/abi/mutex.h"
#include "mpi/abi/real.h"

#pragma weak PMPI_Get_version  // as in host_mpi.h

namespace fairlead::mpi {
namespace {

constexpr const char* kinds_key = "mpi_memory_alloc_kinds";
constexpr const char* assertion_key = "mpi_assert_memory_alloc_kinds";

struct State {
  Mutex mutex;
  KindList requested;
  bool has_read_option = false;
  std::map<ObjectId, std::string> assertions;
  std::atomic<bool> has_assertions = false;
  // A copy of MPI_INFO_ENV, and the host MPI's answer there. An MPI that is opened late has no MPI_INFO_NULL
  // yet.
  std::optional<MPI_Info> env;
  std::string answer;
};
auto& state = *new State;

// Null if calls with device memory are refused.
device::PromptRuntime* serving_runtime() {
  return options().gpu_support ? device::runtime() : nullptr;
}

// Needs the mutex.
const std::string& answer_of_host() {
  MPI_Info copy = MPI_INFO_NULL;
  if (!state.env && real.Info_dup(MPI_INFO_ENV, &copy) == MPI_SUCCESS)
    state.answer = value_of(state.env.emplace(copy), kinds_key);
  return state.answer;
}

// `host` is the host MPI's answer.
KindList provided(const std::string& host) {
  KindList list = KindList::parse("mpi,system");
  const KindList answer = KindList::parse(host);
  if (options().gpu_support && !answer.empty()) list = answer;
  if (device::PromptRuntime* runtime = serving_runtime()) list.add(KindList::all_of(runtime->name()));
  return list;
}

// Needs the mutex. With the quirk unknown_hints_kept, the program's text is no answer.
bool host_knows_keys() {
  int version = 0, subversion = 0;
  PMPI_Get_version(&version, &subversion);
  return version * 10 + subversion >= 41 || !answer_of_host().empty();
}

// Needs the mutex. Keeps what is provided; what is not is left out of all answers, as the standard says.
void request(const std::string& kinds, LogLevel level_of_mistakes) {
  std::vector<std::string> wrong;
  const KindList asked = KindList::parse(kinds, &wrong), all = provided(answer_of_host());
  for (const std::string& text : wrong)
    log_line(level_of_mistakes,
             "'%s' names no kind of memory; accepted: KIND or KIND:RESTRICTOR, such as cuda:device",
             text.c_str());
  for (const AllocationKind& kind : asked.kinds())
    if (all.covers(kind))
      state.requested.add(kind);
    else
      log_line(LogLevel::info, "memory of kind %s was requested and is not provided", kind.text().c_str());
}

// Needs the mutex. The same as provided(), and what was requested of it in the program's spelling.
std::string told(const std::string& host) {
  const auto job = job_from_environment();  // one rank warns for all
  const LogLevel level = job && job->rank > 0 ? LogLevel::info : LogLevel::warn;
  if (!state.has_read_option) request(options().memory_alloc_kinds, level);
  state.has_read_option = true;
  KindList list = provided(host);
  for (const AllocationKind& kind : state.requested.kinds()) {
    KindList longer = list;
    longer.add(kind);
    if (longer.text().size() < MPI_MAX_INFO_VAL) list = longer;
  }
  return list.text();
}

std::optional<std::string> find_value(MPI_Info info, const char* key) {
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  if (info != MPI_INFO_NULL) PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
  if (!found) return {};
  return value;
}

}  // namespace

std::string value_of(MPI_Info info, const char* key) {
  return find_value(info, key).value_or("");
}

void request_memory_kinds(MPI_Info info) {
  std::lock_guard lock(state.mutex);
  request(value_of(info, kinds_key), LogLevel::info);
}

std::optional<KindList> note_assertion(ObjectId object, MPI_Info info) {
  const std::optional<std::string> value = find_value(info, assertion_key);
  if (!value) return {};
  std::vector<std::string> wrong;
  KindList asserted = KindList::parse(*value, &wrong);
  std::lock_guard lock(state.mutex);
  if (!wrong.empty() || !provided(answer_of_host()).covers(asserted)) {
    log_line(LogLevel::info, "the assertion of memory kinds '%s' is ignored: not all of them are provided",
             value->c_str());
    return {};
  }
  state.assertions[object] = asserted.text();
  state.has_assertions = true;
  return asserted;
}

void forget_assertion(ObjectId object) {
  if (!state.has_assertions.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(state.mutex);
  state.assertions.erase(object);
}

void tell_memory_kinds(ObjectId object, MPI_Info info) {
  std::lock_guard lock(state.mutex);
  const auto its = state.assertions.find(object);
  if (its != state.assertions.end()) {
    PMPI_Info_set(info, assertion_key, its->second.c_str());
    PMPI_Info_set(info, kinds_key, its->second.c_str());
    return;
  }
  int length = 0, found = 0;
  real.Info_get_valuelen(info, assertion_key, &length, &found);
  if (found) PMPI_Info_delete(info, assertion_key);
  PMPI_Info_set(info, kinds_key, told(host_knows_keys() ? value_of(info, kinds_key) : "").c_str());
}

MPI_Info with_memory_kinds(MPI_Info info) {
  if (info != MPI_INFO_ENV) return info;
  std::lock_guard lock(state.mutex);
  const std::string kinds = told(answer_of_host());
  if (!state.env) return info;
  PMPI_Info_set(*state.env, kinds_key, kinds.c_str());
  return *state.env;
}

void release_info_env() {
  std::lock_guard lock(state.mutex);
  if (state.env) PMPI_Info_free(&*state.env);
  state.env.reset();
}

void tell_gpus(MPI_Info info) {
  device::PromptRuntime* runtime = serving_runtime();
  int count = 0;
  if (!runtime || runtime->initialize() != device::Error::none ||
      runtime->device_count(&count) != device::Error::none || count == 0)
    return;
  // A value says whether the process is restricted to one resource of this type.
  const char* restricted = count == 1 ? "true" : "false";
  PMPI_Info_set(info, "hwloc://GPU", restricted);
  for (int device = 0; device < count; ++device) {
    device::DeviceInfo gpu{};
    if (runtime->device_info(device, &gpu) == device::Error::none)
      PMPI_Info_set(info, (std::string("fairlead://") + runtime->name() + "/" + gpu.pci).c_str(), restricted);
  }
}

}  // namespace fairlead::mpi
