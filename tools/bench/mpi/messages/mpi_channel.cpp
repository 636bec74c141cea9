// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <vector>

#include "bench/mpi/count.h"
#include "bench/mpi/messages/channel.h"

namespace fairlead::tools {
namespace {

// The sender of one direction goes on when the receiver has everything.
void acknowledge(const void* from, const void* to, int partner, MPI_Comm comm) {
  char acknowledged = 0;
  if (from && !to) MPI_Recv(&acknowledged, 1, MPI_BYTE, partner, message_tag + 1, comm, MPI_STATUS_IGNORE);
  if (to && !from) MPI_Send(&acknowledged, 1, MPI_BYTE, partner, message_tag + 1, comm);
}

class MpiChannel : public Channel {
 public:
  MpiChannel(int partner, Probe probe, MPI_Comm comm) : partner_(partner), probe_(probe), comm_(comm) {}

  std::string name() const override { return "MPI"; }

  void send(const void* from, uint64_t bytes) override {
    Count count(bytes);
    MPI_Send(from, count.number, count.type, partner_, message_tag, comm_);
  }

  void receive(void* to, uint64_t bytes) override {
    Count count(bytes);
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    if (probe_ == Probe::probe) MPI_Probe(partner_, message_tag, comm_, &status);
    if (probe_ == Probe::matched) MPI_Mprobe(partner_, message_tag, comm_, &message, &status);
    if (probe_ != Probe::none) count.number = told(status, count);
    if (probe_ == Probe::matched)
      MPI_Mrecv(to, count.number, count.type, &message, MPI_STATUS_IGNORE);
    else
      MPI_Recv(to, count.number, count.type, partner_, message_tag, comm_, MPI_STATUS_IGNORE);
  }

  void window(const void* from, void* to, uint64_t bytes, int messages) override {
    Count count(bytes);
    requests_.clear();
    // Receives first, so that in both directions at once no message comes unexpected.
    for (int i = 0; to && i < messages; ++i)
      MPI_Irecv(to, count.number, count.type, partner_, message_tag, comm_, &requests_.emplace_back());
    for (int i = 0; from && i < messages; ++i)
      MPI_Isend(from, count.number, count.type, partner_, message_tag, comm_, &requests_.emplace_back());
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    acknowledge(from, to, partner_, comm_);
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
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
};

// As many requests as a window has messages, for one buffer and size.
class Requests {
 public:
  Requests() = default;
  ~Requests() { free(); }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // `make(request)` makes each of them where they are others than before.
  template <class Make>
  void turn_to(const void* address, uint64_t bytes, int number, const Make& make) {
    if (address == address_ && bytes == bytes_ && number == size()) return;
    free();
    address_ = address;
    bytes_ = bytes;
    for (int i = 0; i < number; ++i) make(&all_.emplace_back());
  }

  void start() { MPI_Startall(size(), all_.data()); }
  void wait() { MPI_Waitall(size(), all_.data(), MPI_STATUSES_IGNORE); }

 private:
  int size() const { return static_cast<int>(all_.size()); }
  void free() {
    for (MPI_Request& request : all_) MPI_Request_free(&request);
    all_.clear();
  }

  const void* address_ = nullptr;
  uint64_t bytes_ = 0;
  std::vector<MPI_Request> all_;
};

class PersistentChannel : public Channel {
 public:
  explicit PersistentChannel(int partner) : partner_(partner) {}

  std::string name() const override { return "MPI"; }

  void send(const void* from, uint64_t bytes) override { sending(from, bytes, 1).start(), out_.wait(); }
  void receive(void* to, uint64_t bytes) override { receiving(to, bytes, 1).start(), in_.wait(); }

  void window(const void* from, void* to, uint64_t bytes, int messages) override {
    if (to) receiving(to, bytes, messages).start();
    if (from) sending(from, bytes, messages).start();
    if (to) in_.wait();
    if (from) out_.wait();
    acknowledge(from, to, partner_, MPI_COMM_WORLD);
  }

 private:
  Requests& sending(const void* from, uint64_t bytes, int number) {
    out_.turn_to(from, bytes, number, [&](MPI_Request* request) {
      const Count count(bytes);
      MPI_Send_init(from, count.number, count.type, partner_, message_tag, MPI_COMM_WORLD, request);
    });
    return out_;
  }

  Requests& receiving(void* to, uint64_t bytes, int number) {
    in_.turn_to(to, bytes, number, [&](MPI_Request* request) {
      const Count count(bytes);
      MPI_Recv_init(to, count.number, count.type, partner_, message_tag, MPI_COMM_WORLD, request);
    });
    return in_;
  }

  int partner_;
  Requests out_, in_;
};

}  // namespace

std::unique_ptr<Channel> make_mpi_channel(int partner, Probe probe, MPI_Comm comm) {
  return std::make_unique<MpiChannel>(partner, probe, comm);
}

std::unique_ptr<Channel> make_persistent_channel(int partner) {
  return std::make_unique<PersistentChannel>(partner);
}

}  // namespace fairlead::tools
