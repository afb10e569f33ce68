#include "core/inspect/report/charts/series.h"

#include <algorithm>
#include <cmath>

namespace estrain::report {
namespace {

constexpr double kMost = 1e150;  // keeps differences and sums finite

void append(std::vector<Span>& spans, const Span& next, int64_t width) {
  if (!spans.empty() && spans.back().first / width == next.first / width)
    spans.back().add(next);
  else
    spans.push_back(next);
}

std::vector<Span> widened(const std::vector<Span>& spans, int64_t width) {
  std::vector<Span> wide;
  for (const Span& span : spans) append(wide, span, width);
  return wide;
}

}  // namespace

void Span::add(const Span& next) {
  last = next.last;
  count += next.count;
  sum += next.sum;
  low = std::min(low, next.low);
  high = std::max(high, next.high);
}

void Series::add(int64_t step, double value) {
  if (!spans_.empty() && step <= spans_.back().last) return;
  last_ = value;
  if (!(std::abs(value) < kMost)) {
    if (not_finite_++ == 0) first_not_finite_ = step;
    return;
  }
  append(spans_, {step, step, 1, value, value, value}, width_);
  while (spans_.size() > kMostSpans) spans_ = widened(spans_, width_ *= 2);
}

std::vector<Span> Series::in_spans(size_t most) const {
  std::vector<Span> spans = spans_;
  for (int64_t width = width_; spans.size() > most;) spans = widened(spans, width *= 2);
  return spans;
}

}  // namespace estrain::report
