#pragma once
// The measurements of an application in Pollux's simulator (OSDI'21): seconds of a step by placement and batch, and
// training progress by batch and epoch.
//
// Progress is measured in iterations at the initial batch size; an iteration at another batch size counts as `gain`
// initial iterations (Pollux, section 3). An epoch ends when its progress is reached, at any batch size.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace estrain::simulate {

struct BatchLimits {
  int64_t least_local, most_local;  // samples on one device at a time
  int64_t init, most;               // samples per step
  int64_t epochs;
  bool one_device;  // elastic policies keep the job on one device, at its largest batch
};

struct StepTimes {
  double step, sync;  // seconds; `sync` is the part of the exchange
};

// How a batch is split: `accumulated` rounds of `local` samples before the round with the exchange.
struct BatchSplit {
  int64_t local = 0, accumulated = 0;
};

class PolluxApplication {
 public:
  PolluxApplication(std::string name, const BatchLimits& limits) : name_(std::move(name)), limits_(limits) {}

  const std::string& name() const { return name_; }
  const BatchLimits& limits() const { return limits_; }

  // Devices on each host, in order; a packed placement uses as few hosts of 4 devices as possible.
  using Counts = std::vector<int32_t>;
  static Counts packed_counts(int64_t devices);

  // Returns measured times, interpolated linearly between batch sizes, the nearest beyond. Placements that differ by a
  // rotation are equal. Unmeasured placements come from the table of interpolated placements; nothing if missing.
  std::optional<StepTimes> times(const Counts& counts, int64_t local) const;

  // Returns the given batch on this many devices.
  BatchSplit split(double batch, int64_t devices) const;
  double step_seconds(const StepTimes& times, int64_t accumulated) const {
    return times.step + (times.step - times.sync) * static_cast<double>(accumulated);
  }

  struct Noise {
    double sqr, var;
    bool operator==(const Noise&) const = default;
  };
  Noise noise(double batch, int64_t epoch) const;
  static double gain(const Noise& noise, double scale) {
    return (noise.var + noise.sqr) / (noise.var / scale + noise.sqr);
  }
  double gain(double batch, int64_t epoch) const {
    return gain(noise(batch, epoch), batch / static_cast<double>(limits_.init));
  }
  // Returns the progress after `epochs` epochs.
  double progress(int64_t epochs) const { return progress_[static_cast<size_t>(epochs)]; }
  // Returns the steps of `epoch` + 1 epochs at this batch size.
  double iterations(double batch, int64_t epoch) const;

  // Returns the batch sizes to try on this many devices: 50, evenly spaced by ratio.
  std::vector<double> batches(int64_t devices) const;

  // Called by the readers of the tables.
  void add_placement(const std::string& digits, int64_t local, StepTimes times);
  void add_between(int64_t hosts, int64_t devices, int64_t local, StepTimes times);
  struct Validation {
    double progress, iterations, sqr, var;
  };
  void add_validation(int64_t batch, int64_t epoch, Validation row);
  bool is_empty() const { return placements_.empty() && between_.empty() && rows_.empty(); }
  // Throws Fault::spec if rows are missing.
  void finish(const std::string& source);

 private:
  struct Sizes {
    std::vector<int64_t> local;
    std::vector<StepTimes> times;
  };
  static Counts normal(const Counts& counts);
  static std::optional<StepTimes> at(const Sizes& sizes, int64_t local);
  // A position between two batch sizes: {lower, upper, weight of the upper}.
  struct BatchNeighbours {
    size_t lower, upper;
    double part;
  };
  BatchNeighbours between(double batch) const;

  std::string name_;
  BatchLimits limits_;
  std::map<Counts, Sizes> placements_;
  std::map<std::pair<int64_t, int64_t>, Sizes> between_;
  std::vector<double> batches_;                      // of the validation table, increasing
  std::vector<std::vector<Validation>> validation_;  // [batch][epoch]
  std::map<int64_t, std::vector<Validation>> rows_;  // until finish
  std::vector<double> progress_;                     // by epochs done
};

}  // namespace estrain::simulate
