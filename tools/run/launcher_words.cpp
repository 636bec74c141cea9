// SPDX-License-Identifier: Apache-2.0

#include "run/launcher_words.h"

#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <string>

#include "common/command_line.h"

namespace fairlead::tools {
namespace {

struct Word {
  const char* key;    // in launchers.def
  const char* names;  // with one dash or two
  const char* type;
  const char* help;
};
constexpr Word known[] = {
    {"hostfile", "--hostfile,--machinefile", "FILE",
     "A file that lists the nodes to start ranks on, in the launcher's format."},
    {"host", "-H,--host,--hosts", "LIST", "The nodes to start ranks on."},
    {"ppn", "--ppn,--npernode", "N", "Number of ranks on each node."},
    {"map-by", "--map-by", "POLICY", "How the launcher places ranks."},
    {"rank-by", "--rank-by", "POLICY", "How the launcher numbers ranks."},
    {"bind-to", "--bind-to", "POLICY",
     "What the launcher binds ranks to, before --gpu and --bind-cores do so."},
    {"wdir", "--wdir", "FOLDER", "Working folder of the ranks. PROGRAM is looked up in the current folder."},
};

struct OtherWord {
  const char *words, *answer;  // words with blanks between
};
constexpr OtherWord other_words[] = {
    {"-N -perhost --perhost", "--ppn N is the number of ranks on each node"},
    {"-f", "--hostfile FILE names the nodes"},
    {"-env --env", "--genv NAME VALUE sets a variable for the ranks"},
    {"-oversubscribe --oversubscribe", "it is added by default if the launcher has it"},
};

}  // namespace

std::string answer_to_launcher_word(const std::string& word) {
  for (const OtherWord& other : other_words)
    for (const std::string& each : split(other.words))
      if (each == word) return other.answer;
  return {};
}

void define_launcher_words(CLI::App& app, LauncherWords& words) {
  for (const Word& word : known) {
    const std::string key = word.key;
    app.add_option_function<std::string>(
           word.names, [&words, key](const std::string& value) { words.values[key] = value; }, word.help)
        ->type_name(word.type);
  }
  app.add_option(
         "-x", words.exported,
         "Set this variable in the ranks, to VALUE or to its value in the environment. May be repeated.")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  app.add_option("--genv", words.set, "Like -x NAME=VALUE, in two words. May be repeated.")
      ->type_name("NAME VALUE")
      ->allow_extra_args(false);
  app.add_option("--mca", words.mca, "Set a parameter of Open MPI. May be repeated.")
      ->type_name("NAME VALUE")
      ->allow_extra_args(false);
}

Words spelled_for(const LauncherKind& launcher, const LauncherWords& words) {
  auto spelling = [&](const std::string& key) {
    const auto found = launcher.words.find(key);
    if (found == launcher.words.end())
      throw usage(fmt::format("--{}: {} has no such word; its own go into --launcher-args '...'", key,
                              launcher.name));
    return found->second;
  };
  Words spelled;
  for (const auto& [key, value] : words.values) spelled.insert(spelled.end(), {spelling(key), value});
  const auto hosts = launcher.words.find("hosts");
  if (hosts != launcher.words.end() && words.has("host")) {
    // Slurm counts ranges itself, as n[1-4].
    const Words named = split(words.values.at("host"), ",");
    if (words.values.at("host").find('[') == std::string::npos)
      spelled.insert(
          spelled.end(),
          {hosts->second, std::to_string(std::set<std::string>(named.begin(), named.end()).size())});
  }
  for (const auto& [name, value] : words.mca) spelled.insert(spelled.end(), {spelling("mca"), name, value});
  return spelled;
}

void add_variables(const LauncherWords& words, std::map<std::string, std::string>* variables) {
  for (const std::string& text : words.exported) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals != std::string::npos)
      (*variables)[name] = text.substr(equals + 1);
    else if (const char* value = std::getenv(name.c_str()))
      (*variables)[name] = value;
    else
      throw usage(
          fmt::format("-x: {} is not set here; accepted: a variable that is set, or NAME=VALUE", name));
  }
  for (const auto& [name, value] : words.set) (*variables)[name] = value;
}

}  // namespace fairlead::tools
