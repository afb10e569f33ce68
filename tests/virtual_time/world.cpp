#include "tests/virtual_time/world.h"

#include <algorithm>
#include <utility>

namespace estrain::virtual_time {
namespace {

using decisions::Closing;
using decisions::RunEnding;
using decisions::RunPhase;

constexpr Nanoseconds kTick = 100 * kMs;
constexpr Nanoseconds kLongestTick = 6400 * kMs;
constexpr Nanoseconds kPatience = 3000 * 1000 * kMs;  // for the run to end after the last disturbance
constexpr Nanoseconds kStopSlack = 300 * kMs;
constexpr int64_t kMostEvents = 200'000;

}  // namespace

// One function for each action, as the launcher's.
struct World::Hands {
  World& world;

  void operator()(const decisions::Say&) const {}
  void operator()(const decisions::Log&) const {}
  void operator()(const decisions::NoteDecision&) const {}
  void operator()(const decisions::Answer& answer) const { world.answer(answer.client); }
  void operator()(const decisions::Refuse& refuse) const { world.answer(refuse.client); }

  void operator()(const decisions::StartWorkers& start) const {
    for (size_t i = 0; i < start.workers.size(); ++i) {
      if (start.workers[i].id <= world.newest_)
        world.break_law(Law::nobody_gone_called, fmt::format("worker {} is started again", start.workers[i].id));
      if (world.now_ < world.starts_fail_until_) {
        decisions::CannotStart failed{{}, world.verdict(), Error(Fault::io, "no process can be started")};
        for (; i < start.workers.size(); ++i) failed.workers.push_back(start.workers[i].id);
        return world.decide(std::move(failed));
      }
      world.start_process(start.workers[i].id, start.workers[i].device);
    }
  }
  void operator()(const decisions::EndHungWorker& end) const {
    if (is_known(end.worker)) world.lose(end.worker);
  }
  void operator()(const decisions::KillWorker& kill) const {
    if (!is_known(kill.worker)) return;
    if (!kill.waits) return world.die(kill.worker);
    if (world.reap(kill.worker)) world.decide(decisions::WorkerEnded{kill.worker});
  }
  void operator()(const decisions::TellLeave& leave) const {
    if (!is_known(leave.worker)) return;
    const Process& process = world.processes_.at(leave.worker);
    if (process.alive && !process.hung)
      world.later(world.random_.between(1, 400) * kMs, What::end_noticed, leave.worker.value);
  }
  void operator()(const decisions::KillAll&) const { world.processes_.clear(); }
  void operator()(const decisions::DismissAll&) const { world.processes_.clear(); }
  bool is_known(WorkerId id) const {
    if (world.processes_.contains(id)) return true;
    world.break_law(Law::nobody_gone_called, fmt::format("worker {} is gone", id));
    return false;
  }

  void operator()(const decisions::BeginTraining&) const {
    world.attached_ = true;
    if (world.trained_ != 0) return;
    world.held_ = 0;
    world.start_saving(0);
  }
  void operator()(const decisions::PauseStage&) const {
    world.stage_.pausing = true;
    if (!world.attached_) world.break_law(Law::stage_apart, "a pause before the first stage");
  }
  void operator()(const decisions::AbortStage&) const { world.abort_stage(); }
  void operator()(const decisions::CloseStage& close) const {
    decisions::StageClosed closed;
    if (close.repair) closed.steps_redone = mend();
    closed.held = !close.hold || world.held_ < 0 || world.held_ == world.trained_;
    if (close.hold && closed.held) world.held_ = world.trained_;
    if (close.batch && closed.held) closed.batch = Json{{"ok", true}};
    world.decide(closed);
  }
  int64_t mend() const {
    world.mended_ = true;
    return std::exchange(world.trained_, world.committed_) - world.committed_;
  }
  void operator()(const decisions::OpenStage& open) const {
    if (open.exchange != 0 && open.exchange != world.exchange_asked_)
      world.break_law(Law::stage_apart, fmt::format("exchange {} is not the one asked for", open.exchange));
    world.exchange_asked_ = 0;
    world.open_stage();
  }
  void operator()(const decisions::PrepareExchange& prepare) const {
    if (prepare.ticket <= world.newest_exchange_)
      world.break_law(Law::stage_apart, fmt::format("exchange {} is asked for again", prepare.ticket));
    world.exchange_asked_ = world.newest_exchange_ = prepare.ticket;
    for (const WorkerId id : prepare.workers) {
      if (!is_known(id)) continue;
      const Nanoseconds takes = world.random_.chance(20) ? 70s : world.random_.between(1, 500) * kMs;
      world.later(takes, What::exchange_prepared, id.value, prepare.ticket);
    }
  }
  void operator()(const decisions::GiveUpExchange&) const { world.exchange_asked_ = 0; }
  void operator()(const decisions::TellSave& save) const { save_held(save.step.value); }
  void save_held(int64_t step) const {
    if (world.held_ != step)
      world.break_law(Law::state_saved, fmt::format("step {} is to be saved, {} is held", step, world.held_));
    world.start_saving(step);
  }
  void operator()(const decisions::ReleaseSlots&) const {}
  void operator()(const decisions::AdoptPlan&) const {}
  void operator()(const decisions::HandOver&) const {
    const bool exec_fails = world.random_.chance(5);  // then the launcher continues unchanged
    if (world.events_.empty() && !exec_fails) world.job_ = after_handover(world.job_);
  }
  void operator()(const decisions::RepairState&) const { mend(); }

