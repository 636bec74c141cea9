// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/host_trial.h"

#include <unistd.h>

#include <cstring>
#include <iterator>
#include <optional>

#include "base/log.h"
#include "device/blocking_driver_calls.h"
#include "device/copies/copy.h"
#include "device/copies/small_copy.h"
#include "mpi/abi/real.h"
#include "mpi/failures/failures.h"
#include "mpi/network/crash_line.h"

namespace fairlead::mpi::network {

// What is sent at the same time to both neighbours.
struct HostTrial::Kind {
  bool from_device, to_device;
  size_t bytes;
};

const HostTrial::Kind HostTrial::kinds[] = {
    {true, true, 16},        {true, false, 16},        {false, true, 16},         {true, true, 4096},
    {true, false, 4096},     {false, true, 4096},      {true, true, 64 << 10},    {true, false, 64 << 10},
    {false, true, 64 << 10}, {true, true, most_bytes}, {true, false, most_bytes}, {false, true, most_bytes},
};

namespace {

// Three places: what the next and the previous node send, whose receives have the same numbers among the
// messages, and what is sent.
constexpr int from_next = 0, from_previous = 1, sent = 2, places = 3;
constexpr int tag_forward = 0, tag_backward = 1;

std::optional<CrashLine> crash_line;

unsigned char byte_of(int rank, size_t kind, size_t at) {
  return static_cast<unsigned char>((at * 131) ^ (at >> 8) * 29 ^
                                    (kind * 53 + static_cast<size_t>(rank) * 97 + 1));
}

std::string line_of_crash() {
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  return "fairlead " + std::string(host) + ":" + std::to_string(getpid()) +
         " error host MPI claims GPU support but crashed on device memory; set FAIRLEAD_NETWORK=staged\n";
}

}  // namespace

HostTrial::HostTrial(MPI_Comm ranks) : ranks_(ranks) {
  PMPI_Comm_rank(ranks, &rank_);
  PMPI_Comm_size(ranks, &size_);
  next_ = (rank_ + 1) % size_;
  previous_ = (rank_ + size_ - 1) % size_;
}

// Device memory is freed here and not earlier, because that waits for the program's kernels. The program may
// have freed it by cudaDeviceReset(), and have other memory at its address since.
HostTrial::~HostTrial() {
  crash_line.reset();
  if (device_memory_ && !host_only_ && id_of_memory() == memory_id_)
    if (const device::BlockingDriverCalls calls; calls) calls->free(device_memory_);
  free_own(&ranks_);
}

void HostTrial::agree(Result mine, Step next) {
  mine_ = static_cast<int>(mine);
  step_ = next;
  real.Iallreduce(&mine_, &all_, 1, MPI_INT, MPI_MIN, ranks_, &agreement_);
}

bool HostTrial::agreed() {
  int done = 0;
  real.Test(&agreement_, &done, MPI_STATUS_IGNORE);
  return done != 0;
}

void HostTrial::join(int device) {
  device_ = device;
  agree(device >= 0 ? Result::right : Result::missing, Step::joining);
}

// Receives into device memory that have no message yet get it in host memory.
void HostTrial::leave_device() {
  host_only_ = true;
  if (step_ != Step::exchanging || !kinds[kind_].to_device) return;
  for (int which : {from_next, from_previous})
    if (messages_[which] != MPI_REQUEST_NULL) real.Cancel(&messages_[which]);
}

// The host MPI may need a current device in the calls that move device memory, and any thread may be here.
void HostTrial::advance() {
  if (step_ == Step::waiting || step_ == Step::over) return;
  bool done = false;
  if (device_ >= 0 && !host_only_) {
    device::runtime()->run_on(device_, [&] {
      take_steps();
      done = true;
    });
    if (!done) leave_device();
  }
  if (!done) take_steps();
}

void HostTrial::take_steps() {
  CrashLine::Inside inside;
  if (step_ == Step::joining && agreed()) {
    if (static_cast<Result>(all_) == Result::missing) {
      step_ = Step::over;
      return;
    }
    if (!prepare()) return;
    tried_ = true;
    step_ = Step::exchanging;
    start_exchange();
  }
  while (step_ == Step::exchanging && exchange_ended()) {
    check_received();
    if (++kind_ < std::size(kinds))
      start_exchange();
    else
      agree(!wrong_.empty() ? Result::wrong : host_only_ ? Result::left : Result::right, Step::concluding);
  }
  if (step_ == Step::concluding && agreed()) {
    crash_line.reset();
    host_memory_.reset();
    step_ = Step::over;
  }
}

// False: not now (blocking_driver_calls.h). Without device memory this rank takes part with host memory: its
// neighbours wait for its messages.
bool HostTrial::prepare() {
  void* memory = nullptr;
  if (!host_only_) {
    const device::BlockingDriverCalls calls;
    if (!calls.may_allocate()) return false;
    if (calls->allocate(device_, places * most_bytes, &memory) != device::Error::none)
      wrong_ = "there is no device memory for it";
  }
  host_memory_.reset(new unsigned char[places * most_bytes]);
  device_memory_ = static_cast<unsigned char*>(memory);
  if (device_memory_) memory_id_ = id_of_memory();
  crash_line.emplace(line_of_crash(), device_memory_, device_memory_ ? places * most_bytes : 0);
  return true;
}

// Of the memory that is at the address now; 0 if there is none.
uint64_t HostTrial::id_of_memory() const {
  device::Allocation found;
  return device::runtime()->query(device_memory_, &found) == device::Error::none ? found.id : 0;
}

unsigned char* HostTrial::buffer(bool on_device, int which) {
  const bool there = on_device && device_memory_ && !host_only_;
  unsigned char* memory = there ? device_memory_ : host_memory_.get();
  return memory + static_cast<size_t>(which) * most_bytes;
}

void HostTrial::write(unsigned char* to, const unsigned char* from, size_t bytes) {
  if (to == from) return;
  if (device::copy_now(device_, to, from, bytes) != device::Error::none) note_wrong("cannot be written");
}

void HostTrial::start_exchange() {
  const Kind& kind = kinds[kind_];
  unsigned char* host = buffer(false, sent);
  // The places of received bytes get others than those that are expected.
  for (int which : {from_next, from_previous}) {
    const int sender = which == from_next ? next_ : previous_;
    unsigned char* clean = buffer(false, which);
    for (size_t i = 0; i < kind.bytes; ++i) clean[i] = static_cast<unsigned char>(~byte_of(sender, kind_, i));
    write(buffer(kind.to_device, which), clean, kind.bytes);
  }
  for (size_t i = 0; i < kind.bytes; ++i) host[i] = byte_of(rank_, kind_, i);
  write(buffer(kind.from_device, sent), host, kind.bytes);

  receive(from_next);
  receive(from_previous);
  // Where the host MPI refuses device memory at once, bytes that are certainly wrong, in host memory, take
  // the place of the message, so that nobody waits for it.
  const int count = static_cast<int>(kind.bytes);
  auto send = [&](int peer, int tag, MPI_Request* request) {
    *request = MPI_REQUEST_NULL;
    const void* from = buffer(kind.from_device, sent);
    if (real.Isend(from, count, MPI_BYTE, peer, tag, ranks_, request) == MPI_SUCCESS) return;
    note_wrong("cannot be sent");
    host[0] = static_cast<unsigned char>(~byte_of(rank_, kind_, 0));
    real.Isend(host, count, MPI_BYTE, peer, tag, ranks_, request);
  };
  send(next_, tag_forward, &messages_[2]);
  send(previous_, tag_backward, &messages_[3]);
}

void HostTrial::receive(int which) {
  const Kind& kind = kinds[kind_];
  const int count = static_cast<int>(kind.bytes);
  const int peer = which == from_next ? next_ : previous_,
            tag = which == from_next ? tag_backward : tag_forward;
  MPI_Request* request = &messages_[which];
  *request = MPI_REQUEST_NULL;
  void* to = buffer(kind.to_device, which);
  if (real.Irecv(to, count, MPI_BYTE, peer, tag, ranks_, request) == MPI_SUCCESS) return;
  note_wrong("cannot be received");
  real.Irecv(buffer(false, which), count, MPI_BYTE, peer, tag, ranks_, request);
}

bool HostTrial::exchange_ended() {
  for (int which = 0; which < 4; ++which)
    if (messages_[which] != MPI_REQUEST_NULL && !message_ended(which)) return false;
  return true;
}

// Asks by the function that device messages use.
bool HostTrial::message_ended(int which) {
  MPI_Request& message = messages_[which];
  int ended = 0, cancelled = 0;
  MPI_Status status;
  status.MPI_ERROR = MPI_SUCCESS;
  const int result = PMPI_Request_get_status(message, &ended, &status);
  if (result == MPI_SUCCESS && !ended) return false;
  if (result != MPI_SUCCESS || status.MPI_ERROR != MPI_SUCCESS || real.Wait(&message, &status) != MPI_SUCCESS)
    note_wrong("ended in an error");
  else if (host_only_)
    PMPI_Test_cancelled(&status, &cancelled);
  message = MPI_REQUEST_NULL;
  if (cancelled) receive(which);
  return !cancelled;
}

void HostTrial::check_received() {
  if (host_only_) return;
  const Kind& kind = kinds[kind_];
  for (int which : {from_next, from_previous}) {
    const int sender = which == from_next ? next_ : previous_;
    unsigned char* bytes = buffer(false, which);
    unsigned char* received = buffer(kind.to_device, which);
    if (received != bytes &&
        device::copy_to_host(device_, bytes, received, kind.bytes) != device::Error::none)
      note_wrong("cannot be read");
    for (size_t i = 0; i < kind.bytes; ++i)
      if (bytes[i] != byte_of(sender, kind_, i)) {
        note_wrong("arrived with wrong bytes");
        break;
      }
  }
}

void HostTrial::note_wrong(const char* what) {
  if (!wrong_.empty()) return;
  const Kind& kind = kinds[kind_];
  wrong_ = "a message of " + std::to_string(kind.bytes) + " bytes from " +
           (kind.from_device ? "device" : "host") + " to " + (kind.to_device ? "device" : "host") +
           " memory " + what;
}

}  // namespace fairlead::mpi::network
