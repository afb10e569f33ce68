#include "core/state/record/logs/metrics_reader.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace estrain::record {

std::optional<Line> MetricsReader::next() {
  for (std::string_view text; lines_.next(&text);) {
    ++number_;
    try {
      return parse_line(text, "");
    } catch (const Error&) {
      if (unreadable_++ == 0) first_unreadable_ = fmt::format("{}:{}", path_, number_);
    }
  }
  return std::nullopt;
}

}  // namespace estrain::record
