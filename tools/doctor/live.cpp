// SPDX-License-Identifier: Apache-2.0
//
// Area `live`: what two ranks of this MPI found by trying.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "doctor/check.h"
#include "doctor/probe/steps.h"
#include "run/program.h"

namespace fairlead::tools::doctor {
namespace {

bool launched(const Machine& machine) {
  return machine.live.started();
}
bool preloaded(const Machine& machine) {
  return launched(machine) && machine.preload;
}
bool have_devices(const Machine& machine) {
  return machine.live.both(step_device);
}

// Steps that move bytes, in the order in which the probe takes them.
constexpr const char* moving_steps[] = {step_host,        step_ipc,         step_device_device,
                                        step_device_host, step_host_device, step_allreduce};

bool done_by_both(const LiveReport& live, const char* step) {
  return !live.fact(step, 0).empty() && !live.fact(step, 1).empty();
}

std::string step_in_words(const std::string& step) {
  if (step == step_ipc) return "mapping the other rank's device memory";
  if (step == step_allreduce) return "a sum over device memory";
  return fmt::format("a message from {} memory", step);
}

// How a job ended that did not come to its end.
std::string end_of_job(const LiveReport& live) {
  if (live.timed_out || holds(live.output, "Alarm clock") || live.status == 142) return "the ranks hang";
  if (holds(live.output, "Segmentation fault") || holds(live.output, "signal 11") || live.status == 139 ||
      live.status == 11)
    return "a rank died by SIGSEGV";
  return fmt::format("the job ended with status {}", live.status);
}

std::vector<std::string> words_of_job(const LiveReport& live) {
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(live.output))
    if (!trimmed(line).empty() && lines.size() < 12) lines.push_back(trimmed(line));
  return lines;
}

// What both ranks say, once where they say the same.
std::string both_words(const LiveReport& live, const char* step) {
  std::string first = live.fact(step, 0), second = live.fact(step, 1);
  return first == second ? first : fmt::format("rank 0 {}; rank 1 {}", first, second);
}

Finding start(const Machine& machine) {
  const LiveReport& live = machine.live;
  if (!live.started()) return skip(live.why_not);
  std::vector<std::string> details = {"command: " + shell_line(live.command)};
  if (live.ranks.size() == 2 && done_by_both(live, step_host) && live.both(step_host)) {
    const std::string messages = "two ranks start and exchange host messages, ";
    if (auto other = other_mpi(live.library, machine.mpi.library))
      return warn(messages + "but " + other->fact, other->remedy, details);
    return ok(messages + "by " + live.library, details);
  }
  for (const std::string& line : words_of_job(live)) details.push_back(line);
  if (live.ranks.empty())
    return fail(fmt::format("the two ranks did not start: {}",
                            live.timed_out ? "no output for 40 s" : end_of_job(live)),
                "run the command that -v shows, and read what the MPI prints", details);
  if (live.ranks.size() < 2)
    return fail("only one of two ranks reported: each process is a job of its own",
                "use the launcher that belongs to the MPI", details);
  return fail(fmt::format("host messages between two ranks fail: {}",
                          done_by_both(live, step_host) ? both_words(live, step_host) : end_of_job(live)),
              "run the command that -v shows, and read what the MPI prints", details);
}

Finding interposed(const Machine& machine) {
  const LiveReport& live = machine.live;
  if (!live.seen(step_loaded)) return skip("no rank reached this check");
  if (live.both(step_loaded))
    return ok(fmt::format("{} answers MPI calls in both ranks", live.fact(step_loaded, 0)));
  int without = live.ranks.count(0) && live.ranks.at(0).at(step_loaded).good ? 1 : 0;
  return fail(fmt::format("Fairlead is not loaded in rank {}: its MPI_Send is that of {}", without,
                          live.fact(step_loaded, without)),
              "find out what clears or overrides LD_PRELOAD there: a wrapper script, a setuid program, the "
              "launcher's own settings");
}

Finding query(const Machine& machine) {
  const LiveReport& live = machine.live;
  if (!live.seen(step_query)) return skip("no rank reached this check");
  std::string fact = live.fact(step_query, 0);
  if (holds(fact, "no function")) return ok(fact);
  fact = "asked whether it is GPU-aware, this MPI answers: " + fact;
  if (live.both(step_query)) return ok(fact);
  return ok(fact + (machine.preload ? "; programs that ask get Fairlead's answer instead" : ""));
}

Finding namespaces(const Machine& machine) {
  const LiveReport& live = machine.live;
  std::string first = live.fact(step_namespaces, 0), second = live.fact(step_namespaces, 1);
  if (first.empty() || second.empty()) return skip("not both ranks reached this check");
  if (first == second) return ok("both ranks have the same PID and IPC namespaces and user");
  return warn(
      fmt::format("rank 0 is in {}, rank 1 in {}: GPU memory may not be mapped between them, and without a "
                  "common /dev/shm device "
                  "messages go through the host MPI",
                  first, second),
      "start all ranks of a node in one container, or give containers --pid=host --ipc=host and one user");
}

// What speaks for real GPUs; "" where nothing does.
std::string what_is_here(const Machine& machine) {
  if (has_gpu(machine)) return machine.gpus.summary() + (machine.gpus.on_bus == 1 ? " is here" : " are here");
  for (Vendor vendor : {Vendor::nvidia, Vendor::amd})
    if (const std::string path = driver_library(machine.system, vendor); !path.empty())
      return fmt::format("{}'s library {} is here", to_string(vendor), path);
  return {};
}

Finding device(const Machine& machine) {
  const LiveReport& live = machine.live;
  if (!done_by_both(live, step_device)) return skip("not both ranks reached this check");
  if (const std::string why = why_simulated(machine); !why.empty())
    return fail(fmt::format("{}, but the ranks cannot use {} and get simulated GPUs: {}",
                            what_is_here(machine), has_gpu(machine) ? "them" : "it", why),
                "remove the cause; --sim 2 uses simulated GPUs without this message");
  if (live.both(step_device)) return ok(both_words(live, step_device));
  return fail(both_words(live, step_device),
              "ask the scheduler for GPUs, unset CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES; --sim 2 uses "
              "simulated ones");
}

Finding not_done(const Machine& machine, const char* step) {
  const LiveReport& live = machine.live;
  for (const char* before : moving_steps) {
    if (before == step) break;
    if (!done_by_both(live, before))
      return skip(fmt::format("not tried, because {} failed before", step_in_words(before)));
  }
  std::string fact = fmt::format("{} when {} was tried", end_of_job(live), step_in_words(step));
  std::string remedy = machine.preload ? "report it with the output of: FAIRLEAD_LOG=trace fairlead doctor -v"
                                       : "start programs with `fairlead run -n N ./program`";
  return fail(fact, remedy, words_of_job(live));
}

Finding ipc(const Machine& machine) {
  const LiveReport& live = machine.live;
  if (!done_by_both(live, step_ipc)) return not_done(machine, step_ipc);
  if (live.both(step_ipc)) return ok(both_words(live, step_ipc));
  return warn(both_words(live, step_ipc),
              "messages are staged through host memory; let each rank see all GPUs of its node (Slurm: "
              "--gpu-bind=none), one PID "
              "and IPC namespace, no MIG");
}

Finding moved(const Machine& machine, const char* step) {
  const LiveReport& live = machine.live;
  if (!done_by_both(live, step)) return not_done(machine, step);
  if (!live.both(step))
    return fail(both_words(live, step),
                machine.preload ? "report it with the output of: FAIRLEAD_LOG=trace fairlead doctor -v"
                                : "start programs with `fairlead run -n N ./program`");
  return ok(both_words(live, step));
}

Finding device_device(const Machine& machine) {
  const LiveReport& live = machine.live;
  Finding found = moved(machine, step_device_device);
  if (found.verdict != Verdict::ok || live.paths.empty()) return found;
  found.fact += fmt::format("; Fairlead took these paths: {}", live.paths);
  if (holds(live.paths, "staged"))
    return warn(found.fact, "the reason is in brackets; see live.ipc and gpu.visible");
  return found;
}

// Tried with simulated nodes: between real ones the host MPI takes other paths, so each job tries it again.
Finding between_nodes(const Machine& machine) {
  const Words& lines = machine.live.between_nodes;
  auto fact_with = [&](const char* words) {
    auto found =
        std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return holds(line, words); });
    return found == lines.end() ? std::string() : found->substr(0, found->find("; "));
  };
  const char* remedy =
      "set FAIRLEAD_NETWORK=staged, which skips the trial; mpi.gpu, mpi.switch and ucx.gpu may show what the "
      "MPI lacks";
  if (std::string fact = fact_with("crashed on device memory"); !fact.empty())
    return fail(fact, remedy, lines);
  if (std::string fact = fact_with("host MPI claims"); !fact.empty()) return warn(fact, remedy, lines);
  if (std::string fact = fact_with("device messages between nodes"); !fact.empty()) return ok(fact, lines);
  return skip("two ranks that simulate two nodes did not report the path of their messages");
}
bool tried_between_nodes(const Machine& machine) {
  return machine.preload && machine.live.both(step_device_device);
}

}  // namespace

