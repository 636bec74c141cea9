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
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/memory/kept_memory.h"
#include "base/system/code_place.h"
#include "common/command_line.h"
#include "common/files.h"
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

// Appends what --save has written on any node, one header behind the other. A file may change while it is
// read, so it is copied, to whole pages.
void open_saved(const std::string& path, std::vector<const flight::Header*>* files) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0)
    throw Failure(exit_usage, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  const size_t wanted = S_ISREG(status.st_mode) ? static_cast<size_t>(status.st_size) : 0;
  void* const data = wanted == 0
                         ? MAP_FAILED
                         : mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  size_t bytes = 0, at = 0;
  if (data != MAP_FAILED)
    for (ssize_t got = 1; bytes < wanted && got > 0; bytes += static_cast<size_t>(std::max<ssize_t>(got, 0)))
      got = read(file, static_cast<char*>(data) + bytes, wanted - bytes);
  close(file);
  do {
    const auto* const header = reinterpret_cast<const flight::Header*>(static_cast<const char*>(data) + at);
    if (bytes == 0 || !flight::is_sound(header, bytes - at) || header->copied == 0)
      throw Failure(exit_usage,
                    fmt::format("'{}' was not written by `fairlead hang --save` of this release", path));
    files->push_back(header);
    at += flight::bytes_of(header->ranks);
  } while (at < bytes);
}

void save(const std::vector<flight::JobView>& jobs, const std::string& path) {
  std::string bytes;
  for (const flight::JobView& job : jobs)
    for (const flight::Header* file : job.files) {
      const flight::Header* const copy = flight::copy_of(file, job.job);
      if (!copy) throw Failure(exit_problem, "no memory for a copy");
      bytes.append(reinterpret_cast<const char*>(copy), flight::bytes_of(copy->ranks));
    }
  write_to_file("--save", path, bytes);
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

// What `make` makes of a function that locates calls, with the lines of the source where there is debug
// information: it runs twice, first to find the places.
template <class Make>
auto with_lines(const Make& make) {
  std::vector<CodePlace> places;
  (void)make([&](const flight::RankView& rank, const flight::Call& call) {
    return places.emplace_back(flight::site_of(rank, call)).text();
  });
  const std::set<CodePlace> different(places.begin(), places.end());
  const std::vector<std::string> texts = texts_with_lines({different.begin(), different.end()});
  auto place = places.begin();
  return make([&](const flight::RankView&, const flight::Call&) {
    return texts[static_cast<size_t>(std::distance(different.begin(), different.find(*place++)))];
  });
}

nlohmann::ordered_json as_json(const flight::JobView& job, const flight::Locate& locate) {
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
    of_rank["streams"] = nlohmann::ordered_json::array();
    for (const flight::Call& call : rank.streams) of_rank["streams"].push_back(json_of(rank, call));
    of_rank["last"] = nlohmann::ordered_json::array();
    for (const flight::Call& call : rank.last) of_rank["last"].push_back(json_of(rank, call));
    json["ranks"].push_back(of_rank);
  }
  return json;
}

}  // namespace

void define_hang(CLI::App& app, HangArguments& arguments) {
  auto* const pid =
      app.add_option(
             "PID", arguments.pid,
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
      ->excludes(save)
      ->excludes(pid);
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
  for (const std::string& path : arguments.from) open_saved(path, &files);
  if (files.empty()) files = find_files();
  std::vector<flight::JobView> jobs = flight::look(files);
  std::erase_if(jobs, [&](const flight::JobView& job) {
    return std::none_of(job.ranks.begin(), job.ranks.end(), [&](const flight::RankView& rank) {
      return rank.lives && (arguments.pid == 0 || descends_from(rank.pid, arguments.pid));
    });
  });
  if (!arguments.save.empty() && !jobs.empty()) {
    save(jobs, arguments.save);
  } else if (arguments.json) {
    const auto json = with_lines([&](const flight::Locate& locate) {
      auto all = nlohmann::ordered_json::array();
      for (const flight::JobView& job : jobs) all.push_back(as_json(job, locate));
      return all;
    });
    // The name of a communicator may end inside a character.
    std::cout << nlohmann::ordered_json{{"jobs", json}, {provenance_key, to_json(Provenance())}}.dump(
                     2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << "\n";
  } else {
    std::cout << with_lines([&](const flight::Locate& locate) {
      std::string text;
      for (const flight::JobView& job : jobs)
        text += fmt::format("{}a job of {} ranks, {} of them {}\n", text.empty() ? "" : "\n", job.size,
                            job.ranks.size(), arguments.from.empty() ? "on this node" : "in these files") +
                flight::as_text(job, static_cast<size_t>(arguments.calls), locate);
      return text;
    });
  }
  if (jobs.empty())
    throw Failure(exit_problem,
                  arguments.pid
                      ? fmt::format("no rank that Fairlead records belongs to process {}", arguments.pid)
                  : arguments.from.empty() ? "no job of this user on this node that Fairlead records"
                                           : "no rank in these files was alive when they were saved");
  return exit_success;
}

namespace {

const flight::Header* header_of_run = nullptr;

}  // namespace

RecordOfRun::RecordOfRun(int ranks) {
  // A script may start several jobs. A trace and statistics take less than 64 MiB of each rank.
  const int processes = 4 * ranks + 64, file = flight::make_file(processes);
  parts_ = make_kept_file(size_t{64} * static_cast<size_t>(processes));
  struct stat status, of_parts;
  if (file < 0 || fstat(file, &status) != 0 || !(header_ = flight::map_file(file, true))) return;
  header_of_run = header_;
  if (fstat(parts_, &of_parts) != 0) of_parts.st_ino = 0;
  setenv("FAIRLEAD_FLIGHT_FILE",
         fmt::format("{}:{}:{}:{}:{}", getpid(), file, status.st_ino, parts_, of_parts.st_ino).c_str(), 1);
}

const char* RecordOfRun::name_of(int function) {
  const auto number = static_cast<size_t>(function);
  if (!header_of_run || number >= flight::functions_kept) return "?";
  const auto& name = header_of_run->functions[number];
  return strnlen(name, sizeof name) < sizeof name ? name : "?";
}

std::string RecordOfRun::now() const {
  if (!header_) return "";
  return with_lines([jobs = flight::look(header_)](const flight::Locate& locate) {
    std::string text;
    for (const flight::JobView& job : jobs)
      if (std::any_of(job.ranks.begin(), job.ranks.end(), [](const auto& rank) { return rank.lives; }))
        text += flight::as_text(job, 0, locate);
    return text;
  });
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
  if (!header_) return "";
  return with_lines([jobs = flight::look(header_)](const flight::Locate& locate) {
    std::string text;
    for (const flight::JobView& job : jobs)
      for (const flight::RankView& rank : job.ranks)
        if (rank.state == flight::State::running) text += flight::end_of(job, rank, 3, locate);
    return text;
  });
}

}  // namespace fairlead::tools
