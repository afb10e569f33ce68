#pragma once
// Maps numbers to positions along an axis: 0 at the beginning, 1 at the end.

#include <string>
#include <vector>

namespace estrain::report {

class Axis {
 public:
  // From `low` to `high`, both finite; widened slightly if both are equal.
  static Axis linear(double low, double high);
  // Logarithmic if all values are above 0 and the highest is more than fifty times the lowest; otherwise linear.
  static Axis for_values(double low, double high);

  double at(double value) const;  // 0 or 1 beyond the ends
  bool is_logarithmic() const { return logarithmic_; }
  // Round numbers within the axis, at most `most` and, on a linear axis, at least two.
  std::vector<double> ticks(int most) const;
  // The same for seconds: round times from 0 on.
  std::vector<double> time_ticks(int most) const;

 private:
  Axis(double low, double high, bool logarithmic) : low_(low), high_(high), logarithmic_(logarithmic) {}

  double low_, high_;
  bool logarithmic_;
};

}  // namespace estrain::report
