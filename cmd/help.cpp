#include <estrain/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/help/help_files.h"
#include "cmd/help/topic.h"
#include "cmd/help/verb.h"
#include "core/base/files/files.h"
#include "core/base/json/json_text.h"

namespace estrain::cmd {
namespace {

// "TEXT:{hdf5,safetensors}" -> the words.
std::vector<std::string> choices_in(const std::string& type) {
  const size_t begin = type.find('{'), end = type.find('}');
  if (begin == type.npos || end == type.npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

// "FLOAT:SECONDS" -> "SECONDS"
std::string value_name(const std::string& type) {
  const size_t colon = type.rfind(':');
  return colon == type.npos || colon + 1 == type.size() ? type.substr(0, colon) : type.substr(colon + 1);
}

help::Option describe(const CLI::Option& option) {
  help::Option one;
  const bool positional = option.get_positional();
  if (positional) one.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) one.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) one.names.push_back("--" + name);
  const bool takes_value = !positional && option.get_items_expected_max() > 0;
  if (takes_value) {
    one.choices = choices_in(option.get_type_name());
    one.value = value_name(option.get_type_name());
  }
  one.meaning = option.get_description();
  one.required = option.get_required();
  one.repeats =
      option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll || option.get_items_expected_max() > 1;
  return one;
}

help::Verb describe(const CLI::App& app, const std::string& group) {
  help::Verb verb{group + app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? verb.arguments : verb.options).push_back(describe(*option));
  }
  return verb;
}

// Returns all commands that are not hidden, in the order of adding.
std::vector<help::Verb> describe_verbs(const CLI::App& app) {
  std::vector<help::Verb> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    if (verb->get_group().empty()) continue;
    verbs.push_back(describe(*verb, ""));
    for (const CLI::App* part : verb->get_subcommands(nullptr))
      verbs.push_back(describe(*part, verb->get_name() + " "));
  }
  return verbs;
}

struct HelpArguments {
  std::vector<std::string> what;
  std::string man;
  bool reference = false, completion = false, json = false;
};

Json to_json(const std::vector<help::Topic>& topics) {
  Json all = Json::array();
  for (const help::Topic& topic : topics) {
    Json one = {{"kind", help::name_of(topic.kind)}, {"name", topic.name}, {"meaning", topic.brief}};
    for (const auto& [what, value] : topic.facts) one["facts"][what] = value;
    if (!topic.advice.empty()) one["advice"] = topic.advice;
    all.push_back(one);
  }
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

int write_man_pages(const std::vector<help::Verb>& verbs, const std::string& folder) {
  make_folders(folder);
  for (const help::ManPage& page : help::man_pages(verbs, ESTRAIN_VERSION))
    write_file_atomically(folder + "/" + page.file, page.text);
  return 0;
}

int explain(const std::vector<help::Verb>& verbs, const HelpArguments& arguments) {
  std::vector<help::Topic> topics = help::all_topics(verbs);
  if (!arguments.what.empty()) topics = help::find_topics(topics, joined(arguments.what));
  if (arguments.json) {
    fmt::print("{}\n", json_text(to_json(topics)));
  } else {
    fmt::print("{}", arguments.what.empty() ? help::overview(topics) : help::to_text(topics));
  }
  return 0;
}

int help(const std::vector<help::Verb>& verbs, const HelpArguments& arguments) {
  if (!arguments.man.empty()) return write_man_pages(verbs, arguments.man);
  if (arguments.completion) {
    fmt::print("{}", help::completion(verbs));
  } else if (arguments.reference) {
    fmt::print("{}", help::reference(verbs));
  } else {
    return explain(verbs, arguments);
  }
  return 0;
}

}  // namespace

void add_help(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("help", "Explain a command, a key of a spec, an exit code, an error or an event");
  auto arguments = std::make_shared<HelpArguments>();
  verb->add_option("WHAT", arguments->what, "The word, or the message of an error (default: list all words)");
  verb->add_flag("--reference", arguments->reference, "Print all of it as one page (Markdown)");
  verb->add_option("--man", arguments->man, "Write the manual pages into this folder");
  verb->add_flag("--completion", arguments->completion, "Print the completion for bash");
  verb->add_flag("--json", arguments->json, "Print as JSON");
  verb->callback(
      [arguments, &app, &chosen] { chosen = [arguments, &app] { return help(describe_verbs(app), *arguments); }; });
}

}  // namespace estrain::cmd
