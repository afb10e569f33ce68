#pragma once
// The time of a job's steps by type and number of devices, and by the number of hosts that they are spread over
// (Philly, section 3.2): measured while the job ran, else estimated from the nearest measurement, else from the times
// of a mini-batch on each type (EasyScale's 1/C_i, section 3.4): as workers measure, else as guessed at submission.
//
// Devices of several types at work together are a set. A set's step that was not measured takes the shortest pace at
// which the set hosts all ESTs (planning/plan), times how much longer a measured step took than its pace.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/json/fields.h"

namespace estrain::dispatch {

// Returns the ESTs of the worker with most ESTs: how many times a step takes a mini-batch.
int64_t most_ests(int64_t ests, int64_t devices);

// Returns the distance between two numbers of devices: 0 if they are equal.
double apart(int64_t one, int64_t other);

using DeviceSet = std::map<std::string, int64_t>;  // devices by type: each at least one
// "cpu:avx2*2+cpu:avx512*1"; of one type the type alone.
std::string text_of(const DeviceSet& devices);

class JobSpeeds {
 public:
  static constexpr double kUnknownMiniBatch = 1;  // s, if nothing is known

  struct Measured {
    double seconds = 0;  // of a step: a mean with a weight of kNewest for the newest
    int64_t times = 0;   // 0: reckoned from a measurement with another batch
    bool operator==(const Measured&) const = default;
    ESTRAIN_FIELDS(seconds, times)
  };
  struct DevicesKey {
    std::string type;  // of several types, text_of(DeviceSet)
    int64_t devices = 1, hosts = 1;
    auto operator<=>(const DevicesKey&) const = default;
    // A list, as key of a map (core/base/json/codec.h).
    friend void to_json(Json& json, const DevicesKey& key) { json = {key.type, key.devices, key.hosts}; }
    friend void from_json(const Json& json, DevicesKey& key) {
      key = {json.at(0).get<std::string>(), json.at(1).get<int64_t>(), json.at(2).get<int64_t>()};
    }
  };
  // Steps as seen from outside, from look to look: the seconds have pauses, checkpoints and evaluations, too.
  struct Seen {
    double steps = 0;  // with the owner's batch; of another batch, the steps with the same samples
    double seconds = 0;
    bool operator==(const Seen&) const = default;
    ESTRAIN_FIELDS(steps, seconds)
  };
  using SeenKey = std::tuple<std::string, int64_t, int64_t>;  // type, devices of the job, devices in use of the pool

  // The result of a look at a job: the steps since the look before, on the same devices.
  struct Look {
    std::string type;
    int64_t devices = 1;
    double in_use = 1;  // devices of the pool, in the mean
    double steps = 0, seconds = 0;
    double told = 0;  // s of a step, as measured by the launcher; 0: not yet
  };

  // The same piece by piece, in order of time: how fast the job was when. A first piece is the time between two looks;
  // pieces grow with the job's age, and even a long job has few.
  struct Pace {
    std::string type;
    int64_t devices = 1;
    double in_use = 1;        // in the mean
    double from = 0, to = 0;  // moments
    double steps = 0;
    double told = 0;  // by the launcher, last; 0: not yet
    bool operator==(const Pace&) const = default;
  };
  // Copies share all paces but the newest, the only pace that still changes: a job of a week has 1,000 paces.
  class Paces {
   public:
    size_t size() const { return num_closed() + (newest_ ? 1 : 0); }
    const Pace& operator[](size_t at) const { return at < num_closed() ? (*closed_)[at] : *newest_; }
    void add(const Pace& pace);
    Pace* newest() { return newest_ ? &*newest_ : nullptr; }
    std::vector<Pace> all() const;
    bool operator==(const Paces& other) const;

   private:
    size_t num_closed() const { return closed_ ? closed_->size() : 0; }

    std::shared_ptr<std::vector<Pace>> closed_;  // null: empty
    std::optional<Pace> newest_;
  };

  // Forward and backward pass of an EST; the rest of a step is learnt.
  void expect(double mini_batch_seconds) { mini_batch_ = mini_batch_seconds; }
  double expected() const { return mini_batch_; }
  // The same on a type of device, as guessed before the first step. The ratios of guesses count, once workers have
  // measured a type.
  void expect_on(const std::string& type, double mini_batch_seconds);
  const std::map<std::string, double>& expected_on() const { return guesses_; }
  // The same, as workers measure.
  void observe_mini_batch(const std::string& type, double seconds);
  const std::map<std::string, Measured>& mini_batches() const { return mini_batches_; }
  void restore_mini_batch(const std::string& type, const Measured& value) { mini_batches_[type] = value; }
  // The time by which a step over so many hosts is longer than on one host, where no such step was measured.
  void expect_exchange(int64_t hosts, double seconds) { exchanges_[hosts] = seconds; }
  // Measured, else guessed, else as on other types.
  double mini_batch(const std::string& type) const;

  static DevicesKey key_of(const DeviceSet& devices, int64_t hosts);
  // Adds a time of a step, as the job's launcher measures.
  void observe(const DevicesKey& key, double step_seconds);
  // Adds a look that ended at the moment `now`.
  void saw(const Look& look, double now);

  // From now on, steps have so many times the samples. Until measured, they take so many times as long.
  void rescale(double factor);

  // Returns the time for a job with this many ESTs: the worker with most ESTs decides. A measurement on as many hosts
  // counts before one on more or fewer hosts; one on fewer hosts lacks the exchange among more.
  double step_seconds(const DevicesKey& key, int64_t ests) const;

  const std::map<DevicesKey, Measured>& measured() const { return measured_; }
  void restore(const DevicesKey& key, const Measured& value) { measured_[key] = value; }
  const std::map<SeenKey, Seen>& seen() const { return seen_; }
  void restore(const SeenKey& key, const Seen& value) { seen_[key] = value; }
  const Paces& paces() const { return paces_; }
  void restore(const Pace& pace) { paces_.add(pace); }
  bool operator==(const JobSpeeds&) const = default;
  // What the pool's ledger keeps in the job's row: the paces have rows of their own.
  ESTRAIN_FIELDS(mini_batch_, guesses_, mini_batches_, measured_, seen_)

 private:
  static constexpr double kNewest = 0.3;
  static constexpr double kCoarsest = 0.01;  // of the job's age

  static void observe(Measured& measured, double seconds);
  double exchange(int64_t hosts) const;
  double pace(const DevicesKey& key, int64_t ests) const;
  double over_pace(const DevicesKey& key, int64_t ests) const;

  double mini_batch_ = 0;                         // 0: not known
  std::map<std::string, double> guesses_;         // by type
  std::map<std::string, Measured> mini_batches_;  // by type
  std::map<int64_t, double> exchanges_;           // by number of hosts
  std::map<DevicesKey, Measured> measured_;
  std::map<SeenKey, Seen> seen_;
  Paces paces_;
};

// Returns the distances in hosts and in devices: the first counts before the second.
std::pair<double, double> apart(const JobSpeeds::DevicesKey& one, const JobSpeeds::DevicesKey& other);

}  // namespace estrain::dispatch