std::string why_simulated(const Machine& machine) {
  const LiveReport& live = machine.live;
  const std::string first = live.fact(step_real, 0), second = live.fact(step_real, 1);
  const bool here = live.seen(step_real) && !live.both(step_real) && !what_is_here(machine).empty();
  return !here ? "" : first.empty() ? second : first;
}

std::vector<Check> live_checks() {
  return {
      {"live.start", "Whether two ranks of the MPI start and exchange messages of host memory.", "",
       "Run the command that -v shows, and read what the MPI prints.", always, start},
      {"live.loaded", "Whether Fairlead answers MPI calls in every rank.", "started ranks, with Fairlead",
       "Find out what clears LD_PRELOAD.", preloaded, interposed},
      {"live.query", "What the MPI reports about itself: MPIX_Query_cuda_support, MPIX_GPU_query_support.",
       "started ranks", "With Fairlead, programs that ask get Fairlead's answer (docs/use/programs.md).",
       launched, query},
      {"live.spaces", "Whether the ranks share PID and IPC namespaces and the user.", "started ranks",
       "One container for all ranks of a node.", launched, namespaces},
      {"live.device", "The GPUs that each rank sees under the visibility its launcher sets.", "started ranks",
       "Ask the scheduler for GPUs.", launched, device},
      {"live.ipc", "Whether each rank can map and read the other's device memory.", "ranks with GPUs",
       "Let each rank see all GPUs of its node.", have_devices, ipc},
      {"live.send", "Messages from device to device memory, and the transport that carried them.",
       "ranks with GPUs", "Without Fairlead: `fairlead run`.", have_devices, device_device},
      {"live.tohost", "Messages from device to host memory.", "ranks with GPUs",
       "Without Fairlead: `fairlead run`.", have_devices,
       [](const Machine& machine) { return moved(machine, step_device_host); }},
      {"live.fromhost", "Messages from host to device memory.", "ranks with GPUs",
       "Without Fairlead: `fairlead run`.", have_devices,
       [](const Machine& machine) { return moved(machine, step_host_device); }},
      {"live.allreduce", "A sum over device memory of both ranks.", "ranks with GPUs",
       "Without Fairlead: `fairlead run`.", have_devices,
       [](const Machine& machine) { return moved(machine, step_allreduce); }},
      {"live.network",
       "Whether Fairlead stages device messages between nodes, or passes them to an MPI that handles device "
       "memory, with two simulated nodes.",
       "ranks with GPUs, with Fairlead",
       "FAIRLEAD_NETWORK=staged if the MPI falsely claims to handle device memory.", tried_between_nodes,
       between_nodes},
  };
}

}  // namespace fairlead::tools::doctor
