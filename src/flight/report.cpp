// SPDX-License-Identifier: Apache-2.0

#include "flight/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <set>

namespace fairlead::flight {
namespace {

constexpr size_t findings_shown = 6, rows_shown = 32;

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

std::string in_seconds(double seconds) {
  return seconds < 100 ? text("%.1f s", seconds) : text("%.0f s", seconds);
}

std::string listed(const std::vector<std::string>& parts) {
  std::string line;
  for (size_t i = 0; i < parts.size(); ++i)
    line += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return line;
}

std::string tag_words(const RankView& rank, int tag) {
  return rank.any_tag(tag) ? "any tag" : "tag " + std::to_string(tag);
}

std::string peer_words(const RankView& rank, const Call& call, int peer) {
  const int world = rank.in_world(call, peer);
  if (world == RankView::any_rank) return "any rank";
  if (peer == rank.block->null_rank) return "MPI_PROC_NULL";
  return world >= 0 ? "rank " + std::to_string(world)
                    : "rank " + std::to_string(peer) + " of the communicator";
}

// Nothing else is known of a communicator after the call that freed it.
std::string communicator_words(const JobView& job, const RankView& rank, const Call& call) {
  if (call.comm == 0 || call.comm == rank.block->world) return "";
  const CommunicatorView comm = rank.communicator(call.comm);
  const std::string function = job.name_of(call);
  const bool frees = function == "MPI_Comm_free" || function == "MPI_Comm_disconnect";
  return comm.id == 0 && frees ? "" : " on " + comm.name;
}

// A message that a rank sends, or waits for.
struct Wait {
  const RankView* rank;
  const Call* call;
  int peer;  // in MPI_COMM_WORLD
  int tag;
  bool sends;
  bool by_stream;  // not the rank itself, but a GPU stream of its
};

void add_waits(const RankView& rank, const Call& call, std::vector<Wait>* waits, bool by_stream = false) {
  if (call.kind != Kind::message) return;
  // What a rank waits to receive tells more.
  if (const int peer = rank.in_world(call, call.from); peer != RankView::nobody)
    waits->push_back({&rank, &call, peer, call.recvtag, false, by_stream});
  if (const int peer = rank.in_world(call, call.to); peer >= 0)
    waits->push_back({&rank, &call, peer, call.sendtag, true, by_stream});
}

std::vector<Wait> waits_of(const RankView& rank) {
  std::vector<Wait> waits;
  if (rank.open) add_waits(rank, *rank.open, &waits);
  for (const Call& request : rank.awaited) add_waits(rank, request, &waits);
  for (const Call& call : rank.streams) add_waits(rank, call, &waits, true);
  std::stable_sort(waits.begin(), waits.end(),
                   [](const Wait& one, const Wait& other) { return one.sends < other.sends; });
  return waits;
}

bool is_collective(const Call& call) {
  return call.kind == Kind::collective || call.kind == Kind::enqueued;
}

// "MPI_Allreduce of MPI_SUM", "MPI_Recv from rank 1, tag 7".
std::string words_without_communicator(const JobView& job, const RankView& rank, const Call& call) {
  std::string line = job.name_of(call);
  if (is_collective(call)) {
    if (call.to != absent) line += " with root " + std::to_string(call.to);
    if (const std::string operation = rank.operation(call); !operation.empty()) line += " of " + operation;
  } else if (call.kind == Kind::message || call.kind == Kind::polling) {
    if (call.to != absent)
      line += " to " + peer_words(rank, call, call.to) + ", " + tag_words(rank, call.sendtag);
    if (call.from != absent)
      line += " from " + peer_words(rank, call, call.from) + ", " + tag_words(rank, call.recvtag);
  }
  return line;
}

// The collective that a rank is in.
const Call* collective_of(const RankView& rank) {
  if (!rank.open) return nullptr;
  if (rank.open->kind == Kind::collective) return &*rank.open;
  for (const Call& request : rank.awaited)
    if (request.kind == Kind::collective) return &request;
  return nullptr;
}

bool is_over(const RankView& rank) {
  return !rank.lives || rank.state == State::finalized;
}

class Findings {
 public:
  explicit Findings(const JobView& job) : job_(job) {}

