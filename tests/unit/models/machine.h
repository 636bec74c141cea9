// SPDX-License-Identifier: Apache-2.0
//
// Explores all executions of a few threads under the memory order of C++20, whatever the processor below has.
//
// Each location has its messages in modification order, and each thread a view: of each location, the message
// below which it must not read. A load takes any message from there on; a store goes anywhere behind there. A
// message of a release store carries the view of its thread, which an acquire load joins to its own. Accesses
// that are sequentially consistent, and fences that are, share one more view. What is missing is that a load
// reads from a store that depends on a later store of its own thread ("load buffering"): Arm permits it, and
// no protocol here has a relaxed load before a store that others wait for with no fence between.
//
// An execution is repeated from its beginning for each combination of choices: which thread goes on, what a
// load reads, where a store goes. Sleep sets leave out those that differ in the order of independent steps
// only. The threads are contexts of one thread of the system. Modelled code calls the atomics of modelled.h.

#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace fairlead::models {

enum class Order : uint8_t { relaxed, acquire, release, acq_rel, seq_cst };
inline bool acquires(Order order) {
  return order == Order::acquire || order >= Order::acq_rel;
}
inline bool releases(Order order) {
  return order >= Order::release;
}

// An access or fence in the source.
struct Site {
  const char *file = "", *function = "", *access = "";
  int line = 0;
  bool operator==(const Site& other) const {
    return line == other.line && std::strcmp(access, other.access) == 0 && std::strcmp(file, other.file) == 0;
  }
};
// An order in the source, and a weaker one in its place.
struct Mutant {
  Site site;
  Order from, to;
  std::string name() const {
    constexpr const char* orders[] = {"relaxed", "acquire", "release", "acq_rel", "seq_cst"};
    const std::string file = site.file;
    return file.substr(file.rfind('/') + 1) + ", " + site.function + "(): " + site.access + ", " +
           orders[static_cast<int>(from)] + " -> " + orders[static_cast<int>(to)];
  }
};

// The variable of a location.
struct Place {
  void* address = nullptr;
  size_t bytes = 0;
};

constexpr size_t threads_at_most = 4, locations_at_most = 48;

class Machine {
 public:
  using Body = std::function<void()>;
  // A program makes its state, adds its threads, and may add a check of what is left when all have ended.
  struct Run {
    std::vector<Body> threads;
    Body in_the_end = [] {};
    void thread(Body body) { threads.push_back(std::move(body)); }
  };
  using Program = std::function<void(Run&)>;
  struct Result {
    uint64_t executions = 0;
    std::string violation;                       // of the first execution that has one
    std::vector<std::pair<Site, Order>> orders;  // that were met
  };

  static Machine& only() {
    static auto* const machine = new Machine;
    return *machine;
  }

  Result explore(const Program& program, const Mutant* mutant = nullptr) {
    constexpr uint64_t executions_at_most = 5'000'000;
    result_ = {};
    mutant_ = mutant;
    choices_.clear();
    do {
      execute(program);
      if (++result_.executions == executions_at_most) fail("too many executions");
    } while (result_.violation.empty() && next());
    return result_;
  }

  // In a thread of the program.
  void fail(const std::string& what) {
    if (result_.violation.empty()) result_.violation = what;
    if (running_) swapcontext(&thread().context, &scheduler_);
  }
  // Repeats `condition` until it is true. A thread that repeats it for ever has found a violation.
  template <class Condition>
  void await(Condition condition) {
    while (!condition()) {
      thread().state = State::waits;
      swapcontext(&thread().context, &scheduler_);
    }
    thread().reads_newest = false;
  }

  bool running() const { return running_; }
  Order order_at(const Site& site, Order order) {
    if (!running_) return order;
    const std::pair met(site, order);
    if (std::ranges::find(result_.orders, met) == result_.orders.end()) result_.orders.push_back(met);
    return mutant_ && mutant_->site == site && mutant_->from == order ? mutant_->to : order;
  }

  // ---- Steps. The variable keeps the last value in modification order. ------------------------------------

  uint64_t load(Place place, Order order) {
    const size_t at = step(place, false, order == Order::seq_cst);
    return read(at, order, pick(at, order, [](const Message&, bool) { return true; }));
  }

