#include "core/verify/change_log.h"

#include <fmt/format.h>

#include <vector>

#include "core/base/json_fields.h"

namespace estrain::verify {
namespace {

// Entries without the time of day at which somebody made them. What cannot be parsed is an entry too.
std::vector<std::string> entries_until(std::string_view log, Step last) {
  std::vector<std::string> entries;
  for (size_t end; (end = log.find('\n')) != log.npos; log.remove_prefix(end + 1)) {
    Json entry = parse_json_if_sound(log.substr(0, end));
    if (!entry.is_object()) {
      entries.emplace_back(log.substr(0, end));
      continue;
    }
    if (whole_in(entry, "step").value_or(0) > last.value) continue;
    entry.erase("time");
    entries.push_back(entry.dump());
  }
  return entries;
}

}  // namespace

std::string change_log_difference(std::string_view a, std::string_view b, Step last) {
  const std::vector<std::string> of_a = entries_until(a, last), of_b = entries_until(b, last);
  size_t same = 0;
  while (same < of_a.size() && same < of_b.size() && of_a[same] == of_b[same]) ++same;
  if (same == of_a.size() && same == of_b.size()) return "";
  const auto entry = [&](const std::vector<std::string>& entries) {
    return same < entries.size() ? entries[same] : std::string("none");
  };
  return fmt::format("the change logs differ in entry {}: A: {}, B: {}", same + 1, entry(of_a), entry(of_b));
}

}  // namespace estrain::verify
