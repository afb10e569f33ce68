#pragma once
// One number over the steps of a run, in memory that does not grow with the run: neighbouring steps are
// merged into spans with their mean, lowest and highest number. So a spike of one step in a million remains
// visible.
//
// Spans are aligned to multiples of their width, a power of two: the series of two runs have the same spans.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace estrain::report {

struct Span {
  int64_t first = 0, last = 0;  // first and last step of the span
  int64_t count = 0;            // of finite numbers
  double sum = 0, low = 0, high = 0;

  double mean() const { return sum / static_cast<double>(count); }
  void add(const Span& next);
};

class Series {
 public:
  static constexpr size_t kMostSpans = 1024;

  // Steps must increase; a step out of order is ignored. Non-finite numbers (or beyond 1e150) are counted, but not part
  // of any span.
  void add(int64_t step, double value);

  const std::vector<Span>& spans() const { return spans_; }
  // The same in at most `most` spans.
  std::vector<Span> in_spans(size_t most) const;
  bool empty() const { return spans_.empty(); }
  int64_t width() const { return width_; }  // steps of a span
  int64_t first_step() const { return spans_.front().first; }
  int64_t last_step() const { return spans_.back().last; }
  double last_value() const { return last_; }  // NaN without a value
  int64_t not_finite() const { return not_finite_; }
  int64_t first_not_finite() const { return first_not_finite_; }

 private:
  std::vector<Span> spans_;
  int64_t width_ = 1;
  double last_ = 0;
  int64_t not_finite_ = 0, first_not_finite_ = 0;
};

}  // namespace estrain::report
