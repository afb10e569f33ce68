#pragma once
// The tree of a spec's text, looked up by the dotted names of keys.

#include <string>
#include <string_view>

#include "core/toml/value.h"

namespace estrain::spec {

struct Document {
  toml::Value root;
  std::string source;  // what messages call the spec

  // The key "data.batch" or the table "data" as it was written, or null.
  const toml::Member* find(std::string_view name) const;

  // The place of the key's value, of its table where the key was not given, else the document.
  toml::Location place_of(std::string_view name) const;
};

}  // namespace estrain::spec
