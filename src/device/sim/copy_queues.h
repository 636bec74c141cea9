// SPDX-License-Identifier: Apache-2.0
//
// The queues of the hardware that CUDA gives copies: a few for each direction of a device
// (docs/design/driver-calls.md). A stream keeps one as long as it has a copy of this direction.
// Copies in one queue run in the order of their submission, so one that finds all queues taken waits for
// copies of another stream, and for all that these wait for. Thread-safe.

#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace fairlead::device::sim {

class CopyQueues {
 private:
  static constexpr size_t queues_of_direction = 4;  // as with the driver's 8 queues
  struct Queue {
    uint64_t submitted = 0, ended = 0;
    std::map<const void*, uint64_t> copies;  // that have not ended, by stream
  };

 public:
  enum class Direction : uint8_t { to_peers, in, out };

  // Of one copy.
  class Place {
   public:
    Place(CopyQueues& queues, int device, Direction direction, const void* stream)
        : all_(queues), key_(device, direction), stream_(stream) {}

    // When the copy joins its stream. Without, it waits for none.
    void take() {
      std::lock_guard lock(all_.mutex_);
      auto& queues = all_.queues_[key_];
      auto has_mine = [this](const Queue& queue) { return queue.copies.contains(stream_); };
      auto is_free = [](const Queue& queue) { return queue.copies.empty(); };
      auto chosen = std::find_if(queues.begin(), queues.end(), has_mine);
      if (chosen == queues.end()) chosen = std::find_if(queues.begin(), queues.end(), is_free);
      queue_ = chosen != queues.end() ? &*chosen : &queues[all_.turn_++ % queues.size()];
      ++queue_->copies[stream_];
      number_ = queue_->submitted++;
    }
    void await() {
      std::unique_lock lock(all_.mutex_);
      all_.ended_.wait(lock, [this] { return !queue_ || queue_->ended == number_; });
    }
    void leave() {
      if (!queue_) return;
      std::lock_guard lock(all_.mutex_);
      ++queue_->ended;
      if (--queue_->copies[stream_] == 0) queue_->copies.erase(stream_);
      all_.ended_.notify_all();
    }

   private:
    CopyQueues& all_;
    const std::pair<int, Direction> key_;
    const void* const stream_;
    Queue* queue_ = nullptr;
    uint64_t number_ = 0;
  };

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::pair<int, Direction>, std::array<Queue, queues_of_direction>> queues_;
  size_t turn_ = 0;
};

}  // namespace fairlead::device::sim
