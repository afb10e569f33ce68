#include "core/optim/schedule.h"

#include <cmath>
#include <numbers>

namespace estrain::optim {
namespace {

using spec::ScheduleKind;
using spec::ScheduleSection;

constexpr double pi = std::numbers::pi;

double linear_factor(double start_factor, double end_factor, int64_t total, int64_t epoch) {
  const double change = end_factor - start_factor;
  return 1.0 + change / (static_cast<double>(total) * start_factor + static_cast<double>(epoch - 1) * change);
}

double next_linear(double lr, double start_factor, double end_factor, int64_t total, int64_t epoch) {
  return epoch > total ? lr : lr * linear_factor(start_factor, end_factor, total, epoch);
}

double next_cosine(const ScheduleSection& s, double lr, double base_lr, int64_t epoch) {
  const double period = static_cast<double>(s.period);
  if ((epoch - 1 - s.period) % (2 * s.period) == 0) {  // from the lowest point, where the factor would be x / 0
    return lr + (base_lr - s.eta_min) * (1 - std::cos(pi / period)) / 2;
  }
  const double now = 1 + std::cos(pi * static_cast<double>(epoch) / period);
  const double before = 1 + std::cos(pi * static_cast<double>(epoch - 1) / period);
  return now / before * (lr - s.eta_min) + s.eta_min;
}

}  // namespace

Schedule::Schedule(const ScheduleSection& settings, double base_lr) : settings_(settings), base_lr_(base_lr) {
  start();
}

void Schedule::start() {
  calls_ = 0;
  lr_ = base_lr_;
  if (settings_.warmup > 0) {
    lr_ = base_lr_ * settings_.warmup_start;
  } else if (settings_.name == ScheduleKind::linear) {
    lr_ = base_lr_ * settings_.start_factor;
  }
}

void Schedule::advance() {
  ++calls_;
  if (calls_ < settings_.warmup) {
    lr_ = next_linear(lr_, settings_.warmup_start, 1, settings_.warmup, calls_);
  } else if (settings_.warmup > 0 && calls_ == settings_.warmup) {
    lr_ = start_main();
  } else {
    lr_ = next_main(calls_ - settings_.warmup);
  }
}

void Schedule::seek(int64_t calls) {
  if (calls < calls_) start();
  while (calls_ < calls) advance();
}

double Schedule::start_main() const {
  switch (settings_.name) {
    case ScheduleKind::linear:
      return base_lr_ * settings_.start_factor;
    case ScheduleKind::cosine:
      return settings_.eta_min + (base_lr_ - settings_.eta_min) * 2 / 2;
    case ScheduleKind::step:
    case ScheduleKind::constant:
      break;
  }
  return base_lr_;
}

double Schedule::next_main(int64_t epoch) const {
  switch (settings_.name) {
    case ScheduleKind::step:
      return epoch % settings_.period == 0 ? lr_ * settings_.gamma : lr_;
    case ScheduleKind::cosine:
      return next_cosine(settings_, lr_, base_lr_, epoch);
    case ScheduleKind::linear:
      return next_linear(lr_, settings_.start_factor, settings_.end_factor, settings_.period, epoch);
    case ScheduleKind::constant:
      break;
  }
  return lr_;
}

int64_t schedule_calls(const ScheduleSection& settings, Step step, int64_t steps_per_epoch) {
  return settings.unit == spec::ScheduleUnit::step ? step.value : step.value / steps_per_epoch;
}

}  // namespace estrain::optim
