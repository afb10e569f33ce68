#include "core/job/spec/parsing/document.h"

#include "core/job/spec/keys/keys.h"

namespace estrain::spec {

const toml::KeyValue* Document::find(std::string_view name) const {
  const toml::KeyValue* table = toml::find(*root.table(), table_of(name));
  if (!table || table_of(name) == name) return table;
  return table->value.table() ? toml::find(*table->value.table(), leaf_of(name)) : nullptr;
}

toml::Location Document::place_of(std::string_view name) const {
  if (const toml::KeyValue* key = find(name)) return key->value.at;
  if (const toml::KeyValue* table = find(table_of(name))) return table->at;
  return {source};
}

}  // namespace estrain::spec
