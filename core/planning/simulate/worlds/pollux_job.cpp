#include "core/planning/simulate/worlds/pollux_job.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace estrain::simulate {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class KnownOutlook : public scheduling::Outlook {
 public:
  explicit KnownOutlook(const PolluxJob& job) : job_(job) {}

  double seconds_left(const scheduling::Shape& shape) const override {
    const int64_t hosts = shape.hosts[0], devices = shape.devices[0];
    const int64_t epoch = job_.epoch();
    if (epoch >= job_.app().limits().epochs) return 0;
    EpochTable& table = job_.table();
    const double from_next = table.seconds_from(hosts, devices, epoch + 1);
    const double begin = job_.app().progress(epoch), end = job_.app().progress(epoch + 1);
    const double part = std::clamp((end - job_.progress()) / (end - begin), 0.0, 1.0);
    return from_next + part * (table.seconds_from(hosts, devices, epoch) - from_next);
  }

  double step_seconds(int64_t devices) const override {
    BatchSplit split = job_.app().split(job_.batch(), devices);
    if (devices == 1 && split.accumulated == 0) {
      split.accumulated = 1;
      split.local = (static_cast<int64_t>(job_.batch()) + 1) / 2;
    }
    const auto times = job_.app().times(PolluxApplication::packed_counts(devices), split.local);
    return times ? job_.app().step_seconds(*times, split.accumulated) : kInfinite;
  }

  Epochs epochs() const override { return job_.epochs(); }

  double steps_left() const override {
    const int64_t last = job_.app().limits().epochs - 1;
    if (job_.epoch() >= last) return 1;
    return job_.app().iterations(job_.batch(), last) - job_.app().iterations(job_.batch(), job_.epoch());
  }

 private:
  const PolluxJob& job_;
};

// Learnt from measurements. The remaining work is known, since the owner set the number of epochs.
class LearntOutlook : public scheduling::Outlook {
 public:
  explicit LearntOutlook(const PolluxJob& job) : job_(job) {}

  double seconds_left(const scheduling::Shape& shape) const override {
    const int64_t devices = shape.devices[0];
    const Learnt& learnt = *job_.learnt();
    if (job_.app().limits().one_device && devices > 1) return kInfinite;
    if (learnt.model().is_empty()) return devices > kUnmeasured ? kInfinite : kGuess / static_cast<double>(devices);
    if (devices > 2 * learnt.model().most_devices()) return kInfinite;
    return learnt.seconds_left(shape.hosts[0], devices, job_.epoch(), job_.progress());
  }
  double step_seconds(int64_t devices) const override {
    const double local = std::ceil(job_.batch() / static_cast<double>(devices));
    return job_.learnt()->model().step_seconds((devices + 3) / 4, devices, local);
  }
  double steps_left() const override { return 1; }
  Epochs epochs() const override { return job_.epochs(); }

 private:
  // Before it runs, a job is assumed to take ten minutes, on at most two devices.
  static constexpr double kGuess = 600;
  static constexpr int64_t kUnmeasured = 2;
  const PolluxJob& job_;
};

// Returns a shape's devices host by host, as even as possible.
PolluxApplication::Counts counts_of(int64_t hosts, int64_t devices) {
  if (hosts == (devices + 3) / 4) return PolluxApplication::packed_counts(devices);
  PolluxApplication::Counts counts;
  for (int64_t host = 0; host < hosts; ++host) {
    counts.push_back(static_cast<int32_t>(devices / hosts + (host < devices % hosts ? 1 : 0)));
  }
  return counts;
}

}  // namespace

void Learnt::observe(const scheduling::SpeedPoint& point, const StepTimes& times) {
  const double compute = times.step - times.sync;
  const bool is_news =
      by_ == By::all_jobs ? measured_.observe(point, compute, times.step) : model_.observe(point, compute, times.step);
  if (is_news) best_.clear();
}

double Learnt::step_seconds(int64_t hosts, int64_t devices, double local) const {
  if (by_ == By::all_jobs) return measured_.step_seconds(hosts, devices, local);
  return model_.step_seconds(hosts, devices, local);
}

void Learnt::observe(int64_t epoch, const PolluxApplication::Noise& noise) {
  const auto [at, is_new] = noises_.try_emplace(epoch, noise);
  if (!is_new && at->second == noise) return;
  at->second = noise;
  for (auto& [shape, epochs] : best_) epochs[static_cast<size_t>(epoch)].speed = -1;
}

PolluxApplication::Noise Learnt::noise(int64_t epoch) const {
  if (noises_.empty()) return {};
  const auto after = noises_.upper_bound(epoch);
  return after == noises_.begin() ? after->second : std::prev(after)->second;
}

Learnt::BestBatch Learnt::search(int64_t hosts, int64_t devices, const PolluxApplication::Noise& noise) const {
  BestBatch best;
  for (const double batch : app_.batches(devices)) {
    const BatchSplit split = app_.split(batch, devices);
    if (split.local < 1) continue;
    const auto local = static_cast<double>(split.local);
    const double seconds =
        step_seconds(hosts, devices, local) + model().compute_seconds(local) * static_cast<double>(split.accumulated);
    const auto whole = static_cast<double>(devices * split.local * (split.accumulated + 1));
    const double speed = PolluxApplication::gain(noise, whole / static_cast<double>(app_.limits().init)) / seconds;
    if (speed > best.speed) best = {speed, split};
  }
  return best;
}

Learnt::BestBatch Learnt::best(int64_t hosts, int64_t devices, int64_t epoch) const {
  std::vector<BestBatch>& epochs = best_[{hosts, devices}];
  if (epochs.empty()) epochs.resize(static_cast<size_t>(app_.limits().epochs), {-1, {}});
  epoch = told_by(epoch);
  BestBatch& known = epochs[static_cast<size_t>(epoch)];
  if (known.speed < 0) known = search(hosts, devices, noise(epoch));
  return known;
}