  std::vector<std::string> all() {
    for (const RankView& rank : job_.ranks)
      if (!rank.lives && rank.state == State::running)
        add(text("rank %d has died %s", rank.rank, where_it_died(rank).c_str()));
    // Of several requests, those that receive come first: a send may be complete.
    for (const RankView& rank : job_.ranks)
      if (const std::vector<Wait> waits = waits_of(rank); !is_over(rank))
        (void)std::any_of(waits.begin(), waits.end(), [this](const Wait& wait) { return message(wait); });
    enqueued();
    collectives();
    cycles();
    for (const RankView& rank : job_.ranks)
      if (!is_over(rank) && !explained_.contains(rank.rank)) chain(rank);
    return std::move(sentences_);
  }

 private:
  void add(const std::string& sentence) {
    if (std::find(sentences_.begin(), sentences_.end(), sentence) == sentences_.end())
      sentences_.push_back(sentence);
  }

  std::string where_it_died(const RankView& rank) const {
    if (rank.open) return "in " + words_for(job_, rank, *rank.open);
    return rank.last.empty() ? "before its first call" : "after " + words_for(job_, rank, rank.last.front());
  }

  // ---- Collectives ----

  void collectives() {
    std::map<uint64_t, std::vector<const RankView*>> on;  // by communicator
    for (const RankView& rank : job_.ranks)
      if (const Call* call = is_over(rank) ? nullptr : collective_of(rank))
        on[rank.communicator(call->comm).id].push_back(&rank);
    for (const auto& [id, ranks] : on)
      if (id != 0) collective(id, ranks);
  }

  struct Party {
    std::string words;
    std::vector<int> ranks;
  };
  // By their calls without the communicator, which each rank may have given a name of its own.
  using Parties = std::map<std::string, Party>;

  void join(Parties* parties, const RankView& rank, const Call& call) {
    Party& party = (*parties)[words_without_communicator(job_, rank, call)];
    party.words = words_for(job_, rank, call);
    party.ranks.push_back(rank.rank);
  }

  bool differ(const Parties& parties, const char* is, const char* are) {
    if (parties.size() < 2) return false;
    std::vector<Party> sorted;
    sorted.reserve(parties.size());
    for (const auto& [call, party] : parties) sorted.push_back(party);
    std::ranges::stable_sort(sorted, {}, [](const Party& party) { return party.ranks.size(); });
    std::vector<std::string> words;
    words.reserve(sorted.size());
    for (const auto& [call, ranks] : sorted)
      words.push_back(words_for_ranks(ranks) + (ranks.size() > 1 ? are : is) + call);
    add("different calls meet: " + listed(words));
    return true;
  }

  void collective(uint64_t id, const std::vector<const RankView*>& ranks) {
    Parties parties;
    for (const RankView* rank : ranks) join(&parties, *rank, *collective_of(*rank));
    if (differ(parties, " is in ", " are in "))
      for (const RankView* rank : ranks) explained_.insert(rank->rank);
    // Those that are somewhere else.
    const CommunicatorView comm = ranks.front()->communicator(collective_of(*ranks.front())->comm);
    std::map<std::string, std::vector<int>> missing;
    for (const RankView& rank : job_.ranks) {
      const Call* call = collective_of(rank);
      const bool is_in = !is_over(rank) && call && rank.communicator(call->comm).id == id;
      const bool member = comm.members.empty() || std::find(comm.members.begin(), comm.members.end(),
                                                            rank.rank) != comm.members.end();
      if (!is_in && member) missing[state_of(job_, rank)].push_back(rank.rank);
    }
    std::vector<int> waiting;
    waiting.reserve(ranks.size());
    for (const RankView* rank : ranks) waiting.push_back(rank->rank);
    const std::string what = parties.size() > 1 ? "in collectives" : "in " + parties.begin()->second.words;
    for (const auto& [state, members] : missing) {
      add(words_for_ranks(waiting) + (waiting.size() > 1 ? " wait " : " waits ") + what + " for " +
          words_for_ranks(members) + (members.size() > 1 ? ", each of which " : ", which ") + state);
      explained_.insert(waiting.begin(), waiting.end());
    }
  }

