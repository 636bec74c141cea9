// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/record.h"

#include <algorithm>
#include <vector>

#include "base/mix.h"
#include "flight/clock.h"
#include "mpi/core/communicator.h"
#include "mpi/core/interception.h"

#pragma weak PMPI_Comm_get_name  // as in host_mpi.h

namespace fairlead::mpi {

constinit thread_local Function current_function{};
constinit thread_local const void* current_site = nullptr;
constinit thread_local const char* current_extension = nullptr;

namespace {

// The last ones of this thread. At first they are zero, which no MPI has for a handle; MPI_COMM_NULL, a cast
// from void* in Open MPI, is no constant expression.
struct Recent {
  MPI_Comm comm;
  MPI_Datatype datatype;
  uint64_t size;
};
constinit thread_local Recent recent{};

uint64_t bytes_of(MPI_Count count, MPI_Datatype datatype) {
  // Arguments that are not significant on this rank may have any value.
  if (count <= 0 || datatype == MPI_DATATYPE_NULL) return 0;
  if (datatype != recent.datatype) {
    MPI_Count size = 0;
    PMPI_Type_size_x(datatype, &size);
    recent.datatype = datatype;
    recent.size = size > 0 ? static_cast<uint64_t>(size) : 0;
  }
  return static_cast<uint64_t>(count) * recent.size;
}

// The members, as far as they are kept; those of the other side, to which messages go, of an
// inter-communicator.
void note_members(MPI_Comm comm, flight::Communicator* known) {
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  MPI_Group members, world;
  inter ? PMPI_Comm_remote_group(comm, &members) : PMPI_Comm_group(comm, &members);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_size(members, &known->size);
  const int kept = std::min(known->size, static_cast<int>(flight::members_kept));
  std::vector<int> ranks(static_cast<size_t>(kept));
  for (int i = 0; i < kept; ++i) ranks[static_cast<size_t>(i)] = i;
  PMPI_Group_translate_ranks(members, kept, ranks.data(), world, known->members);
  PMPI_Group_free(&members);
  PMPI_Group_free(&world);
  for (int i = 0; i < kept; ++i)
    if (known->members[i] == MPI_UNDEFINED) known->members[i] = -1;
  std::shared_ptr<MessageCounts>* counts = nullptr;
  known->id = inter ? 0 : name_of(comm, &counts);
  if (known->id == 0)
    for (int i = 0; i < kept; ++i) known->id = mixed(known->id + 1, static_cast<uint64_t>(known->members[i]));
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Comm_get_name(comm, name, &length);
  std::copy_n(name, sizeof known->name - 1, known->name);
}

flight::Communicator* find(flight::Rank& rank, uint64_t handle) {
  auto* found = std::find_if(std::begin(rank.known), std::end(rank.known),
                             [handle](const flight::Communicator& known) { return known.handle == handle; });
  return found == std::end(rank.known) ? nullptr : found;
}

void note_communicator(MPI_Comm comm) {
  flight::Rank& rank = *flight::own_rank();
  if (!find(rank, bits_of(comm))) {
    flight::Communicator& known = rank.known[rank.communicators.fetch_add(1) % flight::communicators_kept];
    known.handle = 0;
    note_members(comm, &known);
    known.handle = bits_of(comm);
  }
  recent.comm = comm;
}

}  // namespace

void forget_recorded_comm(MPI_Comm comm) {
  recent.comm = MPI_COMM_NULL;
  flight::Rank* rank = flight::own_rank();
  if (flight::Communicator* known = rank ? find(*rank, bits_of(comm)) : nullptr) known->handle = 0;
}

void forget_recorded_type(MPI_Datatype datatype) {
  if (recent.datatype == datatype) recent.datatype = MPI_DATATYPE_NULL;
}

namespace {

// In its last bits is the number of the call.
uint64_t time_of_call(uint64_t number) {
  return (flight::time_of_tick() & ~uint64_t{0xffff}) | (number & 0xffff);
}

void describe(flight::Call* call, uint64_t number, Function function, const CallArguments& of,
              uint64_t address) {
  using flight::put;
  if (of.comm != recent.comm && of.comm != MPI_COMM_WORLD && of.comm != MPI_COMM_NULL)
    note_communicator(of.comm);
  put(call->since, time_of_call(number));
  put(call->site, address);
  put(call->comm, of.comm == MPI_COMM_NULL ? 0 : bits_of(of.comm));
  put(call->bytes, bytes_of(of.count, of.datatype));
  put(call->to, of.to);
  put(call->from, of.from);
  if (of.kind == flight::Kind::collective || of.kind == flight::Kind::enqueued) {
    put(call->op, bits_of(of.op));
  } else {
    put(call->sendtag, of.sendtag);
    put(call->recvtag, of.recvtag);
  }
  put(call->repeats, 0u);
  put(call->function, static_cast<uint16_t>(function));
  put(call->kind, of.kind);
  put<uint8_t>(call->device, 0);
}

}  // namespace

void CallRecord::begin(Function function, const CallArguments& of, const void* site) {
  using flight::put;
  before_ = thread_->open.load(std::memory_order_relaxed);
  uint64_t number = thread_->begun.load(std::memory_order_relaxed);
  flight::Call& last = thread_->calls[(number - 1) % flight::calls_kept];
  const uint64_t address = reinterpret_cast<uintptr_t>(current_site ? current_site : site);
  if (of.kind == flight::Kind::polling && number > 0 && last.function == static_cast<uint16_t>(function) &&
      last.site == address) {
    put(last.repeats, last.repeats + 1);
  } else {
    call_ = &thread_->calls[number % flight::calls_kept];
    describe(call_, ++number, function, of, address);
    thread_->begun.store(number, std::memory_order_release);
  }
  thread_->open.store(number, std::memory_order_release);
  flight::Rank* rank = flight::own_rank();
  if (!of.requests || !rank) return;
  const auto thread = static_cast<size_t>(thread_ - rank->threads);
  if (thread >= flight::threads_kept) return;
  const int count = std::min(of.requested, static_cast<int>(flight::requests_kept));
  for (int i = 0; i < count; ++i) {
    const uint64_t request = bits_of(of.requests[i]);
    flight::Call& started = rank->requests[flight::place_of(request)];
    if (started.request == request) put(started.repeats, flight::waiting_mark(number, thread));
  }
}

// Others may take the place of one that is complete.
void CallRecord::remember_request() const {
  flight::Rank* rank = flight::own_rank();
  const uint64_t request = bits_of(*started_);
  if (!rank || !call_ || request == bits_of(MPI_REQUEST_NULL)) return;
  flight::Call& kept = rank->requests[flight::place_of(request)];
  kept = *call_;
  kept.repeats = 0;
  kept.request = request;
}

EnqueuedRecord::EnqueuedRecord(MPI_Comm comm) {
  flight::Rank* rank = flight::own_rank();
  if (!rank) return;
  for (flight::Enqueued& each : rank->enqueued)
    if (uint64_t unused = 0; each.comm.compare_exchange_strong(unused, bits_of(comm))) {
      each.begun = 0;
      each.captured = 0;
      record_ = &each;
      return;
    }
}

EnqueuedRecord::~EnqueuedRecord() {
  if (record_) record_->comm = 0;
}

void EnqueuedRecord::add(Function function, const CallArguments& arguments, bool in_stream,
                         bool captured) const {
  const flight::Thread* thread = flight::own_thread();
  if (!record_ || !thread) return;
  if (captured) record_->captured.store(1, std::memory_order_relaxed);
  CallArguments of = arguments;
  of.kind = flight::Kind::enqueued;
  const uint64_t number = record_->begun.load(std::memory_order_relaxed);
  flight::Call& call = record_->calls[number % flight::calls_kept];
  describe(&call, thread->begun.load(std::memory_order_relaxed), function, of,
           reinterpret_cast<uintptr_t>(current_site));
  flight::put(call.repeats, uint32_t{in_stream});
  record_->begun.store(number + 1, std::memory_order_release);
}

void CallRecord::add(MPI_Count count, MPI_Datatype datatype) {
  observe::OpenCall* call = observe::current_call();
  // Arguments that are not significant on this rank may have any value.
  if (!call || count <= 0 || datatype == MPI_DATATYPE_NULL) return;
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  if (size > 0) call->bytes += static_cast<uint64_t>(count * size);
}

namespace {

int rank_of_this_process() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace

void CallRecord::add_received(const MPI_Status& status, MPI_Comm comm) const {
  MPI_Count bytes = 0;
  PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  add(bytes, MPI_BYTE);
  // A receive that became an operation has ended the flow event itself.
  if (intercepting() && observe::tracing() && comm != MPI_COMM_NULL && !observe::current_call()->received)
    end_flow(rank_in_world(comm, status.MPI_SOURCE), status.MPI_TAG, bytes);
}

void begin_flow(MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  if (!intercepting() || !observe::tracing() || is_invalid(count, datatype)) return;
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  int to = rank_in_world(comm, dest);
  if (to >= 0 && count > 0 && size > 0)
    observe::trace_sent(
        observe::flow_of(rank_of_this_process(), to, tag, static_cast<uint64_t>(count * size)));
}

void end_flow(int from, int tag, MPI_Count bytes) {
  if (from >= 0 && bytes > 0)
    observe::trace_received(
        observe::flow_of(from, rank_of_this_process(), tag, static_cast<uint64_t>(bytes)));
}

void MessageRecord::start() {
  const observe::OpenCall* call = observe::current_call();
  function_ = call ? call->function : -1;
  since_ = observe::now();
  path_ = Traffic::rows;
}

void MessageRecord::finish() {
  if (path_ != Traffic::rows) observe::add({function_, path_}, bytes_, observe::now() - since_);
  function_ = -1;
}

}  // namespace fairlead::mpi
