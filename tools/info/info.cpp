// SPDX-License-Identifier: Apache-2.0

#include "info/info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/commit.h"
#include "base/options.h"
#include "coll/nccl_library.h"
#include "common/command_line.h"
#include "common/places.h"
#include "common/provenance.h"
#include "common/terminal.h"
#include "device/runtime.h"
#include "doctor/machine.h"
#include "kernels/module.h"
#include "run/launcher.h"
#include "run/topology.h"

namespace fairlead::kernels {
ModuleImages moves();  // of blocks.cpp; every module is compiled for the same targets
}

namespace fairlead::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string launcher_of(const doctor::Mpi& mpi) {
  if (!mpi.launcher_to_use.empty()) return mpi.launcher_to_use;
  try {
    return find_launcher(mpi.abi, mpi.library).path;
  } catch (const Failure&) {
    return {};
  }
}

// That of mpicc and mpirun on PATH, and those that the loader finds, each once.
Json mpis_found() {
  const std::unique_ptr<doctor::System> system = doctor::this_system();
  Words asked = {""};
  asked.insert(asked.end(), mpi_abis.begin(), mpi_abis.end());
  Json found = Json::array();
  Words libraries;
  for (const std::string& name : asked) {
    doctor::Mpi mpi;
    try {
      mpi = doctor::find_mpi(*system, "", name);
    } catch (const Failure&) {
      continue;  // none of that ABI
    }
    std::error_code error;
    const std::string library = fs::weakly_canonical(mpi.library, error).string();
    if (!mpi.found() || mpi.library.empty() ||
        std::find(libraries.begin(), libraries.end(), library) != libraries.end())
      continue;
    libraries.push_back(library);
    found.push_back({{"abi", mpi.abi},
                     {"name", mpi.name},
                     {"version", mpi.version},
                     {"library", mpi.library},
                     {"launcher", launcher_of(mpi)}});
  }
  return found;
}

Json abis_served() {
  Json served = Json::array();
  for (const std::string& abi : mpi_abis) {
    const std::string file = "libfairlead-" + abi + ".so", folder = library_folder(file);
    if (!folder.empty()) served.push_back({{"abi", abi}, {"library", folder + "/" + file}});
  }
  return served;
}

Json provider(const char* name, device::Runtime* runtime, const char* why_not) {
  int devices = 0;
  std::string lacks = runtime ? "" : why_not;
  if (runtime)
    if (device::Error error = runtime->device_count(&devices); error != device::Error::none)
      lacks = fmt::format("{} {}", to_string(error), runtime->error_text());
  if (lacks.empty() && devices == 0) lacks = "the driver shows no device";
  Json names = Json::array();
  for (int device = 0; device < devices; ++device)
    if (device::DeviceInfo info; runtime->device_info(device, &info) == device::Error::none)
      names.push_back(info.name);
  return {{"name", name}, {"driver", runtime ? runtime->version() : 0}, {"devices", names}, {"lacks", lacks}};
}

Json providers() {
  const char *no_cuda = "", *no_rocm = "";
  device::Runtime *cuda = device::make_cuda(&no_cuda), *rocm = device::make_hip(&no_rocm);
  return {provider("cuda", cuda, no_cuda), provider("rocm", rocm, no_rocm),
          provider("sim", device::make_sim(), "")};
}

Json code_targets() {
  Json targets = Json::array();
  const kernels::ModuleImages images = kernels::moves();
  for (unsigned long i = 0; i < images.count; ++i)
    if (const std::string target = images.first[i].target; target != "cpu") targets.push_back(target);
  return targets;
}

Json nccl() {
  Json found = Json::array();
  std::string why_not;
  if (const auto& asked = options().nccl; asked != "auto") {
    const coll::NcclLibrary* library = coll::open_nccl(&why_not);
    found.push_back({{"library", asked}, {"name", library ? library->name : ""}, {"lacks", why_not}});
    return found;
  }
  for (const char* file : {"libnccl.so.2", "librccl.so.1"}) {
    const coll::NcclLibrary* library = coll::load_nccl(file, &why_not);
    found.push_back(
        {{"library", file}, {"name", library ? library->name : ""}, {"lacks", library ? "" : why_not}});
  }
  return found;
}

// "" where this tree has none.
std::string in_tree(const std::string& relative) {
  const fs::path path = fs::path(home_folder()) / relative;
  std::error_code error;
  return fs::exists(path, error) ? path.string() : std::string();
}

// That of this tree; of a wheel, in the environment that its tree is in.
std::string manual() {
  std::string own = in_tree("share/man");
  std::error_code error;
  for (fs::path folder = home_folder(); own.empty() && folder.has_relative_path();
       folder = folder.parent_path())
    if (fs::exists(folder / "share/man/man1/fairlead.1", error)) own = (folder / "share/man").string();
  return own;
}

// "libfairlead-device.so.0", by which the loader finds it.
std::string device_library() {
  const std::string version = FAIRLEAD_VERSION;
  return "libfairlead-device.so." + version.substr(0, version.find('.'));
}

Json paths() {
  const std::string& tuning = options().tuning;
  return {{"tool", own_path()},
          {"libraries", library_folder(device_library())},
          {"programs", in_tree("libexec/fairlead")},
          {"headers", in_tree("include/fairlead").empty() ? "" : in_tree("include")},
          {"manual", manual()},
          {"tuning", tuning == "off" ? "" : tuning}};
}

