// SPDX-License-Identifier: Apache-2.0
//
// What each collective moves, in blocks; and the one place that calls them all.

#include "collectives/exercise.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "collectives/content.h"

namespace ranks::coll {

namespace {

// A destination: the same data go to all.
constexpr int everyone = -1000;
// Of ranks of side 1, to tell them from those of side 0.
constexpr int second_side = 1 << 16;
// What is not significant.
void* const nowhere = reinterpret_cast<void*>(16);
constexpr int no_count = -1;

constexpr const char* names[kind_count] = {
    "barrier",
    "bcast",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "exscan",
    "neighbor_allgather",
    "neighbor_allgatherv",
    "neighbor_alltoall",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
};

bool has_irregular_counts(Kind kind) {
  const char last = names[static_cast<int>(kind)][strlen(names[static_cast<int>(kind)]) - 1];
  return last == 'v' || last == 'w';
}

bool is_nonblocking(Form form) {
  return form == Form::nonblocking || form == Form::large_nonblocking;
}

bool is_persistent(Form form) {
  return form == Form::persistent || form == Form::large_persistent;
}

bool is_large(Form form) {
  return form >= Form::large;
}

// A function of the MPI, and its name.
struct Function {
  std::string name;
  void* address;
  bool exists;
};

Function find(Kind kind, Form form) {
  std::string name = names[static_cast<int>(kind)];
  if (is_nonblocking(form))
    name = "I" + name;
  else
    name[0] = static_cast<char>(toupper(name[0]));
  if (is_persistent(form)) name += "_init";
  if (is_large(form)) name += "_c";
  name = "MPI_" + name;
  return {name, dlsym(RTLD_DEFAULT, name.c_str()), dlsym(RTLD_DEFAULT, ("P" + name).c_str()) != nullptr};
}

const Function& function(Kind kind, Form form) {
  static const std::vector<Function> functions = [] {
    std::vector<Function> all;
    for (int k = 0; k < kind_count; ++k)
      for (int f = 0; f < form_count; ++f) all.push_back(find(static_cast<Kind>(k), static_cast<Form>(f)));
    return all;
  }();
  return functions[static_cast<size_t>(static_cast<int>(kind) * form_count + static_cast<int>(form))];
}

// MPICH before 4.2 crashes in Reduce in place at a root other than 0 (its issue 6540).
bool may_reduce_in_place_at(int root) {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
  return root == 0;
#else
  return root >= 0;
#endif
}

template <class... Arguments>
int invoke(const Function& function, Form form, MPI_Request* request, Arguments... arguments) {
  if (is_persistent(form))
    return reinterpret_cast<int (*)(Arguments..., MPI_Info, MPI_Request*)>(function.address)(
        arguments..., MPI_INFO_NULL, request);
  if (is_nonblocking(form))
    return reinterpret_cast<int (*)(Arguments..., MPI_Request*)>(function.address)(arguments..., request);
  return reinterpret_cast<int (*)(Arguments...)>(function.address)(arguments...);
}

}  // namespace

bool is_rooted(Kind kind) {
  return kind == Kind::reduce || (kind >= Kind::bcast && kind <= Kind::scatterv);
}

bool is_reduction(Kind kind) {
  return kind >= Kind::reduce && kind <= Kind::exscan;
}

bool is_neighborhood(Kind kind) {
  return kind >= Kind::neighbor_allgather;
}

bool may_be_in_place(Kind kind, [[maybe_unused]] Form form) {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
  // MPICH 4.0.2 copies between overlapping parts of the buffer of Reduce_scatter in place, and aborts.
  if (kind == Kind::reduce_scatter) return false;
#endif
#ifdef OPEN_MPI
  // Open MPI 4.1.4 mixes up the blocks of Ialltoallv in place, or hangs.
  if ((kind == Kind::alltoallv || kind == Kind::alltoallw) && form != Form::blocking) return false;
#endif
  return kind != Kind::barrier && kind != Kind::bcast && !is_neighborhood(kind);
}

int some_count(Types types, uint64_t dice) {
  const int counts[] = {0, 1, 65, 1000, types == Types::derived ? 3000 : 30000};
  return counts[dice % std::size(counts)];
}

bool allows_intercommunicators(Kind kind) {
  return !is_neighborhood(kind) && kind != Kind::scan && kind != Kind::exscan &&
         kind != Kind::reduce_scatter && kind != Kind::reduce_scatter_block;
}

bool exists(Kind kind, Form form) {
  return function(kind, form).exists && function(kind, form).address != nullptr;
}

const char* function_name(Kind kind, Form form) {
  return function(kind, form).name.c_str();
}

std::string describe(const Plan& plan) {
  char text[200];
  snprintf(text, sizeof(text), "%s root %d count %d%s places %d types %d key %llu",
           names[static_cast<int>(plan.kind)], plan.root, plan.count, plan.in_place ? " in place" : "",
           static_cast<int>(plan.places), static_cast<int>(plan.types),
           static_cast<unsigned long long>(plan.key));
  return text;
}

Collective::Collective(const Team& team, const Plan& plan) : team_(team), plan_(plan) {
  plan_.in_place = plan.in_place && may_be_in_place(plan.kind) && !team.inter &&
                   (plan.kind != Kind::reduce || may_reduce_in_place_at(plan.root));
  me_ = team.side * second_side + team.position;
  far_ = (team.inter ? 1 - team.side : team.side) * second_side;
  const bool root_side = !team.inter || team.side == plan.root_side;
  root_ = root_side && team.position == plan.root;
  idle_ = team.inter && root_side && is_rooted(plan.kind) && !root_;
  for (Side* side : {&out_, &in_}) {
    side->address = nowhere;
    side->counts = {no_count};
    side->large_counts = {no_count};
    side->types = {MPI_DATATYPE_NULL};
  }
  if (idle_ && plan.kind == Kind::bcast) {  // MPICH looks at its arguments all the same
    in_.counts = {plan.count};
    in_.large_counts = {plan.count};
    in_.types = {MPI_BYTE};
  }
  if (plan.kind == Kind::barrier || idle_) return;
  if (is_reduction(plan.kind))
    lay_out_reduction();
  else if (is_neighborhood(plan.kind))
    lay_out_neighborhood();
  else
    lay_out_movement();
}

int Collective::items(int source, int destination, int message) const {
  if (!has_irregular_counts(plan_.kind)) return plan_.count;
  // With MPI_IN_PLACE, what two ranks exchange is equally long both ways.
  const auto [low, high] = std::minmax(source, destination);
  const uint64_t dice = plan_.in_place
                            ? key_of(plan_.key, static_cast<uint64_t>(low), static_cast<uint64_t>(high))
                            : key_of(plan_.key + static_cast<uint64_t>(message),
                                     static_cast<uint64_t>(source), static_cast<uint64_t>(destination));
  switch (dice % 4) {
    case 0:
      return 0;
    case 1:
      return plan_.count;
    case 2:
      return plan_.count / 2;
    default:
      return plan_.count + static_cast<int>(dice / 4 % 5);
  }
}

const Layout& Collective::layout(bool sending, int peer) const {
  const bool one_type_each = plan_.kind == Kind::alltoallw || plan_.kind == Kind::neighbor_alltoallw;
  const uint64_t dice = key_of(plan_.key, static_cast<uint64_t>(2 * me_ + sending),
                               static_cast<uint64_t>(one_type_each ? peer : 0));
  return layout_of(plan_.types, dice);
}

// Block after block; blocks of irregular counts in another order, with gaps between.
std::vector<Block> Collective::spread(std::vector<Block> blocks) const {
  const bool irregular = has_irregular_counts(plan_.kind) && blocks.size() > 1;
  const bool backwards = irregular && plan_.key % 2 == 1;
  size_t offset = 0;
  for (size_t n = 0; n < blocks.size(); ++n) {
    Block& block = blocks[backwards ? blocks.size() - 1 - n : n];
    const size_t extent = block.layout->extent;
    if (irregular) offset = (offset / extent + 1 + n % 3) * extent;
    block.offset = offset;
    offset += static_cast<size_t>(block.count) * extent;
  }
  return blocks;
}

Block Collective::send_block(int peer, int destination, int message) const {
  return {me_, 1, destination, 0, items(me_, destination, message), &layout(true, peer), 0, message};
}

Block Collective::receive_block(int peer, int destination, int message) const {
  return {peer, 1, destination, 0, items(peer, destination, message), &layout(false, peer), 0, message};
}

void Collective::lay_out_movement() {
  const int root = plan_.root_side * second_side + plan_.root;
  // Which ranks send to the root, or receive from it.
  const bool member = !team_.inter || team_.side != plan_.root_side;
  const bool in_place = plan_.in_place && (root_ || !is_rooted(plan_.kind));
  const auto own = static_cast<size_t>(team_.position);
  std::vector<Block> to_all, from_all;
  const bool personal = plan_.kind != Kind::allgather && plan_.kind != Kind::allgatherv;
  for (int peer = far_; peer < far_ + team_.far; ++peer) {
    to_all.push_back(send_block(peer, peer));
    from_all.push_back(receive_block(peer, personal ? me_ : everyone));
  }
  switch (plan_.kind) {
    case Kind::bcast:
      in_.after = {{root, 1, everyone, 0, plan_.count, &layout(false, 0), 0}};
      if (root_) in_.before = in_.after;
      finish(in_, in_.after, root_);
      break;
    case Kind::gather:
    case Kind::gatherv:
      if (member && !in_place) {
        out_.before = {send_block(root, root)};
        finish(out_, out_.before, true);
      }
      if (root_) {
        in_.after = spread(from_all);
        if (in_place) in_.before = {in_.after[own]};
        finish(in_, in_.after, false);
      }
      break;
    case Kind::scatter:
    case Kind::scatterv:
      if (root_) {
        out_.before = spread(to_all);
        finish(out_, out_.before, true);
      }
      if (member && !in_place) {
        in_.after = {receive_block(root, me_)};
        finish(in_, in_.after, false);
      }
      break;
    case Kind::allgather:
    case Kind::allgatherv:
      in_.after = spread(from_all);
      if (in_place) in_.before = {in_.after[own]};
      finish(in_, in_.after, false);
      if (in_place) break;
      out_.before = {send_block(0, everyone)};
      finish(out_, out_.before, true);
      break;
    default:  // alltoall
      in_.after = spread(from_all);
      if (in_place) {
        in_.before = in_.after;
        for (Block& block : in_.before) std::swap(block.source, block.destination);
      }
      finish(in_, in_.after, false);
      if (in_place) break;
      out_.before = spread(to_all);
      finish(out_, out_.before, true);
      break;
  }
  if (in_place)
    (plan_.kind == Kind::scatter || plan_.kind == Kind::scatterv ? in_ : out_).address = MPI_IN_PLACE;
}

void Collective::lay_out_neighborhood() {
  const bool personal = plan_.kind >= Kind::neighbor_alltoall;
  for (const Team::Neighbor& source : team_.sources)
    in_.after.push_back(personal ? receive_block(source.rank, me_, source.message)
                                 : receive_block(source.rank, everyone));
  if (personal)
    for (const Team::Neighbor& destination : team_.destinations)
      out_.before.push_back(send_block(destination.rank, destination.rank, destination.message));
  else
    out_.before.push_back(send_block(0, everyone));
  in_.after = spread(in_.after);
  out_.before = spread(out_.before);
  finish(in_, in_.after, false);
  finish(out_, out_.before, true);
}

void Collective::lay_out_reduction() {
  const Layout& element = arithmetic(plan_.key).layout;
  const bool rooted = plan_.kind == Kind::reduce;
  const bool in_place = plan_.in_place && (root_ || !rooted);
  const bool prefix = plan_.kind == Kind::scan || plan_.kind == Kind::exscan;
  std::vector<Block> parts;  // of the result, for each rank of this side
  int total = 0;
  for (int rank = 0; rank < team_.local; ++rank) {
    int count = plan_.count;
    if (plan_.kind == Kind::reduce_scatter)
      count = static_cast<int>(key_of(plan_.key, static_cast<uint64_t>(rank)) % 3) * (plan_.count + 1) / 2;
    if (!has_parts()) total = 0;
    parts.push_back({far_, team_.far, everyone, total, count, &element, 0});
    total += count;
  }
  const Block mine = {me_, 1, everyone, 0, total, &element, 0};
  Block result = parts[static_cast<size_t>(team_.position)];
  if (plan_.kind == Kind::scan) result.sources = team_.position + 1;
  if (plan_.kind == Kind::exscan) result.sources = team_.position;
  if ((!rooted || !team_.inter || !root_) && !in_place) {
    out_.before = {mine};
    finish(out_, out_.before, true);
  }
  if (in_place) out_.address = MPI_IN_PLACE;
  // The first rank of an exclusive scan gets nothing: its receive buffer is not significant.
  const bool nothing = prefix && result.sources == 0;
  if ((rooted && !root_) || (nothing && !in_place)) {
    in_.counts = {plan_.count};
    in_.large_counts = {plan_.count};
    in_.types = {element.type};
    return;
  }
  if (in_place) {
    in_.before = {mine};
    in_.undefined_from = nothing ? 0 : static_cast<size_t>(result.count) * element.extent;
  }
  in_.after = {result};
  if (nothing) in_.after.clear();
  finish(in_, parts, false);
}

bool Collective::has_parts() const {
  return plan_.kind == Kind::reduce_scatter || plan_.kind == Kind::reduce_scatter_block;
}

// Makes the buffer, and the arguments that describe these blocks.
void Collective::finish(Side& side, const std::vector<Block>& blocks, bool sending) {
  for (const auto* some : {&side.before, &side.after})
    for (const Block& block : *some)
      side.bytes =
          std::max(side.bytes, block.offset + static_cast<size_t>(block.count) * block.layout->extent);
  const uint64_t dice = key_of(plan_.key, static_cast<uint64_t>(me_), sending ? 11 : 12);
  // Any address that is aligned for the datatype.
  const size_t offset = plan_.types == Types::bytes && !is_reduction(plan_.kind) ? dice % 64 : dice % 4 * 16;
  side.memory = Memory(place(sending), side.bytes, offset);
  // Null at both ends is one buffer at both, which Open MPI's Reduce_init refuses.
  const bool may_be_null = side.bytes == 0 && (sending || !is_reduction(plan_.kind));
  side.address = may_be_null && dice % 2 == 0 ? nullptr : side.memory.data();
  side.used = true;
  const bool in_bytes = plan_.kind == Kind::alltoallw || plan_.kind == Kind::neighbor_alltoallw;
  side.counts.clear();
  side.large_counts.clear();
  side.types.clear();
  for (const Block& block : blocks) {
    const size_t unit = in_bytes ? 1 : block.layout->extent;
    side.counts.push_back(block.count);
    side.large_counts.push_back(block.count);
    side.offsets.push_back(static_cast<int>(block.offset / unit));
    side.large_offsets.push_back(static_cast<MPI_Aint>(block.offset / unit));
    side.types.push_back(block.layout->type);
  }
  if (!blocks.empty()) return;
  // Who has no neighbours passes what others do; both MPIs refuse null.
  side.address = nowhere;
  side.counts = {plan_.count};
  side.large_counts = {plan_.count};
  side.offsets = {0};
  side.large_offsets = {0};
  side.types = {layout(sending, 0).type};
}

Place Collective::place(bool sending) const {
  const auto device_if = [](bool device) { return device ? Place::device : Place::host; };
  switch (plan_.places) {
    case Places::device:
      return Place::device;
    case Places::host:
      return Place::host;
    case Places::root_is_host:
      return device_if(!root_);
    case Places::root_is_device:
      return device_if(root_);
    case Places::odd_ranks_are_host:
      return device_if(team_.position % 2 == 0);
    case Places::sends_are_host:
      return device_if(!sending);
    case Places::receives_are_host:
      return device_if(sending);
    case Places::devices_differ:
      return sending ? Place::virtual_memory : Place::other_device;
    case Places::any:
      break;
  }
  return all_places[key_of(plan_.key, static_cast<uint64_t>(me_), sending ? 21 : 22) % std::size(all_places)];
}

std::vector<char> Collective::image(const Side& side, const std::vector<Block>& blocks) const {
  std::vector<char> bytes(side.bytes, static_cast<char>(guard_byte));
  for (const Block& block : blocks) {
    if (block.source < 0) continue;  // from MPI_PROC_NULL
    const uint64_t key = key_of(plan_.key, round_, static_cast<uint64_t>(block.message));
    if (is_reduction(plan_.kind))
      reduce_into(bytes.data() + block.offset, arithmetic(plan_.key), key, block.source, block.sources,
                  block.first_item, block.count);
    else
      place_items(bytes.data() + block.offset, *block.layout, block.count,
                  key_of(key, static_cast<uint64_t>(block.source), static_cast<uint64_t>(block.destination)));
  }
  return bytes;
}

void Collective::prepare(uint64_t round) {
  round_ = round;
  for (Side* side : {&out_, &in_}) {
    if (!side->used) continue;
    const std::vector<char> before = image(*side, side->before);
    side->memory.write(before.data(), before.size());
  }
}

void Collective::check() const {
  std::string why;
  const std::string what = describe(plan_);
  if (out_.used)
    EXPECT(out_.memory.holds(image(out_, out_.before), &why), "%s changed its input: %s", what.c_str(),
           why.c_str());
  if (in_.used)
    EXPECT(in_.memory.holds(image(in_, in_.after), &why, in_.undefined_from), "%s: %s", what.c_str(),
           why.c_str());
}

bool Collective::call(Form form, MPI_Request* request) {
  const char* name = function_name(plan_.kind, form);
  at(__FILE__, __LINE__, name);
  const int result = is_large(form) && plan_.kind != Kind::barrier
                         ? perform<MPI_Count, MPI_Aint>(form, request)
                         : perform<int, int>(form, request);
  return succeeded(result, __FILE__, __LINE__, name);
}

template <class Count, class Offset>
int Collective::perform(Form form, MPI_Request* request) {
  const auto counts = [](const Side& side) {
    if constexpr (std::is_same_v<Count, int>)
      return side.counts.data();
    else
      return side.large_counts.data();
  };
  const auto offsets = [](const Side& side) {
    if constexpr (std::is_same_v<Offset, int>)
      return side.offsets.data();
    else
      return side.large_offsets.data();
  };
  const void* from = out_.address;
  void* to = in_.address;
  const Count *send_counts = counts(out_), *receive_counts = counts(in_);
  const Count send_count = *send_counts, receive_count = *receive_counts;
  const Offset *send_offsets = offsets(out_), *receive_offsets = offsets(in_);
  const MPI_Aint *send_places = out_.large_offsets.data(), *receive_places = in_.large_offsets.data();
  const MPI_Datatype *send_types = out_.types.data(), *receive_types = in_.types.data();
  const MPI_Datatype send_type = *send_types, receive_type = *receive_types;
  const int root =
      team_.inter && team_.side == plan_.root_side ? (root_ ? MPI_ROOT : MPI_PROC_NULL) : plan_.root;
  const MPI_Op op = arithmetic(plan_.key).op;
  const MPI_Datatype element = arithmetic(plan_.key).layout.type;
  const Count elements = plan_.count;
  const MPI_Comm comm = team_.comm;
  const auto with = [&](auto... arguments) {
    return invoke(function(plan_.kind, form), form, request, arguments...);
  };
  switch (plan_.kind) {
    case Kind::barrier:
      return with(comm);
    case Kind::bcast:
      return with(to, receive_count, receive_type, root, comm);
    case Kind::gather:
      return with(from, send_count, send_type, to, receive_count, receive_type, root, comm);
    case Kind::gatherv:
      return with(from, send_count, send_type, to, receive_counts, receive_offsets, receive_type, root, comm);
    case Kind::scatter:
      return with(from, send_count, send_type, to, receive_count, receive_type, root, comm);
    case Kind::scatterv:
      return with(from, send_counts, send_offsets, send_type, to, receive_count, receive_type, root, comm);
    case Kind::allgather:
    case Kind::alltoall:
    case Kind::neighbor_allgather:
    case Kind::neighbor_alltoall:
      return with(from, send_count, send_type, to, receive_count, receive_type, comm);
    case Kind::allgatherv:
    case Kind::neighbor_allgatherv:
      return with(from, send_count, send_type, to, receive_counts, receive_offsets, receive_type, comm);
    case Kind::alltoallv:
    case Kind::neighbor_alltoallv:
      return with(from, send_counts, send_offsets, send_type, to, receive_counts, receive_offsets,
                  receive_type, comm);
    case Kind::alltoallw:
      return with(from, send_counts, send_offsets, send_types, to, receive_counts, receive_offsets,
                  receive_types, comm);
    case Kind::neighbor_alltoallw:
      return with(from, send_counts, send_places, send_types, to, receive_counts, receive_places,
                  receive_types, comm);
    case Kind::reduce:
      return with(from, to, elements, element, op, root, comm);
    case Kind::reduce_scatter:
      return with(from, to, receive_counts, element, op, comm);
    case Kind::allreduce:
    case Kind::reduce_scatter_block:
    case Kind::scan:
    case Kind::exscan:
      return with(from, to, elements, element, op, comm);
  }
  return MPI_ERR_OTHER;
}

void run(const Team& team, const Plan& plan, Form form) {
  Collective collective(team, plan);
  collective.prepare();
  MPI_Request request = MPI_REQUEST_NULL;
  if (!collective.call(form, &request)) return;
  if (is_persistent(form)) MUST(MPI_Start(&request));
  const char* name = function_name(plan.kind, form);
  at(__FILE__, __LINE__, name);  // for the watchdog, rather than MPI_Wait
  if (!succeeded(MPI_Wait(&request, MPI_STATUS_IGNORE), __FILE__, __LINE__, name)) return;
  if (is_persistent(form)) MUST(MPI_Request_free(&request));
  collective.check();
}

}  // namespace ranks::coll
