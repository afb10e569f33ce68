#include "cmd/help/reference.h"

#include <fmt/format.h>

#include "cmd/help/topic.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::help {
namespace {

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
  Kind kind;
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

}  // namespace

std::string reference(const std::vector<Verb>& verbs) {
  const std::vector<Topic> topics = all_topics(verbs);
  std::string text =
      "# Reference\n\n`estrain help --reference` prints this page, and `estrain help WHAT` the part about one word: a "
      "command, a key, an exit code, a kind of\nerror, a cause, an event, or the message of an error.\n\n## Commands\n";
  for (const Verb& verb : verbs)
    text += fmt::format("\n### `{}`\n\n{}.\n{}", cell(verb.usage()), verb.summary, options_of(verb));
  text += fmt::format(
      "\n## Keys of a job spec\n\nStrings in TOML stand in quotes. `--set data.batch=16` overrides one key.\n\n{}",
      spec::key_reference());
  text += table(topics, {Kind::exit_code, "What every command ends with.", {}});
  text += table(topics, {Kind::error, "What an error is, as `--json` names it.", {"exit code"}, true});
  text += table(topics, {Kind::cause,
                         "Why a process of a run failed, and what is done about it; how each is recognised: "
                         "[FAULTS.md](../core/run/faults/FAULTS.md).",
                         {"class", "tried again", "exit code"},
                         true});
  text += table(topics, {Kind::event, "Lines of a run's `events.jsonl`, with their fields.", {}});
  return text;
}

}  // namespace estrain::help
