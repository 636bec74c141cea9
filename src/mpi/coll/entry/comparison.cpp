// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/entry/comparison.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mix.h"
#include "mpi/abi/mutex.h"
#include "mpi/abi/real.h"
#include "mpi/check/call_site.h"
#include "mpi/core/communicator.h"
#include "mpi/core/engine.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/hooks.h"
#include "mpi/core/operation.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/poll.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"
#include "mpi/datatype/signature.h"

namespace fairlead::mpi {
namespace {

// What this rank gives to another, or expects from it.
struct Message {
  int peer;
  bool given;
  MPI_Count bytes;
  uint64_t signature;
};

std::vector<Message> messages_of(const CollectiveCall& call, const CommPosition& position) {
  std::vector<Message> messages;
  const CollectiveShape& shape = call.shape();
  if (call.reduces() || shape.sent == Blocks::none) return messages;
  // Blocks that follow each other are mostly of one kind.
  CollectiveBlock last{0, 0, MPI_DATATYPE_NULL};
  Message of_last{};
  auto add = [&](int peer, bool given, const CollectiveBlock& block) {
    if (block.count != last.count || block.datatype != last.datatype) {
      const Signature signature = signature_of(block.count, block.datatype);
      of_last.bytes = block.count > 0 ? packed_bytes(block.count, block.datatype) : 0;
      of_last.signature = mixed(signature.length, signature.number);
      last = block;
    }
    messages.push_back({peer, given, of_last.bytes, of_last.signature});
  };
  const CallSide sent = call.sent(), received = call.received();
  if (shape.among_neighbors) {
    const auto& [in, out] = position.neighbors;
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i] != MPI_PROC_NULL) add(out[i], true, sent.block(static_cast<int>(i)));
    for (size_t i = 0; i < in.size(); ++i)
      if (in[i].rank != MPI_PROC_NULL) add(in[i].rank, false, received.block(static_cast<int>(i)));
    return messages;
  }
  const bool in_place = call.in_place(), keeps_own = in_place || call.recvbuf == MPI_IN_PLACE;
  auto for_each_peer = [&](bool here, Who who, const auto& visit) {
    for (int peer = 0; here && peer < position.size; ++peer)
      if (is_among(who, peer == call.root) && !(keeps_own && peer == position.rank)) visit(peer);
  };
  for_each_peer(gives(call, position), shape.gets, [&](int to) {
    add(to, true,
        !in_place                        ? sent.block(to)
        : shape.in_place == InPlace::own ? received.block(position.rank)
                                         : received.block(to));
  });
  for_each_peer(gets(call, position), shape.gives, [&](int from) { add(from, false, received.block(from)); });
  return messages;
}

// What must be the same on all ranks.
uint64_t number_of(const CollectiveCall& call, Form form, const CommPosition& position) {
  uint64_t number = mixed(static_cast<uint64_t>(call.function), static_cast<uint64_t>(form));
  if (call.shape().is_rooted()) number = mixed(number, static_cast<uint64_t>(call.root));
  if (!call.reduces()) return number;
  const auto op = kernel_op_of(call.op);
  number = mixed(number, op ? 1 + static_cast<uint64_t>(*op) : 0);
  auto add = [&](MPI_Count count) {
    const Signature signature = signature_of(count, call.recvtype);
    number = mixed(mixed(number, signature.length), signature.number);
  };
  if (!call.shape().has_arrays()) add(call.recvcount);
  for (int member = 0; call.shape().has_arrays() && member < position.size; ++member)
    add(call.recvcounts[member]);
  return number;
}

std::string type_in_words(MPI_Datatype datatype) {
  const std::string name = name_of_type(datatype);
  return !name.empty() ? name : "elements of " + bytes_in_words(packed_bytes(1, datatype));
}

