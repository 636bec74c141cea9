// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/active_messages.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/options.h"
#include "mpi/abi/real.h"
#include "mpi/failures/failures.h"
#include "mpi/rma/accumulate_op.h"
#include "rma/transfer.h"

namespace fairlead::mpi {

using device::Error;
using rma::Header;
using rma::Message;
using rma::Outcome;
using rma::Request;

namespace {

constexpr int tag_service = 3;

Outcome outcome_of(Error error) {
  if (error == Error::none) return Outcome::done;
  log_line(LogLevel::error, "an access of another rank to this window failed: %s (%s)",
           device::to_string(error), device::runtime() ? device::runtime()->error_text() : "");
  return Outcome::failed;
}

}  // namespace

bool over(MPI_Request* request) {
  int here = 1;
  if (*request != MPI_REQUEST_NULL && is_failure(real.Test(request, &here, MPI_STATUS_IGNORE)))
    Targets::note_failed_request();
  return here != 0;
}

bool ActiveMessages::may_ask(int target) const {
  auto found = under_way_.find(target);
  return found == under_way_.end() || found->second < options().network_depth;
}

void ActiveMessages::ask(int target, Message request, OnAnswer on_answer) {
  const uint64_t id = ++last_id_;
  request.header().id = id;
  answers_[id] = {target, std::move(on_answer)};
  ++under_way_[target];
  send(target, std::move(request));
}

void ActiveMessages::send(int to, Message message) {
  Sending& one = sending_.emplace_back();
  one.message = std::move(message);
  real.Isend(one.message.memory.data(), static_cast<int>(one.message.size), MPI_BYTE, to, tag_service,
             targets_.comm(), &one.request);
}

void ActiveMessages::answer(int to, uint64_t id, Outcome outcome, Message message) {
  new (message.memory.data()) Header{};
  message.header().kind = Request::answer;
  message.header().id = id;
  message.header().outcome = outcome;
  send(to, std::move(message));
}

void ActiveMessages::look_for_messages() {
  for (;;) {
    int found = 0, bytes = 0;
    MPI_Message matched;
    MPI_Status status;
    real.Improbe(MPI_ANY_SOURCE, tag_service, targets_.comm(), &found, &matched, &status);
    if (!found) return;
    PMPI_Get_count(&status, MPI_BYTE, &bytes);
    Receiving& one = received_.emplace_back();
    one.source = status.MPI_SOURCE;
    one.message = Message(static_cast<size_t>(bytes));
    real.Imrecv(one.message.memory.data(), bytes, MPI_BYTE, &matched, &one.request);
  }
}

void ActiveMessages::advance() {
  std::erase_if(sending_, [](Sending& one) { return over(&one.request); });
  look_for_messages();
  serve_locks();
  while (!received_.empty() && over(&received_.front().request)) {
    if (!serve(received_.front())) return;
    received_.pop_front();
  }
}

// False if the request must wait; the caller tries again later.
bool ActiveMessages::serve(const Receiving& received) {
  if (!rma::is_sound(received.message)) {
    log_line(LogLevel::error, "rank %d of a window sent a damaged message of %zu bytes", received.source,
             received.message.size);
    if (received.message.size >= sizeof(Header) && received.message.header().kind < Request::answer)
      answer(received.source, received.message.header().id, Outcome::failed);
    return true;
  }
  const Header& header = received.message.header();
  switch (header.kind) {
    case Request::answer: {
      auto found = answers_.find(header.id);
      if (found == answers_.end()) return true;
      Asked asked = std::move(found->second);
      answers_.erase(found);
      --under_way_[asked.target];
      asked.on_answer(received.message);
      return true;
    }
    case Request::lock: {
      rma::FairLock& lock = targets_.own_words().lock;
      waiting_.push_back({received.source, header.id, lock.draw(), header.exclusive != 0});
      serve_locks();
      return true;
    }
    case Request::unlock:
      targets_.own_words().lock.leave(header.exclusive != 0);
      answer(received.source, header.id, Outcome::done);
      return true;
    default:
      return serve_access(received);
  }
}

void ActiveMessages::serve_locks() {
  rma::FairLock& lock = targets_.own_words().lock;
  std::erase_if(waiting_, [&](const WaitingLock& one) {
    const bool granted = lock.enter(one.ticket, one.exclusive);
    if (!granted && !lock.is_damaged(one.ticket)) return false;
    answer(one.source, one.id, granted ? Outcome::done : Outcome::failed);
    return true;
  });
}

bool ActiveMessages::serve_access(const Receiving& received) {
  const Header& header = received.message.header();
  const Target& mine = targets_.mine();
  rma::Buffer target{rma::layout_at(reinterpret_cast<char*>(mine.base), received.message), mine.device};
  const bool within = targets_.dynamic() ? targets_.attached().locate(&target, header.at, header.bytes,
                                                                      header.low, header.high)
                                         : header.low >= 0 && header.high <= mine.size;
  if (!within) {
    answer(received.source, header.id, Outcome::out_of_range);
    return true;
  }
  const rma::Buffer operand = rma::host_buffer(received.message.payload(), header.bytes);
  const bool fetches = header.kind == Request::get || header.kind >= Request::fetch;
  Message reply(sizeof(Header) + (fetches ? header.bytes : 0));
  if (!reply.memory.data()) {
    answer(received.source, header.id, outcome_of(Error::out_of_memory));
    return true;
  }
  new (reply.memory.data()) Header{};
  const rma::Buffer result = rma::host_buffer(reply.payload(), header.bytes);
  Error error = Error::none;
  if (header.kind == Request::put) {
    error = rma::transfer_now(target, header.at, operand, 0, header.bytes);
  } else if (header.kind == Request::get) {
    error = rma::transfer_now(result, 0, target, header.at, header.bytes);
  } else {
    rma::AccumulateLock& accumulate_lock = targets_.own_words().accumulate_lock;
    if (!accumulate_lock.take(rma::DeadOwnerDetector::own_id())) {
      if (!detector_.owner_died(accumulate_lock)) return false;
      answer(received.source, header.id, Outcome::failed);
      return true;
    }
    detector_ = {};
    if (header.kind == Request::compare_and_swap) {
      const rma::Buffer compare = rma::host_buffer(received.message.payload() + header.bytes, header.bytes);
      error = rma::compare_and_swap(target, compare, operand, result);
    } else {
      rma::Combination combination;
      const bool known = combination_of(op_of_number(header.op), type_of_number(header.type), &combination) &&
                         (combination.kind == rma::Combination::Kind::none ||
                          received.message.payload_bytes() >= header.bytes);
      error = known ? rma::accumulate(combination, target, header.at, operand, 0,
                                      header.kind == Request::fetch ? &result : nullptr, 0, header.bytes)
                    : Error::invalid_value;
    }
    accumulate_lock.give_back();
  }
  answer(received.source, header.id, outcome_of(error), std::move(reply));
  return true;
}

}  // namespace fairlead::mpi
