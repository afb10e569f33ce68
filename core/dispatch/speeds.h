#pragma once
// The time of a job's steps by number of devices and type: as measured while it ran, else estimated from the nearest
// number that was measured, else from the mini-batch that was tried when it was submitted.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace estrain::dispatch {

// The ESTs of the worker with most of them: how many times a step takes a mini-batch.
int64_t most_ests(int64_t ests, int64_t devices);

class Speeds {
 public:
  static constexpr double kUnknownMiniBatch = 1;  // s, where nothing is known

  struct Measured {
    double seconds = 0;  // of a step: a mean in which the newest counts kNewest
    int64_t times = 0;
    bool operator==(const Measured&) const = default;
  };
  using Key = std::pair<std::string, int64_t>;  // type, devices
  // Steps as seen from outside, from one look to the next, with everything that came between.
  struct Seen {
    double steps = 0;  // with the owner's batch; of others, as many as have the same samples
    double seconds = 0;
    bool operator==(const Seen&) const = default;
  };
  using SeenKey = std::tuple<std::string, int64_t, int64_t>;  // type, devices of the job, devices in use of the pool

  // Forward and backward pass of one EST; the rest of a step is learnt.
  void expect(double mini_batch_seconds) { mini_batch_ = mini_batch_seconds; }
  double expected() const { return mini_batch_; }
  void observe(const std::string& type, int64_t devices, double step_seconds);
  void took(const SeenKey& key, const Seen& more);

  // Steps have so many times the samples from now on, and take so many times as long until they are measured.
  void rescale(double factor);

  // For a job with this many ESTs: the worker with the most of them decides.
  double step_seconds(const std::string& type, int64_t devices, int64_t ests) const;

  const std::map<Key, Measured>& measured() const { return measured_; }
  void restore(const Key& key, const Measured& value) { measured_[key] = value; }
  const std::map<SeenKey, Seen>& seen() const { return seen_; }
  bool operator==(const Speeds&) const = default;

 private:
  static constexpr double kNewest = 0.3;

  double mini_batch_ = 0;  // 0: not known
  std::map<Key, Measured> measured_;
  std::map<SeenKey, Seen> seen_;
};

}  // namespace estrain::dispatch
