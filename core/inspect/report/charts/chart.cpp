#include "core/inspect/report/charts/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/base/visible_text.h"
#include "core/inspect/report/charts/axis.h"
#include "core/inspect/report/charts/labels.h"
#include "core/inspect/report/charts/reading.h"

namespace estrain::report {
namespace {

constexpr size_t kDrawnSpans = 500, kPlaces = 60, kRows = 40, kMostMarked = 200;

std::string tick_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e7) return fmt::format("{:.0f}", value);
  return short_number(value);
}

struct Extent {
  double first_step, last_step, low, high;
};

Extent extent_of(const std::vector<ChartLine>& lines) {
  Extent extent{1e300, -1e300, 1e300, -1e300};
  for (const ChartLine& line : lines) {
    extent.first_step = std::min(extent.first_step, static_cast<double>(line.series->first_step()));
    extent.last_step = std::max(extent.last_step, static_cast<double>(line.series->last_step()));
    for (const Span& span : line.series->spans()) {
      extent.low = std::min(extent.low, span.low);
      extent.high = std::max(extent.high, span.high);
    }
  }
  return extent;
}

Axis axis_of(Chart::AxisRange range, const Extent& extent) {
  if (range == Chart::AxisRange::values) return Axis::for_values(extent.low, extent.high);
  if (range == Chart::AxisRange::linear) return Axis::linear(extent.low, extent.high);
  return Axis::linear(std::min(0.0, extent.low), extent.high > 0 ? 1.05 * extent.high : 1);
}

class Drawing {
 public:
  Drawing(const Chart& chart, std::vector<ChartLine> lines)
      : chart_(chart),
        lines_(std::move(lines)),
        extent_(extent_of(lines_)),
        x_(Axis::linear(extent_.first_step, extent_.last_step)),
        y_(axis_of(chart.range, extent_)) {}

  std::string html() const {
    return fmt::format(
        "<figure id=\"{}\"><figcaption>{}{}{}</figcaption>{}<div class=\"plot\"><div class=\"y\">{}</div><div "
        "class=\"area\">{}{}</div><div class=\"x\">{}</div></div>{}</figure>\n",
        chart_.id, html_escaped(chart_.title), y_.is_logarithmic() ? " (logarithmic)" : "",
        chart_.remark.empty() ? "" : "<small>" + html_escaped(chart_.remark) + "</small>", legend(), y_labels(),
        picture(), places(), x_labels(), table());
  }

 private:
  double px(double step) const { return 1000 * x_.at(step); }
  double py(double value) const { return 1000 * (1 - y_.at(value)); }

  static double middle(const Span& span) {
    return (static_cast<double>(span.first) + static_cast<double>(span.last)) / 2;
  }

  std::string legend() const {
    if (lines_.size() < 2) return "";
    std::string html = "<ul class=\"legend\">";
    for (const ChartLine& line : lines_)
      html += fmt::format("<li><i class=\"c{}\"></i>{}</li>", line.colour % kColours, html_escaped(line.name));
    return html + "</ul>";
  }

  std::string y_labels() const {
    std::string html;
    for (const double tick : y_.ticks(5))
      html += fmt::format("<span style=\"bottom:{:.2f}%\">{}</span>", 100 * y_.at(tick), tick_text(tick));
    return html;
  }

  std::string x_labels() const {
    std::string html;
    for (const double tick : x_.ticks(5)) {
      if (tick != std::floor(tick)) continue;
      html += label_at(x_.at(tick), fmt::format("{:.0f}", tick));
    }
    return html + "<b>step</b>";
  }

