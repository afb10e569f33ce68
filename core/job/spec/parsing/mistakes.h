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

  // Returns whether `key` or its table has a mistake: the key's value is then unreliable.
  bool about(std::string_view key) const;

  // Throws a Fault::spec Error with a line "place: key: what is wrong" for each mistake, in the order of the file;
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
