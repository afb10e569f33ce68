// What failures cost a job on many hosts, in virtual time: the share of the time in which the job trains as fast as
// with all its devices. The launcher's own decisions (core/run/decisions/decide.h) and the table of causes
// (core/run/faults) play every loss, recovery, join and handover; hosts, workers and the network are pretended, and
// charge measured costs.
//
//   effective_time [--hosts N] [--devices N] [--ests N] [--days D] [--seed N] [--spares PERCENT] [--rate NAME]
//                  [--step S] [--silent S] [--warm S] [--state GB] [--copy GBIT/S] [--redo S]
//                  [--slow PERCENT] [--slowdown FACTOR]
//
// Hosts fail at random, but for the last one. Of the failures, half are of lemons (3 of 63 hosts), one in a hundred
// takes a switch of 32 hosts, 6 in 419 are silent corruption: the job then begins anew --redo seconds ago. Half of the
// failed hosts fall silent, and are noticed after --silent seconds; the processes of the rest end, and their kernel
// tells. Half of the failures are over after ten minutes, half after a day. A host that is back, or a spare, is asked
// to join as soon as the job lacks a host and no change is under way; its workers warm up for --warm seconds beside the
// others.
//
// Of the failures, --slow percent only slow a host down, by --slowdown, for as long as a failed host would be away.
// After three windows of steps at that pace (core/run/launch/profiling/speed_meter.h) a spare host takes the place of
// the slow host. Without a spare, ESTs move to other hosts, if that shortens the step.
//
// Prints the effective time, the parts of the lost time, and the estimate of a formula. Ends with 1 if the job ends,
// or if the parts do not add up.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/run/decisions/decide.h"
#include "core/run/faults/diagnosis.h"
#include "core/run/launch/profiling/speed_meter.h"

namespace {

using namespace estrain;
using decisions::Member;
using decisions::WorkerId;

constexpr double kDay = 86'400;
constexpr double kLemons = 3.0 / 63, kShareOfLemons = 0.5;
constexpr int64_t kHostsOfSwitch = 32;
constexpr double kShareOfSwitches = 0.01, kShareOfCorruption = 6.0 / 419, kShareOfSilence = 0.5;
constexpr double kBackSoon = 600, kBackAfterRepair = kDay, kShareOfRepairs = 0.5;
constexpr double kTick = 0.1;  // as the launcher's
constexpr int kWindowsOfWatch = 3;
constexpr double kLeastGain = 0.03;  // of a change of shares

// Seconds between the failures of a whole job on so many devices.
struct Rate {
  std::string name;
  double seconds = 0, devices = 0;
};
const std::vector<Rate> kRates = {{"llama3", 3.09 * 3600, 16384},  // Llama 3
                                  {"rsc", 1.8 * 3600, 16384},      // Meta's research clusters
                                  {"rsc-small", 7.9 * 3600, 1024}};

struct Setup {
  int64_t hosts = 1280, devices = 8, ests = 8;  // devices of a host, ESTs of a device
  double days = 100, spares = 1, step = 10, silent = 1.5, warm = 60, state = 100, copy = 100, redo = 600;
  double slow = 0, slowdown = 1.5;
  int64_t seed = 1;
  Rate rate = kRates.front();

  double between_failures() const { return rate.seconds * rate.devices / static_cast<double>(hosts * devices); }
  int64_t spare_hosts() const { return std::lround(spares / 100 * static_cast<double>(hosts)); }