  // ---- Collectives that are enqueued ----

  using Enqueued = std::vector<std::pair<const RankView*, const EnqueuedView*>>;

  void enqueued() {
    std::map<uint64_t, Enqueued> on;  // by communicator
    for (const RankView& rank : job_.ranks)
      for (const EnqueuedView& each : rank.enqueued) on[each.comm].emplace_back(&rank, &each);
    for (const auto& [id, all] : on)
      if (id != 0 && !differ(all)) missing(all);
  }

  // The first ones that differ, of those that are kept.
  bool differ(const Enqueued& all) {
    std::map<uint64_t, Parties> calls;  // by number
    for (const auto& [rank, its] : all)
      for (size_t i = 0; i < its->last.size(); ++i) join(&calls[its->begun - i], *rank, its->last[i]);
    return std::ranges::any_of(
        calls, [this](const auto& each) { return differ(each.second, " has enqueued ", " have enqueued "); });
  }

  void missing(const Enqueued& all) {
    Parties waiting;
    std::vector<int> behind;
    for (const auto& [rank, its] : all) {
      const uint64_t by_all = job_.enqueued_by_all(*rank, *its).value_or(its->begun);
      if (its->begun == by_all) {
        behind.push_back(rank->rank);
        continue;
      }
      const Call& next = its->after(by_all);
      const auto is_next = [&](const Call& at) {
        return at.comm == next.comm && at.function == next.function;
      };
      if (!is_over(*rank) && std::ranges::any_of(rank->streams, is_next)) join(&waiting, *rank, next);
    }
    for (const auto& [call, party] : waiting)
      add(words_for_ranks(behind) + (behind.size() > 1 ? " have" : " has") + " not enqueued " + party.words +
          ", at which " + (party.ranks.size() > 1 ? "GPU streams of " : "a GPU stream of ") +
          words_for_ranks(party.ranks) + (party.ranks.size() > 1 ? " wait" : " waits"));
  }

  // ---- Messages ----

  std::string who_waits(const Wait& wait) const {
    return text(wait.by_stream ? "a GPU stream of rank %d is at %s" : "rank %d waits in %s", wait.rank->rank,
                words_for(job_, *wait.rank, *wait.call).c_str());
  }

  // Says why it cannot come; false if that is not known.
  bool message(const Wait& wait) {
    const RankView& rank = *wait.rank;
    const RankView* peer = job_.find(wait.peer);
    const std::string waits = who_waits(wait);
    for (const RankView& sender : job_.ranks) {
      if (wait.sends || (wait.peer == RankView::any_rank ? sender.rank == rank.rank : &sender != peer))
        continue;
      const Call* near = nearest(wait, sender);
      if (!near) continue;
      std::string what = tag_words(rank, near->sendtag);
      if (sender.communicator(near->comm).id != rank.communicator(wait.call->comm).id)
        what += " on " + sender.communicator(near->comm).name;
      add(waits + text(", but rank %d sent %s (%s, %s ago)", sender.rank, what.c_str(),
                       job_.name_of(*near).c_str(), in_seconds(job_.seconds_since(*near)).c_str()));
      explained_.insert(rank.rank);
      return true;
    }
    const bool ends = peer && peer->open && job_.name_of(*peer->open) == "MPI_Finalize";
    if (!peer || !(is_over(*peer) || ends)) return false;
    add(waits + text(", and rank %d ", peer->rank) +
        (ends ? "is in MPI_Finalize: it sends and receives nothing more" : state_of(job_, *peer)));
    explained_.insert(rank.rank);
    return true;
  }

  bool fits(const Wait& wait, const RankView& sender, const Call& sent) const {
    return sender.communicator(sent.comm).id == wait.rank->communicator(wait.call->comm).id &&
           (wait.rank->any_tag(wait.tag) || sent.sendtag == wait.tag);
  }

