#pragma once
// A number that was measured, again and again: a running average that forgets.
//
// The n-th measurement counts 1/n, but never less than 1/kMemory: what was true long ago fades away. A measurement that
// is off by more than kMargin is no noise but another truth (another load on the machine, a profile that was wrong),
// and takes the place of the average at once; so does one that comes when the estimate has not been confirmed for
// kStale. The companion module of EasyScale (section 3.4) likewise updates its database "once it has monitored
// significant biases".

#include <cstdint>

namespace estrain::profile {

struct Measurement {
  double seconds = 0;
  double spread = 0;  // middle half of the single values over their median; 0: not known
};

struct Estimate {
  static constexpr int64_t kMemory = 8;              // measurements
  static constexpr double kMargin = 0.25;            // of the estimate
  static constexpr int64_t kStale = 30 * 24 * 3600;  // seconds

  double seconds = 0;
  double spread = 0;     // of the measurements, relative; 0: not known
  int64_t samples = 0;   // measurements in it. 0: never measured itself, but scaled along with one that was replaced
  int64_t measured = 0;  // when last; seconds since 1970

  // Takes in a measurement made at `now`. `floor`: a deviation of less than kMargin times this counts as noise, however
  // small the estimate is (seconds; for differences of large numbers). True: it was off and has been replaced, though
  // it had been measured.
  bool observe(const Measurement& measurement, int64_t now, double floor = 0);
  void scale(double factor);  // as what it belongs to has turned out to be so much slower

  // Seconds since it was measured. A time in the future (the clock was changed) counts as now.
  int64_t age(int64_t now) const { return now > measured ? now - measured : 0; }
};

}  // namespace estrain::profile