  void store(Place place, uint64_t value, Order order) {
    const size_t at = step(place, true, order == Order::seq_cst);
    Location& location = locations_[at];
    std::vector<size_t> behind;  // places in modification order, the last one first
    for (size_t i = location.order.size(); i-- > first(at, order);)
      if (i + 1 == location.order.size() || !location.messages[location.order[i + 1]].swapped)
        behind.push_back(i + 1);
    add(at, behind[choose(behind.size())], value, order, nullptr);
  }

  // The change returns false if it leaves the location as it is; then `failure` is the order of the load.
  template <class Change>
  uint64_t change(Place place, Order order, Order failure, Change change) {
    const bool sc = order == Order::seq_cst || failure == Order::seq_cst;
    const size_t at = step(place, true, sc);
    const size_t from = pick(at, order, [&](const Message& message, bool replaceable) {
      uint64_t value = message.value;
      return replaceable || !change(&value);
    });
    const Message before = locations_[at].messages[locations_[at].order[from]];
    uint64_t value = before.value;
    if (!change(&value)) return read(at, failure, from);
    read(at, order, from);
    add(at, from + 1, value, order, &before.view);
    return before.value;
  }

  void fence(Order order) {
    if (order == Order::seq_cst) step({}, false, true);
    Thread& mine = thread();
    if (acquires(order)) join(&mine.view, mine.read, true);
    if (order == Order::seq_cst) meet_sc();
    if (releases(order)) mine.released = mine.view;
  }

  // The futex of the kernel, which has a lock for it: who is woken sees what its waker saw.
  void sleep(Place place, uint64_t expected) {
    const size_t at = step(place, true, true);
    meet_sc();
    const uint64_t seen =
        read(at, Order::relaxed, pick(at, Order::relaxed, [](auto&, bool) { return true; }));
    if (seen != expected) return;
    thread().state = State::sleeps;
    thread().bed = at;
    thread().next = {};
    swapcontext(&thread().context, &scheduler_);
  }
  void wake(Place place) {
    const size_t at = step(place, true, true);
    meet_sc();
    for (Thread& other : threads_)
      if (other.state == State::sleeps && other.bed == at) {
        other.state = State::ready;
        join(&other.view, thread().view, true);
      }
  }

  // Plain data of the program: an access that another one is not ordered with is a violation.
  struct Clock {
    std::array<uint32_t, threads_at_most> at{};
  };
  void note_plain(Clock* readers, Clock* writer, bool writes) {
    Thread& mine = thread();
    const bool raced = std::ranges::any_of(threads_, [&](const Thread& other) {
      const size_t i = other.number;
      return writer->at[i] > mine.view.clock.at[i] || (writes && readers->at[i] > mine.view.clock.at[i]);
    });
    if (raced) fail("a data race");
    (writes ? writer : readers)->at[mine.number] = ++mine.view.clock.at[mine.number];
  }

 private:
  // Of each location the number of a message, and of each thread how many accesses to plain data.
  struct View {
    std::array<uint8_t, locations_at_most> at{};
    Clock clock;
  };
  struct Message {
    uint64_t value = 0;
    View view;
    size_t position = 0;
    bool swapped = false;  // it replaces the one before, and nothing comes between them
  };
  struct Location {
    void* address = nullptr;
    size_t bytes = 0;
    std::vector<Message> messages;  // in the order of execution
    std::vector<size_t> order;      // their numbers, in modification order
  };
  enum class State : uint8_t { ready, waits, sleeps, ended };
  struct Step {
    void* place = nullptr;
    bool writes = false, sc = false;
  };
  struct Thread {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(64 << 10);
    size_t number = 0;
    State state = State::ready;
    Step next;
    View view, read, released;  // of loads so far; at the last release fence
    size_t bed = 0;
    bool reads_newest = false;
  };
  struct Choice {
    size_t chosen = 0, options = 1;
  };

  Thread& thread() { return threads_[current_]; }

  // The next combination of choices, the last one that has another option first.
  bool next() {
    while (!choices_.empty() && choices_.back().chosen + 1 == choices_.back().options) choices_.pop_back();
    if (choices_.empty()) return false;
    ++choices_.back().chosen;
    return true;
  }
  size_t choose(size_t options) {
    if (options == 1) return 0;
    if (depth_ == choices_.size()) choices_.push_back({0, options});
    return choices_[depth_++].chosen;
  }

