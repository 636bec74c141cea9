// SPDX-License-Identifier: Apache-2.0
//
// Processes that a program spawns have Fairlead and its options as their parents do: device memory works at
// both ends of the inter-communicator, and on the communicator that parents and children merge it into, where
// nobody takes a process of the other job for one of its own. And MPI_Comm_disconnect waits for messages that
// are under way (MPI 4.1, 11.10.4). Commands are found as the host MPI finds them: in the working directory,
// by the info keys `wdir` and `path`, and with '=' in their names.

#include <fairlead/device.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace {

constexpr int counts[] = {1, 12, 1000, 300000};  // 12 doubles are as long as a descriptor
constexpr int count = 1000;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "spawned: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

class Doubles {
 public:
  explicit Doubles(int length, double first = -1) : length_(length) {
    std::vector<double> values(static_cast<size_t>(length));
    for (int i = 0; i < length; ++i) values[static_cast<size_t>(i)] = first + i;
    require(fairlead_device_malloc(&memory_, bytes()) == 0 &&
                fairlead_device_copy(memory_, values.data(), bytes()) == 0,
            fairlead_device_error_text());
  }
  ~Doubles() { fairlead_device_free(memory_); }
  Doubles(const Doubles&) = delete;
  Doubles& operator=(const Doubles&) = delete;
  operator void*() const { return memory_; }
  // Element i is first + i * step.
  void must_hold(double first, double step, const char* what) const {
    std::vector<double> values(static_cast<size_t>(length_));
    require(fairlead_device_copy(values.data(), memory_, bytes()) == 0, fairlead_device_error_text());
    for (int i = 0; i < length_; ++i) require(values[static_cast<size_t>(i)] == first + i * step, what);
  }

 private:
  size_t bytes() const { return static_cast<size_t>(length_) * sizeof(double); }

  int length_;
  void* memory_ = nullptr;
};

// Each parent with the child of its number.
void exchange_with_other_job(MPI_Comm other_job, int mine, int theirs) {
  int rank = 0, others = 0;
  MPI_Comm_rank(other_job, &rank);
  MPI_Comm_remote_size(other_job, &others);
  if (rank >= others) return;
  for (int length : counts) {
    Doubles sent(length, mine + rank), received(length);
    MPI_Sendrecv(sent, length, MPI_DOUBLE, rank, 1, received, length, MPI_DOUBLE, rank, 1, other_job,
                 MPI_STATUS_IGNORE);
    received.must_hold(theirs + rank, 1, "a message of the other job brought other bytes");
  }
}

void use_merged(MPI_Comm other_job, bool high) {
  MPI_Comm merged;
  MPI_Intercomm_merge(other_job, high, &merged);
  int rank = 0, size = 0;
  MPI_Comm_rank(merged, &rank);
  MPI_Comm_size(merged, &size);
  for (int length : counts) {
    // With every process of both jobs.
    for (int distance = 0; distance < size; ++distance) {
      const int next = (rank + distance) % size, previous = (rank + size - distance) % size;
      Doubles sent(length, rank), received(length);
      MPI_Sendrecv(sent, length, MPI_DOUBLE, next, 2, received, length, MPI_DOUBLE, previous, 2, merged,
                   MPI_STATUS_IGNORE);
      received.must_hold(previous, 1, "a message on the merged communicator brought other bytes");
    }
    Doubles part(length, rank), sum(length);
    MPI_Allreduce(part, sum, length, MPI_DOUBLE, MPI_SUM, merged);
    sum.must_hold(size * (size - 1) / 2.0, size, "a sum over both jobs is wrong");
  }
  MPI_Comm_free(&merged);
}

constexpr int of_parents = 100, of_children = 200;

