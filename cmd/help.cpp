#include <estrain/version.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/describe.h"
#include "cmd/help/completion.h"
#include "cmd/help/man_page.h"
#include "cmd/help/reference.h"
#include "cmd/help/topic.h"
#include "core/base/files/files.h"
#include "core/base/json/json_text.h"

namespace estrain::cmd {
namespace {

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
