// SPDX-License-Identifier: Apache-2.0
//
// An object for each thread that asks for it. It outlives its thread, because what that did is told at the
// end, and the next new thread goes on with it.

#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace fairlead::observe {

template <class Data>
class PerThread {
 public:
  static Data& mine() {
    if (!mine_) [[unlikely]]
      borrow();
    return *mine_;
  }

  // All of them, in the order in which they were made; `visit` gets its number, too.
  template <class Visit>
  static void visit_all(Visit visit) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < all_.size(); ++i) visit(*all_[i], static_cast<int>(i));
  }

 private:
  struct GiveBack {
    ~GiveBack() {
      std::lock_guard lock(mutex_);
      idle_.push_back(std::exchange(mine_, nullptr));
    }
  };
  [[gnu::noinline]] static void borrow() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      all_.push_back(new Data);
      idle_.push_back(all_.back());
    }
    mine_ = idle_.back();
    idle_.pop_back();
    // Not made again for what comes while the thread ends: that one is kept.
    static thread_local GiveBack when_the_thread_ends;
  }

  // A plain pointer, so that reading it needs no question whether it was made.
  inline static thread_local constinit Data* mine_ = nullptr;

  // Never destroyed: threads may end after static objects are gone.
  inline static std::mutex& mutex_ = *new std::mutex;
  inline static std::vector<Data*>&all_ = *new std::vector<Data*>, &idle_ = *new std::vector<Data*>;
};

}  // namespace fairlead::observe
