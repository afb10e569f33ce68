#pragma once
// Numbers to places along an axis: 0 at its beginning, 1 at its end.

#include <string>
#include <vector>

namespace estrain::report {

class Axis {
 public:
  // From `low` to `high`, both finite; a little is added where they are equal.
  static Axis linear(double low, double high);
  // Logarithmic where that shows more: all is above 0, and the highest is more than fifty times the lowest.
  static Axis for_values(double low, double high);

  double at(double value) const;  // beyond the ends: 0 or 1
  bool is_logarithmic() const { return logarithmic_; }
  // Round numbers within the axis, at most `most` and, where it is linear, two at least.
  std::vector<double> ticks(int most) const;
  // The same where the numbers are seconds: round times from 0 on.
  std::vector<double> time_ticks(int most) const;

 private:
  Axis(double low, double high, bool logarithmic) : low_(low), high_(high), logarithmic_(logarithmic) {}

  double low_, high_;
  bool logarithmic_;
};

}  // namespace estrain::report
