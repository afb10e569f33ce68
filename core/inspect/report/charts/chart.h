#pragma once
// A chart of numbers over steps, as HTML with an SVG picture: for each span of steps, a line for the mean and a band
// from the lowest to the highest number. The picture stretches to the width of the page; the labels are text of the
// page, with the same size on a phone. A table below has the same numbers.

#include <cstdint>
#include <string>
#include <vector>

#include "core/inspect/report/charts/series.h"

namespace estrain::report {

struct ChartLine {
  std::string name;
  const Series* series = nullptr;
  size_t colour = 0;
};

// The axis of numbers spans the values: from 0 on, always linear, or logarithmic for values far apart (axis.h).
struct Chart {
  std::string id;  // unique on the page
  std::string title;
  std::string remark;            // a sentence under the title; may be empty
  std::vector<ChartLine> lines;  // lines without numbers are omitted
  std::vector<int64_t> marked;   // steps with a vertical line
  enum class AxisRange { values, linear, from_zero } range = AxisRange::values;  // of the axis of numbers
};

constexpr size_t kColours = 8;  // in the page's style, c0 to c7

// If no line has a number: a sentence instead of the picture.
std::string to_html(const Chart& chart);

}  // namespace estrain::report
