// SPDX-License-Identifier: Apache-2.0
//
// A test with another process that allocates and exports simulated device memory (sim_ipc_exporter.cpp).

#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "sim/sim_fixture.h"

namespace fairlead::device {

class SimIpc : public SimTest {
 protected:
  // The exporter sees none of the faults that the importer is tested under.
  void SetUp() override {
    int commands[2], answers[2];
    ASSERT_EQ(pipe(commands), 0);
    ASSERT_EQ(pipe(answers), 0);
    exporter_ = fork();
    if (exporter_ == 0) {
      dup2(commands[0], STDIN_FILENO);
      dup2(answers[1], STDOUT_FILENO);
      for (int fd : {commands[0], commands[1], answers[0], answers[1]}) close(fd);
      unsetenv("FAIRLEAD_SIM_FAULTS");
      execl(EXPORTER, EXPORTER, nullptr);
      _exit(127);
    }
    close(commands[0]);
    close(answers[1]);
    to_ = commands[1];
    from_ = answers[0];
  }
  void TearDown() override {
    close(to_);
    close(from_);
    int status = 0;
    EXPECT_EQ(waitpid(exporter_, &status, 0), exporter_);
    EXPECT_EQ(status, 0) << "the exporting process failed";
  }

  void ask(char command, unsigned char value, void* answer, size_t size) {
    unsigned char line[] = {static_cast<unsigned char>(command), value};
    ASSERT_EQ(write(to_, line, 2), 2);
    ASSERT_EQ(::read(from_, answer, size), static_cast<ssize_t>(size));
  }
  // Of memory full of the value.
  IpcHandle exported(unsigned char value) {
    IpcHandle handle{};
    ask('a', value, &handle, sizeof handle);
    return handle;
  }
  // Of one piece of virtual memory, with the file that belongs to it, taken out of the exporter's table.
  IpcHandle exported_piece(unsigned char piece, int* file) {
    struct {
      IpcHandle handle;
      int file;
    } shared{};
    ask('v', piece, &shared, sizeof shared);
    std::string path = "/proc/" + std::to_string(exporter_) + "/fd/" + std::to_string(shared.file);
    *file = open(path.c_str(), O_RDWR);
    EXPECT_GE(*file, 0) << path;
    return shared.handle;
  }
  void exporter_allocates_hundreds(unsigned char count) {
    unsigned char byte;
    ask('s', count, &byte, 1);
  }
  unsigned char exporter_reads(unsigned char hundreds) {
    unsigned char byte = 0;
    ask('r', hundreds, &byte, 1);
    return byte;
  }
  void exporter_frees() {
    unsigned char byte;
    ask('f', 0, &byte, 1);
  }
  char* imported(const IpcHandle& handle, int device = 0) {
    void* base = nullptr;
    EXPECT_EQ(gpu.ipc_import(device, handle, -1, &base), Error::none) << gpu.error_text();
    return static_cast<char*>(base);
  }

  pid_t exporter_ = 0;
  int to_ = -1, from_ = -1;
};

}  // namespace fairlead::device
