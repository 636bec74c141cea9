// SPDX-License-Identifier: Apache-2.0
//
// Random programs of many messages at once give every receive the message it must get, whole, in order, with
// the right status, for all modes, completion calls, probes, wildcards and places of memory together.
// The seed is printed; --seed N --rounds 1 repeats the first program of it, --seconds N goes on for long.

#include <sched.h>

#include <algorithm>
#include <list>
#include <map>

#include "harness/mpi4.h"
#include "harness/random_plan.h"
#include "harness/rounds.h"

using namespace ranks;
using namespace ranks::plan;

namespace {

// One rank's walk through a program.
class Walk {
 public:
  Walk(const Program& program, const MPI_Comm (&lanes)[lane_count], uint64_t seed)
      : program_(program), lanes_(lanes), random_(seed + static_cast<uint64_t>(rank)) {}

  void run() {
    attach_buffer();
    for (int step = 0; step < program_.steps(); ++step) {
      for (const Message& m : program_.messages)
        if (m.post == step && m.id <= step) receive(m);
      if (step < static_cast<int>(program_.messages.size())) send(program_.messages[step]);
      for (const Message& m : program_.messages)
        if (m.post == step && m.id > step) receive(m);
      complete(step);
    }
    detach_buffer();
    check();
  }

 private:
  // A receive of the program, and what it got.
  struct Receipt {
    const Message* planned;
    Memory memory;
    MPI_Status status;
    bool arrived;  // false: an error that is tolerated
  };

  // A request that is not complete yet.
  struct Pending {
    MPI_Request request;
    int due;           // step
    Receipt* receipt;  // null for a send
    bool persistent;
  };

  MPI_Comm comm(const Message& m) const { return lanes_[static_cast<int>(m.lane)]; }
  int in_lane(Lane lane, int world_rank) const {
    return lane == Lane::reversed ? size - 1 - world_rank : world_rank;
  }

  void attach_buffer() {
    size_t room = MPI_BSEND_OVERHEAD;  // the least that may be attached
    for (const Message& m : program_.messages)
      if (m.source == rank && is_buffered(m.send_kind)) room += m.bytes + MPI_BSEND_OVERHEAD + 64;
    attached_.resize(room);
    MUST(MPI_Buffer_attach(attached_.data(), static_cast<int>(room)));
  }

  void detach_buffer() {
    void* address;
    int bytes;
    MUST(MPI_Buffer_detach(&address, &bytes));
  }

  Memory& outgoing(const Message& m) {
    outgoing_.emplace_back(m.from, m.bytes, m.from_offset);
    return outgoing_.back().fill(m.key);
  }

  Receipt& receipt(const Message& m) {
    receipts_.push_back({&m, Memory(m.to, m.capacity, m.to_offset), MPI_Status{}, false});
    return receipts_.back();
  }

  // A persistent request that cannot be started is no operation.
  void start(MPI_Request* request) {
    if (!MUST(MPI_Start(request))) MUST(MPI_Request_free(request));
  }

  void keep(MPI_Request request, int due, Receipt* receipt, bool persistent) {
    if (request != MPI_REQUEST_NULL) pending_.push_back({request, due, receipt, persistent});
  }

  void send(const Message& m) {
    if (m.twin >= 0 || m.source != rank) return;
    Memory& memory = outgoing(m);
    const int count = static_cast<int>(m.bytes), to = in_lane(m.lane, m.destination);
    MPI_Request request = MPI_REQUEST_NULL;
    switch (m.send_kind) {
      case SendKind::send:
        MUST(MPI_Send(memory, count, MPI_BYTE, to, m.tag, comm(m)));
        break;
      case SendKind::ssend:
        MUST(MPI_Ssend(memory, count, MPI_BYTE, to, m.tag, comm(m)));
        break;
      case SendKind::bsend:
        MUST(MPI_Bsend(memory, count, MPI_BYTE, to, m.tag, comm(m)));
        break;
      case SendKind::isend:
        MUST(MPI_Isend(memory, count, MPI_BYTE, to, m.tag, comm(m), &request));
        break;
      case SendKind::issend:
        MUST(MPI_Issend(memory, count, MPI_BYTE, to, m.tag, comm(m), &request));
        break;
      case SendKind::ibsend:
        MUST(MPI_Ibsend(memory, count, MPI_BYTE, to, m.tag, comm(m), &request));
        break;
      case SendKind::persistent:
        if (MUST(MPI_Send_init(memory, count, MPI_BYTE, to, m.tag, comm(m), &request))) start(&request);
        break;
      case SendKind::sendrecv:
      case SendKind::isendrecv:
        break;
    }
    keep(request, m.send_wait, nullptr, m.send_kind == SendKind::persistent);
    // What a completed send left behind belongs to the user: nobody may see it any more.
    if (is_blocking(m.send_kind)) memory.clear();
  }

