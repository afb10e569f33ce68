#pragma once
// Collects all mistakes in a spec, not only the first.

#include <string>
#include <string_view>
#include <vector>

#include "core/formats/toml/value.h"

namespace estrain::spec {

class Mistakes {
 public:
  void add(toml::Location at, std::string_view key, std::string what_is_wrong);

  // Whether `key` or its table has a mistake: its value is then unreliable.
  bool about(std::string_view key) const;

  // Throws one Fault::spec Error with a line "place: key: what is wrong" for each mistake, in the order of the file;
  // mistakes without a place come last.
  void throw_if_any();

 private:
  struct Mistake {
    toml::Location at;
    std::string key;
    std::string text;
  };
  std::vector<Mistake> mistakes_;
};

}  // namespace estrain::spec