  // Fits of measured seconds (RESULTS.md, 2 to 16 hosts on one machine).
  double told() const { return 0.1; }   // until the kernel of a host has told that its processes ended
  double leave() const { return 0.1; }  // until all workers have left an aborted stage
  double open() const { return 0.1 + 0.12 * std::log2(static_cast<double>(hosts)); }     // a stage
  double takeover() const { return 1.3 + 1.4 * std::log2(static_cast<double>(hosts)); }  // by another coordinator
  double copying() const { return 8 * state / copy; }  // of the state, to hosts that join
};

// What the job does, second by second.
enum class Doing : size_t {
  training,
  slow,
  redone,
  noticing,
  leaving,
  opening,
  copying,
  takeover,
  corrupted,
  waiting,
  count
};
constexpr std::array<const char*, static_cast<size_t>(Doing::count)> kDoing = {
    "fewer devices", "slow hosts",        "step under way", "noticing",   "leaving",
    "opening",       "copying the state", "takeovers",      "corruption", "waiting for workers"};

class Job {
 public:
  explicit Job(const Setup& setup) : setup_(setup), random_(static_cast<uint64_t>(setup.seed)) {
    for (int64_t host = 0; host < setup.hosts + setup.spare_hosts(); ++host) {
      is_lemon_.push_back(unit_() < kLemons);
      (host < setup.hosts ? at_work_ : spares_).insert(host);
    }
    ests_ = setup.hosts * setup.devices * setup.ests;
    begin_on(at_work_);
  }

  // Returns the effective share of the time.
  double run() {
    plan_failure();
    at(kTick, [this] { pass_tick(); });
    const double end = setup_.days * kDay;
    while (!due_.empty() && due_.top().when < end) {
      const Due next = due_.top();
      due_.pop();
      pass_until(next.when);
      next.act();
    }
    pass_until(end);
    return useful_ / end;
  }

  const std::array<double, static_cast<size_t>(Doing::count)>& lost() const { return lost_; }
  double useful() const { return useful_; }
  double longest_standstill() const { return longest_standstill_; }
  int64_t failures() const { return failures_; }
  int64_t joins() const { return joins_; }
  int64_t takeovers() const { return takeovers_; }
  int64_t slowdowns() const { return slowdowns_; }

 private:
  struct Due {
    double when;
    uint64_t number;
    std::function<void()> act;
    bool operator<(const Due& other) const { return std::pair(other.when, other.number) < std::pair(when, number); }
  };

  void at(double seconds, std::function<void()> act) { due_.push({now_ + seconds, ++number_, std::move(act)}); }

  static placement::Device device(int64_t host, int64_t index) {
    return {"cuda", static_cast<int>(index), fmt::format("h{}", host)};
  }
  static int64_t host_of(const placement::Device& device) { return std::atoll(device.host.c_str() + 1); }

  placement::Devices devices_of(const std::set<int64_t>& hosts) const {
    placement::Devices devices;
    for (const int64_t host : hosts) {
      for (int64_t i = 0; i < setup_.devices; ++i) devices.push_back(device(host, i));
    }
    return devices;
  }

  // A launcher begins on these hosts, with all workers at work.
  void begin_on(const std::set<int64_t>& hosts) {
    state_ = {};
    state_.ests = ests_;
    state_.retries = 3;
    state_.host = fmt::format("h{}", *hosts.begin());
    state_.phase = decisions::RunPhase::training;
    state_.held = devices_of(hosts);
    state_.workers_started = workers_started_;
    const std::vector<EstRange> ranges = place_ests(placement::evenly(state_.held), ests_);
    for (size_t i = 0; i < state_.held.size(); ++i) {
      state_.workers.push_back({.id = WorkerId(state_.workers_started++),
                                .device = state_.held[i],
                                .ests = ranges[i],
                                .ready = true,
                                .rank = static_cast<int64_t>(i)});
    }
    of_stage_ = hosts;
    note_pace();
  }

  // Time.

  // Books the time until `when`: as training, or as what the job does instead.
  void pass_until(double when) {
    const double passed = when - now_;
    now_ = when;
    if (doing_ == Doing::training) {
      useful_ += pace_ * passed;
      lost_[static_cast<size_t>(Doing::training)] += (1 - even_pace_) * passed;
      lost_[static_cast<size_t>(Doing::slow)] += (even_pace_ - pace_) * passed;
    } else {
      lost_[static_cast<size_t>(doing_)] += passed;
    }
  }

  bool trains() const { return doing_ == Doing::training; }

  void stand_still(Doing doing) {
    if (trains()) {
      stands_since_ = now_;
      const double steps = (now_ - trains_since_) / step_seconds();
      trained_ += static_cast<int64_t>(steps);
      const double begun = (steps - std::floor(steps)) * step_seconds() * pace_;
      useful_ -= begun;  // of the step under way
      lost_[static_cast<size_t>(Doing::redone)] += begun;
    }
    doing_ = doing;
  }