  void receive(const Message& m) {
    if (m.twin >= 0) {
      exchange(m);
      return;
    }
    if (m.destination != rank) return;
    Receipt& got = receipt(m);
    const bool named = m.lane == Lane::any_tag || (m.lane != Lane::wild && m.name_source);
    int from = named ? in_lane(m.lane, m.source) : MPI_ANY_SOURCE;
    int tag = m.lane == Lane::tagged || m.lane == Lane::reversed ? m.tag : MPI_ANY_TAG;
    const int count = static_cast<int>(m.capacity);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status probed;
    int found = 0;
    bool was_probed = true;
    switch (m.receive_kind) {
      case ReceiveKind::probe_recv:
        MUST(MPI_Probe(from, tag, comm(m), &probed));
        break;
      case ReceiveKind::iprobe_recv:
        while (!found && MUST(MPI_Iprobe(from, tag, comm(m), &found, &probed))) sched_yield();
        break;
      case ReceiveKind::mprobe_mrecv:
        MUST(MPI_Mprobe(from, tag, comm(m), &message, &probed));
        break;
      case ReceiveKind::improbe_imrecv:
        while (!found && MUST(MPI_Improbe(from, tag, comm(m), &found, &message, &probed))) sched_yield();
        break;
      default:
        was_probed = false;
    }
    if (was_probed && message == MPI_MESSAGE_NULL) from = probed.MPI_SOURCE, tag = probed.MPI_TAG;
    switch (m.receive_kind) {
      case ReceiveKind::recv:
      case ReceiveKind::probe_recv:
      case ReceiveKind::iprobe_recv:
        got.arrived = MUST(MPI_Recv(got.memory, count, MPI_BYTE, from, tag, comm(m), &got.status));
        break;
      case ReceiveKind::mprobe_mrecv:
        got.arrived = MUST(MPI_Mrecv(got.memory, count, MPI_BYTE, &message, &got.status));
        break;
      case ReceiveKind::improbe_imrecv:
        MUST(MPI_Imrecv(got.memory, count, MPI_BYTE, &message, &request));
        break;
      case ReceiveKind::irecv:
        MUST(MPI_Irecv(got.memory, count, MPI_BYTE, from, tag, comm(m), &request));
        break;
      case ReceiveKind::persistent:
        if (MUST(MPI_Recv_init(got.memory, count, MPI_BYTE, from, tag, comm(m), &request))) start(&request);
        break;
      case ReceiveKind::sendrecv:
      case ReceiveKind::isendrecv:
        break;
    }
    keep(request, m.receive_wait, &got, m.receive_kind == ReceiveKind::persistent);
    if (was_probed && got.arrived) {
      int told, received;
      MPI_Get_count(&probed, MPI_BYTE, &told);
      MPI_Get_count(&got.status, MPI_BYTE, &received);
      EXPECT(told == received && probed.MPI_SOURCE == got.status.MPI_SOURCE &&
                 probed.MPI_TAG == got.status.MPI_TAG,
             "a probe told %d bytes of source %d, %d arrived from %d; %s", told, probed.MPI_SOURCE, received,
             got.status.MPI_SOURCE, describe(m).c_str());
    }
  }

