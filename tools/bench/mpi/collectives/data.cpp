// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/collectives/data.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace fairlead::tools {
namespace {

constexpr uint64_t chunk = 1 << 18;  // elements

bool owns(Owner owner, int rank, int root) {
  if (owner == Owner::root) return rank == root || root < 0;
  if (owner == Owner::others) return rank != root;
  return owner == Owner::all;
}

uint64_t scattered(uint64_t index, uint64_t seed) {
  uint64_t word = (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
  word ^= word >> 29;
  return word * 0xbf58476d1ce4e5b9u;
}

// What the ranks contribute to one element: never zero, as is the result, which a cleared buffer would show.
struct Contributions {
  uint64_t word;
  int ranks;
  Reduction reduction;

  int64_t of(int rank) const {
    uint64_t mine = word * (2 * static_cast<uint64_t>(rank) + 1);
    if (reduction == Reduction::sum) return static_cast<int64_t>(mine >> 61) + 1;
    if (reduction != Reduction::prod) return 2 * static_cast<int64_t>(mine >> 57) - 127;
    // One rank has a factor, the others a sign: no product overflows.
    bool factor = word % static_cast<uint64_t>(ranks) == static_cast<uint64_t>(rank);
    return factor ? 2 + static_cast<int64_t>(word >> 62) : (mine >> 63) ? 1 : -1;
  }

  // Of the first so many ranks.
  int64_t reduced(int number) const {
    int64_t result = of(0);
    for (int rank = 1; rank < number; ++rank) {
      int64_t value = of(rank);
      result = reduction == Reduction::sum    ? result + value
               : reduction == Reduction::prod ? result * value
               : reduction == Reduction::min  ? std::min(result, value)
                                              : std::max(result, value);
    }
    return result;
  }
};

// As the element type holds it: sums of char wrap around.
void store(Element type, int64_t value, char* to) {
  auto put = [to](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (type) {
    case Element::char_:
      return put(static_cast<int8_t>(value));
    case Element::int_:
      return put(static_cast<int32_t>(value));
    case Element::float_:
      return put(static_cast<float>(value));
    case Element::double_:
      return put(static_cast<double>(value));
  }
}

}  // namespace

CollectiveData::CollectiveData(const BenchArguments& arguments, int rank, int ranks)
    : CollectiveData(arguments.collective(), arguments, rank, ranks) {}

CollectiveData::CollectiveData(const CollectiveKind& kind, const BenchArguments& arguments, int rank,
                               int ranks)
    : kind_(kind),
      element_(element_type(arguments.element)),
      reduction_(reduction_named(arguments.reduction)),
      rank_(rank),
      ranks_(ranks) {}

uint64_t CollectiveData::extent(Extent extent, uint64_t size) const {
  if (extent == Extent::block_each) return size * static_cast<uint64_t>(ranks_);
  if (extent == Extent::neighbors) return size * 2;
  if (extent == Extent::share) return share_of(size / element_.bytes, rank_, ranks_) * element_.bytes;
  return size;
}

int CollectiveData::peer(Extent extent, uint64_t block) const {
  if (extent == Extent::neighbors) return (rank_ + (block == 0 ? ranks_ - 1 : 1)) % ranks_;
  return static_cast<int>(block);
}

uint64_t CollectiveData::first_element(uint64_t size) const {
  const uint64_t elements = size / element_.bytes;
  if (kind_.sent == Extent::block_each) return elements * static_cast<uint64_t>(rank_);
  uint64_t first = 0;
  for (int rank = 0; kind_.received == Extent::share && rank < rank_; ++rank)
    first += share_of(elements, rank, ranks_);
  return first;
}

uint64_t CollectiveData::sent_bytes(uint64_t size, int root) const {
  return owns(kind_.sender, rank_, root) ? extent(kind_.sent, size) : 0;
}

uint64_t CollectiveData::received_bytes(uint64_t size, int root) const {
  return owns(kind_.receiver, rank_, root) ? extent(kind_.received, size) : 0;
}

uint64_t CollectiveData::most_bytes(uint64_t size, int root) const {
  uint64_t sent = kind_.sender == Owner::nobody ? 0 : extent(kind_.sent, size);
  uint64_t received = kind_.receiver == Owner::nobody ? 0 : extent(kind_.received, size);
  if (kind_.received == Extent::share)  // rank 0 has the largest
    received = share_of(size / element_.bytes, 0, ranks_) * element_.bytes;
  const bool either = kind_.receiver == Owner::others && root >= 0;
  return either ? std::max(sent, received) : sent + received;
}

uint64_t CollectiveData::seed(uint64_t size, int64_t iteration, int sender, int receiver) const {
  return ((size << 8) + static_cast<uint64_t>(iteration)) * 0x100000001b3u +
         (static_cast<uint64_t>(sender) << 20) + static_cast<uint64_t>(receiver);
}

void CollectiveData::fill(Buffer& outgoing, uint64_t size, int64_t iteration, int root) const {
  uint64_t bytes = sent_bytes(size, root);
  if (bytes == 0) return;
  if (!kind_.reduces) {
    for (uint64_t block = 0; block * size < bytes; ++block)
      outgoing.write_pattern(block * size, size, seed(size, iteration, rank_, peer(kind_.sent, block)));
    return;
  }
  std::vector<char> values(std::min(chunk * element_.bytes, bytes));
  for (uint64_t done = 0; done < bytes; done += values.size()) {
    uint64_t length = std::min<uint64_t>(values.size(), bytes - done);
    for (uint64_t at = 0; at < length; at += element_.bytes) {
      uint64_t word = scattered((done + at) / element_.bytes, seed(size, iteration, 0, 0));
      store(element_.id, Contributions{word, ranks_, reduction_}.of(rank_), &values[at]);
    }
    outgoing.write(done, values.data(), length);
  }
}

std::optional<uint64_t> CollectiveData::first_wrong(const Buffer& incoming, uint64_t size, int64_t iteration,
                                                    int root) const {
  uint64_t bytes = received_bytes(size, root);
  if (bytes == 0) return {};
  if (!kind_.reduces) {
    const int block_of_mine = kind_.sent == Extent::size ? 0 : rank_;
    for (uint64_t block = 0; block * size < bytes; ++block) {
      int sender = kind_.received == Extent::size ? root : peer(kind_.received, block);
      if (auto wrong = incoming.first_wrong(block * size, size, seed(size, iteration, sender, block_of_mine)))
        return wrong;
    }
    return {};
  }
  const int combined = kind_.reduced == Reduced::of_all         ? ranks_
                       : kind_.reduced == Reduced::through_rank ? rank_ + 1
                                                                : rank_;
  if (combined == 0) return {};  // nothing is defined
  const uint64_t first = first_element(size);
  std::vector<char> found(std::min(chunk * element_.bytes, bytes));
  for (uint64_t done = 0; done < bytes; done += found.size()) {
    uint64_t length = std::min<uint64_t>(found.size(), bytes - done);
    incoming.read(done, found.data(), length);
    for (uint64_t at = 0; at < length; at += element_.bytes) {
      uint64_t word = scattered(first + (done + at) / element_.bytes, seed(size, iteration, 0, 0));
      char expected[sizeof(double)];
      store(element_.id, Contributions{word, ranks_, reduction_}.reduced(combined), expected);
      if (std::memcmp(&found[at], expected, element_.bytes) != 0) return done + at;
    }
  }
  return {};
}

}  // namespace fairlead::tools
