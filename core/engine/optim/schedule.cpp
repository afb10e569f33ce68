#include "core/engine/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "core/base/error.h"
#include "core/job/spec/enum_names.h"

namespace estrain::optim {
namespace {

using spec::ScheduleKind;
using spec::ScheduleSection;

constexpr double pi = std::numbers::pi;

// A Call is one call of the schedule.
struct Call {
  const ScheduleSection& s;
  double base_lr;
  double lr;      // after the previous call
  int64_t epoch;  // calls up to now, with this call: torch's last_epoch
};

double linear_factor(double start_factor, double end_factor, int64_t total, int64_t epoch) {
  const double change = end_factor - start_factor;
  return 1.0 + change / (static_cast<double>(total) * start_factor + static_cast<double>(epoch - 1) * change);
}

double next_linear(double lr, double start_factor, double end_factor, int64_t total, int64_t epoch) {
  return epoch > total ? lr : lr * linear_factor(start_factor, end_factor, total, epoch);
}

double base_lr(const ScheduleSection&, double base) { return base; }
double same_lr(const Call& c) { return c.lr; }

double next_step(const Call& c) { return c.epoch % c.s.period == 0 ? c.lr * c.s.gamma : c.lr; }

double next_multistep(const Call& c) {
  const auto times = std::count(c.s.milestones.begin(), c.s.milestones.end(), c.epoch);
  return times == 0 ? c.lr : c.lr * std::pow(c.s.gamma, static_cast<double>(times));
}

double restart_cosine(const ScheduleSection& s, double base) { return s.eta_min + (base - s.eta_min) * 2 / 2; }

double next_cosine(const Call& c) {
  const double period = static_cast<double>(c.s.period);
  if ((c.epoch - 1 - c.s.period) % (2 * c.s.period) == 0) {  // at the lowest point the factor would be x / 0
    return c.lr + (c.base_lr - c.s.eta_min) * (1 - std::cos(pi / period)) / 2;
  }
  const double now = 1 + std::cos(pi * static_cast<double>(c.epoch) / period);
  const double before = 1 + std::cos(pi * static_cast<double>(c.epoch - 1) / period);
  return now / before * (c.lr - c.s.eta_min) + c.s.eta_min;
}

double start_linear(const ScheduleSection& s, double base) { return base * s.start_factor; }

double next_linear(const Call& c) { return next_linear(c.lr, c.s.start_factor, c.s.end_factor, c.s.period, c.epoch); }

double next_polynomial(const Call& c) {
  if (c.epoch > c.s.period) return c.lr;
  const double total = static_cast<double>(c.s.period);
  const double now = 1.0 - static_cast<double>(c.epoch) / total;
  const double before = 1.0 - static_cast<double>(c.epoch - 1) / total;
  return c.lr * std::pow(now / before, c.s.power);
}

double annealed(spec::Anneal way, double start, double end, double part) {
  if (way == spec::Anneal::linear) return (end - start) * part + start;
  return end + (start - end) / 2.0 * (std::cos(pi * part) + 1);
}

// A Phase leads from the rate `start` to the rate `end`, reached at call `last`.
struct Phase {
  double last, start, end;
};

std::vector<Phase> phases_of(const ScheduleSection& s, double highest) {
  const double total = static_cast<double>(s.period), first = highest / s.div_factor;
  const double lowest = first / s.final_div_factor;
  std::vector<Phase> phases = {{s.pct_start * total - 1, first, highest}};
  if (s.three_phase) phases.push_back({2 * s.pct_start * total - 2, highest, first});
  phases.push_back({total - 1, phases.back().end, lowest});
  return phases;
}

double onecycle_at(const ScheduleSection& s, double highest, int64_t epoch) {
  const std::vector<Phase> phases = phases_of(s, highest);
  const double now = static_cast<double>(epoch);
  double begun = 0;
  for (size_t i = 0; i + 1 < phases.size() && now > phases[i].last; ++i) begun = phases[i].last;
  const auto phase = std::find_if(phases.begin(), phases.end() - 1, [&](const Phase& p) { return now <= p.last; });
  return annealed(s.anneal_strategy, phase->start, phase->end, (now - begun) / (phase->last - begun));
}

double start_onecycle(const ScheduleSection& s, double base) { return onecycle_at(s, base, 0); }
double next_onecycle(const Call& c) { return onecycle_at(c.s, c.base_lr, c.epoch); }

double next_exponential(const Call& c) { return c.lr * c.s.gamma; }

double restarts_at(const ScheduleSection& s, double base, int64_t epoch) {
  int64_t length = s.period, now = epoch;
  if (s.period_factor == 1) now %= length;
  for (; now >= length; length *= s.period_factor) now -= length;
  const double angle = pi * static_cast<double>(now) / static_cast<double>(length);
  return s.eta_min + (base - s.eta_min) * (1 + std::cos(angle)) / 2;
}

double inverse_sqrt_factor(const ScheduleSection& s, int64_t epoch) {
  return 1.0 / std::sqrt(static_cast<double>(epoch + s.period) / static_cast<double>(s.period));
}

double fallen(spec::Decay shape, double part) {
  if (shape == spec::Decay::linear) return 1.0 - part;
  return shape == spec::Decay::cosine ? 0.5 * (1.0 + std::cos(pi * part)) : 1.0 - std::sqrt(part);
}

double wsd_factor(const ScheduleSection& s, int64_t epoch) {
  const int64_t after = epoch - s.period;
  if (after < 0) return 1;
  if (after >= s.decay) return s.min_factor;
  const double factor = fallen(s.decay_shape, static_cast<double>(after) / static_cast<double>(s.decay));
  return std::max(0.0, factor * (1.0 - s.min_factor) + s.min_factor);
}

double table_factor(const ScheduleSection& s, int64_t epoch) {
  const auto next = std::upper_bound(s.points.begin(), s.points.end(), epoch);
  const size_t at = static_cast<size_t>(next - s.points.begin()) - 1;
  if (s.between == spec::Between::constant || next == s.points.end()) return s.factors[at];
  const double part = static_cast<double>(epoch - s.points[at]) / static_cast<double>(*next - s.points[at]);
  return s.factors[at] + (s.factors[at + 1] - s.factors[at]) * part;
}

// The functions of a schedule that torch makes by LambdaLR from a factor.
template <double (*factor)(const ScheduleSection&, int64_t)>
double start_by(const ScheduleSection& s, double base) {
  return base * factor(s, 0);
}
template <double (*factor)(const ScheduleSection&, int64_t)>
double next_by(const Call& c) {
  return c.base_lr * factor(c.s, c.epoch);
}

double start_restarts(const ScheduleSection& s, double base) { return restarts_at(s, base, 0); }
double next_restarts(const Call& c) { return restarts_at(c.s, c.base_lr, c.epoch); }

// The formulas of a schedule: the rate before the first call, after a warm-up (closed form), and after a further call.
struct Shape {
  ScheduleKind kind;
  double (*start)(const ScheduleSection&, double base_lr);
  double (*restart)(const ScheduleSection&, double base_lr);
  double (*next)(const Call&);
};

constexpr Shape shapes[] = {
    {ScheduleKind::constant, base_lr, base_lr, same_lr},
    {ScheduleKind::step, base_lr, base_lr, next_step},
    {ScheduleKind::multistep, base_lr, base_lr, next_multistep},
    {ScheduleKind::cosine, base_lr, restart_cosine, next_cosine},
    {ScheduleKind::linear, start_linear, start_linear, next_linear},
    {ScheduleKind::polynomial, base_lr, base_lr, next_polynomial},
    {ScheduleKind::onecycle, start_onecycle, start_onecycle, next_onecycle},
    {ScheduleKind::plateau, base_lr, base_lr, same_lr},
    {ScheduleKind::exponential, base_lr, base_lr, next_exponential},
    {ScheduleKind::restarts, start_restarts, start_restarts, next_restarts},
    {ScheduleKind::inverse_sqrt, start_by<inverse_sqrt_factor>, start_by<inverse_sqrt_factor>,
     next_by<inverse_sqrt_factor>},
    {ScheduleKind::wsd, start_by<wsd_factor>, start_by<wsd_factor>, next_by<wsd_factor>},
    {ScheduleKind::table, start_by<table_factor>, start_by<table_factor>, next_by<table_factor>},
};

const Shape& shape_of(ScheduleKind kind) {
  for (const Shape& shape : shapes)
    if (shape.kind == kind) return shape;
  throw Error(Fault::bug, "a schedule without a shape");
}

constexpr double kLeastChange = 1e-8;  // torch's eps: a smaller drop is ignored

bool must_rise(const ScheduleSection& s) { return s.metric == spec::Metric::accuracy; }

bool is_better(const ScheduleSection& s, double metric, double best) {
  const bool relative = s.threshold_mode == spec::ThresholdMode::relative;
  if (must_rise(s)) return metric > (relative ? best * (s.threshold + 1.0) : best + s.threshold);
  return metric < (relative ? best * (1.0 - s.threshold) : best - s.threshold);
}

void reduce(const ScheduleSection& s, std::span<double> rates) {
  for (double& rate : rates) {
    const double lower = std::max(rate * s.factor, s.min_lr);
    if (rate - lower > kLeastChange) rate = lower;
  }
}

}  // namespace

Schedule::Schedule(const ScheduleSection& settings, double base_lr) : settings_(settings), base_lr_(base_lr) {
  start();
}

void Schedule::start() {
  calls_ = 0;
  lr_ = settings_.warmup > 0 ? base_lr_ * settings_.warmup_start : shape_of(settings_.name).start(settings_, base_lr_);
}

void Schedule::advance() {
  ++calls_;
  if (calls_ < settings_.warmup) {
    lr_ = next_linear(lr_, settings_.warmup_start, 1, settings_.warmup, calls_);
  } else if (settings_.warmup > 0 && calls_ == settings_.warmup) {
    lr_ = shape_of(settings_.name).restart(settings_, base_lr_);
  } else {
    lr_ = shape_of(settings_.name).next({settings_, base_lr_, lr_, calls_ - settings_.warmup});
  }
}

void Schedule::seek(int64_t calls) {
  if (calls < calls_) start();
  while (calls_ < calls) advance();
}

int64_t schedule_calls(const ScheduleSection& settings, Step step, const batches::BatchSchedule& batches) {
  return settings.unit == spec::ScheduleUnit::step ? step.value : batches.cursor_at(step).epoch.value;
}

GroupSchedules::GroupSchedules(const ScheduleSection& settings, const ParameterGroups& groups,
                               const batches::BatchSchedule& batches)
    : settings_(settings), batches_(batches) {
  for (const GroupSettings& group : groups.groups) schedules_.emplace_back(settings, group.lr);
}

std::vector<double> GroupSchedules::rates_at(Step step) {
  std::vector<double> rates = scheduled_at(step);
  for (double& rate : rates) rate *= batches_.lr_factor(step);
  return rates;
}

std::vector<double> GroupSchedules::scheduled_at(Step step) {
  const int64_t calls = schedule_calls(settings_, step, batches_);
  std::vector<double> rates;
  for (Schedule& schedule : schedules_) {
    schedule.seek(calls);
    rates.push_back(schedule.lr());
  }
  return rates;
}

void check_length(const ScheduleSection& settings, Step steps, const batches::BatchSchedule& batches) {
  if (settings.name != ScheduleKind::onecycle) return;
  const int64_t calls = schedule_calls(settings, steps, batches);
  if (calls <= settings.period) return;
  throw Error::make(Fault::spec, "schedule.period: the cycle ends after {} {}s, the job after {}", settings.period,
                    spec::to_string(settings.unit), calls)
      .advise(fmt::format("set schedule.period to {}, or train for fewer steps", calls));
}

PlateauState plateau_start(const ScheduleSection& settings) {
  constexpr double worst = std::numeric_limits<double>::infinity();
  return {.best = must_rise(settings) ? -worst : worst};
}

void plateau_step(const ScheduleSection& settings, double metric, PlateauState& state, std::span<double> rates) {
  if (is_better(settings, metric, state.best)) {
    state.best = metric;
    state.bad = 0;
  } else {
    state.bad += 1;
  }
  if (state.cooldown > 0) {
    state.cooldown -= 1;
    state.bad = 0;
  }
  if (state.bad <= static_cast<double>(settings.patience)) return;
  reduce(settings, rates);
  state.cooldown = static_cast<double>(settings.cooldown);
  state.bad = 0;
}

}  // namespace estrain::optim
