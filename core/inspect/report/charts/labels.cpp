#include "core/inspect/report/charts/labels.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "core/base/visible_text.h"

namespace estrain::report {
std::string short_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinity" : "-infinity";
  return fmt::format("{:.4g}", value);
}

std::string label_at(double place, std::string_view text) {
  const char* style = place > 0.93 ? " class=\"far\"" : place < 0.03 ? " class=\"near\"" : "";
  return fmt::format("<span{} style=\"left:{:.2f}%\">{}</span>", style, 100 * place, html_escaped(text));
}

std::string duration(double seconds) {
  if (!(seconds >= 0)) return "-";
  if (seconds < 59.95) return fmt::format("{:.3g} s", seconds);
  if (seconds > 1e15) return "-";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace estrain::report
