#include "core/job/spec/keys/rule.h"

#include <fmt/ranges.h>

#include "core/job/spec/keys/closest.h"

namespace estrain::spec {

std::string Interval::text() const {
  if (low && high) return fmt::format("{}{}, {}{}", low_open ? '(' : '[', *low, *high, high_open ? ')' : ']');
  if (low) return fmt::format("{} {}", low_open ? ">" : ">=", *low);
  if (high) return fmt::format("{} {}", high_open ? "<" : "<=", *high);
  return "";
}

std::string lengths_text(const Rule& rule) { return fmt::format("{}", fmt::join(rule.lengths, " or ")); }

std::string Rule::text() const {
  std::vector<std::string> parts;
  if (!choices.empty()) parts.push_back(quoted_list(choices));
  if (!numbers.empty()) parts.push_back(fmt::format("{}", fmt::join(numbers, " or ")));
  if (!lengths.empty()) parts.push_back(lengths_text(*this) + " elements");
  if (const std::string bounds = range.text(); !bounds.empty()) parts.push_back(bounds);
  if (filled) parts.emplace_back("not empty");
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace estrain::spec
