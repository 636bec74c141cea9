// SPDX-License-Identifier: Apache-2.0

#include "hang/hang.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/command_line.h"
#include "common/files.h"
#include "common/process.h"
#include "common/provenance.h"
#include "flight/report.h"

namespace fairlead::tools {
namespace {

// Those that any process of this user has open; of a process of another user, the links cannot be read.
std::vector<const flight::Header*> find_files() {
  const std::string link = fmt::format("/memfd:{} (deleted)", flight::file_name);
  std::map<std::pair<dev_t, ino_t>, const flight::Header*> files;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error))
    for (const auto& open_file : std::filesystem::directory_iterator(process.path() / "fd", error)) {
      struct stat status;
      if (std::filesystem::read_symlink(open_file.path(), error) != link ||
          stat(open_file.path().c_str(), &status) != 0 || files.contains({status.st_dev, status.st_ino}))
        continue;
      const int file = open(open_file.path().c_str(), O_RDONLY | O_CLOEXEC);
      if (file < 0) continue;
      files[{status.st_dev, status.st_ino}] = flight::map_file(file, false);
      close(file);
    }
  std::vector<const flight::Header*> found;
  for (const auto& [id, header] : files)
    if (header) found.push_back(header);
  return found;
}

// What --save has written on any node.
const flight::Header* open_saved(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0)
    throw Failure(exit_usage, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  const auto bytes = static_cast<size_t>(status.st_size);
  void* const data = bytes == 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (data == MAP_FAILED || !flight::is_sound(static_cast<const flight::Header*>(data), bytes))
    throw Failure(exit_usage, fmt::format("'{}' is no file of `fairlead hang --save` of this release", path));
  return static_cast<const flight::Header*>(data);
}

void save(const std::vector<const flight::Header*>& files, const std::string& path) {
  if (files.size() > 1)
    throw Failure(
        exit_usage,
        fmt::format("{} jobs have ranks here, and --save takes one: name it by the PID of a rank, as "
                    "`fairlead hang` shows it",
                    files.size()));
  if (files.empty()) throw Failure(exit_problem, "no job of this user on this node that Fairlead records");
  const flight::Header* const copy = flight::copy_of(files.front());
  if (!copy) throw Failure(exit_problem, "no memory for a copy");
  write_to_file("--save", path, {reinterpret_cast<const char*>(copy), flight::bytes_of(copy->ranks)});
}

int parent_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const size_t end = line.rfind(')');
  return end == std::string::npos || line.size() < end + 4 ? 0 : std::atoi(line.c_str() + end + 4);
}

bool descends_from(int pid, int ancestor) {
  for (; pid > 1; pid = parent_of(pid))
    if (pid == ancestor) return true;
  return false;
}

// With the line of the source, where there is debug information.
std::string locate(const flight::RankView& rank, const flight::Call& call) {
  const flight::Site site = flight::site_of(rank, call);
  static std::map<std::string, std::string> lines;
  const std::string where = site.text();
  if (site.file.empty() || find_on_path("addr2line").empty()) return where;
  auto [line, is_new] = lines.try_emplace(where);
  if (is_new) {
    // The call is before the place to which it returns.
    std::string output = capture({"addr2line", "-s", "-e", site.file, fmt::format("{:#x}", site.offset - 1)},
                                 Stderr::drop, {}, std::chrono::seconds(10))
                             .output;
    output = output.substr(0, output.find_first_of(" \n"));
    if (!output.empty() && output[0] != '?' && output.back() != '?') line->second = " (" + output + ")";
  }
  return where + line->second;
}

nlohmann::ordered_json as_json(const flight::JobView& job) {
  auto json_of = [&](const flight::RankView& rank, const flight::Call& call) {
    nlohmann::ordered_json json = {{"function", job.name_of(call)},
                                   {"call", flight::words_for(job, rank, call)},
                                   {"seconds", job.seconds_since(call)},
                                   {"bytes", call.bytes},
                                   {"memory", call.device ? "device" : "host"},
                                   {"site", locate(rank, call)}};
    if (call.kind == flight::Kind::polling) json["repeats"] = call.repeats;
    return json;
  };
  nlohmann::ordered_json json = {{"size", job.size}, {"findings", flight::findings(job)}};
  for (const flight::RankView& rank : job.ranks) {
    nlohmann::ordered_json of_rank = {{"rank", rank.rank},
                                      {"pid", rank.pid},
                                      {"lives", rank.lives},
                                      {"state", flight::state_of(job, rank)}};
    of_rank["in"] = rank.open ? json_of(rank, *rank.open) : nlohmann::ordered_json();
    of_rank["last"] = nlohmann::ordered_json::array();
    for (const flight::Call& call : rank.last) of_rank["last"].push_back(json_of(rank, call));
    json["ranks"].push_back(of_rank);
  }
  return json;
}

}  // namespace