  // The last message to this rank that it has not received, as far as the calls that are kept tell; null if
  // there is one for which it waits.
  const Call* nearest(const Wait& wait, const RankView& sender) const {
    const RankView& rank = *wait.rank;
    std::vector<Wait> received;
    for (const Call& call : rank.last) {
      const auto is_this = [&](const Call& each) { return same(each, call); };
      const bool waits_still = (rank.open && is_this(*rank.open)) ||
                               std::any_of(rank.awaited.begin(), rank.awaited.end(), is_this) ||
                               std::any_of(rank.streams.begin(), rank.streams.end(), is_this);
      if (!waits_still && job_.name_of(call) != "MPI_Probe") add_waits(rank, call, &received);
    }
    std::erase_if(received, [&](const Wait& each) {
      return each.sends || (each.peer != sender.rank && each.peer != RankView::any_rank);
    });
    const Call* found = nullptr;
    for (auto call = sender.last.rbegin(); call != sender.last.rend(); ++call) {
      if (call->kind != Kind::message || sender.in_world(*call, call->to) != rank.rank) continue;
      // Receives are in the order of the messages.
      auto receive = std::find_if(received.rbegin(), received.rend(),
                                  [&](const Wait& each) { return fits(each, sender, *call); });
      if (receive != received.rend())
        received.erase(std::next(receive).base());
      else if (fits(wait, sender, *call))
        return nullptr;
      else
        found = &*call;
    }
    return found;
  }

  static bool same(const Call& one, const Call& other) {
    return one.since == other.since && one.site == other.site;
  }

  // ---- Cycles ----

  void cycles() {
    std::map<int, Wait> next;
    for (const RankView& rank : job_.ranks) {
      if (is_over(rank)) continue;
      for (const Wait& wait : waits_of(rank))
        if (wait.peer >= 0) next.emplace(rank.rank, wait);
    }
    std::set<int> seen;
    for (const auto& [start, first] : next) {
      std::vector<Wait> path;
      int rank = start;
      while (next.contains(rank) && seen.insert(rank).second) {
        path.push_back(next.at(rank));
        rank = next.at(rank).peer;
      }
      auto begin =
          std::find_if(path.begin(), path.end(), [&](const Wait& wait) { return wait.rank->rank == rank; });
      path.erase(path.begin(), begin);
      if (!path.empty()) cycle(path);
    }
  }

  void cycle(const std::vector<Wait>& path) {
    std::vector<std::string> steps;
    bool explained = true;
    const bool all_send = std::all_of(path.begin(), path.end(), [](const Wait& wait) { return wait.sends; });
    const bool all_receive =
        std::none_of(path.begin(), path.end(), [](const Wait& wait) { return wait.sends; });
    for (const Wait& wait : path) {
      steps.push_back(text(wait.by_stream ? "a GPU stream of rank %d at %s" : "rank %d in %s",
                           wait.rank->rank, words_for(job_, *wait.rank, *wait.call).c_str()));
      explained &= explained_.contains(wait.rank->rank);
      explained_.insert(wait.rank->rank);
    }
    if (explained) return;
    if (steps.size() > 4) steps.erase(steps.begin() + 2, steps.end() - 1);
    const std::string why = all_send      ? ": all send, and none receives"
                            : all_receive ? ": all receive, and none sends"
                                          : "";
    const std::string who = path.size() == 1 ? "a rank waits for itself"
                                             : text("%zu ranks wait for each other in a circle", path.size());
    add(who + why + ": " + listed(steps));
  }

  // ---- What else ----

  void chain(const RankView& rank) {
    for (const Wait& wait : waits_of(rank)) {
      const RankView* peer = job_.find(wait.peer);
      if (!peer || peer == &rank) continue;
      add(who_waits(wait) + text("; rank %d ", peer->rank) + state_of(job_, *peer));
      return;
    }
  }

