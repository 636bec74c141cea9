// SPDX-License-Identifier: Apache-2.0
//
// Texts for readers of what others wrote: sound ones with a few random mistakes. Prints its seed.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <random>
#include <string>

namespace fairlead {

class DamagedText {
 public:
  DamagedText() { std::cout << "seed " << seed_ << std::endl; }

  std::string of(std::string text) {
    for (size_t mistakes = below(4) + 1; mistakes > 0; --mistakes) {
      const size_t at = below(text.size() + 1), length = below(text.size() - at + 1);
      switch (below(4)) {
        case 0:
          text.insert(at, 1, static_cast<char>(random_()));
          break;
        case 1:
          text.erase(at, below(8));
          break;
        case 2:
          text.insert(below(text.size() + 1), text.substr(at, length));
          break;
        case 3:
          text.insert(at, pieces[below(std::size(pieces))]);
          break;
      }
      text.resize(std::min(text.size(), longest));
    }
    return text;
  }

 private:
  static constexpr size_t longest = 4096;
  static constexpr const char* pieces[] = {
      "0",  "-1", "..", " ", "\n", "\r\n", "\t#", "k", "18446744073709551615", "99999999999999999999",
      "%n", ","};
  size_t below(size_t end) { return random_() % end; }

  const uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

}  // namespace fairlead
