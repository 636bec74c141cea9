// SPDX-License-Identifier: Apache-2.0

#include "common/completion.h"

#include <fmt/format.h>

#include "common/words.h"

namespace fairlead::tools {
namespace {

constexpr const char* opening =
    R"(# bash completion for fairlead, as `fairlead --completion` writes it. SPDX-License-Identifier: Apache-2.0

# _fairlead_takes COMMAND: --flag, --option=VALUES, and =VALUES for what is no option. VALUES are words with commas
# between; @file, @folder and @program stand for names.
_fairlead_takes() {
  case $1 in
)";

constexpr const char* rest = R"(  esac
}

# _fairlead_add CURRENT VALUES: the values that begin with CURRENT.
_fairlead_add() {
  local value names
  for value in ${2//,/ }; do
    names=()
    case $value in
      @file) mapfile -t names < <(compgen -f -- "$1") ;;
      @folder) mapfile -t names < <(compgen -d -- "$1") ;;
      @program) mapfile -t names < <(compgen -f -- "$1"; [[ -z $1 || $1 == */* ]] || compgen -c -- "$1") ;;
      "$1"*) COMPREPLY+=("$value") ;;
    esac
    ((${#names[@]} == 0)) || compopt -o filenames 2>/dev/null
    COMPREPLY+=("${names[@]}")
  done
}

_fairlead() {
  local current=${COMP_WORDS[COMP_CWORD]} command='' takes values='' word i expecting=
  COMPREPLY=()
  takes=$(_fairlead_takes '')
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then continue; fi # bash takes --option=value apart
    if [[ -n $expecting ]]; then
      expecting=
    elif [[ " $takes " == *" $word="* ]]; then
      expecting=$word
    elif [[ $word == -* ]]; then
      continue
    elif [[ -n $(_fairlead_takes "${command:+$command }$word") ]]; then
      command="${command:+$command }$word"
      takes=$(_fairlead_takes "$command")
    elif [[ $command == help && -n $(_fairlead_takes "$word") ]]; then
      command=$word
      takes=$(_fairlead_takes "$command")
    elif [[ $command == run || $command == exec ]]; then # the rest is the program's
      if [[ ${word##*/} != fairlead ]]; then
        _fairlead_add "$current" @file
        return
      fi
      command='' takes=$(_fairlead_takes '')
    fi
  done
  [[ $current == = ]] && current=
  if [[ -n $expecting ]]; then
    for word in $takes; do [[ $word == "$expecting="* ]] && values=${word#*=}; done
    _fairlead_add "$current" "$values"
  elif [[ $current == -* ]]; then
    for word in $takes; do [[ $word == -* ]] && _fairlead_add "$current" "${word%%=*}"; done
  else
    for word in $takes; do [[ $word == =* ]] && _fairlead_add "$current" "${word#=}"; done
  fi
}

complete -F _fairlead fairlead
)";

// The values of an option or argument, as far as its definition tells.
std::string values_of(CLI::Option* option) {
  const std::string type = option->get_type_name();
  for (int i = 0;; ++i) {
    try {
      if (const std::string& listed = option->get_validator(i)->get_name(); !listed.empty()) return listed;
    } catch (const CLI::OptionNotFound&) {
      break;
    }
  }
  if (type.find("FILE") != std::string::npos || option->get_name() == "FILE") return "@file";
  if (type == "FOLDER") return "@folder";
  return type == "PROGRAM" ? "@program" : "";
}

}  // namespace

std::string completion_of(CLI::App& app) {
  Words words;
  for (CLI::Option* option : app.get_options()) {
    const std::string values = values_of(option);
    if (!option->nonpositional()) {
      if (!values.empty()) words.push_back("=" + values);
      continue;
    }
    const char* equals = option->get_expected_max() > 0 ? "=" : "";
    for (const std::string& name : option->get_snames()) words.push_back("-" + name + equals + values);
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name + equals + values);
  }
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string completion_script(const std::vector<std::pair<std::string, std::string>>& commands) {
  std::string text = opening;
  for (const auto& [command, takes] : commands)
    text += fmt::format("    {}) echo {} ;;\n", shell_quote(command), shell_quote(takes));
  return text + rest;
}

}  // namespace fairlead::tools
