#include "cmd/help/help_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "cmd/help/topic.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::help {
namespace {

// Escapes roff's commands: a backslash, and a dot or an apostrophe at the start of a line. A minus becomes an ASCII
// minus, so an option can be copied.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool starts_line = escaped.empty() || escaped.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c != '`') {
      escaped += c;
    }
  }
  return escaped;
}

// "estrain-pool-serve" of `pool serve`
std::string page_of(const Verb& verb) {
  const std::string group = verb.group();
  return "estrain-" + (group.empty() ? "" : group + "-") + verb.last_word();
}

std::string head(std::string_view title, int section, std::string_view version) {
  std::string upper;
  for (const char c : title) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH {} {} \"\" \"estrain {}\" \"estrain\"\n", roff(upper), section, version);
}

std::string name_section(std::string_view name, std::string_view summary) {
  return fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(summary));
}

std::string item(std::string_view title, std::string_view text) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(title), roff(text));
}

std::string options(const std::vector<Option>& list, std::string_view heading) {
  if (list.empty()) return "";
  std::string text = fmt::format(".SH {}\n", heading);
  for (const Option& option : list) text += item(title_of(option), option.meaning);
  return text;
}

std::string section(const std::vector<Topic>& topics, TopicKind kind, std::string_view heading) {
  std::string text = fmt::format(".SH {}\n", heading);
  for (const Topic& topic : topics) {
    if (topic.kind != kind) continue;
    std::string words = topic.brief;
    if (kind == TopicKind::key) {
      for (const auto& [what, value] : topic.facts) words += fmt::format("\n.br\n{}: {}", what, value);
    }
    if (!topic.advice.empty()) words += "\n.br\nWhat to do: " + topic.advice;
    text += fmt::format(".TP\n\\fB{}\\fR\n", roff(topic.name));
    // Requests stay unchanged.
    size_t begin = 0;
    for (size_t at; (at = words.find("\n.br\n", begin)) != words.npos; begin = at + 5)
      text += roff(std::string_view(words).substr(begin, at - begin)) + "\n.br\n";
    text += roff(std::string_view(words).substr(begin)) + "\n";
  }
  return text;
}

constexpr std::string_view kSeeAlso =
    ".SH SEE ALSO\n.BR estrain (1),\n.BR estrain\\-spec (5),\n.BR estrain\\-errors (7)\n";

ManPage of_program(const std::vector<Verb>& verbs, const std::vector<Topic>& topics, const std::string& version) {
  std::string text = head("estrain", 1, version);
  text += name_section("estrain", "elastic, bit-exact training of neural networks");
  text += ".SH SYNOPSIS\n.B estrain\n.I COMMAND\n.RI [ ARGUMENTS ]\n";
  text +=
      ".SH DESCRIPTION\nTrains neural networks on whatever devices are free, and changes the devices while the job "
      "runs. The result does not depend on which devices they were.\n.SH COMMANDS\n";
  for (const Verb& verb : verbs) text += item(verb.name, fmt::format("{}. See {}(1).", verb.summary, page_of(verb)));
  return {"estrain.1", text + section(topics, TopicKind::word, "WORDS") +
                           section(topics, TopicKind::exit_code, "EXIT STATUS") + std::string(kSeeAlso)};
}

ManPage of_verb(const Verb& verb, const std::vector<Topic>& topics, const std::string& version) {
  const std::string name = page_of(verb);
  std::string text = head(name, 1, version) + name_section(name, verb.summary);
  text += fmt::format(".SH SYNOPSIS\n{}\n", roff(verb.usage()));
  text += options(verb.arguments, "ARGUMENTS") + options(verb.options, "OPTIONS");
  return {name + ".1", text + section(topics, TopicKind::exit_code, "EXIT STATUS") + std::string(kSeeAlso)};
}

