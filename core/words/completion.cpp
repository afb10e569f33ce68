#include "core/words/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/unknown_word.h"
#include "core/spec/closest.h"
#include "core/spec/keys.h"
#include "core/words/topic.h"

namespace estrain::words {
namespace {

// Words that hold letters, digits, dots, dashes and underscores alone: no shell takes them for anything else.
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

std::vector<std::string> verb_names(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  return names;
}

std::string bash_choices(const std::vector<Verb>& verbs) {
  std::string cases;
  for (const Verb& verb : verbs) {
    for (const Option& option : verb.options) {
      if (!option.choices.empty())
        cases += fmt::format("    {}:{}) words='{}' ;;\n", verb.name, option.names.back(), words_of(option.choices));
    }
  }
  return cases;
}

std::string bash(const std::vector<Verb>& verbs) {
  std::string options;
  for (const Verb& verb : verbs)
    options += fmt::format("    {}) words='{}' ;;\n", verb.name, words_of(names_of(verb.options)));
  return fmt::format(R"(# Completion of estrain for bash; made by `estrain help --completion bash`.
_estrain() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]-}} words=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{0} --help --version' -- "$current"))
    return
  fi
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
                     words_of(verb_names(verbs)), bash_choices(verbs), words_of(keys()), words_of(topic_names(verbs)),
                     options);
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

std::string zsh(const std::vector<Verb>& verbs) {
  std::string list, cases;
  for (const Verb& verb : verbs) {
    list += fmt::format("    '{}:{}'\n", verb.name, zsh_text(verb.summary));
    cases += fmt::format("    {}) _arguments", verb.name);
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
}}
_estrain "$@"
)",
                     list, cases);
}

std::string fish_text(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted;
}

std::string fish_option(const Verb& verb, const Option& option) {
  std::string line = fmt::format("complete -c estrain -n '__fish_seen_subcommand_from {}'", verb.name);
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
  for (const Verb& verb : verbs)
    text += fmt::format("complete -c estrain -n __fish_use_subcommand -f -a {} -d '{}'\n", verb.name,
                        fish_text(verb.summary));
  for (const Verb& verb : verbs) {
    for (const Option& option : verb.options) text += fish_option(verb, option);
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

}  // namespace estrain::words
