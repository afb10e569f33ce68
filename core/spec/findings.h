#pragma once
// What is wrong with a spec: all of it, not only the first.

#include <string>
#include <string_view>
#include <vector>

#include "core/toml/value.h"

namespace estrain::spec {

class Findings {
 public:
  void add(toml::Location at, std::string_view key, std::string what_is_wrong);

  // Whether something was found about `key` or its table: its value is then not to be relied on.
  bool about(std::string_view key) const;

  // One Fault::spec Error with a line "place: key: what is wrong" for each finding, in the order of the file;
  // what has no place in the file stands last.
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
