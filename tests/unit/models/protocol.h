// SPDX-License-Identifier: Apache-2.0
//
// A protocol holds in all executions of its programs, and needs each of its orders: with one of them weaker
// by a step, some execution of some program is wrong. So the tests also show that they can fail.

#pragma once

#include <gtest/gtest.h>

#include <set>

#include "models/machine.h"

namespace fairlead::models {

// Weaker by a step.
inline std::vector<Order> weaker(const Site& site, Order order) {
  const std::string access = site.access;
  if (order == Order::acq_rel) return {Order::acquire, Order::release};
  if (order != Order::seq_cst) return {Order::relaxed};
  return {access == "load" ? Order::acquire : access == "store" ? Order::release : Order::acq_rel};
}

// `spare`: the orders that these programs do not need, as Mutant::name() has them. The test says why they are
// there.
inline void examine(const std::vector<Machine::Program>& programs, const std::set<std::string>& spare = {}) {
  Machine& machine = Machine::only();
  std::vector<std::pair<Site, Order>> orders;
  for (size_t i = 0; i < programs.size(); ++i) {
    const Machine::Result result = machine.explore(programs[i]);
    ASSERT_EQ(result.violation, "") << "in program " << i;
    for (const auto& met : result.orders)
      if (std::ranges::find(orders, met) == orders.end()) orders.push_back(met);
  }
  std::set<std::string> survivors;
  for (const auto& [site, order] : orders) {
    if (order == Order::relaxed) continue;
    for (Order to : weaker(site, order)) {
      const Mutant mutant{site, order, to};
      std::string violation;
      for (size_t i = 0; i < programs.size() && violation.empty(); ++i)
        violation = machine.explore(programs[i], &mutant).violation;
      if (violation.empty()) survivors.insert(mutant.name());
    }
  }
  EXPECT_EQ(survivors, spare);
}

}  // namespace fairlead::models
