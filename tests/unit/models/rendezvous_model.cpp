// SPDX-License-Identifier: Apache-2.0
// The states of a rendezvous (node/segment.h): the receiver copies the bytes from where they are, the sender
// uses its memory again when nobody reads it, and of two that make a step at once one succeeds. The threads
// are the steps of p2p/rendezvous_send.cpp, p2p/get.cpp, p2p/posted_buffer.cpp and transport/staged.cpp,
// without devices and with the weakest orders that suffice; Rendezvous and its functions are the library's.

#include <models/modelled.h>

#include "node/segment.h"

namespace modelled::node {
namespace {

using models::await;
using models::Machine;
using models::require;
using enum RendezvousState;
constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
               release = std::memory_order_release;

struct Message {
  Rendezvous slot{};
  models::Plain<int> buffer;          // of the sender
  std::atomic<uint64_t> base, bytes;  // as Rendezvous::source and shape, in two words
  std::atomic<bool> rts;              // the host MPI has the RTS header
  std::atomic<uint64_t> posted_for;   // as RankBlock's
  models::Plain<int> posted, taken;   // the description of the buffer, and its bytes
  std::atomic<uint32_t> word;
  bool claimed = false, withdrawn = false, looked = false, found = false;
};
using MessageRef = std::shared_ptr<Message>;

// RendezvousSend::make_available(), advance() and close(), and the next send, which takes the same
// rendezvous.
void send(Message& message) {
  message.buffer.write(1);
  message.slot.state.store(offered, release);
  await([&] { return message.slot.state.load(acquire) == done; });
  message.slot.state.store(free, relaxed);
  message.buffer.write(2);
}
// RendezvousGet::claim(), fetch() and close().
void receive(Message& message) {
  RendezvousState state = announced;
  await([&] { return (state = message.slot.state.load(acquire)) != announced; });
  if (!message.slot.state.compare_exchange_strong(state, claimed, relaxed)) return;
  require(state == offered && message.buffer.read() == 1, "other bytes");
  message.slot.state.store(done, release);
}
void transfer(Machine::Run& run) {
  auto message = std::make_shared<Message>();
  message->slot.state.store(announced);
  run.thread([=] { send(*message); });
  run.thread([=] { receive(*message); });
}

// RendezvousSend::end_move() of a late send, while RendezvousGet::claim() reads where the bytes are.
void move_late(Machine::Run& run) {
  auto message = std::make_shared<Message>();
  message->slot.state.store(offered);
  run.thread([=] {
    RendezvousState expected = offered;
    if (!message->slot.begin_to_move(expected)) return;
    message->base.store(1, relaxed);
    message->bytes.store(1, relaxed);
    message->slot.state.store(buffered, release);
  });
  run.thread([=] {
    for (bool claims = false; !claims;) {
      RendezvousState state = moving;
      await([&] { return (state = message->slot.state.load(acquire)) != moving; });
      const uint64_t base = message->base.load(relaxed), bytes = message->bytes.load(relaxed);
      if (!message->slot.is_still(state)) continue;
      require(base == bytes, "a half of another place");
      claims = message->slot.state.compare_exchange_strong(state, claimed, relaxed);
      require(!claims || base == (state == buffered), "not where the bytes are");
    }
  });
}

// The sender answers a refusal while RendezvousGet::insist() claims: one of them has the message.
void insist(Machine::Run& run) {
  auto message = std::make_shared<Message>();
  run.thread([=] {
    message->slot.reason.store(Reason::import_failed, relaxed);
    message->slot.state.store(refused, release);
    RendezvousState state = refused;
    message->claimed = message->slot.state.compare_exchange_strong(state, claimed, relaxed);
  });
  run.thread([=] {
    RendezvousState state = free;
    await([&] {
      state = message->slot.state.load(relaxed);
      return state == refused || state == claimed;
    });
    message->found = state == refused && message->slot.begin_to_move(state);
    if (!message->found) return;
    require(message->slot.reason.load(relaxed) == Reason::import_failed, "a refusal without its reason");
  });
  run.in_the_end = [=] { require(message->claimed != message->found, "both have the message, or none"); };
}

// PostedBuffer::post() and withdraw(), RendezvousPut::start() and signal().
void post(Machine::Run& run) {
  auto message = std::make_shared<Message>();
  run.thread([=] {
    message->posted.write(1);
    message->posted_for.store(2, release);
    await([&] { return message->rts.load(relaxed); });
    uint64_t name = 2;
    message->withdrawn = message->posted_for.compare_exchange_strong(name, 0, relaxed);
    if (!message->withdrawn) await([&] { return message->word.load(acquire) == 1; });
    (void)message->taken.read();
    message->posted.write(2);
  });
  run.thread([=] {
    uint64_t name = 2;
    if (message->posted_for.compare_exchange_strong(name, 3, acquire)) {
      (void)message->posted.read();
      message->taken.write(1);
      message->word.store(1, release);
    }
    message->rts.store(true, relaxed);
  });
}
// Of two ranks that both offer a buffer and then look for one, at least one sees the other's.
void post_both(Machine::Run& run) {
  auto message = std::make_shared<Message>();
  run.thread([=] {
    message->posted_for.store(2);
    message->looked = message->base.load() == 2;
  });
  run.thread([=] {
    message->base.store(2);
    message->found = message->posted_for.load() == 2;
  });
  run.in_the_end = [=] { require(message->looked || message->found, "neither sees the other's buffer"); };
}

TEST(Models, rendezvous) {
  models::examine({transfer, move_late, insist, post, post_both},
                  {"segment.h, begin_to_move(): compare_exchange, seq_cst -> acq_rel"});
}

// The ring of chunks of a pipelined transfer, StagedSender::advance() and StagedReceiver::advance(), with
// room for two, and the flush of the rest.
void pipeline(Machine::Run& run) {
  struct Ring {
    Rendezvous slot{};
    models::Plain<uint64_t> chunk[2], rest;
  };
  constexpr uint64_t chunks = 3;
  auto ring = std::make_shared<Ring>();
  run.thread([=] {
    for (uint64_t produced = 0; produced < chunks;) {
      if (produced >= 2) await([&] { return ring->slot.consumed.load(acquire) > produced - 2; });
      ring->chunk[produced % 2].write(produced);
      ring->slot.produced.store(++produced, release);
    }
    ring->rest.write(chunks);
    ring->slot.flushed.store(1, release);
  });
  run.thread([=] {
    for (uint64_t finished = 0; finished < chunks;) {
      await([&] { return ring->slot.produced.load(acquire) > finished; });
      require(ring->chunk[finished % 2].read() == finished, "another chunk");
      ring->slot.consumed.store(++finished, release);
    }
    await([&] { return ring->slot.flushed.load(acquire) != 0; });
    require(ring->slot.produced.load(relaxed) == chunks, "a chunk behind a flush");
    require(ring->rest.read() == chunks, "another rest");
  });
}

TEST(Models, pipelined_transfer) {
  models::examine({pipeline});
}

}  // namespace
}  // namespace modelled::node