// In a cell of a table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string options_of(const Verb& verb) {
  std::string text;
  for (const auto* list : {&verb.arguments, &verb.options}) {
    for (const Option& option : *list) {
      text += fmt::format("| `{}` | {}{} |\n", cell(title_of(option)), cell(option.meaning),
                          option.required ? " (required)" : "");
    }
  }
  return text.empty() ? "" : "\n| argument | meaning |\n|---|---|\n" + text;
}

std::string fact(const Topic& topic, std::string_view name) {
  for (const auto& [what, value] : topic.facts) {
    if (what == name) return cell(value);
  }
  return "";
}

struct Table {
  TopicKind kind;
  std::string_view before;              // a paragraph
  std::vector<std::string_view> facts;  // a column for each, between name and advice
  bool advice = false;
};

std::string table(const std::vector<Topic>& topics, const Table& table) {
  std::string head = fmt::format("| {} | meaning |", name_of(table.kind)), rule = "|---|---|", rows;
  for (const std::string_view name : table.facts) head += fmt::format(" {} |", name), rule += "---|";
  if (table.advice) head += " what to do |", rule += "---|";
  for (const Topic& topic : topics) {
    if (topic.kind != table.kind) continue;
    rows += fmt::format("| `{}` | {} |", topic.name, cell(topic.brief));
    for (const std::string_view name : table.facts) rows += fmt::format(" {} |", fact(topic, name));
    if (table.advice) rows += fmt::format(" {} |", cell(topic.advice));
    rows += "\n";
  }
  return fmt::format("\n## {}\n\n{}\n\n{}\n{}\n{}", heading_of(table.kind), table.before, head, rule, rows);
}

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

std::vector<ManPage> man_pages(const std::vector<Verb>& verbs, const std::string& version) {
  const std::vector<Topic> topics = all_topics(verbs);
  std::vector<ManPage> pages = {of_program(verbs, topics, version)};
  for (const Verb& verb : verbs) pages.push_back(of_verb(verb, topics, version));
  pages.push_back({"estrain-spec.5", head("estrain-spec", 5, version) +
                                         name_section("estrain-spec", "job specs of estrain, in TOML") +
                                         section(topics, TopicKind::key, "KEYS") + std::string(kSeeAlso)});
  pages.push_back({"estrain-errors.7", head("estrain-errors", 7, version) +
                                           name_section("estrain-errors", "exit codes, errors and events of estrain") +
                                           section(topics, TopicKind::exit_code, "EXIT CODES") +
                                           section(topics, TopicKind::error, "KINDS OF ERRORS") +
                                           section(topics, TopicKind::cause, "CAUSES OF FAULTS") +
                                           section(topics, TopicKind::event, "EVENTS") + std::string(kSeeAlso)});
  return pages;
}

std::string reference(const std::vector<Verb>& verbs) {
  const std::vector<Topic> topics = all_topics(verbs);
  std::string text =
      "# Reference\n\n`estrain help --reference` prints this page, and `estrain help WHAT` the part about one word: a "
      "command, a key, an exit code, a kind of\nerror, a cause, an event, or the message of an error.\n\n## Commands\n";
  for (const Verb& verb : verbs)
    text += fmt::format("\n### `{}`\n\n{}.\n{}", cell(verb.usage()), verb.summary, options_of(verb));
  text += table(topics, {TopicKind::word, "What estrain means by a word.", {}});
  text += fmt::format(
      "\n## Keys of a job spec\n\nStrings in TOML stand in quotes. `--set data.batch=16` overrides one key.\n\n{}",
      spec::key_reference());
  text += table(topics, {TopicKind::exit_code, "What every command ends with.", {}});
  text += table(topics, {TopicKind::error, "What an error is, as `--json` names it.", {"exit code"}, true});
  text += table(topics, {TopicKind::cause,
                         "Why a process of a run failed, and what is done about it; how each is recognised: "
                         "[FAULTS.md](../core/run/faults/FAULTS.md).",
                         {"class", "tried again", "exit code"},
                         true});
  text += table(topics, {TopicKind::event, "Lines of a run's `events.jsonl`, with their fields.", {}});
  return text;
}

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
