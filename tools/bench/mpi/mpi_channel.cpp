// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <vector>

#include "bench/mpi/channel.h"
#include "bench/mpi/count.h"

namespace fairlead::tools {
namespace {

class MpiChannel : public Channel {
 public:
  MpiChannel(int partner, Probe probe) : partner_(partner), probe_(probe) {}

  std::string name() const override { return "MPI"; }

  void send(const void* from, uint64_t bytes) override {
    Count count(bytes);
    MPI_Send(from, count.number, count.type, partner_, message_tag, MPI_COMM_WORLD);
  }

  void receive(void* to, uint64_t bytes) override {
    Count count(bytes);
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    if (probe_ == Probe::probe) MPI_Probe(partner_, message_tag, MPI_COMM_WORLD, &status);
    if (probe_ == Probe::matched) MPI_Mprobe(partner_, message_tag, MPI_COMM_WORLD, &message, &status);
    if (probe_ != Probe::none) count.number = told(status, count);
    if (probe_ == Probe::matched)
      MPI_Mrecv(to, count.number, count.type, &message, MPI_STATUS_IGNORE);
    else
      MPI_Recv(to, count.number, count.type, partner_, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  void window(const void* from, void* to, uint64_t bytes, int messages) override {
    Count count(bytes);
    requests_.clear();
    // Receives first, so that in both directions at once no message comes unexpected.
    for (int i = 0; to && i < messages; ++i)
      MPI_Irecv(to, count.number, count.type, partner_, message_tag, MPI_COMM_WORLD,
                &requests_.emplace_back());
    for (int i = 0; from && i < messages; ++i)
      MPI_Isend(from, count.number, count.type, partner_, message_tag, MPI_COMM_WORLD,
                &requests_.emplace_back());
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    // The sender of one direction goes on when the receiver has everything.
    char acknowledged = 0;
    if (from && !to)
      MPI_Recv(&acknowledged, 1, MPI_BYTE, partner_, message_tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (to && !from) MPI_Send(&acknowledged, 1, MPI_BYTE, partner_, message_tag + 1, MPI_COMM_WORLD);
  }

 private:
  // The buffer holds no more than the message that is due.
  static int told(const MPI_Status& status, const Count& due) {
    int number = 0;
    MPI_Get_count(&status, due.type, &number);
    if (number != due.number)
      throw Failure(exit_problem,
                    fmt::format("a probe tells of {} elements, where {} were sent", number, due.number));
    return number;
  }

  int partner_;
  Probe probe_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<Channel> make_mpi_channel(int partner, Probe probe) {
  return std::make_unique<MpiChannel>(partner, probe);
}

}  // namespace fairlead::tools
