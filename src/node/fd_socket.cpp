// SPDX-License-Identifier: Apache-2.0

#include "node/fd_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/environment.h"
#include "base/log.h"

namespace fairlead::node {
namespace {

constexpr int most_files = 253;  // in one message: SCM_MAX_FD of the kernel
constexpr const char* file_name = "box";

// A file descriptor that is closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// The address of the file behind this process's descriptor `number`, or of `entry` in the directory behind
// it. The file's own path is never spelled out, so paths of any length fit.
struct Address {
  sockaddr_un name{};

  explicit Address(int number, const char* entry = nullptr) {
    name.sun_family = AF_UNIX;
    std::snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d%s%s", number, entry ? "/" : "",
                  entry ? entry : "");
  }
  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&name); }
};

// Directories in memory come first: when a file in use is removed, a network file system leaves another one
// behind. Null: there is none.
const char* parent_folder(int number) {
  const char* parents[Introduction::folders] = {"/dev/shm", environment_variable("XDG_RUNTIME_DIR"),
                                                environment_variable("TMPDIR"), "/tmp"};
  const char* parent = parents[number];
  return parent && *parent == '/' ? parent : nullptr;
}

int make_socket() {
  Descriptor fresh(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int yes = 1;
  // While the file has a name, only the directory keeps other users out; the file's mode is for the time
  // after that.
  if (fresh < 0 || fchmod(fresh, S_IRUSR | S_IWUSR) != 0 ||
      setsockopt(fresh, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0)
    return -1;
  return fresh.release();
}

// A message that carries one label. Its control buffer has room for everything else that a message may carry:
// thus every descriptor that the kernel installs is seen here, and closed.
struct Message {
  alignas(cmsghdr) char control[CMSG_SPACE(most_files * sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  iovec bytes;
  msghdr header{};

  explicit Message(FileLabel* label) : bytes{label, sizeof *label} {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

// The control data of a message. The destructor closes the files that the caller has not taken.
struct Enclosed {
  int files[most_files];
  int count = 0;
  ucred credentials{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};

  explicit Enclosed(msghdr* header) {
    for (cmsghdr* part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
      if (part->cmsg_level != SOL_SOCKET) continue;
      if (part->cmsg_type == SCM_CREDENTIALS) std::memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
      if (part->cmsg_type != SCM_RIGHTS) continue;
      size_t bytes = part->cmsg_len - CMSG_LEN(0);
      std::memcpy(files + count, CMSG_DATA(part), bytes);
      count += static_cast<int>(bytes / sizeof(int));
    }
  }
  ~Enclosed() {
    for (int i = 0; i < count; ++i) close(files[i]);
  }
  Enclosed(const Enclosed&) = delete;
  Enclosed& operator=(const Enclosed&) = delete;
};

}  // namespace

// A new directory that only this user may enter. The destructor removes it, with the socket that was bound in
// it.
class PrivateFolder {
 public:
  explicit PrivateFolder(const char* parent) : path_(parent) {
    path_ += "/.fairlead-XXXXXX";
    if (!mkdtemp(path_.data())) return;
    file_ = open(path_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    // If anybody may rename entries of the parent, as in a world-writable directory without the sticky bit,
    // the path may name another directory by now.
    private_ = file_ >= 0 && fstat(file_, &status) == 0 && status.st_uid == geteuid() &&
               (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
    made_ = true;
  }
  ~PrivateFolder() {
    if (file_ >= 0) {
      unlinkat(file_, file_name, 0);
      close(file_);
    }
    if (made_) rmdir(path_.c_str());
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  std::string path_of_socket() const { return path_ + "/" + file_name; }
  // Binds `socket` in this directory. Returns an O_PATH descriptor of its file, or -1 on failure.
  int bind_here(int socket) const {
    if (!private_ || bind(socket, Address(file_, file_name).pointer(), sizeof(sockaddr_un)) != 0) return -1;
    return openat(file_, file_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  }

 private:
  std::string path_;
  int file_ = -1;
  bool made_ = false, private_ = false;
};

namespace {

int bind_privately(int socket) {
  for (int number = 0; number < Introduction::folders; ++number) {
    const char* parent = parent_folder(number);
    if (!parent) continue;
    if (int place = PrivateFolder(parent).bind_here(socket); place >= 0) return place;
  }
  return -1;
}

// Sends the file to the socket behind the descriptor `place`.
bool send_file(int place, const FileLabel& label, int file) {
  // A new socket, because this rank may have none, or the program may have closed it.
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket < 0) return false;
  Address address(place);
  FileLabel copy = label;
  Message message(&copy);
  message.header.msg_name = address.pointer();
  message.header.msg_namelen = sizeof address.name;
  message.header.msg_controllen = CMSG_SPACE(sizeof file);
  cmsghdr* attached = CMSG_FIRSTHDR(&message.header);
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(attached), &file, sizeof file);
  return sendmsg(socket, &message.header, MSG_NOSIGNAL) == sizeof copy;
}

// Takes one file from whoever `is_welcome`; -1 if there is none. Closes others.
template <class IsWelcome>
int take_file(int socket, FileLabel* label, IsWelcome is_welcome) {
  for (;;) {
    Message message(label);
    ssize_t length = recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return -1;
    Enclosed enclosed(&message.header);
    bool whole = length == sizeof *label && enclosed.count == 1 &&
                 !(message.header.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (!whole || !is_welcome(enclosed.credentials)) continue;
    enclosed.count = 0;
    return enclosed.files[0];
  }
}

}  // namespace

Introduction::Introduction(int number) {
  const char* parent = parent_folder(number);
  if (!parent || (socket_ = make_socket()) < 0) return;
  folder_ = std::make_unique<PrivateFolder>(parent);
  place_ = folder_->bind_here(socket_);
  const std::string name = folder_->path_of_socket();
  if (place_ >= 0 && name.size() < path_.size()) std::copy(name.begin(), name.end(), path_.begin());
}

Introduction::~Introduction() {
  for (int file : places_)
    if (file >= 0) close(file);
  for (int file : {socket_, place_})
    if (file >= 0) close(file);
}

bool Introduction::meet(const std::vector<Path>& paths) {
  for (const Path& path : paths) {
    Descriptor place(path[0] ? open(path.data(), O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1);
    struct stat status;
    if (place < 0 || fstat(place, &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
      return false;
    places_.push_back(place.release());
  }
  return true;
}

void Introduction::end_name() {
  folder_.reset();
}

bool Introduction::give(int rank, int file) const {
  return send_file(places_[static_cast<size_t>(rank)], {}, file);
}

int Introduction::take() const {
  FileLabel label;
  return take_file(socket_, &label, [](const ucred& credentials) { return credentials.uid == getuid(); });
}

FdSocket::FdSocket(RankBlock* ranks, int size, int mine, Introduction* met)
    : ranks_(ranks), size_(size), mine_(mine) {
  if (met) {
    std::swap(socket_, met->socket_);
    std::swap(place_, met->place_);
    places_.swap(met->places_);
  } else if (!open_socket()) {
    log_line(LogLevel::info,
             "this rank cannot receive file descriptors, so virtual memory of other ranks is copied twice: "
             "no socket can be created in /dev/shm, XDG_RUNTIME_DIR, TMPDIR or /tmp: %s",
             std::strerror(errno));
    return;
  }
  socket_file_ = identity_of(socket_);
  place_file_ = identity_of(place_);
  FdSocketAddress& address = ranks_[mine_].box;
  address.file = place_file_;
  address.number_plus_1.store(place_ + 1, std::memory_order_release);
}

FdSocket::~FdSocket() {
  ranks_[mine_].box.number_plus_1.store(0, std::memory_order_release);
  for (size_t rank = 0; rank < places_.size(); ++rank) close_own(places_[rank], ranks_[rank].box.file);
  close_own(place_, place_file_);
  close_own(socket_, socket_file_);
}

bool FdSocket::open_socket() {
  Descriptor fresh(make_socket());
  if (fresh < 0 || (place_ = bind_privately(fresh)) < 0) return false;
  socket_ = fresh.release();
  return true;
}

bool FdSocket::put(int receiver, const FileLabel& label, int file) const {
  RankBlock& to = ranks_[receiver];
  int number = to.box.number_plus_1.load(std::memory_order_acquire) - 1;
  if (number < 0) return false;
  bool sent = false;
  if (!places_.empty()) {
    const int place = places_[static_cast<size_t>(receiver)];
    if (!is_still(place, to.box.file)) return false;
    sent = send_file(place, label, file);
  } else {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", to.pid, number);
    // While this descriptor is open, it addresses the same file, whatever the receiver does with the number.
    Descriptor place(open(path, O_PATH | O_CLOEXEC));
    if (!is_still(place, to.box.file)) return false;
    sent = send_file(place, label, file);
  }
  if (!sent && errno == EAGAIN) to.box.was_full.store(1, std::memory_order_relaxed);
  return sent;
}

bool FdSocket::is_from_its_sender(const FileLabel& label, const ucred& credentials) const {
  // The kernel tells no PID of another namespace.
  return label.sender >= 0 && label.sender < size_ && credentials.uid == getuid() &&
         (!places_.empty() || credentials.pid == ranks_[label.sender].pid);
}

bool FdSocket::take(FileLabel* label, int* file) const {
  if (!is_still(socket_, socket_file_)) return false;
  *file = take_file(socket_, label,
                    [&](const ucred& credentials) { return is_from_its_sender(*label, credentials); });
  return *file >= 0;
}

bool FdSocket::was_full() const {
  std::atomic<uint32_t>& mark = ranks_[mine_].box.was_full;
  return mark.load(std::memory_order_relaxed) != 0 && mark.exchange(0, std::memory_order_relaxed) != 0;
}

}  // namespace fairlead::node