std::string in_words(const CallSide& side, bool given, const std::vector<Message>& messages) {
  if (!has_arrays(side.blocks)) return std::to_string(side.count) + " " + type_in_words(side.datatype);
  MPI_Count bytes = 0;
  for (const Message& message : messages)
    if (message.given == given) bytes += message.bytes;
  return bytes_in_words(bytes) + " in all";
}

std::string in_words(MPI_Op op) {
  const auto known = kernel_op_of(op);
  if (!known) return "a user-defined operation";
  std::string name = std::string("MPI_") + to_string(*known);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

// "MPI_Reduce of 1024 MPI_DOUBLE with MPI_SUM to root 0 at solver+0x4a31"
std::string in_words(const CollectiveCall& call, const CommPosition& position,
                     const std::vector<Message>& messages) {
  const CollectiveShape& shape = call.shape();
  std::string given, got, words = name_of_call();
  if (call.reduces() && shape.has_arrays()) {
    constexpr int named = 16;
    for (int member = 0; member < position.size && member < named; ++member)
      got += std::to_string(call.recvcounts[member]) + "+";
    got.back() = ' ';
    got = (position.size > named ? got + "... " : got) + type_in_words(call.recvtype);
  } else if (call.reduces()) {
    got = std::to_string(call.recvcount) + " " + type_in_words(call.recvtype);
  } else if (shape.sent != Blocks::none) {
    if (gives(call, position) && !call.in_place()) given = in_words(call.sent(), true, messages);
    if (gets(call, position) && call.recvbuf != MPI_IN_PLACE)
      got = in_words(call.received(), false, messages);
  }
  if (given == got) given.clear();
  if (!given.empty()) words += " of " + given;
  if (!got.empty()) words += (given.empty() ? " of " : ", receiving ") + got;
  if (call.reduces()) words += " with " + in_words(call.op);
  if (shape.is_rooted()) words += ", root " + std::to_string(call.root);
  return words + " at " + find_call_site().place;
}

// "rank 3", "ranks 0-2, 5"
std::string in_words(const std::vector<int>& ranks) {
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0, end; i < ranks.size(); i = end) {
    for (end = i + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    if (end - i == 2) end = i + 1;
    words += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (end - i > 2) words += "-" + std::to_string(ranks[end - 1]);
  }
  return words;
}

class Comparison {
 public:
  Comparison(CommunicatorState& state, const CollectiveCall& call, Form form, bool is_wrong)
      : comm_(state.for_comparison()), rank_(state.position().rank), size_(state.position().size) {
    tag_ = static_cast<int>(state.next_comparison() % tags);
    if (!is_wrong) {
      messages_ = messages_of(call, state.position());
      call_ = number_of(call, form, state.position());
      words_ = in_words(call, state.position(), messages_);
      mine_.sum = mixed(call_, static_cast<uint64_t>(rank_)) -
                  mixed(call_, static_cast<uint64_t>((rank_ + 1) % size_));
      for (const Message& message : messages_) {
        auto [from, to] = std::pair(rank_, message.peer);
        if (!message.given) std::swap(from, to);
        const auto way = static_cast<uint64_t>(from) << 32 | static_cast<uint64_t>(to);
        const uint64_t number = mixed(way, message.signature);
        mine_.sum += message.given ? number : 0 - number;
      }
    }
    mine_.wrong = is_wrong;
    if (real.Iallreduce(&mine_, &all_, 2, MPI_UINT64_T, MPI_SUM, *comm_, &request_) != MPI_SUCCESS)
      is_over_ = true;
  }

  // One thread at a time. Never over if something does not match: rank 0 ends the job.
  void advance() {
    if (request_ != MPI_REQUEST_NULL) {
      int here = 0;
      if (real.Test(&request_, &here, MPI_STATUS_IGNORE) != MPI_SUCCESS) is_over_ = true;  // a process failed
      if (!here) return;
      if (all_.sum == 0 || all_.wrong > 0) is_over_ = true;
      differs_ = !is_over_;
      if (differs_) send_report();
    }
    if (!is_over_ && rank_ == 0) receive_reports();
  }
  MPI_Comm comm() const { return *comm_; }
  bool is_over() const { return is_over_; }
  bool differs() const { return differs_; }

 private:
  static constexpr int tags = 32768;

  void send_report() {
    reports_.resize(static_cast<size_t>(size_));
    std::string& mine = reports_[static_cast<size_t>(rank_)];
    const uint64_t length = words_.size();
    auto add = [&](const void* bytes, size_t size) { mine.append(static_cast<const char*>(bytes), size); };
    add(&call_, sizeof call_);
    add(&length, sizeof length);
    mine += words_;
    add(messages_.data(), messages_.size() * sizeof(Message));
    if (rank_ == 0) return;
    real.Isend(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, 0, tag_, *comm_, &report_);
  }

  void receive_reports() {
    int here = 1;
    while (received_ < size_ && here) {
      MPI_Status status{};
      if (real.Iprobe(MPI_ANY_SOURCE, tag_, *comm_, &here, &status) != MPI_SUCCESS || !here) break;
      std::string& report = reports_[static_cast<size_t>(status.MPI_SOURCE)];
      report.resize(static_cast<size_t>(byte_count(status)));
      real.Recv(report.data(), static_cast<int>(report.size()), MPI_BYTE, status.MPI_SOURCE, tag_, *comm_,
                MPI_STATUS_IGNORE);
      ++received_;
    }
    if (received_ < size_) return;
    print();
    // MPICH's launcher drops what it has not passed on when a rank aborts.
    usleep(300'000);
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }

  void print() const {
    std::map<std::string, std::vector<int>> ranks_by_words;
    std::map<uint64_t, int> calls;
    for (int rank = 0; rank < size_; ++rank) {
      const auto [call, words, messages] = parse(rank);
      ++calls[call];
      ranks_by_words[words].push_back(rank);
    }
    std::vector<std::pair<std::string, std::vector<int>>> groups(ranks_by_words.begin(),
                                                                 ranks_by_words.end());
    // The odd one comes last.
    std::ranges::stable_sort(groups, std::ranges::greater(),
                             [](const auto& one) { return one.second.size(); });
    log_line(LogLevel::error, "a collective does not match on a communicator of %s:", members().c_str());
    constexpr size_t named = 16;
    for (size_t i = 0; i < groups.size() && i < named; ++i)
      log_line(LogLevel::error, "  %s: %s", in_words(groups[i].second).c_str(), groups[i].first.c_str());
    if (groups.size() > named) log_line(LogLevel::error, "  and %zu more", groups.size() - named);
    if (calls.size() == 1) print_messages();
  }

  // Between which ranks what is given is not what is expected.
  void print_messages() const {
    struct Ends {
      std::vector<std::pair<uint64_t, MPI_Count>> given, expected;
    };
    std::map<std::pair<int, int>, Ends> all;
    for (int rank = 0; rank < size_; ++rank) {
      const auto report = parse(rank);
      for (const Message& message : std::get<2>(report)) {
        Ends& ends = all[message.given ? std::pair(rank, message.peer) : std::pair(message.peer, rank)];
        (message.given ? ends.given : ends.expected).push_back({message.signature, message.bytes});
      }
    }
    constexpr int named = 4;
    int wrong = 0;
    for (auto& [ranks, ends] : all) {
      std::ranges::sort(ends.given);
      std::ranges::sort(ends.expected);
      if (ends.given == ends.expected || ++wrong > named) continue;
      auto sum = [](const auto& messages) {
        MPI_Count bytes = 0;
        for (const auto& one : messages) bytes += one.second;
        return bytes;
      };
      const MPI_Count given = sum(ends.given), expected = sum(ends.expected);
      log_line(LogLevel::error, "  rank %d gives rank %d %s, which expects %s", ranks.first, ranks.second,
               bytes_in_words(given).c_str(),
               given == expected ? "other datatypes" : bytes_in_words(expected).c_str());
    }
    if (wrong > named) log_line(LogLevel::error, "  and so do %d more pairs of ranks", wrong - named);
  }

  std::tuple<uint64_t, std::string, std::vector<Message>> parse(int rank) const {
    const std::string& report = reports_[static_cast<size_t>(rank)];
    uint64_t call, length;
    std::memcpy(&call, report.data(), sizeof call);
    std::memcpy(&length, report.data() + sizeof call, sizeof length);
    const size_t begin = sizeof call + sizeof length + length;
    std::vector<Message> messages((report.size() - begin) / sizeof(Message));
    std::memcpy(messages.data(), report.data() + begin, messages.size() * sizeof(Message));
    return {call, report.substr(begin - length, length), std::move(messages)};
  }

  std::string members() const {
    std::vector<int> world(static_cast<size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) world[static_cast<size_t>(rank)] = rank_in_world(*comm_, rank);
    int all = 0;
    PMPI_Comm_size(MPI_COMM_WORLD, &all);
    const std::string many = std::to_string(size_) + " ranks";
    return all == size_ ? many : many + " (" + in_words(world) + " of MPI_COMM_WORLD)";
  }

  std::shared_ptr<MPI_Comm> comm_;
  const int rank_, size_;
  int tag_ = 0;
  uint64_t call_ = 0;
  std::string words_;
  std::vector<Message> messages_;
  struct {
    uint64_t sum = 0, wrong = 0;
  } mine_, all_;
  MPI_Request request_ = MPI_REQUEST_NULL, report_ = MPI_REQUEST_NULL;
  int received_ = 1;
  std::vector<std::string> reports_;
  std::atomic<bool> is_over_ = false, differs_ = false;
};

Mutex mutex;
auto& open = *new std::vector<std::shared_ptr<Comparison>>;
std::atomic<size_t> many_open{0};

void advance_comparisons() {
  if (many_open.load(std::memory_order_relaxed) == 0) return;
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) return;
  // Those of one communicator end in their order.
  std::vector<MPI_Comm> waiting;
  std::erase_if(open, [&](const std::shared_ptr<Comparison>& comparison) {
    if (std::ranges::find(waiting, comparison->comm()) != waiting.end()) return false;
    comparison->advance();
    if (comparison->is_over())
      engine().keep_busy(-1);
    else
      waiting.push_back(comparison->comm());
    return comparison->is_over();
  });
  many_open = open.size();
}

[[maybe_unused]] const bool hooked = add_hooks({.poll = advance_comparisons});

}  // namespace

void compare_ranks(CommunicatorState& state, const CollectiveCall& call, Form form, bool is_wrong) {
  const bool waits = form != Form::nonblocking;
  if (waits) state.make_for_comparison();
  if (!state.for_comparison()) return;
  auto comparison = std::make_shared<Comparison>(state, call, form, is_wrong);
  bool others_are_late = false;
  {
    std::lock_guard lock(mutex);
    others_are_late =
        std::ranges::any_of(open, [&](const auto& earlier) { return earlier->comm() == comparison->comm(); });
    open.push_back(comparison);
    many_open = open.size();
  }
  engine().keep_busy(1);
  if (!waits && others_are_late) return;
  // The host MPI may end the job for the same mistake, without saying who made it. So a nonblocking call
  // starts there a little later.
  constexpr std::chrono::milliseconds at_most{5};
  const auto until = std::chrono::steady_clock::now() + at_most;
  const std::string what = std::string("the comparison of ") + name_of_call();
  await_ranks(what.c_str(), call.comm, [&] {
    return comparison->is_over() ||
           (!waits && !comparison->differs() && std::chrono::steady_clock::now() >= until);
  });
}

bool comparing() {
  return many_open.load(std::memory_order_relaxed) > 0;
}

}  // namespace fairlead::mpi