  void train() {
    longest_standstill_ = std::max(longest_standstill_, now_ - stands_since_);
    doing_ = Doing::training;
    trains_since_ = now_;
    watch_speed();
  }

  double step_seconds() const { return setup_.step / pace_; }
  int64_t trained() const {
    return trained_ + (trains() ? static_cast<int64_t>((now_ - trains_since_) / step_seconds()) : 0);
  }

  double slowness(const placement::Device& device) const {
    const auto slow = slow_.find(host_of(device));
    return slow == slow_.end() ? 1 : slow->second;
  }

  // Paces are shares of the pace with all devices: of the shares in force, and of even shares on equal devices.
  void note_pace() {
    double longest = 0;
    for (const Member& worker : state_.workers)
      longest = std::max(longest, static_cast<double>(worker.ests.size()) * slowness(worker.device));
    const int64_t workers = std::ssize(state_.workers);
    pace_ = static_cast<double>(setup_.ests) / longest;
    even_pace_ = static_cast<double>(setup_.ests) / static_cast<double>((ests_ + workers - 1) / workers);
  }

  // A host has become slow, or is no longer slow. The step under way goes on at the new pace.
  void change_pace() {
    if (!trains()) return note_pace();
    const double steps = (now_ - trains_since_) / step_seconds();
    trained_ += static_cast<int64_t>(steps);
    note_pace();
    trains_since_ = now_ - (steps - std::floor(steps)) * step_seconds();
    watch_speed();
  }

  // Decisions.

  void decide(decisions::Event event) {
    events_.add(std::move(event), [this](const decisions::Event& next) {
      for (const decisions::Action& action : decisions::decide(state_, next, moment())) carry_out(action.deed);
    });
    workers_started_ = std::max(workers_started_, state_.workers_started);
    if (state_.phase == decisions::RunPhase::over)
      throw Error(Fault::bug,
                  "the job has ended: " + (state_.failure ? state_.failure->message() : state_.stop_reason));
  }

  decisions::Moment moment() const {
    decisions::Moment now;
    now.time = MonotonicTime(Nanoseconds(1s) + nanoseconds(Seconds(now_)));
    now.attached = true;
    now.trained = Step(trained());
    now.stopped = now.time;
    now.stage_started = trains() ? std::ssize(state_.workers) : 0;
    now.stage_started_at = now.time;
    now.step_seconds = setup_.step;
    return now;
  }

  void pass_tick() {
    decide(decisions::Tick{});
    ask_to_join();
    // While the job trains undisturbed, nothing happens at a tick.
    const bool is_busy = !is_settled(state_) || state_.recovery || state_.resize || !state_.leaving.empty() ||
                         (lacks_hosts() && !spares_.empty());
    if (is_busy) {
      at(trains() ? std::max(kTick, std::min(setup_.step, 1.0)) : kTick, [this] { pass_tick(); });
    } else {
      ticks_ = false;
    }
  }
  void begin_ticks() {
    if (!std::exchange(ticks_, true)) at(kTick, [this] { pass_tick(); });
  }

  bool lacks_hosts() const { return std::ssize(at_work_) < setup_.hosts; }
  bool may_change() const { return is_settled(state_) && !state_.recovery && !state_.resize; }

  // As the pool or a user would, where a host is free.
  void ask_to_join() {
    if (may_change() && lacks_hosts() && !spares_.empty()) change_hosts({}, "hosts are free");
  }

  // Asks for the job's hosts without `leaving`, and for spares up to the full number of hosts.
  void change_hosts(const std::set<int64_t>& leaving, const std::string& why) {
    joining_.clear();
    while (!spares_.empty() && std::ssize(at_work_) - std::ssize(leaving) + std::ssize(joining_) < setup_.hosts)
      joining_.insert(spares_.extract(spares_.begin()).value());
    placement::Devices devices = placement::devices_of(devices_in_force(state_));
    std::erase_if(devices, [&](const placement::Device& device) { return leaving.contains(host_of(device)); });
    for (const placement::Device& added : devices_of(joining_)) devices.push_back(added);
    ask_for(placement::evenly(devices), why);
  }

