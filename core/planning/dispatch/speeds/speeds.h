#pragma once
// The time of a job's steps by type and number of devices, and by the number of hosts that they are spread over
// (Philly, section 3.2): measured while the job ran, else estimated from the nearest measurement, else from the
// mini-batch that was tried at submission.

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

class Speeds {
 public:
  static constexpr double kUnknownMiniBatch = 1;  // s, if nothing is known

  struct Measured {
    double seconds = 0;  // of a step: a mean with a weight of kNewest for the newest
    int64_t times = 0;   // 0: reckoned from a measurement with another batch
    bool operator==(const Measured&) const = default;
    ESTRAIN_FIELDS(seconds, times)
  };
  struct Key {
    std::string type;
    int64_t devices = 1, hosts = 1;
    auto operator<=>(const Key&) const = default;
    // A list, as key of a map (core/base/json/codec.h).
    friend void to_json(Json& json, const Key& key) { json = {key.type, key.devices, key.hosts}; }
    friend void from_json(const Json& json, Key& key) {
      key = {json.at(0).get<std::string>(), json.at(1).get<int64_t>(), json.at(2).get<int64_t>()};
    }
  };
  // Steps as seen from outside, from look to look, with everything in between.
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
  void observe(const Key& key, double step_seconds);
  void saw(const Look& look, double now);

  // From now on, steps have so many times the samples. Until measured, they take so many times as long.
  void rescale(double factor);

  // Returns the time for a job with this many ESTs: the worker with most ESTs decides. A measurement on as many hosts
  // counts before one on more or fewer hosts.
  double step_seconds(const Key& key, int64_t ests) const;

  const std::map<Key, Measured>& measured() const { return measured_; }
  void restore(const Key& key, const Measured& value) { measured_[key] = value; }
  const std::map<SeenKey, Seen>& seen() const { return seen_; }
  void restore(const SeenKey& key, const Seen& value) { seen_[key] = value; }
  const Paces& paces() const { return paces_; }
  void restore(const Pace& pace) { paces_.add(pace); }
  bool operator==(const Speeds&) const = default;
  // What the pool's ledger keeps in the job's row: the paces have rows of their own.
  ESTRAIN_FIELDS(mini_batch_, measured_, seen_)

 private:
  static constexpr double kNewest = 0.3;
  static constexpr double kCoarsest = 0.01;  // of the job's age

  double mini_batch_ = 0;  // 0: not known
  std::map<Key, Measured> measured_;
  std::map<SeenKey, Seen> seen_;
  Paces paces_;
};

// Returns the distances in hosts and in devices: the first counts before the second.
std::pair<double, double> apart(const Speeds::Key& one, const Speeds::Key& other);

}  // namespace estrain::dispatch
