#pragma once
// A command of the program, with the facts for help, the reference, man pages and completion. cmd reads these facts
// from the parser, so they agree with the parser.

#include <algorithm>
#include <string>
#include <vector>

namespace estrain::help {

struct Option {
  std::vector<std::string> names;  // "-o", "--output"; the one name of a positional argument: "SPEC"
  std::string value;               // the value after the name: "TEXT", "SECONDS"; empty: no value
  std::vector<std::string> choices;
  std::string meaning;
  bool required = false;
  bool repeats = false;
};

struct Verb {
  std::string name;     // "train"; a command in a group: "pool serve"
  std::string summary;  // one sentence
  std::vector<Option> arguments;
  std::vector<Option> options;

  // "estrain train [OPTIONS] [SPEC]"
  std::string usage() const;
  // "pool" of "pool serve"; else empty.
  std::string group() const { return name.substr(0, std::max<size_t>(name.find(' ') + 1, 1) - 1); }
  // "serve" of "pool serve"
  std::string last_word() const { return name.substr(name.find(' ') + 1); }
};

// "-o, --output TEXT"
std::string title_of(const Option& option);

// Returns the examples at the end of a command's help: "Examples:", with a line for each example, and an empty line;
// nothing for a command without examples. `command` is "train" or "pool submit"; "" is the program.
std::string examples_of(const std::string& command);

}  // namespace estrain::help
