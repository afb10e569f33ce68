#pragma once
// A repeatedly measured number: a running average that forgets.
//
// The n-th measurement has the weight 1/n, but at least 1/kMemory: old values fade away. A measurement off by
// more than kMargin is not noise but a change (another load on the machine, a wrong profile), and replaces the
// average at once. The first measurement after kStale without a measurement replaces the average, too.
// EasyScale's companion module (section 3.4) likewise updates its database "once it has monitored significant
// biases".

#include <cstdint>

namespace estrain::profile {

struct Measurement {
  double seconds = 0;
  double spread = 0;  // interquartile range of the single values over their median; 0: unknown
};

struct Estimate {
  static constexpr int64_t kMemory = 8;              // measurements
  static constexpr double kMargin = 0.25;            // of the estimate
  static constexpr int64_t kStale = 30 * 24 * 3600;  // seconds

  double seconds = 0;
  double spread = 0;     // of the measurements, relative; 0: unknown
  int64_t samples = 0;   // measurements in the estimate. 0: never measured, only scaled along with a replaced estimate
  int64_t measured = 0;  // time of the last measurement; seconds since 1970

  // Adds a measurement made at `now`. `floor` (seconds): a deviation below kMargin times `floor` counts as noise,
  // however small the estimate is; for differences of large numbers. Returns true if a measured estimate was off and
  // has been replaced.
  bool observe(const Measurement& measurement, int64_t now, double floor = 0);
  void scale(double factor);  // multiplies the estimate: its subject proved to be slower by this factor

  // Returns the seconds since the last measurement. A time in the future (the clock was set back) counts as now.
  int64_t age(int64_t now) const { return now > measured ? now - measured : 0; }
};

}  // namespace estrain::profile
