#include "core/state/algorithms/key.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::algorithms {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

std::string plain(std::string_view word) {
  if (word.empty() || !std::ranges::all_of(word, is_plain))
    throw Error::make(Fault::bug, "\"{}\" cannot be part of an operation's key", word);
  return std::string(word);
}

}  // namespace

Key::Key(std::string_view operation) : operation_(plain(operation)) {}

Key& Key::set(std::string_view field, std::string_view value) {
  fields_[plain(field)] = plain(value);
  return *this;
}

std::string Key::text() const {
  std::string text = operation_;
  for (const auto& [field, value] : fields_) text += " " + field + "=" + value;
  return text;
}

}  // namespace estrain::algorithms
