#include "cmd/help/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cmd/help/topic.h"
#include "core/base/unknown_word.h"
#include "core/job/spec/keys/closest.h"
#include "core/job/spec/keys/keys.h"

namespace estrain::help {
namespace {

// Joins words of letters, digits, dots, dashes and underscores: these have no special meaning in any shell.
std::string words_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<std::string> names_of(const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> keys() {
  std::vector<std::string> names;
  for (const auto& key : spec::job_keys()) names.push_back(key.name + "=");
  return names;
}

std::vector<std::string> topic_names(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Topic& topic : all_topics(verbs)) names.push_back(topic.name);
  return names;
}

// Returns the commands within a group, "serve" of "pool serve"; commands of the group "" stand alone.
std::vector<std::string> names_in(const std::vector<Verb>& verbs, const std::string& group) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    if (verb.group() == group) names.push_back(verb.last_word());
  }
  return names;
}

std::vector<std::string> groups(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    if (!names_in(verbs, verb.name).empty()) names.push_back(verb.name);
  }
  return names;
}

// Returns each group with a command of this name: `pool` of `status`.
std::vector<std::string> groups_with(const std::vector<Verb>& verbs, const std::string& name) {
  std::vector<std::string> found;
  for (const Verb& verb : verbs) {
    if (!verb.group().empty() && verb.last_word() == name) found.push_back(verb.group());
  }
  return found;
}

std::string bash_choices(const std::vector<Verb>& verbs) {
  std::string cases;
  for (const Verb& verb : verbs) {
    for (const Option& option : verb.options) {
      if (!option.choices.empty())
        cases += fmt::format("    '{}':{}) words='{}' ;;\n", verb.name, option.names.back(), words_of(option.choices));
    }
  }
  return cases;
}

std::string bash_groups(const std::vector<Verb>& verbs) {
  std::string cases;
  for (const std::string& group : groups(verbs)) {
    cases += fmt::format(R"(    {0})
      if ((COMP_CWORD == 2)); then
        COMPREPLY=($(compgen -W '{1} --help' -- "$current"))
        return
      fi
      verb+=" ${{COMP_WORDS[2]}}"
      ;;
)",
                         group, words_of(names_in(verbs, group)));
  }
  return cases;
}

std::string bash(const std::vector<Verb>& verbs) {
  std::string options;
  for (const Verb& verb : verbs)
    options += fmt::format("    '{}') words='{}' ;;\n", verb.name, words_of(names_of(verb.options)));
  return fmt::format(R"(# Completion of estrain for bash; made by `estrain help --completion bash`.
_estrain() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]-}} words=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{0} --help --version' -- "$current"))
    return
  fi
  case $verb in
{5}  esac
  case $verb:$previous in
{1}    *:--set)
      compopt -o nospace
      words='{2}' ;;
    help:help) words='{3}' ;;
    *) [[ $current != -* ]] || case $verb in
{4}    esac ;;
  esac
  if [[ $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    compopt -o default
  fi
}}
complete -F _estrain estrain
)",
                     words_of(names_in(verbs, "")), bash_choices(verbs), words_of(keys()), words_of(topic_names(verbs)),
                     options, bash_groups(verbs));
}

// Between single quotes; brackets and colons end a part of zsh's specification.
std::string zsh_text(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else {
      quoted += c == '\n' ? ' ' : c;
    }
  }
  return quoted;
}

std::string zsh_action(const Option& option) {
  const bool is_set = option.names.back() == "--set";
  if (is_set) return fmt::format(":key:compadd -S '' -- {}", words_of(keys()));
  if (!option.choices.empty()) return fmt::format(":value:({})", words_of(option.choices));
  return option.value.empty() ? "" : fmt::format(":{}:_files", zsh_text(option.value));
}

std::string zsh_list(const std::vector<Verb>& verbs, const std::string& group) {
  std::string list;
  for (const Verb& verb : verbs) {
    if (verb.group() == group) list += fmt::format("    '{}:{}'\n", verb.last_word(), zsh_text(verb.summary));
  }
  return list;
}

