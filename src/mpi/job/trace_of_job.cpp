// SPDX-License-Identifier: Apache-2.0

#include "mpi/job/trace_of_job.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "base/log.h"
#include "base/output_file.h"
#include "mpi/abi/real.h"
#include "observe/trace_file.h"

namespace fairlead::mpi {
namespace {

using observe::ClockReading;
using observe::FlowEnd;

constexpr int tag = 0;
constexpr int questions = 32;

// Processes with equal identities read the same CLOCK_MONOTONIC: one machine, boot and time namespace.
struct ClockIdentity {
  char boot[64] = {};
  uint64_t space = 0;
  bool operator==(const ClockIdentity& other) const {
    return boot[0] && std::strcmp(boot, other.boot) == 0 && space == other.space;
  }
};

ClockIdentity own_clock() {
  ClockIdentity identity;
  std::ifstream("/proc/sys/kernel/random/boot_id").getline(identity.boot, sizeof identity.boot);
  struct stat space;
  if (stat("/proc/self/ns/time", &space) == 0) identity.space = space.st_ino;
  return identity;
}

void answer(MPI_Comm comm, int rank) {
  for (int i = 0; i < questions; ++i) {
    real.Recv(nullptr, 0, MPI_BYTE, rank, tag, comm, MPI_STATUS_IGNORE);
    uint64_t time = observe::now();
    real.Send(&time, sizeof time, MPI_BYTE, rank, tag, comm);
  }
}

ClockReading ask(MPI_Comm comm) {
  ClockReading best;
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < questions; ++i) {
    uint64_t asked = observe::now(), other = 0;
    real.Send(nullptr, 0, MPI_BYTE, 0, tag, comm);
    real.Recv(&other, sizeof other, MPI_BYTE, 0, tag, comm, MPI_STATUS_IGNORE);
    uint64_t answered = observe::now();
    if (answered - asked >= shortest) continue;
    shortest = answered - asked;
    best = observe::reading_of(asked, other, answered);
  }
  return best;
}

// Sends one piece to rank 0, which receives the pieces of one rank after the other.
void send_bytes(MPI_Comm comm, const void* data, size_t bytes) {
  int length = static_cast<int>(bytes);
  real.Send(&length, 1, MPI_INT, 0, tag, comm);
  real.Send(data, length, MPI_BYTE, 0, tag, comm);
}
// Returns false for the empty piece that ends a list of pieces.
bool receive_bytes(MPI_Comm comm, int rank, std::vector<char>* data) {
  int length = 0;
  real.Recv(&length, 1, MPI_INT, rank, tag, comm, MPI_STATUS_IGNORE);
  data->resize(static_cast<size_t>(length));
  real.Recv(data->data(), length, MPI_BYTE, rank, tag, comm, MPI_STATUS_IGNORE);
  return length > 0;
}

constexpr size_t ends_per_piece = 1 << 16;

void send_rank(MPI_Comm comm, const observe::TraceOfRank& rank, const std::vector<observe::Log>& logs,
               observe::NameOf name_of) {
  observe::write_events(rank, logs, name_of,
                        [&](const std::string& text) { send_bytes(comm, text.data(), text.size()); });
  send_bytes(comm, nullptr, 0);
  std::vector<FlowEnd> ends = observe::flow_ends(rank, logs);
  for (size_t sent = 0; sent < ends.size(); sent += ends_per_piece)
    send_bytes(comm, &ends[sent], std::min(ends_per_piece, ends.size() - sent) * sizeof(FlowEnd));
  send_bytes(comm, nullptr, 0);
}

void receive_rank(MPI_Comm comm, int rank, OutputFile* file, std::vector<FlowEnd>* ends) {
  std::vector<char> piece;
  while (receive_bytes(comm, rank, &piece)) file->write({piece.data(), piece.size()});
  while (receive_bytes(comm, rank, &piece)) {
    size_t before = ends->size();
    ends->resize(before + piece.size() / sizeof(FlowEnd));
    std::memcpy(&(*ends)[before], piece.data(), piece.size());
  }
}

}  // namespace

ClockReading compare_clocks(MPI_Comm comm) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  ClockIdentity mine = own_clock(), first = mine;
  real.Bcast(&first, sizeof first, MPI_BYTE, 0, comm);
  int differs = !(mine == first);
  std::vector<int> all(static_cast<size_t>(size));
  real.Gather(&differs, 1, MPI_INT, all.data(), 1, MPI_INT, 0, comm);
  if (rank != 0) return differs ? ask(comm) : ClockReading{observe::now(), 0};
  for (int other = 1; other < size; ++other)
    if (all[static_cast<size_t>(other)]) answer(comm, other);
  return {observe::now(), 0};
}

void write_trace(MPI_Comm comm, const char* path, const observe::ClockFit& clock, uint64_t start,
                 observe::Provenance (*provenance)(), observe::NameOf name_of) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  uint64_t dropped = 0, dropped_by_all = 0;
  std::vector<observe::Log> logs = observe::traced(&dropped);
  real.Reduce(&dropped, &dropped_by_all, 1, MPI_UINT64_T, MPI_SUM, 0, comm);
  observe::TraceOfRank of_rank{rank, observe::host_name(), clock, start};
  if (rank != 0) return send_rank(comm, of_rank, logs, name_of);

  OutputFile file(path);
  file.write(observe::head_of_trace());
  observe::write_events(of_rank, logs, name_of, [&](const std::string& text) { file.write(text); });
  std::vector<FlowEnd> ends = observe::flow_ends(of_rank, logs);
  for (int other = 1; other < size; ++other) receive_rank(comm, other, &file, &ends);
  observe::Flows flows = observe::draw_flows(std::move(ends));
  file.write(flows.lines);
  file.write(observe::tail_of_trace(size, dropped_by_all, flows, provenance()));
  const std::string why = file.close();
  if (why.empty())
    log_line(LogLevel::info, "the trace is in %s", path);
  else
    log_line(LogLevel::warn, "the trace cannot be written to %s: %s", path, why.c_str());
  if (dropped_by_all > 0)
    log_line(LogLevel::warn, "the trace lacks %llu events, the last ones; trace a shorter run of the job",
             static_cast<unsigned long long>(dropped_by_all));
}

}  // namespace fairlead::mpi
