#include "core/run/launch/launcher/parts/speeds.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/base/process/child_process.h"
#include "core/run/launch/control/shared_mark.h"
#include "core/run/launch/control/status.h"
#include "core/run/launch/profiling/profiling.h"
#include "core/state/run_directory/batch_changes.h"

namespace estrain::launch {

using decisions::Member;
using decisions::RunPhase;

std::vector<AdviceAction> Speeds::advise(const AdviceEvent& event) { return launch::advise(adviser_, event, course()); }

void Speeds::settle(int64_t cores) { advise(HostKnown{profile_host(cores), run_.options.allow_mixed}); }

void Speeds::begin_training() {
  measure_rate_from(MonotonicClock::now(), run_.trained());
  advise(TrainingUnderWay{Step(run_.trained())});
}

void Speeds::go_on() {
  first_step_seen_ = true;
  measure_rate_from(MonotonicClock::now(), run_.trained());
}

void Speeds::begin_shares() {
  measure_rate_from(MonotonicClock::now(), run_.trained());
  advise(SharesReplaced{});
}

void Speeds::begin_batch() {
  advise(BatchReplaced{});
  load_profiles();
}

void Speeds::measure_rate_from(MonotonicTime time, int64_t step) {
  rate_from_ = time;
  rate_from_step_ = step;
}

std::optional<decisions::Event> Speeds::watch() {
  if (run_.job.phase != RunPhase::training) {
    advise(TrainingPaused{});
    return std::nullopt;
  }
  WorkSeen seen{
      .evaluated = run_.memory->commit().evaluated().value, .trained = Step(run_.trained()), .done = work_done()};
  if (const auto last = last_step_record(*run_.memory)) {
    seen.last = last->step;
    seen.last_at = monotonic_time(last->time_ns);
  }
  std::vector<AdviceAction> actions = advise(seen);
  std::optional<decisions::Event> asked;
  for (AdviceAction& action : actions)
    if (auto event = follow(std::move(action))) asked = std::move(event);
  measure_noise();
  return asked;
}

void Speeds::measure_noise() {
  if (run_.spec.elastic.batch != spec::BatchMode::adaptive) return;
  std::vector<NoiseMeter::Worker> sums;
  for (size_t rank = 0; rank < run_.job.workers.size(); ++rank) {
    const comm::WorkerPulse& pulse = run_.memory->pulse(WorkerRank(static_cast<int64_t>(rank)));
    const std::string& host = run_.job.workers[rank].device.host;
    sums.push_back({host.empty() || host == run_.options.own_host, pulse.measured_steps.load(),
                    pulse.est_squares.load(), pulse.mean_squares.load()});
  }
  const batches::BatchChange change = run_directory::in_force(run_.spec, Step(run_.trained()));
  advise(NoiseSeen{change.batch, std::move(sums)});
}

bool SlowNews::tells(const SpeedWatch::Speed& change, size_t workers, MonotonicTime now) {
  const auto known = told_.find(change.worker);
  if (!change.slow) {
    if (known == told_.end()) return false;
    return std::exchange(known->second.slow, false);
  }
  if (workers < 2) return false;
  if (known != told_.end() && now - known->second.at < 60s) return false;
  told_[change.worker] = {now, true};
  return true;
}

void Speeds::tell(const SpeedWatch::Speed& change) {
  const int64_t step = run_.trained();
  run_.journal.log(change.slow ? "slow_worker" : "worker_at_speed",
                   {{"step", step},
                    {"worker", change.worker},
                    {"factor", change.factor},
                    {"seconds_per_mini_batch", change.seconds},
                    {"usual_seconds", change.usual_seconds},
                    {"seconds_waiting_for_data", change.reading_seconds},
                    {"since_step", change.since_step}});
  if (!slow_news_.tells(change, run_.job.workers.size(), MonotonicClock::now())) return;
  const std::string waits = change.reading_share() < kNotableDataWait
                                ? ""
                                : fmt::format(", {:.0f} % of it waiting for data", 100 * change.reading_share());
  run_.journal.note(
      change.slow
          ? fmt::format("step {}: worker {} is slow: {:.1f} times the usual time per mini-batch{} since step {}", step,
                        change.worker, change.factor, waits, change.since_step)
          : fmt::format("step {}: worker {} is as fast as usual again", step, change.worker));
}

// Returns the work of each worker in this stage so far.
std::vector<SpeedMeter::Worker> Speeds::work_done() const {
  std::vector<SpeedMeter::Worker> done;
  for (size_t rank = 0; rank < run_.job.workers.size(); ++rank) {
    const Member& worker = run_.job.workers[rank];
    const comm::WorkerPulse& pulse = run_.memory->pulse(WorkerRank(static_cast<int64_t>(rank)));
    done.push_back({worker.id.value, worker.device.text(), worker.ests.size(), Nanoseconds(pulse.computing_ns.load()),
                    pulse.mini_batches.load(), Nanoseconds(pulse.reading_ns.load())});
  }
  return done;
}

void Speeds::load_profiles() {
  const std::string path = profile::default_store_path(own_environment());
  if (path.empty()) return;
  try {
    advise(ProfilesLoaded{store(path).load().of(run_.spec, adviser_.planner->host())});
  } catch (const Error& error) {
    run_.journal.note("warning: speeds measured earlier are not used: " + error.message());
  }
}

void Speeds::keep_profiles() {
  const SpeedMeter::MeasuredSteps& stage = adviser_.meter.stage();
  const std::string path = profile::default_store_path(own_environment());
  if (run_.options.background || stage_was_shared()) return;
  if (path.empty() || stage.steps == 0 || !workers_are_ordinary(adviser_, run_.job)) return;
  try {
    store(path).update([&](profile::Profiles& profiles) {
      const profile::MachineFacts& host = adviser_.planner->host();
      profiles.learn(run_.spec, host, as_stage_speed(stage), unix_seconds());
      const double change = adviser_.past.change_seconds(false, 0);
      if (change > 0)
        profiles.learn_change(run_.spec, host, run_.job.workers.front().device.text(), change, unix_seconds());
    });
  } catch (const Error& error) {
    run_.journal.note("warning: the speeds measured are not kept: " + error.message());
  }
}

bool Speeds::stage_was_shared() const {
  const double since = seconds(MonotonicClock::now() - rate_from_).count();
  return shared_until(run_.options.shared_mark) >= wall_seconds() - since;
}

profile::ProfileStore Speeds::store(const std::string& path) {
  return {path, [this](const std::string& sentence) { run_.journal.note("warning: " + sentence); }};
}

void Speeds::note_decision(std::string what, std::string reason) {
  const int64_t step = run_.trained();
  run_.journal.log("decision", {{"step", step}, {"what", what}, {"reason", reason}});
  run_.journal.note(fmt::format("step {}: {}: {}", step, what, reason));
  advise(DecisionNoted{{step, std::move(what), std::move(reason)}});
}

Course Speeds::course() const {
  return {.job = run_.job,
          .time = MonotonicClock::now(),
          .unix_seconds = unix_seconds(),
          .steps_left = run_.memory ? std::max<int64_t>(0, run_.memory.manifest().total_steps - run_.trained()) : 0,
          .start_seconds = run_.times.start_seconds};
}

std::optional<decisions::Event> Speeds::follow(AdviceAction action) {
  if (const auto* told = std::get_if<TellSpeed>(&action.deed)) tell(told->speed);
  auto* proposal = std::get_if<Propose>(&action.deed);
  if (proposal == nullptr) return std::nullopt;
  note_decision(std::move(proposal->what), std::move(action.reason));
  return decisions::ChangeAsked{std::move(proposal->change), {}};
}

void Speeds::log_stage(int64_t stage) {
  const SpeedMeter::MeasuredSteps& span = adviser_.meter.stage();
  advise(StageEnded{Step(run_.trained())});
  if (span.steps == 0) return;
  Json workers = Json::array();
  for (size_t rank = 0; rank < span.workers.size(); ++rank) {
    const SpeedMeter::Worker& worker = span.workers[rank];
    workers.push_back({{"worker", worker.id},
                       {"device", worker.kind},
                       {"ests", worker.ests},
                       {"mini_batches", worker.mini_batches},
                       {"computing_seconds", seconds(worker.computing).count()},
                       {"seconds_waiting_for_data", seconds(worker.reading).count()}});
  }
  run_.journal.log("stage_speed", {{"stage", stage},
                                   {"from_step", span.from_step},
                                   {"to_step", span.to_step},
                                   {"steps", span.steps},
                                   {"seconds", span.seconds},
                                   {"exchange_seconds", span.exchange_seconds()},
                                   {"workers", workers}});
  tell_of_slow_reading(span);
}

void Speeds::tell_of_slow_reading(const SpeedMeter::MeasuredSteps& span) {
  if (span.reading_share() < kNotableDataWait) return;
  const std::string advice =
      run_.spec.data.readers == 0
          ? "a faster disk, smaller files or more cores would help"
          : fmt::format("try data.readers = 0 (now {}), which finds their number", run_.spec.data.readers);
  run_.journal.note(fmt::format("steps {} to {}: {:.0f} % of the workers' time was spent waiting for data; {}",
                                span.from_step + 1, span.to_step, 100 * span.reading_share(), advice));
}

void Speeds::note_first_step() {
  const uint32_t published = run_.memory->ring().published();
  if (published == 0 || first_step_seen_) return;
  first_step_seen_ = true;
  if (published >= run_.memory->ring().capacity()) return;  // the ring has overwritten the first record
  const comm::RecordHead& first = *run_.memory->ring().at(0).head;
  run_.journal.log("first_step", {{"step", first.step.value},
                                  {"seconds", seconds(monotonic_time(first.time_ns) - run_.times.started).count()}});
}

double Speeds::step_seconds() const {
  const int64_t steps = run_.trained() - rate_from_step_;
  return steps > 0 ? seconds(MonotonicClock::now() - rate_from_).count() / static_cast<double>(steps) : 0;
}

}  // namespace estrain::launch