  static void enter(int number) {
    Machine& machine = only();
    machine.run_.threads[static_cast<size_t>(number)]();
    machine.thread().state = State::ended;
    swapcontext(&machine.thread().context, &machine.scheduler_);
  }

  void execute(const Program& program) {
    run_ = {};
    depth_ = 0;
    steps_ = 0;
    asleep_ = 0;
    wrote_ = left_out_ = over_ = false;
    locations_.clear();
    sc_ = {};
    program(run_);
    threads_.resize(run_.threads.size());
    running_ = true;
    for (current_ = 0; current_ < threads_.size(); ++current_) {
      Thread& mine = thread();
      mine.number = current_;
      mine.state = State::ready;
      mine.view = mine.read = mine.released = {};
      mine.reads_newest = false;
      getcontext(&mine.context);
      mine.context.uc_stack.ss_sp = mine.stack.data();
      mine.context.uc_stack.ss_size = mine.stack.size();
      makecontext(&mine.context, reinterpret_cast<void (*)()>(&enter), 1, static_cast<int>(current_));
      go_on();  // to its first step
    }
    begun_ = true;
    schedule();
    running_ = begun_ = false;
    if (result_.violation.empty() && !left_out_) run_.in_the_end();
  }
  void go_on() { swapcontext(&scheduler_, &thread().context); }

  void schedule() {
    for (;;) {
      if (decide()) {
        go_on();
        continue;
      }
      if (over_ || !let_read_newest()) return;
    }
  }
  // The next thread, the present one first. False: all wait or have ended, or the execution is over.
  bool decide() {
    constexpr int steps_at_most = 4000;
    if (std::exchange(wrote_, false)) retry();
    over_ = !result_.violation.empty();
    if (over_) return false;
    if (++steps_ == steps_at_most) fail_outside("an execution without end");
    std::array<size_t, threads_at_most> candidates;
    size_t count = 0;
    bool any = false;
    for (size_t i = 0; i < threads_.size(); ++i) {
      const size_t one = (current_ + i) % threads_.size();
      if (threads_[one].state != State::ready) continue;
      any = true;
      if (!(asleep_ >> one & 1)) candidates[count++] = one;
    }
    left_out_ = over_ = any && count == 0;
    if (count == 0) return false;
    const size_t chosen = choose(count);
    current_ = candidates[chosen];
    for (size_t i = 0; i < chosen; ++i) asleep_ |= 1u << candidates[i];
    const Step taken = thread().next;
    for (size_t one = 0; one < threads_.size(); ++one)
      if (asleep_ >> one & 1 && depend(threads_[one].next, taken)) asleep_ &= ~(1u << one);
    wrote_ = taken.writes;
    return true;
  }
  static bool depend(const Step& one, const Step& other) {
    if (one.sc && other.sc && (!one.place || !other.place)) return true;
    return one.place == other.place && (one.writes || other.writes || (one.sc && other.sc));
  }
  // Those that wait look again when another one has written.
  void retry() {
    const size_t writer = current_;
    for (current_ = 0; current_ < threads_.size(); ++current_)
      if (current_ != writer && thread().state == State::waits) look_again(false);
  }
  void look_again(bool newest) {
    thread().state = State::ready;
    thread().reads_newest = newest;
    begun_ = false;
    go_on();
    begun_ = true;
  }
  // What has been written becomes visible in the end. False: all have ended, or wait for ever.
  bool let_read_newest() {
    bool any = false;
    for (current_ = 0; current_ < threads_.size(); ++current_)
      if (thread().state == State::waits && !thread().reads_newest) {
        look_again(true);
        any = true;
      }
    if (!any && std::ranges::any_of(threads_, [](auto& one) { return one.state != State::ended; }))
      fail_outside("a thread waits for ever");
    return any;
  }
  void fail_outside(const char* what) {
    if (result_.violation.empty()) result_.violation = what;
  }

