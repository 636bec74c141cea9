// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a job do, read from the memory of the flight recorder (record.h), which they may change
// at any time, and which may be damaged. Copies of other nodes' memory join the nodes of a job.

#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/system/code_place.h"
#include "flight/record.h"

namespace fairlead::flight {

// What a handle of a communicator stands for.
struct CommunicatorView {
  uint64_t id = 0;  // 0: unknown
  int size = 0;
  std::string name;
  std::vector<int> members;  // as far as they are known; empty: that of MPI_COMM_WORLD
};

// The collectives that a rank has enqueued on a communicator.
struct EnqueuedView {
  uint64_t comm = 0;         // id
  uint64_t begun = 0;        // so many
  std::vector<Call> last{};  // newest first
  // The one behind the first `number` of them, or the first of those that are kept.
  const Call& after(uint64_t number) const { return last[std::min(begun - number, last.size()) - 1]; }
};

struct RankView {
  const Rank* block = nullptr;
  int rank = 0, size = 0, pid = 0;
  State state = State::unused;
  bool lives = false;
  bool is_here = true;          // on this node
  uint64_t read = 0;            // when, in ns
  uint64_t calls = 0;           // of all threads
  std::vector<Call> last{};     // newest first
  std::optional<Call> open{};   // the call it is in; of several threads, the one that began first
  std::vector<Call> awaited{};  // the starts of the requests for which `open` waits
  std::vector<Call> streams{};  // the operations at which GPU streams are
  std::vector<EnqueuedView> enqueued{};

  bool polls() const { return !open && !last.empty() && last.front().kind == Kind::polling; }
  CommunicatorView communicator(uint64_t handle) const;
  // The rank in MPI_COMM_WORLD of a rank of a communicator; any_rank, or nobody.
  static constexpr int any_rank = -2, nobody = -1;
  int in_world(const Call& call, int rank) const;
  bool any_tag(int tag) const { return tag == block->any_tag; }
  std::string operation(
      const Call& call) const;  // of a reduction; "" if there is none or it is the program's own
};

struct JobView {
  uint64_t job = 0;
  int size = 0;
  std::vector<RankView> ranks;  // in order
  std::vector<const Header*> files;
  uint64_t now = 0;  // when the newest of them was read, in ns

  const RankView* find(int rank) const;
  // How many collectives all members have enqueued on a communicator, if that is known.
  std::optional<uint64_t> enqueued_by_all(const RankView& rank, const EnqueuedView& enqueued) const;
  std::string name_of(const Call& call) const;  // "MPI_Send"
  double seconds_since(const Call& call) const;
};

// All jobs in the files.
std::vector<JobView> look(const std::vector<const Header*>& files);
inline std::vector<JobView> look(const Header* file) {
  return look(std::vector{file});
}

// A copy of what a file has of this job, bytes_of() its ranks, for `fairlead hang` on another node; null if
// there is no memory.
const Header* copy_of(const Header* file, uint64_t job);

// Where a call of a rank returns to: in the program, else in what its process has mapped there.
CodePlace site_of(const RankView& rank, const Call& call);

}  // namespace fairlead::flight