double Learnt::seconds_left(int64_t hosts, int64_t devices, int64_t epoch, double progress) const {
  const int64_t epochs = app_.limits().epochs;
  double seconds = 0;
  while (epoch < epochs) {
    const double speed = best(hosts, devices, epoch).speed;
    if (speed <= 0) return std::numeric_limits<double>::infinity();
    const int64_t same_until = epoch < told_by(epochs) ? epoch + 1 : epochs;
    seconds += (app_.progress(same_until) - progress) / speed;
    progress = app_.progress(same_until);
    epoch = same_until;
  }
  return seconds;
}

double EpochTable::speed(const PolluxApplication::Counts& counts, int64_t epoch, BatchSplit& best_split) const {
  int64_t devices = 0;
  for (const int32_t count : counts) devices += count;
  double best = 0;
  const auto consider = [&](double batch) {
    const BatchSplit split = app_.split(batch, devices);
    if (split.local < 1) return;
    const auto times = app_.times(counts, split.local);
    if (!times) return;
    const auto whole = static_cast<double>(devices * split.local * (split.accumulated + 1));
    const double speed = app_.gain(whole, epoch) / app_.step_seconds(*times, split.accumulated);
    if (speed > best) best = speed, best_split = split;
  };
  if (batch_ > 0) {
    consider(batch_);
  } else {
    for (const double batch : app_.batches(devices)) consider(batch);
  }
  return best;
}

double EpochTable::seconds_from(int64_t hosts, int64_t devices, int64_t epoch) {
  std::vector<double>& from = seconds_[hosts << 32 | devices];
  if (from.empty()) {
    const int64_t epochs = app_.limits().epochs;
    from.assign(static_cast<size_t>(epochs) + 1, 0);
    const PolluxApplication::Counts counts = counts_of(hosts, devices);
    for (int64_t e = epochs - 1; e >= 0; --e) {
      BatchSplit split;
      const double speed_of_epoch = speed(counts, e, split);
      const double seconds =
          speed_of_epoch > 0 ? (app_.progress(e + 1) - app_.progress(e)) / speed_of_epoch : kInfinite;
      from[static_cast<size_t>(e)] = from[static_cast<size_t>(e) + 1] + seconds;
    }
  }
  return from[static_cast<size_t>(epoch)];
}

PolluxJob::PolluxJob(const PolluxApplication& app, double batch, double charge, std::shared_ptr<EpochTable> table,
                     std::shared_ptr<Learnt> learnt)
    : app_(app), batch_(batch), charge_(charge), table_(std::move(table)), learnt_(std::move(learnt)) {
  if (learnt_) {
    outlook_ = std::make_unique<LearntOutlook>(*this);
  } else {
    outlook_ = std::make_unique<KnownOutlook>(*this);
  }
  facts.outlook = outlook_.get();
}

// Before any measurement, the smallest possible batch.
void PolluxJob::choose_batch() {
  if (!learnt_ || counts_.empty()) return;
  const auto hosts = static_cast<int64_t>(counts_.size());
  const int64_t devices = scheduling::devices_of(facts.placement);
  if (app_.limits().one_device) {
    split_ = app_.split(static_cast<double>(app_.limits().most), devices);
  } else if (learnt_->model().is_empty()) {
    split_ =
        app_.split(static_cast<double>(std::max(app_.limits().init, app_.limits().least_local * devices)), devices);
  } else {
    split_ = learnt_->best(hosts, devices, epoch_).split;
  }
}

void PolluxJob::place(const scheduling::Placement& placement) {
  facts.placement = placement;
  counts_.clear();
  for (const scheduling::DevicesOnHost& share : placement) counts_.push_back(share.devices);
  if (!placement.empty()) countdown_ = charge_;
  choose_batch();
}

double PolluxJob::speed() {
  const int64_t devices = scheduling::devices_of(facts.placement);
  double speed = 0;
  if (!learnt_) {
    BatchSplit split;
    speed = table_->speed(counts_, epoch_, split);
  } else if (const auto times = app_.times(counts_, split_.local)) {
    const auto whole = static_cast<double>(devices * split_.local * (split_.accumulated + 1));
    speed = app_.gain(whole, epoch_) / app_.step_seconds(*times, split_.accumulated);
    learnt_->observe({static_cast<int64_t>(counts_.size()), devices, split_.local}, *times);
    learnt_->observe(epoch_, app_.noise(whole, epoch_));
  }
  if (speed <= 0) {
    throw Error::make(Fault::infeasible, "job {}: {} was not measured on {} devices of {} hosts", facts.name,
                      app_.name(), devices, counts_.size());
  }
  return speed;
}

void PolluxJob::run(double from, double seconds) {
  if (counts_.empty()) return;
  facts.held += seconds;
  facts.attained += seconds * static_cast<double>(scheduling::devices_of(facts.placement));
  double now = from;
  const double delay = std::min(countdown_, seconds);
  now += delay;
  countdown_ -= delay;
  facts.lost += delay;
  seconds -= delay;
  while (seconds > 0 && !finished) {
    const double end = app_.progress(epoch_ + 1), pace = speed();
    if (progress_ + pace * seconds < end) {
      progress_ += pace * seconds;
      choose_batch();
      return;
    }
    ++epoch_;
    const double delta = std::nearbyint((end - progress_) / pace);  // half to even
    now += delta;
    seconds -= delta;
    progress_ = end;
    if (epoch_ >= app_.limits().epochs) {
      finished = now;
    } else {
      choose_batch();
    }
  }
}

}  // namespace estrain::simulate
