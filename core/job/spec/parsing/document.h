#pragma once
// The tree of a spec's text, with lookup by dotted key names.

#include <string>
#include <string_view>

#include "core/formats/toml/value.h"

namespace estrain::spec {

struct Document {
  toml::Value root;
  std::string source;  // the spec's name in messages

  // Returns the key "data.batch" or the table "data" as written, or null.
  const toml::KeyValue* find(std::string_view name) const;

  // Returns the place of the key's value; if the key was not given, of its table; otherwise of the document.
  toml::Location place_of(std::string_view name) const;
};

}  // namespace estrain::spec