  // Before each step other threads may go on.
  size_t step(Place place, bool writes, bool sc) {
    thread().next = {place.address, writes, sc};
    const size_t mine = current_;
    const bool any_waits = std::ranges::any_of(threads_, [](auto& one) { return one.state == State::waits; });
    if (!begun_ || any_waits)
      swapcontext(&thread().context, &scheduler_);
    else if (const bool decided = decide(); !decided || current_ != mine)
      swapcontext(&threads_[mine].context, decided ? &thread().context : &scheduler_);
    if (!place.address) return 0;
    const auto found = std::ranges::find(locations_, place.address, &Location::address);
    if (found != locations_.end()) return static_cast<size_t>(found - locations_.begin());
    if (locations_.size() == locations_at_most) fail("too many locations");
    Message initial;
    std::memcpy(&initial.value, place.address, place.bytes);
    locations_.push_back({place.address, place.bytes, {initial}, {0}});
    return locations_.size() - 1;
  }

  // The position of the first message that the thread may read.
  size_t first(size_t at, Order order) {
    const Location& location = locations_[at];
    size_t position = location.messages[thread().view.at[at]].position;
    if (order == Order::seq_cst) position = std::max(position, location.messages[sc_.at[at]].position);
    return position;
  }
  template <class Suits>
  size_t pick(size_t at, Order order, Suits suits) {
    const Location& location = locations_[at];
    std::vector<size_t> options;
    for (size_t i = location.order.size(); i-- > first(at, order);) {
      const bool last = i + 1 == location.order.size();
      if (suits(location.messages[location.order[i]],
                last || !location.messages[location.order[i + 1]].swapped))
        options.push_back(i);
      if (thread().reads_newest && !options.empty()) break;
    }
    return options[choose(options.size())];
  }
  uint64_t read(size_t at, Order order, size_t position) {
    const Location& location = locations_[at];
    const size_t number = location.order[position];
    const Message& message = location.messages[number];
    raise(&thread().view, at, number);
    join(&thread().read, message.view, true);
    if (acquires(order)) join(&thread().view, message.view, true);
    if (order == Order::seq_cst) raise(&sc_, at, number);
    return message.value;
  }
  // `replaced`: the view of the message whose release sequence goes on.
  void add(size_t at, size_t position, uint64_t value, Order order, const View* replaced) {
    Location& location = locations_[at];
    const size_t number = location.messages.size();
    Thread& mine = thread();
    Message made{value, {}, position, replaced != nullptr};
    location.order.insert(location.order.begin() + static_cast<std::ptrdiff_t>(position), number);
    location.messages.push_back(made);
    for (size_t i = position; i < location.order.size(); ++i)
      location.messages[location.order[i]].position = i;
    raise(&mine.view, at, number);
    View& view = location.messages[number].view;
    view = releases(order) ? mine.view : mine.released;
    raise(&view, at, number);
    if (replaced) join(&view, *replaced, true);
    if (order == Order::seq_cst) raise(&sc_, at, number);
    std::memcpy(location.address, &location.messages[location.order.back()].value, location.bytes);
  }

  void raise(View* view, size_t at, size_t number) const {
    const auto& messages = locations_[at].messages;
    if (messages[number].position > messages[view->at[at]].position)
      view->at[at] = static_cast<uint8_t>(number);
  }
  // With the accesses to plain data only if that makes them ordered.
  void join(View* view, const View& other, bool orders_plain) const {
    for (size_t at = 0; at < locations_.size(); ++at) raise(view, at, other.at[at]);
    for (size_t i = 0; orders_plain && i < threads_at_most; ++i)
      view->clock.at[i] = std::max(view->clock.at[i], other.clock.at[i]);
  }
  void meet_sc() {
    join(&thread().view, sc_, false);
    join(&sc_, thread().view, false);
  }

  Run run_;
  Result result_;
  const Mutant* mutant_ = nullptr;
  std::vector<Choice> choices_;
  size_t depth_ = 0, current_ = 0;
  int steps_ = 0;
  unsigned asleep_ = 0;  // threads whose next step was explored before, a bit for each
  bool running_ = false, begun_ = false, wrote_ = false, left_out_ = false, over_ = false;
  std::vector<Thread> threads_;
  std::vector<Location> locations_;
  View sc_;
  ucontext_t scheduler_;
};

}  // namespace fairlead::models
