#include "cmd/help/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cmd/help/topic.h"
#include "core/job/spec/keys/keys.h"

namespace estrain::help {
namespace {

// Words that hold letters, digits, dots, dashes and underscores alone, which mean nothing else to bash.
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

std::string cases_of_choices(const std::vector<Verb>& verbs) {
  std::string cases;
  for (const Verb& verb : verbs) {
    for (const Option& option : verb.options) {
      if (!option.choices.empty())
        cases += fmt::format("    '{}':{}) words='{}' ;;\n", verb.name, option.names.back(), words_of(option.choices));
    }
  }
  return cases;
}

std::string cases_of_groups(const std::vector<Verb>& verbs) {
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

}  // namespace

std::string completion(const std::vector<Verb>& verbs) {
  std::string options;
  for (const Verb& verb : verbs)
    options += fmt::format("    '{}') words='{}' ;;\n", verb.name, words_of(names_of(verb.options)));
  return fmt::format(R"(# Completion of estrain for bash; made by `estrain help --completion`.
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
                     words_of(names_in(verbs, "")), cases_of_choices(verbs), words_of(keys()),
                     words_of(topic_names(verbs)), options, cases_of_groups(verbs));
}

}  // namespace estrain::help
