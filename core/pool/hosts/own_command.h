#pragma once
// A command of this program, run by the pool as by a user: check, train, resize, agent, ….

#include <string>
#include <utility>
#include <vector>

#include "core/base/json/json_lines.h"
#include "core/base/process/child_process.h"

namespace estrain::pool {

// `words`: without the program's name. `output`: the file for the output.
inline ChildOptions own_command(const std::vector<std::string>& words, std::string output) {
  ChildOptions options;
  options.same_program = true;
  options.arguments = {"estrain"};
  options.arguments.insert(options.arguments.end(), words.begin(), words.end());
  options.output = std::move(output);
  return options;
}

// Returns the last JSON object printed by a command with --json, or an empty object.
inline Json answer_in(const std::string& output) {
  Json answer = Json::object();
  for_each_object(output, [&](const Json& object) { answer = object; });
  return answer;
}

}  // namespace estrain::pool
