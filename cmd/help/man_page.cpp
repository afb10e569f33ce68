#include "cmd/help/man_page.h"

#include <fmt/format.h>

#include <cctype>

#include "cmd/help/topic.h"

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

std::string section(const std::vector<Topic>& topics, Kind kind, std::string_view heading) {
  std::string text = fmt::format(".SH {}\n", heading);
  for (const Topic& topic : topics) {
    if (topic.kind != kind) continue;
    std::string words = topic.brief;
    if (kind == Kind::key) {
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
  return {"estrain.1", text + section(topics, Kind::exit_code, "EXIT STATUS") + std::string(kSeeAlso)};
}

ManPage of_verb(const Verb& verb, const std::vector<Topic>& topics, const std::string& version) {
  const std::string name = page_of(verb);
  std::string text = head(name, 1, version) + name_section(name, verb.summary);
  text += fmt::format(".SH SYNOPSIS\n{}\n", roff(verb.usage()));
  text += options(verb.arguments, "ARGUMENTS") + options(verb.options, "OPTIONS");
  return {name + ".1", text + section(topics, Kind::exit_code, "EXIT STATUS") + std::string(kSeeAlso)};
}

}  // namespace

std::vector<ManPage> man_pages(const std::vector<Verb>& verbs, const std::string& version) {
  const std::vector<Topic> topics = all_topics(verbs);
  std::vector<ManPage> pages = {of_program(verbs, topics, version)};
  for (const Verb& verb : verbs) pages.push_back(of_verb(verb, topics, version));
  pages.push_back({"estrain-spec.5", head("estrain-spec", 5, version) +
                                         name_section("estrain-spec", "job specs of estrain, in TOML") +
                                         section(topics, Kind::key, "KEYS") + std::string(kSeeAlso)});
  pages.push_back({"estrain-errors.7", head("estrain-errors", 7, version) +
                                           name_section("estrain-errors", "exit codes, errors and events of estrain") +
                                           section(topics, Kind::exit_code, "EXIT CODES") +
                                           section(topics, Kind::error, "KINDS OF ERRORS") +
                                           section(topics, Kind::cause, "CAUSES OF FAULTS") +
                                           section(topics, Kind::event, "EVENTS") + std::string(kSeeAlso)});
  return pages;
}

}  // namespace estrain::help