void define_hang(CLI::App& app, HangArguments& arguments) {
  app.add_option("PID", arguments.pid,
                 "Only the job of this process: a rank, the launcher, or any process that has started them.")
      ->type_name("PID")
      ->check(whole_number(1, 1 << 30));
  app.add_option("--calls", arguments.calls, "Also print the last N calls of each rank.")
      ->type_name("N")
      ->check(whole_number(0, flight::calls_kept));
  app.add_flag("--json", arguments.json, "Print JSON.");
  auto* const save = app.add_option("--save", arguments.save,
                                    "Print nothing, but write what the ranks do to FILE, for --from.")
                         ->type_name("FILE");
  app.add_option("--from", arguments.from,
                 "Look at these files, of all nodes of a job, instead of this node.")
      ->type_name("FILE")
      ->expected(1, 1 << 20)
      ->excludes(save);
  set_up(app, "[options] [PID]",
         "  fairlead hang\n  fairlead hang --calls 5 12345\n"
         "  srun --overlap --jobid=JOB --ntasks-per-node=1 \\\n"
         "    sh -c 'fairlead hang --save hang.$(hostname)'\n"
         "  fairlead hang --from hang.*");
}

int hang_command(const Words& words) {
  CLI::App app(
      "Print what the ranks of this user's jobs on this node do: which of them wait for which, which message "
      "or collective does not match, and the call that each is in. Works at any moment, and stops nothing.",
      "fairlead hang");
  HangArguments arguments;
  define_hang(app, arguments);
  if (!parse(app, words)) return exit_success;
  std::vector<const flight::Header*> files;
  for (const std::string& path : arguments.from) files.push_back(open_saved(path));
  if (files.empty()) files = find_files();
  const auto wanted = [&](const flight::JobView& job) {
    return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const flight::RankView& rank) {
      return !rank.is_here || (rank.lives && (arguments.pid == 0 || descends_from(rank.pid, arguments.pid)));
    });
  };
  if (!arguments.save.empty()) {
    std::erase_if(files, [&](const flight::Header* file) {
      const std::vector<flight::JobView> jobs = flight::look(file);
      return std::none_of(jobs.begin(), jobs.end(), wanted);
    });
    save(files, arguments.save);
    return exit_success;
  }
  auto json = nlohmann::ordered_json::array();
  bool found = false;
  for (const flight::JobView& job : flight::look(files)) {
    if (!wanted(job)) continue;
    if (arguments.json)
      json.push_back(as_json(job));
    else
      std::cout << fmt::format("{}a job of {} ranks, {} of them {}\n", found ? "\n" : "", job.size,
                               job.ranks.size(), arguments.from.empty() ? "on this node" : "in these files")
                << flight::as_text(job, static_cast<size_t>(arguments.calls), locate);
    found = true;
  }
  if (arguments.json)
    std::cout << nlohmann::ordered_json{{"jobs", json}, {provenance_key, to_json(Provenance())}}.dump(2)
              << "\n";
  if (!found)
    throw Failure(exit_problem,
                  arguments.pid
                      ? fmt::format("no rank that Fairlead records belongs to process {}", arguments.pid)
                      : "no job of this user on this node that Fairlead records");
  return exit_success;
}

RecordOfRun::RecordOfRun(int ranks) {
  // A script may start several jobs.
  const int file = flight::make_file(4 * ranks + 64);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0 || !(header_ = flight::map_file(file, true))) return;
  setenv("FAIRLEAD_FLIGHT_FILE", fmt::format("{}:{}:{}", getpid(), file, status.st_ino).c_str(), 1);
}

std::string RecordOfRun::now() const {
  std::string text;
  if (header_)
    for (const flight::JobView& job : flight::look(header_))
      if (std::any_of(job.ranks.begin(), job.ranks.end(), [](const auto& rank) { return rank.lives; }))
        text += flight::as_text(job, 0, locate);
  return text;
}

bool RecordOfRun::ranks_catch(int signal) const {
  if (!header_) return true;
  for (const flight::JobView& job : flight::look(header_))
    for (const flight::RankView& rank : job.ranks) {
      std::ifstream file(fmt::format("/proc/{}/status", rank.pid));
      for (std::string line; std::getline(file, line);)
        if (line.starts_with("SigCgt:") && !(std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1))
          return false;
    }
  return true;
}

std::string RecordOfRun::end() const {
  std::string text;
  if (header_)
    for (flight::JobView& job : flight::look(header_)) {
      std::erase_if(job.ranks, [](const auto& rank) { return rank.state != flight::State::running; });
      for (const flight::RankView& rank : job.ranks) text += flight::end_of(job, rank, 3, locate);
    }
  return text;
}

}  // namespace fairlead::tools
