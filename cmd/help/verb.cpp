#include "cmd/help/verb.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace estrain::help {

std::string Verb::usage() const {
  std::string text = "estrain " + name;
  if (!options.empty()) text += " [OPTIONS]";
  for (const Option& argument : arguments) {
    const std::string one = argument.names.front() + (argument.repeats ? "..." : "");
    text += argument.required ? " " + one : fmt::format(" [{}]", one);
  }
  return text;
}

std::string title_of(const Option& option) {
  std::string text = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.choices.empty()) return fmt::format("{} {}", text, fmt::join(option.choices, "|"));
  return option.value.empty() ? text : text + " " + option.value;
}

}  // namespace estrain::help
