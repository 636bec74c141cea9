// SPDX-License-Identifier: Apache-2.0
//
// For sources that are compiled for the machine of machine.h: behind this header, std::atomic and its kin,
// and the futex, are modelled. The headers and sources of the project that follow are those of the library,
// in a namespace of their own. It has angle brackets where it is included, so that it stays in front of them,
// and includes what they need of the standard library.
//
// Outside of an exploration the atomics are plain variables.

#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <ctime>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>

#include "models/protocol.h"

namespace fairlead::models {

inline Order order_of(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return Order::relaxed;
    case std::memory_order_consume:
    case std::memory_order_acquire:
      return Order::acquire;
    case std::memory_order_release:
      return Order::release;
    case std::memory_order_acq_rel:
      return Order::acq_rel;
    default:
      return Order::seq_cst;
  }
}
// Where a call is in the source: the default arguments are those of the caller.
struct Caller {
  const char *file, *function;
  int line;
  Caller(const char* its_file = __builtin_FILE(), const char* its_function = __builtin_FUNCTION(),
         int its_line = __builtin_LINE())
      : file(its_file), function(its_function), line(its_line) {}
  Order order_of(const char* access, std::memory_order order) const {
    return Machine::only().order_at({file, function, access, line}, models::order_of(order));
  }
};

template <class T>
uint64_t bits_of(T value) {
  static_assert(sizeof value <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// As std::atomic, also in its size: zeros are one that holds zero.
template <class T>
class modelled_atomic {
 public:
  constexpr modelled_atomic(T value = {}) : value_(value) {}
  modelled_atomic(const modelled_atomic&) = delete;
  modelled_atomic& operator=(const modelled_atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst, Caller caller = {}) const {
    if (!machine().running()) return value_;
    return from_bits<T>(machine().load(place(), caller.order_of("load", order)));
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst, Caller caller = {}) {
    if (machine().running())
      machine().store(place(), bits_of(value), caller.order_of("store", order));
    else
      value_ = value;
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst, Caller caller = {}) {
    return change([value](T) { return value; }, caller.order_of("exchange", order));
  }
  T fetch_add(T more, std::memory_order order = std::memory_order_seq_cst, Caller caller = {}) {
    return change([more](T now) { return static_cast<T>(now + more); }, caller.order_of("fetch_add", order));
  }
  T fetch_sub(T less, std::memory_order order = std::memory_order_seq_cst, Caller caller = {}) {
    return change([less](T now) { return static_cast<T>(now - less); }, caller.order_of("fetch_sub", order));
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order order = std::memory_order_seq_cst,
                               Caller caller = {}) {
    const Order success = caller.order_of("compare_exchange", order);
    const Order failure = success == Order::acq_rel   ? Order::acquire
                          : success == Order::release ? Order::relaxed
                                                      : success;
    const T wanted = expected;
    expected = change(
        [&](T now, bool* changes) {
          *changes = now == wanted;
          return value;
        },
        success, failure);
    return expected == wanted;
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order order = std::memory_order_seq_cst,
                             Caller caller = {}) {
    return compare_exchange_strong(expected, value, order, caller);
  }
  operator T() const { return load(); }
  T operator=(T value) {
    store(value);
    return value;
  }

 private:
  static Machine& machine() { return Machine::only(); }
  Place place() const { return {const_cast<T*>(&value_), sizeof(T)}; }

  template <class New>
  T change(New new_value, Order order) {
    return change([&](T now, bool*) { return new_value(now); }, order, order);
  }
  template <class New>
  T change(New new_value, Order order, Order failure) {
    auto apply = [&](uint64_t* bits) {
      bool changes = true;
      const T value = new_value(from_bits<T>(*bits), &changes);
      if (changes) *bits = bits_of(value);
      return changes;
    };
    if (machine().running()) return from_bits<T>(machine().change(place(), order, failure, apply));
    uint64_t bits = bits_of(value_);
    if (!apply(&bits)) return value_;
    return std::exchange(value_, from_bits<T>(bits));
  }

  T value_;
};

template <class T>
class modelled_atomic_ref {
 public:
  explicit modelled_atomic_ref(T& value) : there_(reinterpret_cast<modelled_atomic<T>&>(value)) {}
  T load(std::memory_order order = std::memory_order_seq_cst, Caller caller = {}) const {
    return there_.load(order, caller);
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst, Caller caller = {}) const {
    there_.store(value, order, caller);
  }

 private:
  modelled_atomic<T>& there_;
};

inline void modelled_fence(std::memory_order order, Caller caller = {}) {
  if (Machine::only().running()) Machine::only().fence(caller.order_of("fence", order));
}

// Data that the program protects by its protocol.
template <class T>
class Plain {
 public:
  T read() const {
    if (Machine::only().running()) Machine::only().note_plain(&readers_, &writer_, false);
    return value_;
  }
  void write(T value) {
    if (Machine::only().running()) Machine::only().note_plain(&readers_, &writer_, true);
    value_ = value;
  }

 private:
  T value_{};
  mutable Machine::Clock readers_, writer_;
};

inline long modelled_system_call(long, uint32_t* word, int operation, uint32_t value, const timespec*, void*,
                                 int) {
  if (operation == FUTEX_WAIT)
    Machine::only().sleep({word, sizeof *word}, value);
  else
    Machine::only().wake({word, sizeof *word});
  return 0;
}

inline void require(bool holds, const char* what) {
  if (!holds) Machine::only().fail(what);
}
template <class Condition>
void await(Condition condition) {
  Machine::only().await(condition);
}

}  // namespace fairlead::models

namespace std {
using fairlead::models::modelled_atomic;
using fairlead::models::modelled_atomic_ref;
using fairlead::models::modelled_fence;
}  // namespace std

namespace models = fairlead::models;
#define fairlead modelled
#define atomic modelled_atomic
#define atomic_ref modelled_atomic_ref
#define atomic_thread_fence modelled_fence
#define syscall models::modelled_system_call
