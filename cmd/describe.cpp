#include "cmd/describe.h"

#include <string>

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

}  // namespace

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

}  // namespace estrain::cmd