Json everything() {
  Provenance provenance;
  device::Runtime* runtime = device::whole_runtime();
  provenance.gpus.provider = "none";
  // Not by fairlead/device.h, which warns that GPUs are simulated.
  if (device::DeviceInfo first{}; runtime) {
    provenance.gpus.provider = runtime->name();
    (void)runtime->device_count(&provenance.gpus.count);
    if (runtime->device_info(0, &first) == device::Error::none) provenance.gpus.name = first.name;
    if (runtime->version() > 0) provenance.gpus.driver = std::to_string(runtime->version());
  }
  return {{"version", FAIRLEAD_VERSION},
          {"commit", built_from_commit()},
          {"serves", abis_served()},
          {"mpi", mpis_found()},
          {"providers", providers()},
          {"provider", runtime ? runtime->name() : "none"},
          {"device_code", code_targets()},
          {"nccl", nccl()},
          {"topology", topology_source()},
          {"paths", paths()},
          {provenance_key, to_json(provenance)}};
}

// ---- As text

constexpr size_t heading_width = 11;

// A heading stands beside its first line.
class Page {
 public:
  void add(const std::string& heading, const std::string& line) {
    const std::string shown = heading == last_ ? "" : heading;
    last_ = heading;
    const std::string margin(heading_width + 2, ' ');
    text_ += fmt::format("{:<{}}", shown, heading_width) +
             wrapped(line, heading_width, margin, text_columns(STDOUT_FILENO)) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_, last_;
};

std::string word(const Json& row, const char* key) {
  return row.at(key).get<std::string>();
}

std::string joined(const Json& names) {
  std::string text;
  for (const Json& name : names) text += (text.empty() ? "" : ", ") + name.get<std::string>();
  return text;
}

// "2 x NVIDIA H200, simulated GPU"
std::string counted(const Json& names) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const Json& item : names) {
    const auto name = item.get<std::string>();
    if (kinds.empty() || kinds.back().first != name) kinds.emplace_back(name, 0);
    ++kinds.back().second;
  }
  std::string text;
  for (const auto& [name, number] : kinds)
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : ", ", number > 1 ? fmt::format("{} x ", number) : "", name);
  return text;
}

std::string as_text(const Json& all) {
  Page page;
  page.add("version", fmt::format("{}, commit {}", word(all, "version"), word(all, "commit")));
  Json served = Json::array();
  for (const Json& row : all.at("serves")) served.push_back(row.at("abi"));
  page.add("serves", served.empty() ? "no MPI: this tree holds no libfairlead-*.so"
                                    : fmt::format("MPIs of the ABI {}", joined(served)));
  for (const Json& row : all.at("mpi")) {
    const bool is_served = std::find(served.begin(), served.end(), row.at("abi")) != served.end();
    std::string line = word(row, "name");
    if (!word(row, "version").empty()) line += " " + word(row, "version");
    line += fmt::format(" ({}): {}", word(row, "abi"), word(row, "library"));
    if (!word(row, "launcher").empty()) line += fmt::format(", started by {}", word(row, "launcher"));
    if (!is_served) line += fmt::format("; not served: {}", what_adds(word(row, "abi")));
    page.add("found", line);
  }
  if (all.at("mpi").empty()) page.add("found", "no MPI on PATH, nor where the loader looks");
  for (const Json& row : all.at("providers")) {
    const std::string& lacks = word(row, "lacks");
    std::string used = row.at("name") == all.at("provider") ? ", in use" : "";
    if (!used.empty() && row.at("name") == "sim" && options().device == "auto")
      used += " by programs; benchmarks use it with --sim N only";
    const int driver = row.at("driver").get<int>();
    page.add("GPUs", word(row, "name") + ": " +
                         (lacks.empty() ? counted(row.at("devices")) +
                                              (driver ? fmt::format(", driver {}", driver) : "") + used
                                        : lacks));
  }
  page.add("code", all.at("device_code").empty() ? "none: kernels run on simulated GPUs only"
                                                 : "for " + joined(all.at("device_code")));
  for (const Json& row : all.at("nccl"))
    page.add("NCCL", word(row, "lacks").empty()
                         ? fmt::format("{}, {}", word(row, "name"), word(row, "library"))
                         : word(row, "lacks"));
  page.add("topology", "by " + word(all, "topology"));
  const Json& paths = all.at("paths");
  for (const auto& [name, path] : paths.items()) {
    if (path != "")
      page.add("paths", fmt::format("{}: {}", name, path.get<std::string>()));
    else if (name == "tuning")
      page.add("paths", "tuning: the shipped rules");
  }
  return page.text();
}

}  // namespace

void define_info(CLI::App& app, InfoArguments& arguments) {
  app.add_flag("--json", arguments.json, "Print JSON.");
  set_up(app, "[options]", "  fairlead info\n  fairlead info --json");
}

int info_command(const Words& words) {
  CLI::App app(
      "Print what this Fairlead is and what it finds on this machine: version and commit, the MPIs it "
      "supports, GPUs, NCCL, and where its files are. It starts and checks nothing; `fairlead doctor` does.",
      "fairlead info");
  InfoArguments arguments;
  define_info(app, arguments);
  if (!parse(app, words)) return exit_success;
  const Json all = everything();
  std::cout << (arguments.json ? all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                               : as_text(all));
  return exit_success;
}

}  // namespace fairlead::tools
