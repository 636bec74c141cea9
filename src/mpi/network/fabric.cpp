// SPDX-License-Identifier: Apache-2.0

#include "mpi/network/fabric.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/options.h"
#include "base/system/processor.h"
#include "device/classify.h"
#include "mpi/abi/real.h"
#include "observe/statistics.h"

namespace fairlead::mpi {
namespace {

using device::Error;
using network::Control;

using Transfer = std::pair<int, uint32_t>;  // the other rank, tag
auto& offers = *new std::map<Transfer, FabricOffer*>;
auto& claims = *new std::map<Transfer, FabricClaim*>;

// Memory that could not be mapped: receiver, device, and id of the allocation, 0 for all of the device.
auto& refused = *new std::set<std::tuple<int, int, uint64_t>>;
// The same of other ranks: sender and id.
auto& not_mapped = *new std::set<std::pair<int, uint64_t>>;
struct Attempts {
  unsigned failed = 0;
  bool succeeded = false;
};
constexpr unsigned attempts_without_success = 3;
auto& attempts = *new std::map<int, Attempts>;  // by sender
// Ranks that learn when memory is freed, by base and id.
auto& importers = *new std::map<std::pair<uint64_t, uint64_t>, std::set<int>>;

// In the registry, ranks of the node have the numbers below.
int owner_number(int world_rank) {
  return (1 << 30) + world_rank;
}

device::FabricDomain domain_of(int device) {
  static auto& known = *new std::map<int, device::FabricDomain>;
  auto [entry, is_new] = known.try_emplace(device);
  if (is_new && device::runtime()->fabric_domain(device, &entry->second) != Error::none)
    log_line(LogLevel::debug, "other nodes cannot map memory of device %d: %s", device,
             device::runtime()->error_text());
  return entry->second;
}

bool is_switched_off() {
  return !options().ipc || options().network == "staged";
}

void tell_of_freed(const std::vector<device::GoneExport>& gone) {
  for (const auto& [base, id] : gone) {
    std::erase_if(refused, [id = id](const auto& memory) { return std::get<uint64_t>(memory) == id; });
    for (int importer : importers[{base, id}])
      network::send_control(importer, {Control::freed, 0, {{}, base, 0, id, 0, device::SharedBy::fabric}});
    importers.erase({base, id});
  }
}

}  // namespace

FabricOffer::FabricOffer(int receiver, uint32_t tag, const device::Allocation& allocation,
                         const packing::View& from, uint64_t bytes)
    : receiver_(receiver), tag_(tag), device_(allocation.device) {
  if (is_switched_off() || !allocation.for_other_nodes || !from.contiguous() ||
      refused.contains({receiver, device_, 0}) || refused.contains({receiver, device_, allocation.id}))
    return;
  std::vector<device::GoneExport> gone;
  const Error exported = device::export_memory(allocation, from.address(), bytes, &memory_, &gone, true);
  tell_of_freed(gone);
  if (exported != Error::none || !(domain_ = domain_of(device_))) return;
  state_ = State::offered;
  offers[{receiver, tag}] = this;
}

FabricOffer::~FabricOffer() {
  if (domain_) offers.erase({receiver_, tag_});
}

void FabricOffer::take_answer(Control answer) {
  if (state_ != State::offered && state_ != State::granted) return;
  if (answer == Control::claims) {
    state_ = State::granted;
    importers[{memory_.base, memory_.id}].insert(receiver_);
    network::note_progress(network::Direction::sending, receiver_);
    network::send_control(receiver_, {Control::grants, tag_, memory_});
    return;
  }
  state_ = answer == Control::fetched ? State::fetched : State::none;
  if (answer == Control::cannot_map) count(Fallback::import_failed);
  if (answer == Control::cannot_map || answer == Control::cannot_reach)
    refused.insert({receiver_, device_, answer == Control::cannot_map ? memory_.id : 0});
}

void FabricOffer::note_receiver_failed() {
  state_ = State::none;
  for (auto& [memory, ranks] : importers) ranks.erase(receiver_);
}

FabricClaim::FabricClaim(const p2p::RtsHeader& rts, const packing::View& to, uint64_t capacity, int device)
    : sender_(rts.sender), device_(device), tag_(rts.number), to_(to), bytes_(rts.bytes) {
  if (!rts.domain) return;
  if (device_ < 0) device_ = device::device_in_use();
  if (is_switched_off() || device_ < 0 || bytes_ > capacity || !to.contiguous()) {
    answer(Control::declines, State::none);
  } else if (domain_of(device_) != rts.domain) {
    answer(Control::cannot_reach, State::none);
  } else {
    claims[{sender_, tag_}] = this;
    answer(Control::claims, State::claimed);
  }
}

// A sender that has granted the bytes waits for an answer.
FabricClaim::~FabricClaim() {
  if (state_ == State::claimed || state_ == State::copying) answer(Control::declines, State::none);
}

void FabricClaim::answer(Control answer, State next) {
  state_ = next;
  if (next != State::claimed) claims.erase({sender_, tag_});
  network::send_control(sender_, {answer, tag_, {}});
}

void FabricClaim::take_grant(const device::RemoteMemory& memory) {
  id_ = memory.id;
  state_ = State::copying;
  claims.erase({sender_, tag_});
  if (chunks_come()) return answer(Control::declines, State::none);
  const bool failed_before = not_mapped.contains({sender_, id_});
  if (failed_before || memory.shared_by != device::SharedBy::fabric ||
      device::import_memory(owner_number(sender_), device_, memory, &mapped_) != Error::none ||
      mapped_.bytes() < bytes_ ||
      copy_.start(device_, to_, 0, {mapped_.address(), bytes_}, 0, bytes_) != Error::none)
    (void)fail();
}

Error FabricClaim::fail() {
  Attempts& from_sender = attempts[sender_];
  if (not_mapped.insert({sender_, id_}).second)
    log_line(from_sender.failed++ == 0 ? LogLevel::info : LogLevel::debug,
             "memory of rank %d on another node of the NVLink domain is staged, because this rank cannot "
             "copy from it: %s",
             sender_, device::runtime()->error_text());
  mapped_ = {};
  const bool never = !from_sender.succeeded && from_sender.failed >= attempts_without_success;
  answer(never ? Control::cannot_reach : Control::cannot_map, State::none);
  return Error::not_supported;
}

bool FabricClaim::chunks_come() const {
  int found = 0;
  MPI_Status status;
  PMPI_Iprobe(sender_, static_cast<int>(tag_), network::communicator(), &found, &status);
  return found != 0;
}

Error FabricClaim::advance() {
  if (state_ == State::claimed) {
    if (!chunks_come()) return Error::not_ready;
    claims.erase({sender_, tag_});  // the sender has withdrawn its offer
    state_ = State::none;
  }
  if (state_ == State::copying) {
    const Error copied = copy_.poll();
    if (copied == Error::not_ready) return copied;
    if (copied != Error::none) return fail();
    mapped_ = {};
    attempts[sender_].succeeded = true;
    // A sender that has not waited for this rank keeps host memory until its chunks are received.
    if (chunks_come())
      answer(Control::declines, State::none);
    else
      answer(Control::fetched, State::fetched);
  }
  return state_ == State::fetched ? Error::none : Error::not_supported;
}

void FabricClaim::withdraw() {
  if (state_ == State::claimed) answer(Control::declines, State::none);
}

void FabricClaim::quiesce() {
  withdraw();
  while (state_ == State::copying && advance() == Error::not_ready) relax();
}

void network::take_fabric_control(int peer, const ControlContent& content) {
  const auto& [kind, tag, memory] = content;
  if (kind == Control::freed) {
    not_mapped.erase({peer, memory.id});
    device::forget_import(owner_number(peer), memory.base, memory.id);
  } else if (kind == Control::grants) {
    // Not if this rank has declined the bytes meanwhile.
    if (const auto claim = claims.find({peer, tag}); claim != claims.end()) claim->second->take_grant(memory);
  } else if (const auto offer = offers.find({peer, tag}); offer != offers.end()) {
    offer->second->take_answer(kind);
  }
}

bool network::awaits_fabric_control() {
  return !offers.empty() || !claims.empty();
}

void network::look_for_freed_memory() {
  if (importers.empty()) return;
  std::vector<device::GoneExport> gone;
  device::take_gone_of_other_nodes(&gone);
  tell_of_freed(gone);
}

void network::close_fabric() {
  refused.clear();
  not_mapped.clear();
  attempts.clear();
  importers.clear();
}

}  // namespace fairlead::mpi