  void ask_for(const placement::Assignment& shares, const std::string& why) {
    decisions::PendingChange change;
    change.devices = shares;
    change.held = placement::devices_of(shares);
    change.why = why;
    change.keeps_devices = change.held == state_.held;
    decide(decisions::ChangeAsked{change, std::nullopt});
  }

  // Slow hosts.

  void watch_speed() {
    const double seconds = kWindowsOfWatch * launch::SpeedMeter::kWindowSteps * step_seconds();
    at(seconds, [this, watch = ++watch_] {
      if (watch == watch_) answer_slowness();
    });
  }

  void answer_slowness() {
    if (!may_change()) return watch_speed();
    std::set<int64_t> slow;
    for (const auto& [host, factor] : slow_) {
      if (at_work_.contains(host) && fmt::format("h{}", host) != state_.host) slow.insert(host);
    }
    while (slow.size() > spares_.size()) slow.erase(std::prev(slow.end()));
    if (!slow.empty()) {
      replaced_.insert(slow.begin(), slow.end());
      change_hosts(slow, "hosts are slow");
    } else if (const placement::Assignment shares = best_shares(); pace_with(shares) > pace_ * (1 + kLeastGain)) {
      ask_for(shares, "hosts are slow");
    }
    begin_ticks();
  }

  // The shares with which the slowest device is as fast as it can be.
  placement::Assignment best_shares() const {
    placement::Assignment shares = placement::evenly(state_.held);
    const auto room = [&](double pace) {
      int64_t ests = 0;
      for (const placement::Share& share : shares) ests += static_cast<int64_t>(pace / slowness(share.device) + 1e-9);
      return ests;
    };
    double pace = std::ceil(static_cast<double>(ests_) / static_cast<double>(shares.size()));
    while (room(pace) < ests_) ++pace;
    int64_t left = ests_;
    for (placement::Share& share : shares) {
      share.ests = std::max<int64_t>(1, static_cast<int64_t>(pace / slowness(share.device) + 1e-9));
      left -= *share.ests;
    }
    for (size_t i = 0; left < 0; i = (i + 1) % shares.size()) {  // the first devices host one EST less, each in turn
      if (*shares[i].ests > 1) --*shares[i].ests, ++left;
    }
    return shares;
  }
  double pace_with(const placement::Assignment& shares) const {
    double longest = 0;
    for (const placement::Share& share : shares)
      longest = std::max(longest, static_cast<double>(*share.ests) * slowness(share.device));
    return static_cast<double>(setup_.ests) / longest;
  }

  void slow_down() {
    ++slowdowns_;
    const int64_t host = choose_host();
    slow_[host] = setup_.slowdown;
    change_pace();
    at(away(), [this, host] {
      slow_.erase(host);
      if (replaced_.erase(host) != 0 && !at_work_.contains(host) && !down_.contains(host)) spares_.insert(host);
      change_pace();
      begin_ticks();
    });
  }

  void carry_out(const decisions::Deed& deed) {
    if (std::holds_alternative<decisions::AbortStage>(deed)) {
      stand_still(Doing::leaving);
      at(setup_.leave(), [this, stage = stage_] { all_leave(stage); });
    } else if (std::holds_alternative<decisions::PauseStage>(deed)) {
      const double left = step_seconds() - std::fmod(now_ - trains_since_, step_seconds());
      at(left, [this, stage = stage_] {
        if (stage != stage_ || !trains()) return;
        trained_ += std::lround((now_ - trains_since_) / step_seconds());
        stands_since_ = trains_since_ = now_;
        doing_ = Doing::leaving;
        all_leave(stage);
      });
    } else if (const auto* start = std::get_if<decisions::StartWorkers>(&deed)) {
      std::vector<WorkerId> ids;
      for (const decisions::WorkerOrder& order : start->workers) ids.push_back(order.id);
      at(setup_.warm, [this, ids] {
        for (const WorkerId id : ids) decide(decisions::WorkerReady{id});
        begin_ticks();
      });
    } else if (std::holds_alternative<decisions::CloseStage>(deed)) {
      decide(decisions::StageClosed{.held = true});
    } else if (std::holds_alternative<decisions::OpenStage>(deed)) {
      open_stage();
    } else if (const auto* leave = std::get_if<decisions::TellLeave>(&deed)) {
      at(0.1, [this, id = leave->worker] { decide(decisions::WorkerEnded{id}); });
    } else if (const auto* kill = std::get_if<decisions::KillWorker>(&deed)) {
      decide(decisions::WorkerEnded{kill->worker});
    } else if (std::holds_alternative<decisions::HandOver>(deed)) {
      state_ = after_handover(state_);
      state_.phase = decisions::RunPhase::training;
      for (Member& worker : state_.workers) worker.ready = true;
    } else if (const auto* end = std::get_if<decisions::EndHungWorker>(&deed)) {
      throw Error(Fault::bug, "a pretended worker hangs: " + end->how);
    }
    begin_ticks();
  }