// The parent has requested this kind of memory for this process.
void must_tell(const char* kind) {
  MPI_Info info;
  char kinds[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  MPI_Comm_get_info(MPI_COMM_WORLD, &info);
  MPI_Info_get(info, "mpi_memory_alloc_kinds", MPI_MAX_INFO_VAL, kinds, &found);
  MPI_Info_free(&info);
  require(found && std::strstr(kinds, kind), "a kind that was requested is not told");
}

int child(MPI_Comm parents) {
  exchange_with_other_job(parents, of_children, of_parents);
  use_merged(parents, true);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    std::vector<double> received(count, -1);
    usleep(300'000);  // longer than senders are patient
    MPI_Recv(received.data(), count, MPI_DOUBLE, 0, 0, parents, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; ++i)
      require(received[static_cast<size_t>(i)] == i,
              "a message before MPI_Comm_disconnect brought other bytes");
  }
  MPI_Comm_disconnect(&parents);
  return 0;
}

void meet(MPI_Comm children) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  exchange_with_other_job(children, of_parents, of_children);
  use_merged(children, false);
  Doubles sent(count, 0);
  if (rank == 0) MPI_Send(sent, count, MPI_DOUBLE, 0, 0, children);
  MPI_Comm_disconnect(&children);
}

// A folder with the program under two names: `folder`/named=so/child and one that PATH does not have.
class OtherNames {
 public:
  explicit OtherNames(const char* program) {
    char name[] = "/tmp/fairlead-spawned-XXXXXX";
    require(mkdtemp(name), "no folder can be made");
    folder = name;
    std::filesystem::create_directory(folder + "/named=so");
    std::filesystem::create_symlink(program, folder + "/named=so/child");
    std::filesystem::create_symlink(program, folder + "/fairlead-spawned-child");
  }
  ~OtherNames() { std::filesystem::remove_all(folder); }
  OtherNames(const OtherNames&) = delete;
  OtherNames& operator=(const OtherNames&) = delete;

  std::string folder;
};

MPI_Info info_with(const char* key, const std::string& value) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value.c_str());
  return info;
}

int parent(char* program) {
  const OtherNames names(program);
  char word[] = "a child", there[] = "fairlead-spawned-child";
  std::string equals = names.folder + "/named=so/child";
  char kind[] = "mpi:alloc_mem";
  char *words[] = {word, nullptr}, *words_and_kind[] = {word, kind, nullptr};
  MPI_Info by_wdir = info_with("wdir", names.folder), by_path = info_with("path", names.folder);
  MPI_Info_set(by_wdir, "mpi_memory_alloc_kinds", kind);
  MPI_Comm children;
  MPI_Comm_spawn(program, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  meet(children);
  MPI_Comm_spawn(there, words_and_kind, 1, by_wdir, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  meet(children);
  char* programs[] = {program, equals.data(), there};
  char** arguments[] = {words, words, words};
  const int processes[] = {1, 1, 1};
  const MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL, by_path};
  MPI_Comm_spawn_multiple(3, programs, arguments, processes, infos, 0, MPI_COMM_WORLD, &children,
                          MPI_ERRCODES_IGNORE);
  meet(children);
#ifdef OPEN_MPI  // MPICH does not search the working directory
  require(chdir(names.folder.c_str()) == 0, "the working directory cannot be changed");
  MPI_Comm_spawn(there, words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  meet(children);
#endif
  MPI_Info_free(&by_wdir);
  MPI_Info_free(&by_path);
  return 0;
}

// Without Fairlead: what the MPI itself does.
int on_host_memory(MPI_Comm parents, char* program) {
  char word[] = "host";
  char* words[] = {word, nullptr};
  MPI_Comm others = parents;
  if (others == MPI_COMM_NULL)
    MPI_Comm_spawn(program, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
  int rank = 0;
  MPI_Comm_rank(others, &rank);
  for (int length : counts) {
    std::vector<double> sent(static_cast<size_t>(length), rank), received(sent.size());
    MPI_Sendrecv(sent.data(), length, MPI_DOUBLE, rank, 1, received.data(), length, MPI_DOUBLE, rank, 1,
                 others, MPI_STATUS_IGNORE);
    require(received == sent, "a message of the other job brought other bytes");
  }
  MPI_Comm_disconnect(&others);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm parents;
  MPI_Comm_get_parent(&parents);
  if (argc == 2 && std::strcmp(argv[1], "host") == 0) {
    const int result = on_host_memory(parents, argv[0]);
    MPI_Finalize();
    return result;
  }
  if (parents != MPI_COMM_NULL)
    require((argc == 2 || argc == 3) && std::strcmp(argv[1], "a child") == 0, "a child has other arguments");
  if (argc == 3) must_tell(argv[2]);
  int result = parents == MPI_COMM_NULL ? parent(argv[0]) : child(parents);
  MPI_Finalize();
  return result;
}
