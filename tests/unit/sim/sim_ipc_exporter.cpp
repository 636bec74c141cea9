// SPDX-License-Identifier: Apache-2.0
//
// The other process of SimIpc (sim_exporter.h): obeys one-letter commands on stdin and answers on stdout.
//   a<value>  allocate 100000 bytes filled with the value, answer with the handle
//   s<count>  the next allocations have this length in hundreds of bytes, answer with a byte
//   r<index>  answer with the byte at this place (index in hundreds)
//   f<any>    free, answer with a byte
//   v<piece>  share this piece of virtual memory of 380000 bytes, the first full of 'v', the second of 'w';
//             answer with the handle and the number of a file that stays open
//   w<any>    free the virtual memory, answer with a byte

#include <unistd.h>

#include <cstdlib>

#include "device/runtime.h"

using namespace fairlead::device;

namespace {

constexpr size_t pieces_size = 380000;

void answer(const void* bytes, size_t count) {
  if (write(STDOUT_FILENO, bytes, count) != static_cast<ssize_t>(count)) exit(1);
}

}  // namespace

int main() {
  Runtime& gpu = *whole_runtime();
  Stream stream;
  void *memory = nullptr, *pieces = nullptr;
  size_t size = 100000;
  if (gpu.create_stream(0, &stream) != Error::none) return 1;
  for (unsigned char command[2]; read(STDIN_FILENO, command, 2) == 2;) {
    unsigned char byte = 0;
    IpcHandle handle;
    struct {
      IpcHandle handle;
      int file;
    } shared{};
    int no_file = -1;
    Error error = Error::none;
    if (command[0] == 'a') {
      error = gpu.allocate(0, size, &memory);
      if (error == Error::none) error = gpu.fill(memory, command[1], size, stream);
      if (error == Error::none) error = gpu.synchronize_stream(stream);
      if (error == Error::none) error = gpu.ipc_export(memory, &handle, &no_file);
    } else if (command[0] == 'r') {
      error = gpu.copy(&byte, static_cast<char*>(memory) + command[1] * 100, 1, stream);
      if (error == Error::none) error = gpu.synchronize_stream(stream);
    } else if (command[0] == 's') {
      size = command[1] * size_t{100};
    } else if (command[0] == 'v') {
      Allocation piece;
      if (!pieces) error = gpu.allocate_virtual(0, pieces_size, &pieces);
      char* start = static_cast<char*>(pieces);
      if (error == Error::none) error = gpu.query(command[1] ? start + pieces_size - 1 : start, &piece);
      void* base = reinterpret_cast<void*>(piece.base);
      if (error == Error::none) error = gpu.fill(base, 'v' + command[1], piece.size, stream);
      if (error == Error::none) error = gpu.synchronize_stream(stream);
      if (error == Error::none) error = gpu.ipc_export(base, &shared.handle, &shared.file);
    } else {
      error = gpu.free(command[0] == 'w' ? pieces : memory);
    }
    if (error != Error::none) return 1;
    if (command[0] == 'a')
      answer(&handle, sizeof handle);
    else if (command[0] == 'v')
      answer(&shared, sizeof shared);
    else
      answer(&byte, 1);
  }
  return 0;
}
