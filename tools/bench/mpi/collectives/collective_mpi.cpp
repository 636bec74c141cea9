// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <numeric>
#include <vector>

#include "bench/mpi/collectives/collective_channel.h"
#include "bench/mpi/collectives/types.h"
#include "bench/mpi/mpi4.h"
#include "bench/mpi/ranks.h"

namespace fairlead::tools {

struct MpiCollective::Parameters {
  const void* from;
  void* to;
  int count;
  // Of the functions that take such lists.
  const int *counts, *offsets, *byte_offsets;  // offsets: in elements
  const MPI_Aint* addresses;                   // as byte_offsets
  const MPI_Datatype* types;
  MPI_Datatype type;
  MPI_Op operation;
  int root;
  MPI_Comm comm;

  void* message() const { return from ? const_cast<void*>(from) : to; }
};

// In which unit the lists of a function say where blocks begin; they limit the size.
enum class MpiCollective::Offsets { none, elements, bytes };

namespace {

// MPI_..._init takes what the blocking function takes, and two more.
template <class... Arguments>
auto persistent_form(int (*)(Arguments...), const char* name) {
  return function_of_mpi4<int (*)(Arguments..., MPI_Info, MPI_Request*)>(name);
}

}  // namespace

// One row per collective: how each takes its parameters.
struct MpiCollective::Function {
  Collective id;
  const char* name;  // after MPI_; in small letters after MPI_I
  Offsets offsets;
  int (*call)(const P&);
  int (*start)(const P&, R*);
  int (*make)(const P&, R*);  // a persistent request
};

#define ROW(id, name, offsets, ...)                                                                   \
  {Collective::id,                                                                                    \
   #name,                                                                                             \
   Offsets::offsets,                                                                                  \
   []([[maybe_unused]] const P& p) { return MPI_##name(__VA_ARGS__ __VA_OPT__(, ) p.comm); },         \
   []([[maybe_unused]] const P& p, R* r) { return MPI_I##id(__VA_ARGS__ __VA_OPT__(, ) p.comm, r); }, \
   []([[maybe_unused]] const P& p, R* r) {                                                            \
     return persistent_form(&MPI_##name, "MPI_" #name "_init")(__VA_ARGS__ __VA_OPT__(, ) p.comm,     \
                                                               MPI_INFO_NULL, r);                     \
   }},

const MpiCollective::Function MpiCollective::functions[] = {
    // clang-format off
    ROW(allreduce, Allreduce, none, p.from, p.to, p.count, p.type, p.operation)
    ROW(bcast, Bcast, none, p.message(), p.count, p.type, p.root)
    ROW(reduce, Reduce, none, p.from, p.to, p.count, p.type, p.operation, p.root)
    ROW(allgather, Allgather, none, p.from, p.count, p.type, p.to, p.count, p.type)
    ROW(allgatherv, Allgatherv, elements, p.from, p.count, p.type, p.to, p.counts, p.offsets, p.type)
    ROW(alltoall, Alltoall, none, p.from, p.count, p.type, p.to, p.count, p.type)
    ROW(alltoallv, Alltoallv, elements, p.from, p.counts, p.offsets, p.type, p.to, p.counts, p.offsets, p.type)
    ROW(gather, Gather, none, p.from, p.count, p.type, p.to, p.count, p.type, p.root)
    ROW(scatter, Scatter, none, p.from, p.count, p.type, p.to, p.count, p.type, p.root)
    ROW(reduce_scatter, Reduce_scatter, none, p.from, p.to, p.counts, p.type, p.operation)
    ROW(reduce_scatter_block, Reduce_scatter_block, none, p.from, p.to, p.count, p.type, p.operation)
    ROW(scan, Scan, none, p.from, p.to, p.count, p.type, p.operation)
    ROW(exscan, Exscan, none, p.from, p.to, p.count, p.type, p.operation)
    ROW(alltoallw, Alltoallw, bytes, p.from, p.counts, p.byte_offsets, p.types, p.to, p.counts, p.byte_offsets, p.types)
    ROW(gatherv, Gatherv, elements, p.from, p.count, p.type, p.to, p.counts, p.offsets, p.type, p.root)
    ROW(scatterv, Scatterv, elements, p.from, p.counts, p.offsets, p.type, p.to, p.count, p.type, p.root)
    ROW(neighbor_allgather, Neighbor_allgather, none, p.from, p.count, p.type, p.to, p.count, p.type)
    ROW(neighbor_allgatherv, Neighbor_allgatherv, elements, p.from, p.count, p.type, p.to, p.counts, p.offsets, p.type)
    ROW(neighbor_alltoall, Neighbor_alltoall, none, p.from, p.count, p.type, p.to, p.count, p.type)
    ROW(neighbor_alltoallv, Neighbor_alltoallv, elements, p.from, p.counts, p.offsets, p.type, p.to, p.counts, p.offsets, p.type)
    ROW(neighbor_alltoallw, Neighbor_alltoallw, none, p.from, p.counts, p.addresses, p.types, p.to, p.counts, p.addresses, p.types)
    ROW(barrier, Barrier, none)
    // clang-format on
};
#undef ROW

// Counts, types and offsets of every block, which must outlive a nonblocking call.
struct MpiCollective::Vectors {
  uint64_t elements = UINT64_MAX;
  std::vector<int> counts, offsets, byte_offsets;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Datatype> types;

  void fit(uint64_t wanted, const ElementType& element, MPI_Datatype type, bool shares, int ranks) {
    elements = wanted;
    const size_t blocks = static_cast<size_t>(std::max(ranks, 2));  // two neighbours even of one rank
    counts.resize(blocks);
    offsets.resize(blocks);
    types.assign(blocks, type);
    for (size_t block = 0; block < blocks; ++block)
      counts[block] = static_cast<int>(shares ? share_of(wanted, static_cast<int>(block), ranks) : wanted);
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
    addresses.assign(offsets.begin(), offsets.end());
    for (MPI_Aint& address : addresses) address *= static_cast<MPI_Aint>(element.bytes);
    byte_offsets.assign(addresses.begin(), addresses.end());
  }
};

MpiCollective::MpiCollective(const BenchArguments& arguments)
    : kind_(arguments.collective()),
      function_(functions[static_cast<int>(kind_.id)]),
      name_(function_.name),
      nonblocking_(arguments.kind->id == Benchmark::overlap),
      persistent_(arguments.kind->persistent),
      element_(element_type(arguments.element)),
      type_(mpi_type(element_.id)),
      operation_(mpi_operation(reduction_named(arguments.reduction))),
      vectors_(std::make_unique<Vectors>()) {
  if (nonblocking_) name_[0] = static_cast<char>(std::tolower(name_[0]));
  name_ = (nonblocking_ ? "MPI_I" : "MPI_") + name_ + (persistent_ ? "_init" : "");
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  const int ring = 1;
  if (among_neighbors(kind_))
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks_, &ring, 0, &comm_);
  else
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

MpiCollective::~MpiCollective() {
  free_requests();
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

void MpiCollective::require_persistent(const BenchArguments& arguments) {
  const std::string name =
      fmt::format("MPI_{}_init", functions[static_cast<int>(arguments.collective().id)].name);
  function_of_mpi4<void (*)()>(name);
}

std::string MpiCollective::refusal(uint64_t elements) const {
  uint64_t counted = elements;
  if (function_.offsets != Offsets::none) counted *= static_cast<uint64_t>(blocks_of(kind_, ranks_));
  if (function_.offsets == Offsets::bytes) counted *= element_.bytes;
  return counted > INT_MAX ? fmt::format("{} {}, more than an MPI count holds", counted,
                                         function_.offsets == Offsets::bytes ? "bytes" : "elements")
                           : "";
}

MpiCollective::Parameters MpiCollective::parameters(const CollectiveCall& call) {
  if (vectors_->elements != call.elements) {
    free_requests();
    vectors_->fit(call.elements, element_, type_, kind_.received == Extent::share, ranks_);
  }
  return {call.from,
          call.to,
          static_cast<int>(call.elements),
          vectors_->counts.data(),
          vectors_->offsets.data(),
          vectors_->byte_offsets.data(),
          vectors_->addresses.data(),
          vectors_->types.data(),
          type_,
          operation_,
          call.root,
          comm_};
}

void MpiCollective::run(const CollectiveCall& call) {
  if (nonblocking_ || persistent_)
    NonblockingChannel::run(call);
  else
    require(function_.call(parameters(call)), name_.c_str());
}

// Of one size there is one for each root.
MPI_Request MpiCollective::persistent_request(const CollectiveCall& call) {
  const Parameters p = parameters(call);
  auto [made, is_new] = requests_.try_emplace(call.root, MPI_REQUEST_NULL);
  if (is_new) require(function_.make(p, &made->second), name_.c_str());
  return made->second;
}

void MpiCollective::free_requests() {
  for (auto& [root, request] : requests_)
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  requests_.clear();
}

void MpiCollective::start(const CollectiveCall& call) {
  if (persistent_) {
    started_ = persistent_request(call);
    require(MPI_Start(&started_), "MPI_Start");
  } else {
    require(function_.start(parameters(call), &started_), name_.c_str());
  }
}

void MpiCollective::test() {
  int done = 0;
  require(MPI_Test(&started_, &done, MPI_STATUS_IGNORE), "MPI_Test");
}

void MpiCollective::wait() {
  require(MPI_Wait(&started_, MPI_STATUS_IGNORE), "MPI_Wait");
}

void MpiCollective::require(int error, const char* call) const {
  if (error != MPI_SUCCESS) throw Failure(exit_problem, fmt::format("{}: {}", call, text_of_error(error)));
}

}  // namespace fairlead::tools