  // `m` is the first message of a twin, started by both of its ranks in this step.
  void exchange(const Message& m) {
    if (m.twin < m.id || (m.source != rank && m.destination != rank)) return;
    const Message& twin = program_.messages[m.twin];
    const Message& out = m.source == rank ? m : twin;
    const Message& in = m.source == rank ? twin : m;
    Memory& memory = outgoing(out);
    Receipt& got = receipt(in);
    const int tag = in.lane == Lane::any_tag ? MPI_ANY_TAG : in.tag;
    const int out_count = static_cast<int>(out.bytes), in_count = static_cast<int>(in.capacity);
    const int to = in_lane(out.lane, out.destination), from = in_lane(in.lane, in.source);
    if (in.receive_kind == ReceiveKind::isendrecv && mpi4::isendrecv_works()) {
      MPI_Request request = MPI_REQUEST_NULL;
      MUST(mpi4::Isendrecv(memory, out_count, MPI_BYTE, to, out.tag, got.memory, in_count, MPI_BYTE, from,
                           tag, comm(in), &request));
      keep(request, in.receive_wait, &got, false);
    } else {
      got.arrived = MUST(MPI_Sendrecv(memory, out_count, MPI_BYTE, to, out.tag, got.memory, in_count,
                                      MPI_BYTE, from, tag, comm(in), &got.status));
    }
  }

  // Completes all that is due, by calls chosen at random, sometimes with others in the array.
  void complete(int step) {
    const bool with_others = random_() % 2 == 0;
    std::vector<std::list<Pending>::iterator> chosen;
    size_t due = 0;
    for (auto it = pending_.begin(); it != pending_.end(); ++it) {
      if (it->due > step && !with_others) continue;
      chosen.push_back(it);
      due += it->due <= step;
    }
    if (due == 0) return;
    std::shuffle(chosen.begin(), chosen.end(), random_);
    if (with_others) {
      take_until_due_are_done(chosen, due, step);
      return;
    }
    std::vector<MPI_Request> requests;
    for (auto it : chosen) requests.push_back(it->request);
    std::vector<MPI_Status> statuses(requests.size());
    const int count = static_cast<int>(requests.size());
    int done = 0;
    switch (random_() % 4) {
      case 0:
        if (!MUST(MPI_Waitall(count, requests.data(), statuses.data()))) {
          take_errors(chosen, requests, statuses);
          return;
        }
        break;
      case 1:
        while (!done) {
          if (!MUST(MPI_Testall(count, requests.data(), &done, statuses.data()))) {
            take_errors(chosen, requests, statuses);
            return;
          }
          sched_yield();
        }
        break;
      case 2:
        for (int i = 0; i < count; ++i) {
          const bool good = MUST(MPI_Wait(&requests[i], &statuses[i]));
          finish(chosen[i], requests[i], statuses[i], good);
        }
        return;
      case 3:
        for (int i = 0; i < count; ++i) {
          bool good = true;
          for (done = 0; !done && good; sched_yield())
            good = MUST(MPI_Test(&requests[i], &done, &statuses[i]));
          finish(chosen[i], requests[i], statuses[i], good);
        }
        return;
    }
    for (int i = 0; i < count; ++i) finish(chosen[i], requests[i], statuses[i], true);
  }

  // After MPI_ERR_IN_STATUS: completes those that the call left pending.
  void take_errors(std::vector<std::list<Pending>::iterator>& chosen, std::vector<MPI_Request>& requests,
                   std::vector<MPI_Status>& statuses) {
    for (size_t i = 0; i < requests.size(); ++i) {
      bool good = statuses[i].MPI_ERROR == MPI_SUCCESS;
      if (error_class(statuses[i].MPI_ERROR) == MPI_ERR_PENDING)
        good = MUST(MPI_Wait(&requests[i], &statuses[i]));
      finish(chosen[i], requests[i], statuses[i], good);
    }
  }

