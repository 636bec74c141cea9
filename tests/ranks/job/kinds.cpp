// SPDX-License-Identifier: Apache-2.0
//
// What programs hear about kinds of memory (MPI 4.1, section 11.4.3), and what follows from what they assert.
//
// Environment:
//   TEST_KINDS=untold     Fairlead says nothing: the answers are the host MPI's
//   TEST_KINDS=refused    no device memory is taken
//   TEST_HOST_KINDS=list  the host MPI's own answer (kinds_host.cpp)
//   TEST_REQUESTED=list   what must be told besides

#include <fairlead/device.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "files/files.h"
#include "harness/harness.h"
#include "harness/host_mpi.h"
#include "harness/mpi4.h"

using namespace ranks;

namespace {

constexpr const char* key = "mpi_memory_alloc_kinds";
constexpr const char* assertion_key = "mpi_assert_memory_alloc_kinds";

std::string setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

bool is_told() {
  const std::string mode = setting("TEST_KINDS");
  return mode != "untold" && !(host_oracle && mode.empty());
}

std::string gpu(const std::string& restrictor = "") {
  return fairlead_device_provider() + (restrictor.empty() ? "" : ":" + restrictor);
}

std::vector<std::string> entries(const std::string& list) {
  std::vector<std::string> all;
  for (size_t at = 0; at <= list.size() && !list.empty();) {
    const size_t end = std::min(list.find(',', at), list.size());
    all.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

bool tells(const std::string& list, const std::string& kind) {
  const std::vector<std::string> all = entries(list);
  return std::count(all.begin(), all.end(), kind) == 1;
}

// The value of a key; "(none)" if it is not there.
std::string value_in(MPI_Info info, const char* which = key) {
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  MUST(MPI_Info_get(info, which, MPI_MAX_INFO_VAL, value, &found));
  return found ? value : "(none)";
}

// Of an info that get_info() has returned.
std::string freed_value_in(MPI_Info info, const char* which = key) {
  const std::string value = value_in(info, which);
  MUST(MPI_Info_free(&info));
  return value;
}

std::string told_of(MPI_Comm comm, const char* which = key) {
  MPI_Info info;
  MUST(MPI_Comm_get_info(comm, &info));
  return freed_value_in(info, which);
}
std::string told_of_window(MPI_Win window, const char* which = key) {
  MPI_Info info;
  MUST(MPI_Win_get_info(window, &info));
  return freed_value_in(info, which);
}
std::string told_of_file(MPI_File file, const char* which = key) {
  MPI_Info info;
  MUST(MPI_File_get_info(file, &info));
  return freed_value_in(info, which);
}

// Of MPI_INFO_ENV: what communicators tell, or where Fairlead adds nothing what the host MPI has there
// (MPICH 4.2: nothing).
std::string told_of_env() {
  if (is_told()) return told_of(MPI_COMM_WORLD);
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  MUST(HOST_MPI(Info_get)(MPI_INFO_ENV, key, MPI_MAX_INFO_VAL, value, &found));
  return found ? value : "(none)";
}

void must_tell_all(const std::string& told, const char* what) {
  if (!is_told()) return;
  const std::string host = setting("TEST_HOST_KINDS");
  const bool refused = setting("TEST_KINDS") == "refused";
  for (const std::string& kind : entries(refused || host.empty() ? "mpi,system" : host))
    EXPECT(tells(told, kind), "%s tells %s without %s", what, told.c_str(), kind.c_str());
  for (const std::string& kind : {gpu(), gpu("host"), gpu("device"), gpu("managed")})
    EXPECT(tells(told, kind) == !refused, "%s tells %s: %s", what, told.c_str(), kind.c_str());
  EXPECT(!refused || told == "mpi,system", "%s tells %s", what, told.c_str());
  for (const std::string& kind : entries(setting("TEST_REQUESTED")))
    EXPECT(tells(told, kind), "%s tells %s without %s", what, told.c_str(), kind.c_str());
  EXPECT(told.find("nonsense") == std::string::npos, "%s tells %s", what, told.c_str());
}

class Info {
 public:
  Info(const char* which, const std::string& value) {
    MUST(MPI_Info_create(&info_));
    MUST(MPI_Info_set(info_, which, value.c_str()));
  }
  ~Info() { MPI_Info_free(&info_); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  operator MPI_Info() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

Info asserting(const std::string& kinds) {
  return Info(assertion_key, kinds);
}

MPI_Comm duplicate(const std::string& asserted) {
  MPI_Comm comm;
  MUST(MPI_Comm_dup_with_info(MPI_COMM_WORLD, asserting(asserted), &comm));
  return comm;
}

constexpr int bytes = 40000;

// Messages and collectives of device memory on a communicator.
void exchange(MPI_Comm comm) {
  Memory mine(Place::device, bytes), got(Place::device, bytes),
      all(Place::device, bytes * static_cast<size_t>(size));
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  mine.fill(key_of(7, static_cast<uint64_t>(rank)));
  MUST(MPI_Sendrecv(mine, bytes, MPI_BYTE, next, 1, got, bytes, MPI_BYTE, previous, 1, comm,
                    MPI_STATUS_IGNORE));
  EXPECT_HOLDS(got, key_of(7, static_cast<uint64_t>(previous)), bytes);
  MUST(MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm));
  std::vector<char> brought(static_cast<size_t>(bytes)), sent(static_cast<size_t>(bytes));
  all.read(brought.data(), bytes, bytes * static_cast<size_t>(previous));
  write_pattern(key_of(7, static_cast<uint64_t>(previous)), sent.data(), bytes);
  EXPECT(brought == sent, "the block of rank %d is another", previous);
}

}  // namespace

RANK_TEST(kinds, every_object_tells_them, 1) {
  const std::string all = told_of(MPI_COMM_WORLD);
  must_tell_all(all, "MPI_COMM_WORLD");
  if (!is_told()) {
    MPI_Info info;
    MUST(HOST_MPI(Comm_get_info)(MPI_COMM_WORLD, &info));
    EXPECT(freed_value_in(info) == all, "not the host MPI's answer: %s", all.c_str());
  }
  EXPECT(value_in(MPI_INFO_ENV) == told_of_env(), "MPI_INFO_ENV tells %s, not %s",
         value_in(MPI_INFO_ENV).c_str(), told_of_env().c_str());
  if (!is_told()) return;
  // What the program says under the key is no answer.
  MPI_Comm comm;
  MUST(MPI_Comm_dup_with_info(MPI_COMM_WORLD, Info(key, "mpi,nonsense"), &comm));
  EXPECT(told_of(comm) == all, "a duplicate tells %s", told_of(comm).c_str());
  MUST(MPI_Comm_free(&comm));
  for (Place place : host_and_device) {
    if (place == Place::device && setting("TEST_KINDS") == "refused") continue;
    Memory memory(place, bytes);
    MPI_Win window;
    MUST(MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    EXPECT(told_of_window(window) == all, "a window of %s tells %s", to_string(place),
           told_of_window(window).c_str());
    MUST(MPI_Win_free(&window));
  }
  const files::File file;
  EXPECT(told_of_file(file) == all, "a file tells %s", told_of_file(file).c_str());
}

RANK_TEST(kinds, every_question_to_the_environment_finds_them, 1) {
  const std::string all = told_of_env();
  int keys = 0, found = 0, length = 0, times = 0;
  MUST(MPI_Info_get_nkeys(MPI_INFO_ENV, &keys));
  for (int i = 0; i < keys; ++i) {
    char name[MPI_MAX_INFO_KEY + 1];
    MUST(MPI_Info_get_nthkey(MPI_INFO_ENV, i, name));
    times += std::strcmp(name, key) == 0;
    EXPECT(value_in(MPI_INFO_ENV, name) != "(none)", "%s has no value", name);
  }
  EXPECT(times == (all == "(none)" ? 0 : 1), "the key is there %d times", times);
  MUST(MPI_Info_get_valuelen(MPI_INFO_ENV, key, &length, &found));
  EXPECT(!found || length == static_cast<int>(all.size()), "a value of %d", length);
  MPI_Info copy;
  MUST(MPI_Info_dup(MPI_INFO_ENV, &copy));
  EXPECT(value_in(copy) == all, "a duplicate has %s", value_in(copy).c_str());
  // The program's own info objects are its own.
  MUST(MPI_Info_set(copy, key, "system"));
  EXPECT(value_in(copy) == "system" && value_in(MPI_INFO_ENV) == all, "the duplicate is no duplicate");
  MUST(MPI_Info_free(&copy));
  const auto get_string = mpi4::find<int(MPI_Info, const char*, int*, char*, int*)>("MPI_Info_get_string");
  if (!get_string || !is_told()) return;
  const int whole = static_cast<int>(all.size()) + 1;
  for (int room : {0, 1, 4, whole, whole + 9}) {
    std::string text(static_cast<size_t>(whole) + 10, '#');
    int told = room;
    MUST(get_string(MPI_INFO_ENV, key, &told, text.data(), &found));
    EXPECT(found && told == whole, "found %d, length %d", found, told);
    const std::string wanted =
        room == 0 ? "" : all.substr(0, static_cast<size_t>(std::min(room, whole)) - 1) + '\0';
    EXPECT(text.compare(0, wanted.size(), wanted) == 0 && text[wanted.size()] == '#', "room for %d: %s", room,
           text.c_str());
  }
  int told = 0;
  char unused = '#';  // MPICH 4.0 refuses null, although nothing is stored
  MUST(get_string(MPI_INFO_ENV, "no such key", &told, &unused, &found));
  EXPECT(!found, "a key that is not there");
}

RANK_TEST(kinds, asserted_ones_are_told_and_kept, 2) {
  if (host_oracle) return;
  const std::string device = gpu("device"), all = told_of(MPI_COMM_WORLD);
  MPI_Comm comm = duplicate(device), copy;
  EXPECT(told_of(comm) == device && told_of(comm, assertion_key) == device, "a communicator tells %s",
         told_of(comm).c_str());
  exchange(comm);
  MUST(MPI_Comm_dup(comm, &copy));
  EXPECT(told_of(copy) == all && told_of(copy, assertion_key) == "(none)", "its duplicate tells %s",
         told_of(copy).c_str());
  MUST(MPI_Comm_set_info(copy, asserting("system," + device)));
  EXPECT(told_of(copy) == "system," + device, "set later: %s", told_of(copy).c_str());
  MUST(MPI_Comm_free(&copy));
  MUST(MPI_Comm_free(&comm));
  // A handle that comes again is another communicator.
  for (int i = 0; i < 3; ++i) {
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    EXPECT(told_of(comm) == all, "a new communicator tells %s", told_of(comm).c_str());
    MUST(MPI_Comm_set_info(comm, asserting("system")));
    MUST(MPI_Comm_free(&comm));
  }
  Memory memory(Place::device, bytes);
  for (bool at_once : {true, false}) {
    MPI_Win window;
    MUST(MPI_Win_create(memory, bytes, 1, at_once ? static_cast<MPI_Info>(asserting(device)) : MPI_INFO_NULL,
                        MPI_COMM_WORLD, &window));
    if (!at_once) MUST(MPI_Win_set_info(window, asserting(device)));
    EXPECT(told_of_window(window) == device && told_of_window(window, assertion_key) == device,
           "a window tells %s", told_of_window(window).c_str());
    MUST(MPI_Win_free(&window));
  }
  const files::File file;
  MUST(MPI_File_set_info(file, asserting(device)));
  EXPECT(told_of_file(file) == device && told_of_file(file, assertion_key) == device, "a file tells %s",
         told_of_file(file).c_str());
}

// It costs time at most: each call looks at its buffer.
RANK_TEST(kinds, broken_assertions_do_no_harm, 2) {
  if (host_oracle) return;
  for (const std::string& asserted : {std::string("system"), gpu("host"), gpu("managed")}) {
    MPI_Comm comm = duplicate(asserted);
    exchange(comm);
    MUST(MPI_Comm_free(&comm));
  }
  const Info system = asserting("system");
  Memory target(Place::device, bytes), origin(Place::device, bytes);
  MPI_Win window;
  MUST(MPI_Win_create(target, bytes, 1, system, MPI_COMM_WORLD, &window));
  MUST(MPI_Win_fence(0, window));
  origin.fill(key_of(3, static_cast<uint64_t>(rank)));
  MUST(MPI_Put(origin, bytes, MPI_BYTE, (rank + 1) % size, 0, bytes, MPI_BYTE, window));
  MUST(MPI_Win_fence(0, window));
  EXPECT_HOLDS(target, key_of(3, static_cast<uint64_t>((rank + size - 1) % size)), bytes);
  MUST(MPI_Win_free(&window));
  const files::File file;
  MUST(MPI_File_set_info(file, system));
  const MPI_Offset where = static_cast<MPI_Offset>(bytes) * rank;
  Memory read(Place::device, bytes);
  MUST(MPI_File_write_at_all(file, where, origin, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
  MUST(MPI_File_read_at_all(file, where, read, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
  EXPECT_HOLDS(read, key_of(3, static_cast<uint64_t>(rank)), bytes);
}

// The standard ignores an assertion with a kind that is not there, as a whole.
RANK_TEST(kinds, bad_assertions_are_ignored, 1) {
  if (!is_told()) return;
  const std::string all = told_of(MPI_COMM_WORLD);
  for (const std::string& asserted :
       {std::string("nonsense"), "system," + gpu("nonsense"), "system:" + gpu(), std::string("system,,mpi"),
        std::string("sys tem"), std::string(":device"), std::string("SYSTEM"),
        std::string("rocm:device,cuda:device")}) {
    MPI_Comm comm = duplicate(asserted);
    EXPECT(told_of(comm) == all && told_of(comm, assertion_key) == "(none)", "after '%s': %s",
           asserted.c_str(), told_of(comm).c_str());
    MUST(MPI_Comm_free(&comm));
  }
}

RANK_TEST(kinds, the_hardware_has_gpus, 1) {
  const auto get = mpi4::find<int(MPI_Info*)>("MPI_Get_hw_resource_info");
  if (!get || host_oracle) return;
  MPI_Info info;
  MUST(get(&info));
  int keys = 0, named = 0;
  MUST(MPI_Info_get_nkeys(info, &keys));
  for (int i = 0; i < keys; ++i) {
    char name[MPI_MAX_INFO_KEY + 1];
    MUST(MPI_Info_get_nthkey(info, i, name));
    named += std::string(name).starts_with("fairlead://" + gpu() + "/");
  }
  const int gpus = fairlead_device_count();
  EXPECT(named == gpus, "%d of %d GPUs", named, gpus);
  EXPECT(value_in(info, "hwloc://GPU") == (gpus == 1 ? "true" : "false"), "%s",
         value_in(info, "hwloc://GPU").c_str());
  MUST(MPI_Info_free(&info));
}
