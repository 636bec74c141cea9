// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <numeric>
#include <vector>

#include "bench/mpi/collective_channel.h"
#include "bench/mpi/collective_types.h"

namespace fairlead::tools {

struct MpiCollective::Parameters {
  const void* from;
  void* to;
  int count;
  const int* counts;   // of the vector functions
  const int* offsets;  // in elements
  MPI_Datatype type;
  MPI_Op operation;
  int root;
  MPI_Comm comm;
};

// One row per collective: how each takes its parameters.
struct MpiCollective::Function {
  Collective id;
  const char* name;  // after MPI_; in small letters after MPI_I
  int (*call)(const P&);
  int (*start)(const P&, R*);
};

const MpiCollective::Function MpiCollective::functions[] = {
    {Collective::allreduce, "Allreduce",
     [](const P& p) { return MPI_Allreduce(p.from, p.to, p.count, p.type, p.operation, p.comm); },
     [](const P& p, R* r) { return MPI_Iallreduce(p.from, p.to, p.count, p.type, p.operation, p.comm, r); }},
    {Collective::bcast, "Bcast",
     [](const P& p) {
       return MPI_Bcast(p.from ? const_cast<void*>(p.from) : p.to, p.count, p.type, p.root, p.comm);
     },
     [](const P& p, R* r) {
       return MPI_Ibcast(p.from ? const_cast<void*>(p.from) : p.to, p.count, p.type, p.root, p.comm, r);
     }},
    {Collective::reduce, "Reduce",
     [](const P& p) { return MPI_Reduce(p.from, p.to, p.count, p.type, p.operation, p.root, p.comm); },
     [](const P& p, R* r) {
       return MPI_Ireduce(p.from, p.to, p.count, p.type, p.operation, p.root, p.comm, r);
     }},
    {Collective::allgather, "Allgather",
     [](const P& p) { return MPI_Allgather(p.from, p.count, p.type, p.to, p.count, p.type, p.comm); },
     [](const P& p, R* r) {
       return MPI_Iallgather(p.from, p.count, p.type, p.to, p.count, p.type, p.comm, r);
     }},
    {Collective::allgatherv, "Allgatherv",
     [](const P& p) {
       return MPI_Allgatherv(p.from, p.count, p.type, p.to, p.counts, p.offsets, p.type, p.comm);
     },
     [](const P& p, R* r) {
       return MPI_Iallgatherv(p.from, p.count, p.type, p.to, p.counts, p.offsets, p.type, p.comm, r);
     }},
    {Collective::alltoall, "Alltoall",
     [](const P& p) { return MPI_Alltoall(p.from, p.count, p.type, p.to, p.count, p.type, p.comm); },
     [](const P& p, R* r) {
       return MPI_Ialltoall(p.from, p.count, p.type, p.to, p.count, p.type, p.comm, r);
     }},
    {Collective::alltoallv, "Alltoallv",
     [](const P& p) {
       return MPI_Alltoallv(p.from, p.counts, p.offsets, p.type, p.to, p.counts, p.offsets, p.type, p.comm);
     },
     [](const P& p, R* r) {
       return MPI_Ialltoallv(p.from, p.counts, p.offsets, p.type, p.to, p.counts, p.offsets, p.type, p.comm,
                             r);
     }},
    {Collective::gather, "Gather",
     [](const P& p) { return MPI_Gather(p.from, p.count, p.type, p.to, p.count, p.type, p.root, p.comm); },
     [](const P& p, R* r) {
       return MPI_Igather(p.from, p.count, p.type, p.to, p.count, p.type, p.root, p.comm, r);
     }},
    {Collective::scatter, "Scatter",
     [](const P& p) { return MPI_Scatter(p.from, p.count, p.type, p.to, p.count, p.type, p.root, p.comm); },
     [](const P& p, R* r) {
       return MPI_Iscatter(p.from, p.count, p.type, p.to, p.count, p.type, p.root, p.comm, r);
     }},
    {Collective::reduce_scatter, "Reduce_scatter",
     [](const P& p) { return MPI_Reduce_scatter(p.from, p.to, p.counts, p.type, p.operation, p.comm); },
     [](const P& p, R* r) {
       return MPI_Ireduce_scatter(p.from, p.to, p.counts, p.type, p.operation, p.comm, r);
     }},
    {Collective::barrier, "Barrier", [](const P& p) { return MPI_Barrier(p.comm); },
     [](const P& p, R* r) { return MPI_Ibarrier(p.comm, r); }},
};

// Counts and offsets of every rank, which must outlive a nonblocking call.
struct MpiCollective::Vectors {
  uint64_t elements = UINT64_MAX;
  std::vector<int> counts, offsets;

  void fit(uint64_t wanted, bool shares, int ranks) {
    if (wanted == elements) return;
    elements = wanted;
    counts.resize(static_cast<size_t>(ranks));
    offsets.resize(counts.size());
    for (int rank = 0; rank < ranks; ++rank)
      counts[static_cast<size_t>(rank)] = static_cast<int>(shares ? share_of(wanted, rank, ranks) : wanted);
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  }
};

MpiCollective::MpiCollective(const BenchArguments& arguments)
    : function_(functions[static_cast<int>(*arguments.kind->collective)]),
      name_(function_.name),
      nonblocking_(arguments.kind->id == Benchmark::overlap),
      type_(mpi_type(element_type(arguments.element).id)),
      operation_(mpi_operation(reduction_named(arguments.reduction))),
      vectors_(std::make_unique<Vectors>()) {
  if (nonblocking_) name_[0] = static_cast<char>(std::tolower(name_[0]));
  name_ = (nonblocking_ ? "MPI_I" : "MPI_") + name_;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &ranks_);
}

MpiCollective::~MpiCollective() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

std::string MpiCollective::refusal(uint64_t elements) const {
  bool each = function_.id == Collective::allgatherv || function_.id == Collective::alltoallv;
  uint64_t counted = elements * static_cast<uint64_t>(each ? ranks_ : 1);
  return counted > INT_MAX ? fmt::format("{} elements, more than an MPI count holds", counted) : "";
}

MpiCollective::Parameters MpiCollective::parameters(const CollectiveCall& call) {
  vectors_->fit(call.elements, function_.id == Collective::reduce_scatter, ranks_);
  return {call.from,
          call.to,
          static_cast<int>(call.elements),
          vectors_->counts.data(),
          vectors_->offsets.data(),
          type_,
          operation_,
          call.root,
          comm_};
}

void MpiCollective::run(const CollectiveCall& call) {
  if (nonblocking_) {
    MPI_Request request = start(call);
    wait(&request);
    return;
  }
  require(function_.call(parameters(call)), name_.c_str());
}

MPI_Request MpiCollective::start(const CollectiveCall& call) {
  MPI_Request request = MPI_REQUEST_NULL;
  require(function_.start(parameters(call), &request), name_.c_str());
  return request;
}

void MpiCollective::test(MPI_Request* request) {
  int done = 0;
  require(MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test");
}

void MpiCollective::wait(MPI_Request* request) {
  require(MPI_Wait(request, MPI_STATUS_IGNORE), "MPI_Wait");
}

void MpiCollective::require(int error, const char* call) const {
  if (error == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, text, &length);
  // MPICH's run over several lines.
  std::replace(text, text + length, '\n', ' ');
  throw Failure(exit_problem, fmt::format("{}: {}", call, text));
}

}  // namespace fairlead::tools