  void all_leave(uint64_t stage) {
    if (stage != stage_) return;
    std::vector<WorkerId> ids;
    for (const Member& worker : state_.workers) {
      if (!worker.left && !is_down(worker)) ids.push_back(worker.id);
    }
    for (const WorkerId id : ids) {
      if (stage == stage_) decide(decisions::WorkerLeft{id});
    }
    if (stage == stage_) doing_ = Doing::waiting;
  }

  void open_stage() {
    ++stage_;
    std::set<int64_t> hosts;
    for (const Member& worker : state_.workers) hosts.insert(host_of(worker.device));
    const bool is_joined = !std::ranges::includes(of_stage_, hosts);
    if (is_joined) ++joins_;
    of_stage_ = at_work_ = hosts;
    joining_.clear();
    doing_ = Doing::opening;
    at(setup_.open(), [this, stage = stage_, is_joined] {
      if (stage != stage_) return;
      doing_ = Doing::copying;
      at(is_joined ? setup_.copying() : 0, [this, stage] {
        if (stage != stage_ || doing_ != Doing::copying) return;
        note_pace();
        train();
        begin_ticks();
      });
    });
  }

  // Failures.

  bool is_down(const Member& worker) const { return down_.contains(host_of(worker.device)); }

  void plan_failure() {
    const double between = setup_.between_failures() * static_cast<double>(setup_.hosts) /
                           static_cast<double>(std::max<size_t>(1, at_work_.size() + joining_.size()));
    at(std::exponential_distribution(1 / between)(random_), [this] {
      plan_failure();
      fail();
    });
  }

  int64_t choose_host() {
    std::vector<int64_t> lemons, others;
    for (const std::set<int64_t>* hosts : {&at_work_, &joining_}) {
      for (const int64_t host : *hosts) {
        if (!down_.contains(host)) (is_lemon_[static_cast<size_t>(host)] ? lemons : others).push_back(host);
      }
    }
    const std::vector<int64_t>& chosen =
        others.empty() || (!lemons.empty() && unit_() < kShareOfLemons) ? lemons : others;
    return chosen.at(random_() % chosen.size());
  }

  double away() { return unit_() < kShareOfRepairs ? kBackAfterRepair : kBackSoon; }

  void fail() {
    if (std::ranges::count_if(at_work_, [this](int64_t host) { return !down_.contains(host); }) < 2) return;
    ++failures_;
    if (setup_.slow > 0 && unit_() < setup_.slow / 100) return slow_down();
    if (unit_() < kShareOfCorruption) return begin_anew();
    const int64_t first = choose_host();
    std::set<int64_t> failed = {first};
    if (unit_() < kShareOfSwitches) {
      const int64_t begin = first / kHostsOfSwitch * kHostsOfSwitch;
      for (int64_t host = begin; host < begin + kHostsOfSwitch; ++host) {
        if (at_work_.contains(host) && std::ssize(failed) + 1 < std::ssize(at_work_)) failed.insert(host);
      }
    }
    const bool of_coordinator =
        std::ranges::any_of(failed, [this](int64_t host) { return fmt::format("h{}", host) == state_.host; });
    const bool in_stage = std::ranges::any_of(failed, [this](int64_t host) { return of_stage_.contains(host); });
    const double back = away();
    for (const int64_t host : failed) {
      down_.insert(host);
      at(back, [this, host] {
        down_.erase(host);
        spares_.insert(host);
        begin_ticks();
      });
    }
    const double noticed = unit_() < kShareOfSilence ? setup_.silent : setup_.told();
    if (in_stage) stand_still(Doing::noticing);
    if (of_coordinator) return take_over(failed);
    at(noticed, [this, failed] {
      for (const int64_t host : failed) lose(host);
    });
  }

