#pragma once
// A command of the program as help, the reference, man pages and completion need it. cmd fills these in from the parser
// itself, so that they say what it takes.

#include <string>
#include <vector>

namespace estrain::words {

struct Option {
  std::vector<std::string> names;  // "-o", "--output"; of a positional argument its one name: "SPEC"
  std::string value;               // what stands behind it: "TEXT", "SECONDS"; empty: nothing
  std::vector<std::string> choices;
  std::string meaning;
  bool required = false;
  bool repeats = false;
};

struct Verb {
  std::string name;     // "train"
  std::string summary;  // one sentence
  std::vector<Option> arguments;
  std::vector<Option> options;

  // "estrain train [OPTIONS] [SPEC]"
  std::string usage() const;
};

// "-o, --output TEXT"
std::string title_of(const Option& option);

}  // namespace estrain::words
