// SPDX-License-Identifier: Apache-2.0

#include "files/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ranks::files {
namespace {

int rank_in(MPI_Comm comm) {
  int here = 0;
  MUST(MPI_Comm_rank(comm, &here));
  return here;
}

// A memory file system where there is one: MPI_File_sync() is fast there.
std::string make_directory() {
  const char* chosen = getenv("TMPDIR");
  std::string name = std::string(chosen ? chosen : ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  name += "/rank-tests-files-XXXXXX";
  if (!mkdtemp(name.data())) give_up("cannot make a directory %s", name.c_str());
  return name;
}

}  // namespace

File::File(MPI_Comm comm, int mode) : comm_(comm) {
  char directory[256] = "";
  if (rank_in(comm_) == 0) snprintf(directory, sizeof directory, "%s", make_directory().c_str());
  MUST(MPI_Bcast(directory, sizeof directory, MPI_CHAR, 0, comm_));
  directory_ = directory;
  // Open MPI (4.1.4) confuses the shared file pointers of files of one name in several directories.
  name_ = directory_ + directory_.substr(directory_.rfind('/'));
  open(mode);
}

File::~File() {
  close();
  if (rank_in(comm_) != 0) return;
  unlink(name_.c_str());
  // Hosts keep shared file pointers in files of their own.
  const std::string remove = "rm -rf " + directory_;
  if (rmdir(directory_.c_str()) != 0 && system(remove.c_str()) != 0)
    fail(__FILE__, __LINE__, "%s", remove.c_str());
}

void File::open(int mode) {
  MUST(MPI_File_open(comm_, name_.c_str(), mode, MPI_INFO_NULL, &handle_));
}

void File::close() {
  if (handle_ != MPI_FILE_NULL) MUST(MPI_File_close(&handle_));
  MUST(MPI_Barrier(comm_));
}

std::vector<char> File::contents() const {
  if (handle_ != MPI_FILE_NULL) MUST(MPI_File_sync(handle_));
  MUST(MPI_Barrier(comm_));
  std::vector<char> bytes;
  FILE* file = fopen(name_.c_str(), "rb");
  if (!file) give_up("cannot open %s", name_.c_str());
  char block[65536];
  for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;)
    bytes.insert(bytes.end(), block, block + got);
  fclose(file);
  MUST(MPI_Barrier(comm_));
  return bytes;
}

void File::set_contents(const std::vector<char>& bytes) {
  if (rank_in(comm_) == 0) {
    const int file = ::open(name_.c_str(), O_WRONLY | O_TRUNC);
    if (file < 0 || ::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      give_up("cannot write %s", name_.c_str());
    ::close(file);
  }
  MUST(MPI_Barrier(comm_));
}

const char* to_string(Way way) {
  constexpr const char* names[] = {"at",      "at_all",        "iat",      "iat_all",  "own",
                                   "own_all", "iown",          "iown_all", "split at", "split own",
                                   "ordered", "split ordered", "shared",   "ishared"};
  return names[static_cast<int>(way)];
}

int access(Direction direction, Way way, MPI_File file, MPI_Offset offset, void* buf, int count,
           MPI_Datatype type, MPI_Status* status) {
  const bool writes = direction == Direction::write;
  MPI_Request request = MPI_REQUEST_NULL;
  int result = MPI_SUCCESS;
  auto wait = [&](int started) {
    return started == MPI_SUCCESS ? CALL(MPI_Wait(&request, status)) : started;
  };
  if (way == Way::own || way == Way::own_all || way == Way::iown || way == Way::iown_all ||
      way == Way::split_own)
    MUST(MPI_File_seek(file, offset, MPI_SEEK_SET));
#define BOTH(before, after, ...)                               \
  (writes ? CALL(MPI_File_##before##write##after(__VA_ARGS__)) \
          : CALL(MPI_File_##before##read##after(__VA_ARGS__)))
  switch (way) {
    case Way::at:
      return BOTH(, _at, file, offset, buf, count, type, status);
    case Way::at_all:
      return BOTH(, _at_all, file, offset, buf, count, type, status);
    case Way::iat:
      return wait(BOTH(i, _at, file, offset, buf, count, type, &request));
    case Way::iat_all:
      return wait(BOTH(i, _at_all, file, offset, buf, count, type, &request));
    case Way::own:
      return BOTH(, , file, buf, count, type, status);
    case Way::own_all:
      return BOTH(, _all, file, buf, count, type, status);
    case Way::iown:
      return wait(BOTH(i, , file, buf, count, type, &request));
    case Way::iown_all:
      return wait(BOTH(i, _all, file, buf, count, type, &request));
    case Way::split_at:
      result = BOTH(, _at_all_begin, file, offset, buf, count, type);
      return result == MPI_SUCCESS ? BOTH(, _at_all_end, file, buf, status) : result;
    case Way::split_own:
      result = BOTH(, _all_begin, file, buf, count, type);
      return result == MPI_SUCCESS ? BOTH(, _all_end, file, buf, status) : result;
    case Way::ordered:
      return BOTH(, _ordered, file, buf, count, type, status);
    case Way::split_ordered:
      result = BOTH(, _ordered_begin, file, buf, count, type);
      return result == MPI_SUCCESS ? BOTH(, _ordered_end, file, buf, status) : result;
    case Way::shared:
      return BOTH(, _shared, file, buf, count, type, status);
    case Way::ishared:
      return wait(BOTH(i, _shared, file, buf, count, type, &request));
  }
#undef BOTH
  return result;
}

long long bytes_of(const MPI_Status& status) {
  int count = -1, elements = -2;
  MPI_Count wide = -3;
  MUST(MPI_Get_count(&status, MPI_BYTE, &count));
  MUST(MPI_Get_elements(&status, MPI_BYTE, &elements));
  MUST(MPI_Get_elements_x(&status, MPI_BYTE, &wide));
  return count == elements && count == wide ? count : -1;
}

}  // namespace ranks::files
