#pragma once
// A chart of numbers over steps, as HTML with a picture in SVG: of each span of steps the mean as a line, and from the
// lowest to the highest number as a band. The picture stretches to the width of the page; its labels are text of the
// page, so they keep their size on a phone. Below it the same as a table.

#include <cstdint>
#include <string>
#include <vector>

#include "core/report/series.h"

namespace estrain::report {

struct ChartLine {
  std::string name;
  const Series* series = nullptr;
  size_t colour = 0;
};

struct Chart {
  std::string id;  // of this page alone
  std::string title;
  std::string remark;            // a sentence under the title; may be empty
  std::vector<ChartLine> lines;  // those without numbers are left out
  std::vector<int64_t> marked;   // steps with a vertical line
  bool from_zero = false;        // the axis begins at 0
};

constexpr size_t kColours = 8;  // in the page's style, c0 to c7

// Where no line has a number: a sentence in place of the picture.
std::string to_html(const Chart& chart);

}  // namespace estrain::report
