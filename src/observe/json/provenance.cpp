// SPDX-License-Identifier: Apache-2.0

#include "observe/json/provenance.h"

#include <fairlead/device.h>
#include <unistd.h>

#include <cctype>
#include <ctime>
#include <fstream>
#include <vector>

#include "base/commit.h"
#include "base/options.h"
#include "base/system/shell_line.h"
#include "observe/json/json.h"

namespace fairlead::observe {
namespace {

constexpr const char* null = "null";

std::string text_or_null(const std::string& text) {
  return text.empty() ? null : json_string(text);
}

std::string number_or_null(int number) {
  return number > 0 ? std::to_string(number) : null;
}

struct NameAndVersion {
  std::string name, version;
};

// Of "Open MPI v4.1.4, package: ...", "MPICH Version:      4.0.2", "CRAY MPICH version 8.1.29.8 (ANL ...)",
// "Intel(R) MPI Library 2021.9 for Linux* OS".
NameAndVersion name_and_version(const std::string& library) {
  NameAndVersion found;
  std::vector<std::string> words(1);
  for (const char c : library) {
    if (c == '\n' || c == ',') break;
    if (!std::isspace(static_cast<unsigned char>(c)))
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  for (const std::string& word : words) {
    const size_t digits = word.starts_with('v') ? 1 : 0;
    if (!found.name.empty() && digits < word.size() &&
        std::isdigit(static_cast<unsigned char>(word[digits]))) {
      found.version = word.substr(digits);
      break;
    }
    if (word != ":" && word != "Version:" && word != "Version" && word != "version")
      found.name += (found.name.empty() ? "" : " ") + word;
  }
  return found;
}

std::string mpi_of(const Provenance& of) {
  if (of.mpi_abi.empty() && of.mpi_library.empty()) return null;
  NameAndVersion mpi{of.mpi_library, of.mpi_version};
  if (of.mpi_version.empty()) mpi = name_and_version(of.mpi_library);
  return JsonObject()
      .add("abi", of.mpi_abi)
      .add_json("name", text_or_null(mpi.name))
      .add_json("version", text_or_null(mpi.version))
      .text();
}

std::string gpus_of(const Provenance::Gpus& gpus) {
  if (gpus.provider.empty()) return null;
  return JsonObject()
      .add("provider", gpus.provider)
      .add("count", gpus.count)
      .add_json("name", text_or_null(gpus.name))
      .add_json("driver", text_or_null(gpus.driver))
      .add("simulated", gpus.provider == "sim")
      .text();
}

std::string changed_options() {
  JsonObject changed;
  for (const OptionReport& option : describe_options())
    // That one is the launcher's, and differs in each job.
    if (option.origin != "default" && option.name != std::string("flight_file"))
      changed.add(option.variable.c_str(), option.value);
  return changed.text();
}

}  // namespace

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  return text;
}

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string Provenance::own_program() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

std::string Provenance::own_command() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return shell_line(words);
}

Provenance::Gpus Provenance::gpus_seen(int driver) {
  Gpus gpus{fairlead_device_provider(), fairlead_device_count(), {}, driver ? std::to_string(driver) : ""};
  if (gpus.count > 0) gpus.name = fairlead_device_name(0);
  return gpus;
}

std::string as_json(const Provenance& of) {
  return JsonObject()
      .add("program", of.program)
      .add("command", of.command)
      .add("date", utc_date())
      .add("host", host_name())
      .add_json("fairlead",
                JsonObject().add("version", FAIRLEAD_VERSION).add("commit", built_from_commit()).text())
      .add_json("mpi", mpi_of(of))
      .add_json("gpus", gpus_of(of.gpus))
      .add_json("ranks", number_or_null(of.ranks))
      .add_json("nodes", number_or_null(of.nodes))
      .add_json("options", changed_options())
      .text();
}

}  // namespace fairlead::observe
