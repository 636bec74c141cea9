// SPDX-License-Identifier: Apache-2.0
//
// M14: a process of another user reaches nothing of a running job. Each rank plays that user by a child that
// gives up root, and that looks at every rank of the job.

#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "harness/harness.h"

namespace {

using namespace ranks;

constexpr uid_t stranger = 65534;

// What the child found, as its exit code.
enum Finding { nothing, could_open, could_connect, cannot_change_user };

bool connects(const std::string& address) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (address.size() >= sizeof name.sun_path) return false;
  std::memcpy(name.sun_path, address.data(), address.size());
  if (name.sun_path[0] == '@') name.sun_path[0] = 0;  // the abstract namespace
  const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  const bool connected = connect(from, reinterpret_cast<sockaddr*>(&name), length) == 0;
  close(from);
  return connected;
}

// Host MPIs have sockets of their own, which the kernel named (UCX: "@0a1b2").
bool named_by_the_kernel(const std::string& name) {
  return name.size() == 6 && name[0] == '@' &&
         name.find_first_not_of("0123456789abcdef", 1) == std::string::npos;
}

// The names of this process' datagram sockets, which the kernel shows to everybody.
std::vector<std::string> names_of_own_sockets() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the folder's own descriptor
    const std::string target = std::filesystem::read_symlink(entry, gone);
    if (target.rfind("socket:[", 0) == 0) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::string> names;
  std::ifstream list("/proc/net/unix");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, name;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> name;
    if (type == "0002" && own.count(inode) && !name.empty() && !named_by_the_kernel(name))
      names.push_back(name);
  }
  return names;
}

bool opens(const std::string& path) {
  for (const int way : {O_RDONLY, O_WRONLY, O_RDWR})
    if (open(path.c_str(), way | O_CLOEXEC) >= 0) return true;
  return false;
}

Finding look_as_stranger(const std::vector<int>& pids, const std::vector<std::string>& sockets) {
  if (setgroups(0, nullptr) != 0 || setgid(stranger) != 0 || setuid(stranger) != 0) return cannot_change_user;
  for (const int pid : pids) {
    const std::string process = "/proc/" + std::to_string(pid) + "/";
    for (const char* part : {"fd", "mem", "maps", "environ", "map_files"})
      if (opens(process + part)) return could_open;
    for (int number = 0; number < 1024; ++number) {
      const std::string file = process + "fd/" + std::to_string(number);
      if (opens(file) || open(file.c_str(), O_PATH | O_CLOEXEC) >= 0) return could_open;
      if (connects(file)) return could_connect;
    }
  }
  for (const std::string& name : sockets)
    if (connects(name)) return could_connect;
  return nothing;
}

void expect_passes(Place place, int tag) {
  const int other = partner();
  Memory sent(place, 100000), received(place, 100000);
  sent.fill(key_of(static_cast<uint64_t>(rank), static_cast<uint64_t>(tag)));
  MUST(MPI_Sendrecv(sent, 100000, MPI_BYTE, other, tag, received, 100000, MPI_BYTE, other, tag,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  if (other != MPI_PROC_NULL)
    EXPECT_HOLDS(received, key_of(static_cast<uint64_t>(other), static_cast<uint64_t>(tag)), 100000);
}

}  // namespace

RANK_TEST(strangers, M14_another_user_reaches_nothing_of_a_running_job, 2) {
  if (geteuid() != 0) return skip("only root can play another user");
  for (const Place place : {Place::device, Place::virtual_memory}) expect_passes(place, 1);
  std::vector<int> pids(static_cast<size_t>(size));
  const int mine = getpid();
  MUST(MPI_Allgather(&mine, 1, MPI_INT, pids.data(), 1, MPI_INT, MPI_COMM_WORLD));

  const std::vector<std::string> sockets = names_of_own_sockets();
  const pid_t child = fork();
  if (child == 0) _exit(look_as_stranger(pids, sockets));
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == cannot_change_user)
    return skip("root cannot change its user here");
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == nothing,
         "the child of another user ended with status %#x", static_cast<unsigned>(status));
  MUST(MPI_Barrier(MPI_COMM_WORLD));
  for (const Place place : {Place::device, Place::virtual_memory}) expect_passes(place, 2);
}
