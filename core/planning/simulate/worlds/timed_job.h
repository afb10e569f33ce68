#pragma once
// A job of which only the work is known: it has a duration at full speed, and takes proportionally longer otherwise.

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

class TimedJob : public SimulatedJob {
 public:
  // Fraction of full speed on devices of this shape; above 1 is faster. 0: the job cannot run.
  using Speed = std::function<double(const scheduling::Shape&)>;

  // `every` change of devices costs so much, the first `first`.
  struct Charges {
    double first = 0, every = 0;
  };

  TimedJob(const scheduling::Cluster& cluster, double seconds, const Charges& charges, Speed speed)
      : cluster_(cluster),
        seconds_left_(seconds),
        charges_(charges),
        speed_(std::move(speed)),
        outlook_(std::make_unique<KnownOutlook>(*this)) {
    facts.outlook = outlook_.get();
  }

  void place(const scheduling::Placement& placement) override {
    facts.placement = placement;
    devices_ = static_cast<double>(scheduling::devices_of(placement));
    if (placement.empty()) return;
    pace_ = speed_(scheduling::shape_of(cluster_, placement));
    countdown_ = facts.starts == 0 ? charges_.first : charges_.every;
  }

  void run(double from, double seconds) override {
    if (facts.placement.empty()) return;
    facts.held += seconds;
    facts.attained += seconds * devices_;
    const double delay = std::min(countdown_, seconds);
    facts.lost += delay;
    const double needed = pace_ > 0 ? seconds_left_ / pace_ : std::numeric_limits<double>::infinity();
    if (delay + needed <= seconds) {
      finished = from + (delay + needed);
    } else {
      seconds_left_ -= (seconds - delay) * pace_;
      countdown_ -= delay;
    }
  }

  double seconds_to_end() const override {
    if (facts.placement.empty() || pace_ <= 0) return std::numeric_limits<double>::infinity();
    return countdown_ + seconds_left_ / pace_;
  }

 private:
  class KnownOutlook : public scheduling::Outlook {
   public:
    explicit KnownOutlook(const TimedJob& job) : job_(job) {}
    double seconds_left(const scheduling::Shape& shape) const override {
      const double pace = job_.speed_(shape);
      return pace > 0 ? job_.seconds_left_ / pace : std::numeric_limits<double>::infinity();
    }
    double step_seconds(int64_t devices) const override {
      const double pace = job_.speed_(scheduling::packed(job_.cluster_, 0, devices));
      return pace > 0 ? 1 / pace : std::numeric_limits<double>::infinity();
    }
    double steps_left() const override { return job_.seconds_left_; }

   private:
    const TimedJob& job_;
  };

  const scheduling::Cluster& cluster_;
  double seconds_left_;
  Charges charges_;
  Speed speed_;
  std::unique_ptr<scheduling::Outlook> outlook_;
  double devices_ = 0, pace_ = 0, countdown_ = 0;
};

}  // namespace estrain::simulate