  // Events about all workers of the host, those which warm up, too.
  void lose(int64_t host) {
    std::vector<Member> lost;
    for (const Member* member : all_members(state_)) {
      if (host_of(member->device) == host) lost.push_back(*member);
    }
    at_work_.erase(host);
    joining_.erase(host);
    for (const Member& member : lost) {
      const Error error = Error::make(Fault::peer, "host h{} is lost: connection lost", host).caused_by("host_lost");
      faults::Evidence evidence;
      evidence.said = error;
      const faults::Diagnosis diagnosis = faults_.diagnose(evidence);
      decide(decisions::WorkerLost{.worker = member.id,
                                   .verdict = {.cause = diagnosis.cause,
                                               .fault_class = std::string(class_name(diagnosis.fault_class)),
                                               .description = diagnosis.description,
                                               .retry = diagnosis.retry,
                                               .backoff_seconds = diagnosis.backoff_seconds,
                                               .other_device = diagnosis.other_device},
                                   .what = error.message(),
                                   .error = error,
                                   .log = {}});
    }
    give_up_joining();
  }

  // A refused change frees the hosts that were to join.
  void give_up_joining() {
    if (state_.pending || joining_.empty()) return;
    for (const int64_t host : joining_) spares_.insert(host);
    joining_.clear();
    begin_ticks();
  }

  // Another host leads, with the hosts that are left.
  void take_over(const std::set<int64_t>& failed) {
    ++takeovers_;
    begin_elsewhere(failed, Doing::takeover, setup_.takeover());
  }
  void begin_anew() {
    stand_still(Doing::corrupted);
    const double redone = std::min(useful_, setup_.redo);
    useful_ -= redone;
    lost_[static_cast<size_t>(Doing::corrupted)] += redone;
    begin_elsewhere({}, Doing::corrupted, setup_.takeover());
  }
  void begin_elsewhere(const std::set<int64_t>& failed, Doing doing, double seconds) {
    for (const int64_t host : failed) at_work_.erase(host);
    for (const int64_t host : joining_) {
      if (!down_.contains(host)) spares_.insert(host);
    }
    joining_.clear();
    stand_still(doing);
    ++stage_;
    std::erase_if(at_work_, [this](int64_t host) { return down_.contains(host); });
    begin_on(at_work_);
    at(seconds, [this, stage = stage_] {
      if (stage != stage_) return;
      train();
      begin_ticks();
    });
  }

  const Setup setup_;
  std::mt19937_64 random_;
  std::function<double()> unit_ = [this] { return std::uniform_real_distribution<double>()(random_); };
  const faults::FaultTable faults_ = faults::FaultTable::built_in();

  double now_ = 0;
  uint64_t number_ = 0;
  std::priority_queue<Due> due_;
  bool ticks_ = true;

  std::vector<bool> is_lemon_;
  std::set<int64_t> at_work_, joining_, spares_, down_, of_stage_;
  std::map<int64_t, double> slow_;  // by host: a mini-batch's time over the usual time
  std::set<int64_t> replaced_;      // slow hosts that a spare has replaced, or is about to
  uint64_t watch_ = 0;
  int64_t ests_ = 0, workers_started_ = 0;
  decisions::RunState state_;
  decisions::EventQueue events_;
  uint64_t stage_ = 0;

  Doing doing_ = Doing::training;
  double trains_since_ = 0, stands_since_ = 0, pace_ = 1, even_pace_ = 1;
  int64_t trained_ = 0;

