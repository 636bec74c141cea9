// SPDX-License-Identifier: Apache-2.0
//
// Writes log lines to stderr, each complete in itself:
//   fairlead 3/8 node7:4711 warn cannot map memory of rank 5: <exact error>
// At the default level there is no output unless something is wrong. Each process prints the same warning
// only a few times. Thread-safe; usable before main(); never calls MPI.

#pragma once

namespace fairlead {

enum class LogLevel { error, warn, info, debug, trace };

bool log_enabled(LogLevel level);
void log_line(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Called once, in MPI_Init, so that lines name the rank.
void set_log_rank(int rank, int size);

}  // namespace fairlead