std::string zsh_groups(const std::vector<Verb>& verbs) {
  std::string cases;
  for (const std::string& group : groups(verbs)) {
    cases += fmt::format(R"(    {0})
      if ((CURRENT == 2)); then
        verbs=(
{1}        )
        _describe command verbs
        return
      fi
      verb+=" $words[2]"
      shift words
      ((CURRENT--))
      ;;
)",
                         group, zsh_list(verbs, group));
  }
  return cases;
}

std::string zsh(const std::vector<Verb>& verbs) {
  std::string cases;
  for (const Verb& verb : verbs) {
    cases += fmt::format("    '{}') _arguments", verb.name);
    for (const Option& option : verb.options) {
      for (const std::string& name : option.names)
        cases += fmt::format(" \\\n      '{}{}[{}]{}'", option.repeats ? "*" : "", name, zsh_text(option.meaning),
                             zsh_action(option));
    }
    cases += verb.name == "help" ? fmt::format(" \\\n      '*:topic:({})' ;;\n", words_of(topic_names(verbs)))
                                 : " \\\n      '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef estrain
# Completion of estrain for zsh; made by `estrain help --completion zsh`.
_estrain() {{
  local -a verbs
  verbs=(
{}  )
  if ((CURRENT == 2)); then
    _describe command verbs
    return
  fi
  local verb=$words[2]
  shift words
  ((CURRENT--))
  case $verb in
{}  esac
  case $verb in
{}  esac
}}
_estrain "$@"
)",
                     zsh_list(verbs, ""), zsh_groups(verbs), cases);
}

std::string fish_text(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted;
}

// Returns a condition: the words so far name this command. `status` alone is not `pool status`.
std::string fish_condition(const std::vector<Verb>& verbs, const Verb& verb) {
  std::string condition;
  if (!verb.group().empty()) condition += fmt::format("__fish_seen_subcommand_from {}; and ", verb.group());
  condition += "__fish_seen_subcommand_from " + verb.last_word();
  for (const std::string& group : verb.group().empty() ? groups_with(verbs, verb.name) : std::vector<std::string>{})
    condition += "; and not __fish_seen_subcommand_from " + group;
  return condition;
}

std::string fish_option(const std::string& condition, const Option& option) {
  std::string line = fmt::format("complete -c estrain -n '{}'", condition);
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.names.back() == "--set") {
    line += fmt::format(" -x -a '{}'", words_of(keys()));
  } else if (!option.choices.empty()) {
    line += fmt::format(" -x -a '{}'", words_of(option.choices));
  } else if (!option.value.empty()) {
    line += " -r";
  }
  return line + fmt::format(" -d '{}'\n", fish_text(option.meaning));
}

std::string fish(const std::vector<Verb>& verbs) {
  std::string text = "# Completion of estrain for fish; made by `estrain help --completion fish`.\n";
  for (const Verb& verb : verbs) {
    std::string where = "__fish_use_subcommand";
    if (const std::string group = verb.group(); !group.empty())
      where = fmt::format("'__fish_seen_subcommand_from {}; and not __fish_seen_subcommand_from {}'", group,
                          words_of(names_in(verbs, group)));
    text +=
        fmt::format("complete -c estrain -n {} -f -a {} -d '{}'\n", where, verb.last_word(), fish_text(verb.summary));
  }
  for (const Verb& verb : verbs) {
    for (const Option& option : verb.options) text += fish_option(fish_condition(verbs, verb), option);
  }
  return text + fmt::format("complete -c estrain -n '__fish_seen_subcommand_from help' -f -a '{}'\n",
                            words_of(topic_names(verbs)));
}

}  // namespace

std::string completion(const std::vector<Verb>& verbs, std::string_view shell) {
  if (shell == "bash") return bash(verbs);
  if (shell == "zsh") return zsh(verbs);
  if (shell == "fish") return fish(verbs);
  const std::vector<std::string> known(std::begin(shells), std::end(shells));
  const auto meant = spec::closest(shell, known);
  throw UnknownWord(Error::make(Fault::usage, "there is no completion for the shell \"{}\"", shell)
                        .advise("known are " + spec::quoted_list(known)),
                    meant ? std::vector{*meant} : std::vector<std::string>{});
}

}  // namespace estrain::help
