#pragma once
// Collects all mistakes in a spec, not only the first.

#include <string>
#include <string_view>
#include <vector>

#include "core/toml/value.h"

namespace estrain::spec {

class Findings {
 public:
  void add(toml::Location at, std::string_view key, std::string what_is_wrong);

  // Whether `key` or its table has a finding: its value is then unreliable.
  bool about(std::string_view key) const;

  // Throws one Fault::spec Error with a line "place: key: what is wrong" for each finding, in the order of the file;
  // findings without a place come last.
  void throw_if_any();

 private:
  struct Finding {
    toml::Location at;
    std::string key;
    std::string text;
  };
  std::vector<Finding> findings_;
};

}  // namespace estrain::spec