  void operator()(const decisions::TakeUp& taken) const { world.take_up(taken.waiting); }
  void operator()(const decisions::WeighOffer& offer) const { world.weigh(offer.client, offer.request); }
  void operator()(const decisions::ReportResize& report) const {
    if (report.resize.client) world.answer(*report.resize.client);
    if (!report.resize.gives_back) return;
    placement::Devices used;
    for (const auto& [id, process] : world.processes_) used.push_back(process.device);
    const placement::Devices kept = beyond(used, world.job_.held);
    if (!kept.empty()) world.break_law(Law::devices_given_back, "a process is still on " + list_of(kept));
  }
  void operator()(const decisions::ReportRecovery&) const {}

  void operator()(const decisions::StartScribe&) const {
    if (world.scribe_.alive) world.break_law(Law::nobody_gone_called, "a second scribe is started");
    if (world.now_ < world.starts_fail_until_)
      return world.decide(decisions::CannotStartScribe{world.verdict(), Error(Fault::io, "no process can be started")});
    world.scribe_ = FakeScribe{.number = world.scribe_.number + 1};
    if (world.held_ >= 0) world.start_saving(world.held_);
  }
  void operator()(const decisions::SaveLastState& save) const {
    if (world.scribe_.noticed || !(world.held_ < 0 || world.held_ == save.step.value)) return;
    world.held_ = save.step.value;
    save_held(save.step.value);
    world.decide(decisions::SaveBegun{});
  }
  void operator()(const decisions::TellFinish&) const {
    if (world.scribe_.noticed) world.break_law(Law::nobody_gone_called, "the scribe is gone");
    if (world.scribe_.alive) world.later(20 * kMs, What::files_finished, world.scribe_.number);
  }
};

World::World(uint64_t seed, Decide decide, std::FILE* trace)
    : random_(seed), decide_(std::move(decide)), trace_(trace) {
  job_.gpus_exchange = seed % 4 == 0;
  set_out();
}

void World::set_out() {
  job_.ests = random_.between(1, 8);
  job_.retries = random_.between(0, 4);
  job_.grace_seconds = static_cast<double>(random_.between(0, 2000)) / 1000;
  total_ = random_.between(3, 40);
  step_time_ = random_.between(1, 40) * kMs;
  commits_each_ = random_.chance(20) ? random_.between(2, 5) : 1;
  const placement::Assignment devices = some_devices(4);
  job_.held = devices_of(devices);
  const std::vector<EstRange> ranges = placement::place_ests(devices, job_.ests);
  for (size_t i = 0; i < devices.size(); ++i) {
    const WorkerId id(job_.workers_started++);
    job_.workers.push_back({.id = id, .device = devices[i].device, .ests = ranges[i]});
    start_process(id, devices[i].device);
  }
  const Nanoseconds horizon = 300 * kMs + total_ * (step_time_ + 2 * kMs) + 500 * kMs;
  const auto disturb = [&](int64_t most, What what) {
    for (int64_t i = random_.between(0, most); i > 0; --i) {
      if (random_.chance(50)) {
        later(Nanoseconds(random_.between(0, horizon.count())), what);
      } else {
        const auto phase = static_cast<RunPhase>(random_.between(0, static_cast<int64_t>(RunPhase::over)));
        ambushes_.push_back({phase, random_.between(0, 30) * kMs, what});
      }
    }
  };
  disturb(6, What::fault);
  disturb(5, What::request);
}

Outcome World::run() {
  while (job_.closing != Closing::closed && outcome_.violations.empty()) {
    if (job_.phase == RunPhase::over && job_.closing == Closing::none) end_run();
    const MonotonicTime tick_at = now_ + tick_interval();
    if (!agenda_.empty() && agenda_.top().time <= tick_at) {
      const Happening next = agenda_.top();
      agenda_.pop();
      now_ = std::max(now_, next.time);
      idle_ticks_ = 0;
      handle(next);
    } else {
      now_ = tick_at;
      ++idle_ticks_;
    }
    if (job_.closing != Closing::closed) tick();
    spring_ambushes();
    if (now_ - disturbed_until_ > kPatience || outcome_.events > kMostEvents)
      break_law(Law::each_phase_left, fmt::format("phase {}, closing {}, step {} of {}", static_cast<int>(job_.phase),
                                                  static_cast<int>(job_.closing), trained_, total_));
  }
  if (outcome_.violations.empty()) check_end();
  return std::move(outcome_);
}

void World::break_law(Law law, std::string what) {
  if (trace_ != nullptr) fmt::print(trace_, "law {} is broken: {}\n", static_cast<int>(law), what);
  outcome_.violations.push_back({law, std::move(what)});
}

void World::later(Nanoseconds delay, What what, int64_t id, int64_t value, bool finished) {
  agenda_.push({now_ + delay, order_++, what, id, value, finished});
}

Nanoseconds World::tick_interval() const {
  const bool stops = job_.ending == RunEnding::stopped && job_.phase != RunPhase::over;
  if (stops) return kTick;
  return std::min(kTick * (1 << std::min<int64_t>(idle_ticks_, 10)), kLongestTick);
}

// While a run closes, its launcher watches only the scribe, and listens to users.
void World::handle(const Happening& happening) {
  const WorkerId worker(happening.id);
  switch (happening.what) {
    case What::saved:
      return on_saved(happening.id, happening.value);
    case What::files_finished:
      if (happening.id == scribe_.number && scribe_.alive) {
        scribe_.alive = false;
        scribe_.noticed = true;
        decide(decisions::ScribeDone{});
      }
      return;
    case What::scribe_end_noticed:
      return lose_scribe(happening.id);
    case What::disk_has_room:
      disk_full_ = false;
      return;
    case What::fault:
      return strike();
    case What::request:
      return request();
    default:
      break;
  }
  if (job_.closing != Closing::none) return;
  switch (happening.what) {
    case What::exchange_prepared:
      return on_prepared(WorkerId(happening.id), happening.value);
    case What::worker_ready:
      return on_ready(worker);
    case What::worker_begun:
      return on_begun(worker, happening.value);
    case What::worker_out:
      return on_out(worker, happening.value, happening.finished);
    case What::word_of_leave:
      return on_word(worker, happening.finished);
    case What::step:
      return on_step(happening.id);
    case What::end_noticed:
      return lose(worker);
    case What::lingerer_ends:
      if (processes_.contains(worker)) processes_.at(worker).lingers = false;
      return lose(worker);
    case What::hang_noticed:
      return on_hang_noticed(worker);
    case What::stall_noticed: {
      const bool stands = stage_.number == happening.id && stage_.open && stage_.stalled && !stage_.aborted;
      if (stands && !all_left(job_)) decide(decisions::AllWait{2.0});
      return;
    }
    default:
      return;
  }
}

void World::tick() {
  decide(decisions::Tick{});
  while (is_settled(job_) && !job_.waiting.empty() && outcome_.violations.empty()) decide(decisions::Tick{});
}

// Answers to actions come before all other events.
void World::decide(decisions::Event event) {
  events_.push_back(std::move(event));
  if (std::exchange(deciding_, true)) return;
  while (!events_.empty() && outcome_.violations.empty()) {
    const decisions::Event next = std::move(events_.front());
    events_.pop_front();
    ++outcome_.events;
    ++outcome_.coverage.events[next.index()];
    const bool is_counted = counts(next);
    note_hopeless(next);
    const bool tells = trace_ != nullptr && !std::holds_alternative<decisions::Tick>(next);
    if (tells) fmt::print(trace_, "{:>12.3f} s  {}\n", static_cast<double>(count_ns(now_)) / 1e9, name_of(next));
    const bool was_asked_to_stop = job_.ending == RunEnding::stopped;
    if (std::holds_alternative<decisions::StopAsked>(next) && job_.scribe.waits_for_room) ++stops_without_room_;
    const std::vector<decisions::Action> actions = decisions_on(next);
    if (!was_asked_to_stop && job_.ending == RunEnding::stopped)
      stop_by_ = now_ + nanoseconds(Seconds(job_.grace_seconds)) + kStopSlack;
    if (is_counted) count_fault();
    if (job_.failure && !std::exchange(failed_, true) && !hopeless_ && !cannot_go_on_ &&
        job_.faults_at_step <= job_.retries)
      break_law(Law::faults_counted, "the run fails, though it might go on");
    for (const decisions::Action& action : actions) {
      if (trace_ != nullptr) fmt::print(trace_, "                  {}: {}\n", name_of(action.deed), action.reason);
      ++outcome_.coverage.deeds[action.deed.index()];
      std::visit(Hands{*this}, action.deed);
    }
    if (stop_by_ != kNoTime && now_ > stop_by_ && job_.phase != RunPhase::over)
      break_law(Law::stopped_in_time, "the grace is over");
  }
  deciding_ = false;
  check_lists();
}

std::vector<decisions::Action> World::decisions_on(const decisions::Event& event) {
  try {
    return decide_(job_, event, moment());
  } catch (const std::exception& error) {
    break_law(Law::always_decided, error.what());
    return {};
  }
}

decisions::Moment World::moment() const {
  decisions::Moment now;
  now.time = now_;
  now.attached = attached_;
  now.trained = Step(trained_);
  now.stopped = stage_.stopped;
  now.stage_started = stage_.begun;
  now.stage_started_at = stage_.begun_at;
  now.step_seconds = static_cast<double>(step_time_.count()) / 1e9;
  if (disk_full_ && attached_) now.no_room = "no space left on device";
  return now;
}

void World::spring_ambushes() {
  for (size_t i = 0; i < ambushes_.size();) {
    if (ambushes_[i].phase != job_.phase) {
      ++i;
      continue;
    }
    later(ambushes_[i].delay, ambushes_[i].what);
    ambushes_.erase(ambushes_.begin() + static_cast<int64_t>(i));
  }
}

// The launcher's actions after its loop.
void World::end_run() {
  stop_by_ = kNoTime;
  disturbed_until_ = std::max(disturbed_until_, now_);
  decide(decisions::EndBegan{});
}

void World::check_lists() {
  if (job_.closing != Closing::none || job_.phase == RunPhase::over || !outcome_.violations.empty()) return;
  const std::vector<const decisions::Member*> members = all_members(job_);
  for (const decisions::Member* member : members) {
    if (!processes_.contains(member->id))
      return break_law(Law::nobody_forgotten, fmt::format("worker {} is in a list and has no process", member->id));
  }
  for (const auto& [id, process] : processes_) {
    const auto times = std::ranges::count(members, id, &decisions::Member::id);
    if (times != 1) return break_law(Law::nobody_forgotten, fmt::format("worker {} is in {} lists", id, times));
  }
}

// Whether the fault counts, by the job's state before the decision.
bool World::counts(const decisions::Event& event) const {
  if (std::holds_alternative<decisions::ScribeLost>(event)) return true;
  if (std::holds_alternative<decisions::CannotStartScribe>(event)) return true;
  if (std::holds_alternative<decisions::CannotStart>(event)) return job_.phase != RunPhase::warming;
  const auto* lost = std::get_if<decisions::WorkerLost>(&event);
  if (lost == nullptr) return false;
  const bool of_stage = std::ranges::find(job_.workers, lost->worker, &decisions::Member::id) != job_.workers.end();
  const bool only_wished_for = job_.phase == RunPhase::warming && !of_stage;
  const bool lost_with_others = job_.phase == RunPhase::recovering && of_stage;
  return !only_wished_for && !lost_with_others;
}

void World::note_hopeless(const decisions::Event& event) {
  std::visit(
      [&](const auto& it) {
        if constexpr (requires { it.verdict; }) hopeless_ |= !it.verdict.retry;
      },
      event);
}

void World::count_fault() {
  tally_ = tally_step_ == trained_ ? tally_ + 1 : 1;
  tally_step_ = trained_;
  if (tally_ > job_.retries && job_.phase != RunPhase::over)
    break_law(Law::faults_counted,
              fmt::format("{} faults at step {}, {} are survived", tally_, trained_, job_.retries));
}

void World::check_end() {
  for (const decisions::ClientId client : job_.stop_clients) answer(client);
  for (const auto& [id, client] : clients_) {
    if (client.answers == 0) break_law(Law::each_request_answered, fmt::format("client {} still waits", id));
  }
  if (!processes_.empty()) break_law(Law::nobody_forgotten, fmt::format("{} processes are left", processes_.size()));
  const decisions::Scribe& scribe = job_.scribe;
  const bool is_lost = attached_ && scribe.last_saved_step != trained_ && trained_ > 0;
  if (is_lost && scribe.unsaved_step == trained_ && !scribe.brought_back && stops_without_room_ < 2)
    break_law(Law::state_saved, fmt::format("step {} was given up, saved is {}", trained_, scribe.last_saved_step));
  if (job_.failure) return;
  if (job_.ending == RunEnding::finished && trained_ != total_)
    break_law(Law::each_step_once, fmt::format("finished at step {} of {}", trained_, total_));
  if (attached_ && scribe.last_saved_step != trained_ && scribe.unsaved_step != trained_)
    break_law(Law::state_saved,
              fmt::format("the last state is of step {}, saved is {}", trained_, scribe.last_saved_step));
}

}  // namespace estrain::virtual_time
