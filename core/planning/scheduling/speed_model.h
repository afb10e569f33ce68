#pragma once
// Predicts a job's speed on other devices and at other batches from its measurements (Pollux, OSDI'21, section 4.1):
//
//   compute(b) = a_c + b_c b                             b samples on a device
//   network(n, r) = 0, a_r + b_r max(r - 2, 0) or a_n + b_n max(r - 2, 0)   one device, one host, several hosts
//   step = (compute^gamma + network^gamma)^(1/gamma)
//
// The parameters minimise the squared differences of logarithms, with the
// paper's penalties towards a small gamma and small b_n / a_n and b_r / a_r.
// Unseen cases (several hosts, more than two devices, a second batch) are
// assumed to be ideal.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace estrain::scheduling {

struct SpeedPoint {
  int64_t hosts = 1, devices = 1, local = 1;
  auto operator<=>(const SpeedPoint&) const = default;
};

class SpeedModel {
 public:
  // Takes the seconds of a mini-batch on a device without and with the exchange. Ignores known points. Returns whether
  // the point was new.
  bool observe(const SpeedPoint& point, double compute_seconds, double step_seconds);
  bool is_empty() const { return points_.empty(); }
  int64_t most_devices() const { return most_devices_; }

  double compute_seconds(double local) const;
  double step_seconds(int64_t hosts, int64_t devices, double local) const;

 private:
  static constexpr size_t kParameters = 7;  // a_c, b_c, a_n, b_n, a_r, b_r, gamma
  using Parameters = std::array<double, kParameters>;
  struct Times {
    double compute, step;
  };

  void fit();
  static double predict_compute(const Parameters& parameters, double local);
  static double predict_step(const Parameters& parameters, const SpeedPoint& point, double local);
  double loss(const Parameters& parameters) const;

  std::map<SpeedPoint, Times> points_;
  int64_t most_devices_ = 0;
  Parameters parameters_{};
  bool fitted_ = false;
};

// Speeds measured by many jobs of an application together. The model foretells unmeasured speeds. For a measured
// placement, the model's answer is multiplied by the model's error at this placement: the ratio of measured to foretold
// seconds, on a line between the two batches next to the batch in question.
//
// Pure: the same measurements in the same order give the same speeds.
class MeasuredSpeeds {
 public:
  // Takes the seconds of a mini-batch on a device without and with the exchange. Returns whether a prediction has
  // changed: a measurement foretold to within 1 % changes nothing.
  bool observe(const SpeedPoint& point, double compute_seconds, double step_seconds);

  const SpeedModel& model() const { return model_; }
  double compute_seconds(double local) const { return model_.compute_seconds(local); }
  double step_seconds(int64_t hosts, int64_t devices, double local) const;

 private:
  using Steps = std::map<int64_t, double>;  // measured seconds, by samples on a device
  bool is_foretold(const SpeedPoint& point, double compute_seconds, double step_seconds) const;
  double ratio(int64_t hosts, int64_t devices, const Steps::value_type& measured) const;

  SpeedModel model_;
  std::map<std::pair<int64_t, int64_t>, Steps> steps_;  // by hosts and devices
};

}  // namespace estrain::scheduling
