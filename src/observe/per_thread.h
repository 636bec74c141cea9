// SPDX-License-Identifier: Apache-2.0
//
// An object for each thread that asks for it. It outlives its thread, because what that did is told at the
// end, and the next new thread goes on with it.

#pragma once

#include <mutex>
#include <vector>

namespace fairlead::observe {

template <class Data>
class PerThread {
 public:
  static Data& mine() {
    static thread_local Loan loan;
    if (!loan.data) loan.take();
    return *loan.data;
  }

  // All of them, in the order in which they were made; `visit` gets its number, too.
  template <class Visit>
  static void visit_all(Visit visit) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < all_.size(); ++i) visit(*all_[i], static_cast<int>(i));
  }

 private:
  struct Loan {
    void take() {
      std::lock_guard lock(mutex_);
      if (idle_.empty()) {
        all_.push_back(new Data);
        idle_.push_back(all_.back());
      }
      data = idle_.back();
      idle_.pop_back();
    }
    ~Loan() {
      if (!data) return;
      std::lock_guard lock(mutex_);
      idle_.push_back(data);
    }
    Data* data = nullptr;
  };

  // Never destroyed: threads may end after static objects are gone.
  inline static std::mutex& mutex_ = *new std::mutex;
  inline static std::vector<Data*>&all_ = *new std::vector<Data*>, &idle_ = *new std::vector<Data*>;
};

}  // namespace fairlead::observe
