// SPDX-License-Identifier: Apache-2.0
//
// Collectives in streams in which each rank has a block for each other one: MPI_Alltoallv() and those among
// neighbours. Both ends of a block know its bytes, so they agree whether it is in its part of the place or an
// ordinary message behind the call.

#include <algorithm>

#include "mpi/datatype/layout.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/stream/stream_collective.h"
#include "observe/statistics.h"

namespace fairlead::mpi {

std::optional<int> StreamCollective::enqueue_blocks(const CollectiveCall& call, const ByCpu& by_cpu) {
  const Edges& edges = call.among_neighbors() ? to_neighbors_ : to_all_;
  if (edges.most == 0 || call.sendbuf == MPI_IN_PLACE) return std::nullopt;
  Regions regions = regions_of(call, position_);
  if (regions.error() != MPI_SUCCESS) return std::nullopt;
  if (call.gathers_from_neighbors() && !regions.read.blocks.empty()) {
    const CollectiveBlock same = regions.read.blocks.front();
    regions.read.blocks.clear();
    for (size_t number = 0; number < edges.out.size(); ++number)
      if (edges.out[number] != MPI_PROC_NULL)
        regions.read.blocks.push_back({same.offset, same.count, same.datatype, number});
  }

  Plan plan{.by_blocks = true};
  std::vector<EnqueuedWork> before, after;
  // In which each rank gets one of them after the other, from different ranks at a time.
  struct Message {
    int distance;
    EnqueuedWork work;
  };
  std::vector<Message> sends, receives;
  auto distance = [&](int from, int to) { return (to - from + ranks_) % ranks_; };
  uint64_t all = 0;
  // Where kernels find the block, or put it.
  auto address_for_kernel = [&](Buffer* block, size_t number, bool sent) {
    all += block->bytes;
    if (is_direct(block)) {
      plan.memories.push_back(block->memory);
      return static_cast<char*>(block->address);
    }
    char* const between = moved() + number * edges.most;
    const Buffer there = packed(between, block->bytes);
    if (sent)
      before.push_back(moving(*block, there));
    else
      after.push_back(moving(there, *block));
    return between;
  };
  auto buffer_of = [](const Region& region, const CollectiveBlock& block) {
    return Buffer{at_offset(region.address, block.offset), block.count, block.datatype,
                  static_cast<uint64_t>(packed_bytes(block.count, block.datatype))};
  };
  for (const CollectiveBlock& block : regions.read.blocks) {
    Buffer buffer = buffer_of(regions.read, block);
    const int number = static_cast<int>(block.index), rank = edges.out[block.index];
    if (buffer.bytes <= edges.most) {
      const char* const from = address_for_kernel(&buffer, block.index, true);
      plan.given.push_back({place(scratch_, 0) + block.index * edges.most, from, buffer.bytes});
      continue;
    }
    auto send = [=, comm = messages_,
                 type = std::make_shared<KeptType>(buffer.datatype)](MPI_Request* request) {
      return MPI_Isend(buffer.address, static_cast<int>(buffer.count), type->get(), rank, number, comm,
                       request);
    };
    sends.push_back({distance(me_, rank), {std::move(send)}});
  }
  for (const CollectiveBlock& block : regions.written.blocks) {
    Buffer buffer = buffer_of(regions.written, block);
    const auto [rank, number] = edges.in[block.index];
    if (buffer.bytes <= edges.most) {
      char* const to = address_for_kernel(&buffer, block.index, false);
      char* const theirs = place(scratches_[static_cast<size_t>(rank)], 0);
      plan.taken.push_back({to, theirs + static_cast<uint64_t>(number) * edges.most, buffer.bytes});
      continue;
    }
    auto receive = [=, comm = messages_, type = std::make_shared<KeptType>(buffer.datatype), from = rank,
                    tag = number](MPI_Request* request) {
      return MPI_Irecv(buffer.address, static_cast<int>(buffer.count), type->get(), from, tag, comm, request);
    };
    receives.push_back({distance(rank, me_), {std::move(receive)}});
  }
  // The sends first: their receivers then copy both ways at once (16 MiB on four H200: 220 us, not 300).
  for (std::vector<Message>* messages : {&sends, &receives}) {
    std::ranges::stable_sort(*messages, {}, &Message::distance);
    for (Message& message : *messages) after.push_back(std::move(message.work));
  }
  const int error = submit(plan, call.comm, by_cpu, std::move(before), std::move(after));
  if (error == MPI_SUCCESS) count(Traffic::collective_in_stream, all);
  return error;
}

}  // namespace fairlead::mpi