  void take_until_due_are_done(const std::vector<std::list<Pending>::iterator>& chosen, size_t due,
                               int step) {
    std::vector<MPI_Request> requests;
    std::vector<bool> finished(chosen.size(), false);
    for (auto it : chosen) requests.push_back(it->request);
    const int count = static_cast<int>(requests.size());
    std::vector<MPI_Status> statuses(requests.size());
    std::vector<int> indices(requests.size());
    const unsigned kind = random_() % 4;
    const auto take = [&](int i, const MPI_Status& status, bool good) {
      EXPECT(i >= 0 && i < count && !finished[i], "index %d of %d requests was completed again", i, count);
      if (i < 0 || i >= count || finished[i]) return;
      finished[i] = true;
      due -= chosen[i]->due <= step;
      finish(chosen[i], requests[i], status, good);
      requests[i] = MPI_REQUEST_NULL;  // also of a persistent one, which is freed now
    };
    const int before = failures();
    while (due > 0) {
      int index = MPI_UNDEFINED, done = 1, completed = 0;
      bool good = true;
      switch (kind) {
        case 0:
          good = MUST(MPI_Waitany(count, requests.data(), &index, statuses.data()));
          break;
        case 1:
          good = MUST(MPI_Testany(count, requests.data(), &index, &done, statuses.data()));
          break;
        case 2:
          good = MUST(MPI_Waitsome(count, requests.data(), &completed, indices.data(), statuses.data()));
          break;
        case 3:
          good = MUST(MPI_Testsome(count, requests.data(), &completed, indices.data(), statuses.data()));
          break;
      }
      if (kind < 2 && done) take(index, statuses[0], good);
      for (int n = 0; n < completed; ++n)
        take(indices[n], statuses[n], good || statuses[n].MPI_ERROR == MPI_SUCCESS);
      if (failures() > before) give_up("completion calls contradict themselves, or fail");
      sched_yield();
    }
  }

  void finish(std::list<Pending>::iterator it, MPI_Request request, const MPI_Status& status, bool good) {
    if (it->persistent) {
      EXPECT(request != MPI_REQUEST_NULL, "completion freed a persistent request");
      if (request != MPI_REQUEST_NULL) MUST(MPI_Request_free(&request));
    } else {
      EXPECT(request == MPI_REQUEST_NULL, "a completed request is not null");
    }
    if (it->receipt != nullptr) {
      it->receipt->status = status;
      it->receipt->arrived = good;
    }
    pending_.erase(it);
  }

  // Compares what each receive got with what it had to get, in the order of posting.
  void check() {
    std::map<int, std::vector<const Message*>> wild;  // source: its messages on the wild lane, last first
    for (auto m = program_.messages.rbegin(); m != program_.messages.rend(); ++m)
      if (m->lane == Lane::wild && m->destination == rank) wild[m->source].push_back(&*m);
    bool wild_known = true;
    for (const Receipt& got : receipts_) {
      const Message* m = got.planned;
      if (m->lane == Lane::wild) {
        wild_known = wild_known && got.arrived;  // after an error nobody knows which message is missing
        if (!wild_known) continue;
        std::vector<const Message*>& coming = wild[got.status.MPI_SOURCE];
        EXPECT(!coming.empty(), "a message from rank %d that was never sent", got.status.MPI_SOURCE);
        if (coming.empty()) continue;
        m = coming.back();
        coming.pop_back();
      }
      if (!got.arrived) continue;
      const int before = failures();
      EXPECT_STATUS(got.status, in_lane(m->lane, m->source), m->tag, m->bytes);
      EXPECT_HOLDS(got.memory, m->key, m->bytes);
      EXPECT(failures() == before, "that was %s", describe(*m).c_str());
    }
  }

  const Program& program_;
  const MPI_Comm (&lanes_)[lane_count];
  std::mt19937_64 random_;
  std::vector<char> attached_;
  std::list<Memory> outgoing_;
  std::list<Receipt> receipts_;
  std::list<Pending> pending_;
};

}  // namespace

RANK_TEST(random, every_receive_gets_its_message, 1) {
  MPI_Comm lanes[lane_count] = {MPI_COMM_WORLD, MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL};
  MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &lanes[static_cast<int>(Lane::reversed)]));
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &lanes[static_cast<int>(Lane::any_tag)]));
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &lanes[static_cast<int>(Lane::wild)]));
  repeat("random", options.seconds, [&](uint64_t seed) {
    const Program program = make_program(seed, size);
    Walk(program, lanes, seed).run();
  });
  for (MPI_Comm& lane : lanes)
    if (lane != MPI_COMM_WORLD) MUST(MPI_Comm_free(&lane));
}
