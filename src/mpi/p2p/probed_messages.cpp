// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/probed_messages.h"

#include <algorithm>
#include <list>
#include <mutex>

#include "base/log.h"
#include "mpi/abi/mutex.h"
#include "mpi/abi/real.h"
#include "mpi/core/communicator.h"
#include "mpi/core/engine.h"
#include "mpi/core/forwarded_receives.h"
#include "mpi/core/operation.h"
#include "mpi/network/network.h"
#include "p2p/rts_check.h"

namespace fairlead::mpi {
namespace {

Mutex messages_mutex;
auto& look_then_ask = *new SharedMutex;                               // locked before `messages_mutex`
auto& probed_queue = *new std::list<std::unique_ptr<ProbedMessage>>;  // for each source in order of arrival
struct MessageHandle {
  MPI_Message handle;
  std::unique_ptr<ProbedMessage> probed;
  MPI_Request to_self = MPI_REQUEST_NULL;  // the send to self behind a handle of make_handle()
};
auto& handed = *new std::list<MessageHandle>;

auto find(int source, int tag, MPI_Comm comm) {
  return std::find_if(probed_queue.begin(), probed_queue.end(), [&](const auto& entry) {
    return entry->comm == comm && (source == MPI_ANY_SOURCE || source == entry->status.MPI_SOURCE) &&
           (tag == MPI_ANY_TAG || tag == entry->status.MPI_TAG);
  });
}

// The flag by which the sender sees that a probe has only looked at its RTS header. Null for a genuine
// message, and for a pipelined transfer, whose sender gets a message (network.h).
std::atomic<uint32_t>* mark_of(const ProbedMessage& probed) {
  if (!p2p::is_rts(probed.bytes, sizeof probed.bytes, engine().nonce())) return nullptr;
  p2p::RtsHeader rts = p2p::read_rts(probed.bytes);
  if (rts.kind != p2p::RtsKind::rendezvous || !p2p::is_sound(rts, network::rts_limits())) return nullptr;
  return &engine().node()->block(rts.sender).rendezvous[rts.number].looked_at;
}

}  // namespace

ProbeQueueLock::ProbeQueueLock() {
  if (engine().threads()) look_then_ask.lock_shared();
}

ProbeQueueLock::~ProbeQueueLock() {
  if (engine().threads()) look_then_ask.unlock_shared();
}

size_t probed_messages() {
  std::lock_guard lock(messages_mutex);
  return probed_queue.size() + handed.size();
}

std::unique_ptr<ProbedMessage> take_probed(int source, int tag, MPI_Comm comm) {
  std::lock_guard lock(messages_mutex);
  auto found = find(source, tag, comm);
  if (found == probed_queue.end()) return nullptr;
  auto entry = std::move(*found);
  probed_queue.erase(found);
  engine().keep_busy(-1);
  return entry;
}

bool peek_probed(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  std::lock_guard lock(messages_mutex);
  auto found = find(source, tag, comm);
  if (found == probed_queue.end()) return false;
  *status = (*found)->status;
  return true;
}

std::unique_ptr<ProbedMessage> look_into(MPI_Message message, const MPI_Status& status, MPI_Comm comm) {
  auto entry = std::make_unique<ProbedMessage>();
  entry->comm = comm;
  entry->status = status;
  // Receiving the message completes a synchronous host send. `looking` keeps its sender from completing
  // before the mark is set.
  std::atomic<uint32_t>* looking = engine().node() ? &engine().node()->mine().looking : nullptr;
  if (looking) ++*looking;
  const int sender = rts_comes_from_outside() ? rank_in_world(comm, status.MPI_SOURCE) : -1;
  const bool announced = network::note_looking(sender);
  real.Mrecv(entry->bytes, sizeof entry->bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  const bool rts_came = p2p::is_rts(entry->bytes, sizeof entry->bytes, engine().nonce());
  if (announced) {
    p2p::RtsHeader rts = p2p::read_rts(entry->bytes);
    network::note_looked(sender, rts_came ? &rts : nullptr);
  }
  if (rts_came) {
    log_line(LogLevel::trace, "a probe looks into a message from %d with tag %d", status.MPI_SOURCE,
             status.MPI_TAG);
    if (std::atomic<uint32_t>* looked_at = mark_of(*entry)) looked_at->store(1, std::memory_order_release);
    set_byte_count(&entry->status, static_cast<MPI_Count>(p2p::read_rts(entry->bytes).bytes));
  }
  if (looking) --*looking;
  return entry;
}

void note_received(const ProbedMessage& probed) {
  if (std::atomic<uint32_t>* looked_at = mark_of(probed)) looked_at->store(0, std::memory_order_release);
}

bool queue_if_unclear(const MPI_Status& status, MPI_Comm comm) {
  if (byte_count(status) != static_cast<MPI_Count>(p2p::rts_bytes)) return false;
  std::unique_lock alone(look_then_ask, std::defer_lock);
  if (engine().threads()) alone.lock();
  std::lock_guard lock(messages_mutex);
  for (;;) {
    int found = 0;
    MPI_Message message;
    MPI_Status next;
    // Another thread may have taken it, or the sender has failed.
    if (real.Improbe(status.MPI_SOURCE, MPI_ANY_TAG, comm, &found, &message, &next) != MPI_SUCCESS || !found)
      break;
    bool unclear = byte_count(next) == static_cast<MPI_Count>(p2p::rts_bytes);
    if (unclear) {
      probed_queue.push_back(look_into(message, next, comm));
    } else {
      auto earlier = std::make_unique<ProbedMessage>();
      earlier->comm = comm;
      earlier->status = next;
      earlier->message = message;
      probed_queue.push_back(std::move(earlier));
    }
    engine().keep_busy(1);
    if (next.MPI_TAG == status.MPI_TAG) break;
  }
  return true;
}

// Sends an empty message to this process and matches it at once, which gives a handle of the host MPI's own.
int make_handle(std::unique_ptr<ProbedMessage> probed, MPI_Message* message) {
  constexpr int tag = 0;
  std::lock_guard lock(messages_mutex);
  // take_handle() waits for this request when the user receives the message: quirk message_to_self.
  MPI_Request request;
  int result = real.Isend(nullptr, 0, MPI_BYTE, 0, tag, engine().self(), &request);
  if (result == MPI_SUCCESS) result = real.Mprobe(0, tag, engine().self(), message, MPI_STATUS_IGNORE);
  if (result == MPI_SUCCESS) {
    handed.push_back({*message, std::move(probed), request});
    engine().keep_busy(1);
  }
  return result;
}

void note_handle(MPI_Message message, MPI_Comm comm) {
  std::lock_guard lock(messages_mutex);
  auto entry = std::make_unique<ProbedMessage>();
  entry->comm = comm;
  entry->message = message;
  handed.push_back({message, std::move(entry), MPI_REQUEST_NULL});
  engine().keep_busy(1);
}

std::unique_ptr<ProbedMessage> take_handle(MPI_Message* message) {
  std::lock_guard lock(messages_mutex);
  auto found = std::find_if(handed.begin(), handed.end(),
                            [&](const MessageHandle& h) { return h.handle == *message; });
  if (found == handed.end()) return nullptr;
  auto probed = std::move(found->probed);
  MPI_Request to_self = found->to_self;
  handed.erase(found);
  engine().keep_busy(-1);
  if (probed->looked_into()) {
    real.Mrecv(nullptr, 0, MPI_BYTE, message, MPI_STATUS_IGNORE);
    real.Wait(&to_self, MPI_STATUS_IGNORE);
  }
  return probed;
}

}  // namespace fairlead::mpi
