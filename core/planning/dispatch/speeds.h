#pragma once
// The time of a job's steps by number of devices and type: as measured while it ran, else estimated from the nearest
// number that was measured, else from the mini-batch that was tried when it was submitted.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace estrain::dispatch {

// The ESTs of the worker with most of them: how many times a step takes a mini-batch.
int64_t most_ests(int64_t ests, int64_t devices);

// The distance between two numbers of devices: 0 where they are equal.
double apart(int64_t one, int64_t other);

class Speeds {
 public:
  static constexpr double kUnknownMiniBatch = 1;  // s, where nothing is known

  struct Measured {
    double seconds = 0;  // of a step: a mean in which the newest counts kNewest
    int64_t times = 0;   // 0: with another batch, and reckoned from that
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

  // What one look at a job found: its steps since the look before, on the same devices.
  struct Look {
    std::string type;
    int64_t devices = 1;
    double in_use = 1;  // devices of the pool, in the mean
    double steps = 0, seconds = 0;
    double told = 0;  // s of a step, as its launcher measured it; 0: not yet
  };

  // The same piece by piece, in order of time: how fast the job was when. The first are those between two looks; pieces
  // grow with the job's age, so that even a long one has few.
  struct Pace {
    std::string type;
    int64_t devices = 1;
    double in_use = 1;        // in the mean
    double from = 0, to = 0;  // moments
    double steps = 0;
    double told = 0;  // by its launcher, last; 0: not yet
    bool operator==(const Pace&) const = default;
  };
  // Copies share all of them but the newest, which alone may still change: a job of a week has 1,000.
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

    std::shared_ptr<std::vector<Pace>> closed_;  // null: none
    std::optional<Pace> newest_;
  };

  // Forward and backward pass of one EST; the rest of a step is learnt.
  void expect(double mini_batch_seconds) { mini_batch_ = mini_batch_seconds; }
  double expected() const { return mini_batch_; }
  void observe(const std::string& type, int64_t devices, double step_seconds);
  void saw(const Look& look, double now);

  // Steps have so many times the samples from now on, and take so many times as long until they are measured.
  void rescale(double factor);

  // For a job with this many ESTs: the worker with the most of them decides.
  double step_seconds(const std::string& type, int64_t devices, int64_t ests) const;

  const std::map<Key, Measured>& measured() const { return measured_; }
  void restore(const Key& key, const Measured& value) { measured_[key] = value; }
  const std::map<SeenKey, Seen>& seen() const { return seen_; }
  void restore(const SeenKey& key, const Seen& value) { seen_[key] = value; }
  const Paces& paces() const { return paces_; }
  void restore(const Pace& pace) { paces_.add(pace); }
  bool operator==(const Speeds&) const = default;

 private:
  static constexpr double kNewest = 0.3;
  static constexpr double kCoarsest = 0.01;  // of the job's age

  double mini_batch_ = 0;  // 0: not known
  std::map<Key, Measured> measured_;
  std::map<SeenKey, Seen> seen_;
  Paces paces_;
};

}  // namespace estrain::dispatch