  const JobView& job_;
  std::vector<std::string> sentences_;
  std::set<int> explained_;
};

std::string row(const JobView& job, const RankView& rank, const Locate& locate) {
  const Call* call = rank.open ? &*rank.open : rank.last.empty() ? nullptr : &rank.last.front();
  std::string line = text("  rank %-4d pid %-8d ", rank.rank, rank.pid) + state_of(job, rank);
  for (const Call& at : rank.streams)
    line += "; a GPU stream is at " + words_for(job, rank, at) +
            text(", called %s ago", in_seconds(job.seconds_since(at)).c_str());
  if (!call) return line + "\n";
  if (rank.open) line += text("; for %s", in_seconds(job.seconds_since(*call)).c_str());
  if (rank.open && call->bytes > 0)
    line += text("; %s memory, %llu bytes", call->device ? "device" : "host",
                 static_cast<unsigned long long>(call->bytes));
  return line + "; at " + locate(rank, *call) + "\n";
}

}  // namespace

std::string words_for_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0, end; i < ranks.size(); i = end) {
    for (end = i + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    if (end - i < 3) end = i + 1;
    parts.push_back(std::to_string(ranks[i]) + (end - i > 1 ? "-" + std::to_string(ranks[end - 1]) : ""));
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + listed(parts);
}

std::string words_for(const JobView& job, const RankView& rank, const Call& call) {
  std::string line = words_without_communicator(job, rank, call) + communicator_words(job, rank, call);
  if (rank.open && &call == &*rank.open && !rank.awaited.empty()) {
    line += " for " + words_for(job, rank, rank.awaited.front());
    if (rank.awaited.size() > 1) line += text(" and %zu more", rank.awaited.size() - 1);
  }
  return line;
}

std::string state_of(const JobView& job, const RankView& rank) {
  const std::string last = rank.last.empty() ? "" : words_for(job, rank, rank.last.front());
  if (rank.state == State::finalized) return rank.lives ? "has left MPI_Finalize" : "has ended";
  if (!rank.lives)
    return rank.open ? "has died in " + words_for(job, rank, *rank.open) : "has died after " + last;
  if (rank.open) return "is in " + words_for(job, rank, *rank.open);
  if (last.empty()) return "has not called MPI since MPI_Init";
  const std::string ago = in_seconds(job.seconds_since(rank.last.front()));
  if (rank.polls()) return "polls: " + last + text(", %u times in ", rank.last.front().repeats + 1) + ago;
  return "is outside MPI; its last call, " + ago + " ago, was " + last;
}

std::vector<std::string> findings(const JobView& job) {
  return Findings(job).all();
}

namespace {

std::string last_calls(const JobView& job, const RankView& rank, size_t calls, const Locate& locate) {
  std::string lines;
  for (size_t i = 0; i < std::min(calls, rank.last.size()); ++i)
    lines += text("    %s ago: ", in_seconds(job.seconds_since(rank.last[i])).c_str()) +
             words_for(job, rank, rank.last[i]) + ", at " + locate(rank, rank.last[i]) + "\n";
  return lines;
}

}  // namespace

std::string end_of(const JobView& job, const RankView& rank, size_t calls, const Locate& locate) {
  const std::string before = last_calls(job, rank, calls, locate);
  const std::string where = rank.open        ? "was in " + words_for(job, rank, *rank.open)
                            : before.empty() ? "had not called MPI since MPI_Init"
                                             : "was outside MPI";
  return text("  rank %d ", rank.rank) + where + (before.empty() ? "\n" : "; its last calls:\n" + before);
}

std::string as_text(const JobView& job, size_t calls, const Locate& locate) {
  std::string report;
  const std::vector<std::string> sentences = findings(job);
  for (size_t i = 0; i < std::min(sentences.size(), findings_shown); ++i)
    report += "* " + sentences[i] + "\n";
  if (sentences.size() > findings_shown)
    report += text("* ... and %zu more\n", sentences.size() - findings_shown);
  for (size_t i = 0; i < std::min(job.ranks.size(), rows_shown); ++i) {
    const RankView& rank = job.ranks[i];
    report += row(job, rank, locate);
    report += last_calls(job, rank, calls, locate);
  }
  if (job.ranks.size() > rows_shown)
    report += text("  ... and %zu more ranks\n", job.ranks.size() - rows_shown);
  if (job.size > static_cast<int>(job.ranks.size()))
    report += text("  only %zu of %d ranks are known here; to join the nodes, see fairlead hang --help\n",
                   job.ranks.size(), job.size);
  return report;
}

}  // namespace fairlead::flight