  std::string picture() const {
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\"><path "
        "class=\"grid\" "
        "d=\"",
        html_escaped(summary()));
    for (const double tick : y_.ticks(5)) fmt::format_to(std::back_inserter(svg), "M0 {:.0f}h1000", py(tick));
    svg += "\"/>" + marks();
    for (const ChartLine& line : lines_) svg += drawn(line);
    return svg + "</svg>";
  }

  std::string summary() const {
    std::string words = chart_.title;
    for (const ChartLine& line : lines_) {
      words += fmt::format("; {}: {} at step {}, {} at step {}", line.name,
                           short_number(line.series->spans().front().mean()), line.series->first_step(),
                           short_number(line.series->spans().back().mean()), line.series->last_step());
    }
    return words;
  }

  std::string marks() const {
    if (chart_.marked.empty()) return "";
    std::string svg = "<path class=\"marked\" d=\"";
    for (size_t i = 0; i < std::min(chart_.marked.size(), kMostMarked); ++i) {
      const auto step = static_cast<double>(chart_.marked[i]);
      if (step >= extent_.first_step && step <= extent_.last_step)
        fmt::format_to(std::back_inserter(svg), "M{:.1f} 0v1000", px(step));
    }
    return svg + "\"/>";
  }

  std::string drawn(const ChartLine& line) const {
    const std::vector<Span> spans = line.series->in_spans(kDrawnSpans);
    std::string band = "M", back, mean = "M";
    for (size_t i = 0; i < spans.size(); ++i) {
      const double x = px(middle(spans[i]));
      fmt::format_to(std::back_inserter(band), "{:.1f} {:.1f} ", x, py(spans[i].high));
      fmt::format_to(std::back_inserter(mean), "{:.1f} {:.1f} ", x, py(spans[i].mean()));
      const Span& from_behind = spans[spans.size() - 1 - i];
      fmt::format_to(std::back_inserter(back), "{:.1f} {:.1f} ", px(middle(from_behind)), py(from_behind.low));
    }
    if (spans.size() == 1) mean += "h0";  // a dot, from the round ends of lines
    return fmt::format("<path class=\"band c{0}\" d=\"{1}{2}z\"/><path class=\"line c{0}\" d=\"{3}\"/>",
                       line.colour % kColours, band, back, mean);
  }

  static std::string steps_of(const Span& span) {
    return span.first == span.last ? fmt::format("step {}", span.first)
                                   : fmt::format("steps {} to {}", span.first, span.last);
  }
  static std::string numbers_of(const Span& span) {
    if (span.low == span.high) return short_number(span.mean());
    return fmt::format("{} ({} to {})", short_number(span.mean()), short_number(span.low), short_number(span.high));
  }

  // Each line gets part of the height, so places do not hide each other.
  std::string places() const {
    std::vector<ReadingPlace> all;
    const double share = 1 / static_cast<double>(lines_.size());
    for (size_t which = 0; which < lines_.size(); ++which) {
      const ChartLine& line = lines_[which];
      const std::vector<Span> spans = line.series->in_spans(std::max<size_t>(2, kPlaces / lines_.size()));
      for (size_t i = 0; i < spans.size(); ++i) {
        const double from = i == 0 ? 0 : x_.at(static_cast<double>(spans[i].first));
        const double to = i + 1 == spans.size() ? 1 : x_.at(static_cast<double>(spans[i + 1].first));
        all.push_back({from, to,
                       fmt::format("{}{}: {}", lines_.size() > 1 ? line.name + ", " : "", steps_of(spans[i]),
                                   numbers_of(spans[i])),
                       share * static_cast<double>(which), share});
      }
    }
    return reading_places("p-" + chart_.id, chart_.title, all);
  }

  std::string table() const {
    std::string html = fmt::format("<details><summary>{} as a table</summary>", html_escaped(chart_.title));
    for (const ChartLine& line : lines_) {
      html += fmt::format(
          "<div class=\"scroll\"><table><caption>{}</caption><thead><tr><th>steps</th><th>mean</th><th>lowest</th>"
          "<th>highest</th></tr></thead><tbody>",
          html_escaped(line.name));
      for (const Span& span : line.series->in_spans(kRows)) {
        html += fmt::format(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            span.first == span.last ? fmt::format("{}", span.first) : fmt::format("{} to {}", span.first, span.last),
            short_number(span.mean()), short_number(span.low), short_number(span.high));
      }
      html += "</tbody></table></div>";
    }
    return html + "</details>";
  }

  const Chart& chart_;
  const std::vector<ChartLine> lines_;
  const Extent extent_;
  const Axis x_, y_;
};

}  // namespace

std::string to_html(const Chart& chart) {
  std::vector<ChartLine> lines;
  for (const ChartLine& line : chart.lines)
    if (!line.series->empty()) lines.push_back(line);
  if (lines.empty())
    return fmt::format("<figure id=\"{}\"><figcaption>{}</figcaption><p>None recorded.</p></figure>\n", chart.id,
                       html_escaped(chart.title));
  return Drawing(chart, std::move(lines)).html();
}

}  // namespace estrain::report