  double useful_ = 0, longest_standstill_ = 0;
  std::array<double, static_cast<size_t>(Doing::count)> lost_{};
  int64_t failures_ = 0, joins_ = 0, takeovers_ = 0, slowdowns_ = 0;
};

// The estimate beside the simulation: each failure costs half a step, the notice, two stages (without the host, and
// with another host) and a copy of the state; fewer devices until another host has joined.
double by_formula(const Setup& setup) {
  const double noticed = kShareOfSilence * setup.silent + (1 - kShareOfSilence) * setup.told();
  const double stopped = setup.step / 2 + noticed + 2 * setup.leave() + 2 * setup.open() + setup.copying();
  const double slower = setup.warm / static_cast<double>(setup.ests + 1);
  return 1 - (stopped + slower) / setup.between_failures();
}

Setup setup_of(std::span<char*> words) {
  Setup setup;
  const std::map<std::string, double*> numbers = {
      {"--days", &setup.days}, {"--spares", &setup.spares},    {"--step", &setup.step}, {"--silent", &setup.silent},
      {"--warm", &setup.warm}, {"--state", &setup.state},      {"--copy", &setup.copy}, {"--redo", &setup.redo},
      {"--slow", &setup.slow}, {"--slowdown", &setup.slowdown}};
  const std::map<std::string, int64_t*> counts = {
      {"--hosts", &setup.hosts}, {"--devices", &setup.devices}, {"--ests", &setup.ests}, {"--seed", &setup.seed}};
  for (size_t i = 1; i < words.size(); i += 2) {
    const std::string name = words[i];
    if (i + 1 == words.size()) throw Error(Fault::usage, name + " needs a value");
    const std::string value = words[i + 1];
    const auto rate = std::ranges::find(kRates, value, &Rate::name);
    if (const auto number = numbers.find(name); number != numbers.end()) {
      *number->second = std::atof(value.c_str());
    } else if (const auto count = counts.find(name); count != counts.end()) {
      *count->second = std::atoll(value.c_str());
    } else if (name == "--rate" && rate != kRates.end()) {
      setup.rate = *rate;
    } else {
      throw Error::make(Fault::usage, "{} {} is no option", name, value);
    }
  }
  if (setup.hosts < 2 || setup.devices < 1 || setup.ests < 1 || setup.days <= 0 || setup.step <= 0 || setup.copy <= 0 ||
      setup.slow < 0 || setup.slow > 100 || setup.slowdown < 1)
    throw Error(Fault::usage,
                "two hosts at least, numbers above zero, --slow of 100 at most, --slowdown of 1 at least");
  return setup;
}

void print(const Setup& setup, const Job& job, double effective) {
  const double total = setup.days * kDay;
  fmt::print("{} devices on {} hosts, {} spare; {}: a failure every {:.2f} h, {} in {:g} days; seed {}\n",
             setup.hosts * setup.devices, setup.hosts, setup.spare_hosts(), setup.rate.name,
             setup.between_failures() / 3600, job.failures(), setup.days, setup.seed);
  fmt::print("effective time {:.3f} %, by the formula {:.3f} %; {} joins, {} takeovers; longest standstill {:.0f} s\n",
             100 * effective, 100 * by_formula(setup), job.joins(), job.takeovers(), job.longest_standstill());
  if (setup.slow > 0)
    fmt::print("{} of the failures made a host slower, by the factor {:g}\n", job.slowdowns(), setup.slowdown);
  for (size_t i = 0; i < kDoing.size(); ++i) {
    const double hours = job.lost()[i] / 3600 * static_cast<double>(setup.hosts * setup.devices);
    if (job.lost()[i] > 0)
      fmt::print("  {:<20} {:8.4f} %  {:12.0f} device-hours\n", kDoing[i], 100 * job.lost()[i] / total, hours);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Setup setup = setup_of({argv, static_cast<size_t>(argc)});
    Job job(setup);
    const double effective = job.run();
    print(setup, job, effective);
    double booked = job.useful();
    for (const double lost : job.lost()) booked += lost;
    if (std::abs(booked - setup.days * kDay) > 1) throw Error::make(Fault::bug, "{:.1f} s are booked", booked);
  } catch (const Error& error) {
    fmt::print(stderr, "effective_time: {}\n", error.message());
    return 1;
  }
  return 0;
}
