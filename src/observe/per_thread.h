// SPDX-License-Identifier: Apache-2.0
//
// One object per thread. The object outlives its thread, because the reports at the end of the job include
// what the thread did; the next new thread continues to use it.

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

  // Visits all objects in the order of their creation; `visit` also receives the index.
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
    // If the ending thread needs its object again, that object is not given back a second time and stays
    // unused.
    static thread_local GiveBack when_the_thread_ends;
  }

  // A plain pointer, so that access needs no check for initialisation.
  inline static thread_local constinit Data* mine_ = nullptr;

  // Never destroyed: threads may end after static objects are gone.
  inline static std::mutex& mutex_ = *new std::mutex;
  inline static std::vector<Data*>&all_ = *new std::vector<Data*>, &idle_ = *new std::vector<Data*>;
};

}  // namespace fairlead::observe
