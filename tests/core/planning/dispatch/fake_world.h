#pragma once
// Pretended jobs in virtual time: they start, change, stop and fail after drawn times, as real jobs would. A FakeWorld
// checks the promises of dispatcher.h.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/planning/dispatch/dispatcher.h"
#include "core/planning/dispatch/homes.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/trace/decision_log.h"

namespace estrain::dispatch {

inline constexpr double kGiB = 1 << 30;

struct FakeOptions {
  uint64_t seed = 1;
  double failing = 0;   // part of the starts that end in a fault
  double refusing = 0;  // part of the growths that are declined
  double hanging = 0;   // part of the requests to let go, also in exchange, that are not heard: a kill is needed
  double losing = 0.5;  // part of the requests under way that get lost with a daemon
  double start_seconds = 2, change_seconds = 1;
  double refusing_batch = 0;   // part of the changes of batches that are refused
  double failing_by_user = 0;  // part of the starts that end by a cause of class user
  double noise_scale = 0;      // of gradients, in samples; 0: not measured
  std::string work = {};       // of all jobs; empty: not known
  double spread = 0;           // a step over several hosts takes this part longer; then a check tells the mini-batch
  double fixed_part = 0;       // part of a mini-batch's time with the owner's batch that is the same with every batch
  double gradient_bytes = 0;   // of all jobs; 0: not known
  std::map<std::string, double> speeds = {};      // of types of devices; 1 where absent
  bool has_profiles = false;                      // checks tell the mini-batch on each type of `speeds`
  std::map<std::string, double> memory = {};      // of hosts, in bytes; absent: not known
  std::map<std::string, double> gpu_memory = {};  // of GPUs, in bytes, by device; absent: not known
  std::map<std::string, std::string> racks = {};  // of hosts; absent: not known
  double guest_slows = 0;                         // a step beside a guest at work takes this part longer
  DecisionLog* log = nullptr;                     // of what the pool is told and decides; null: none is kept
};

inline bool policy_changes_batches(const std::string& policy) {
  return policy.starts_with("ones") || policy.starts_with("pollux") || policy == "estrain:batch=free";
}

class FakeWorld {
 public:
  // `devices` of the daemon's own host, and of other hosts.
  explicit FakeWorld(const std::string& policy, int64_t devices, FakeOptions options = {}, Settings settings = {},
                     const std::vector<std::pair<std::string, int64_t>>& others = {})
      : options_(options), settings_(settings), random_(options.seed) {
    State state;
    state.policy = policy;
    dispatcher_.emplace(std::move(state), settings_);
    for (const auto& [host, rack] : options_.racks) tell(RackKnown{host, rack});
    tell(DevicesAdded{std::vector<std::string>(static_cast<size_t>(devices), "cpu")});
    settle();
    for (const auto& [host, count] : others) add_host(host, count);
    tell_memory();
  }

  double now = 1000;
  // Tells the pool an event of this moment. The pool's orders wait until the world goes on.
  void tell(const Event& event) {
    std::vector<Action> actions = dispatcher_->on(event, now);
    if (options_.log != nullptr) options_.log->add(event, now, actions);
    std::ranges::move(actions, std::back_inserter(orders_));
  }
  const State& state() const { return dispatcher_->state(); }
  const Job& job(JobId id) const { return state().jobs.at(id); }
  std::map<JobId, double> killed;                     // how often
  std::vector<std::pair<ClientId, double>> released;  // and after how many seconds
  struct Noted : WriteHistory {
    double time;
  };
  std::vector<Noted> notes;
  std::vector<JobEnd> ends;
  struct Changed {
    int64_t epoch, batch, devices;
    double lr_factor;
  };
  std::map<JobId, std::vector<Changed>> batches;  // changes on record, by run
  // Of jobs submitted from now on: what a check says of their memory, their program, and what they take in truth.
  struct FakeMemory {
    NeededMemory told = {}, taken = {};
    std::string program = {};
    std::vector<double> gpus_told = {}, gpus_taken = {};  // as MemoryOfJob::gpus
  } memory_of_next;
  // Of jobs submitted from now on: the rule of an early stop, and when it ends the job. The metric gets better until
  // the rule's patience begins.
  struct FakeEnd {
    EarlyStop rule = {};
    int64_t at = 0;      // step; 0: after all steps
    int64_t every = 10;  // steps between evaluations
  } end_of_next;
  int64_t oom_kills = 0, full_gpus = 0;  // jobs that ended by these

  // Submits a job of so many ESTs, each taking `mini_batch` seconds a step.
  JobId submit(int64_t ests, int64_t steps, double mini_batch, Request request = {}) {
    request.name = "job";
    if (request.user.empty()) request.user = "anna";
    request.ests = ests;
    request.most = std::min(request.most > 1 ? request.most : ests, ests);
    request.total_steps = steps;
    if (end_of_next.at > 0) request.early_stop = end_of_next.rule;
    tell(Submitted{request});
    const JobId id = state().last_job;
    truth_[id] = {mini_batch, 0, request.batch};
    truth_[id].memory = memory_of_next;
    truth_[id].end = end_of_next;
    settle();
    return id;
  }

  void take(const std::vector<std::string>& names, double within, ClientId client) {
    promised_[client] = now + within;
    tell(Withdrawal{names, within, false, client});
    settle();
  }
  void take(int64_t devices, double within, ClientId client) {
    take(std::vector<std::string>(static_cast<size_t>(devices), "cpu"), within, client);
  }
  void lend(const std::vector<std::string>& names) {
    tell(DevicesLent{names});
    settle();
  }
  void lend(int64_t devices) { lend(std::vector<std::string>(static_cast<size_t>(devices), "cpu")); }

  void add_host(const std::string& host, int64_t devices) {
    tell(DevicesAdded{std::vector<std::string>(static_cast<size_t>(devices), host + "/cpu")});
    settle();
  }
  // A host leaves in peace.
  void remove_host(const std::string& host) {
    std::vector<std::string> names;
    for (const Slot& slot : state().slots) {
      if (slot.host() == host && slot.state == Slot::State::present) names.push_back(slot.name);
    }
    tell(Withdrawal{names, std::nullopt, true, 0});
    settle();
  }
  // Kills every process of the host. Another host of a job on several hosts leads the run, or the run stops.
  void lose_host(const std::string& host) {
    std::vector<JobId> led;
    for (auto& [id, launcher] : launchers_) {
      std::erase_if(launcher.held, [&](const std::string& name) { return Slot{0, name}.host() == host; });
      if (launcher.home == host) led.push_back(id);
    }
    std::map<JobId, Launcher> orphans;
    for (const JobId id : led) {
      orphans[id] = launchers_[id];
      launchers_.erase(id);
      requests_.erase(id);
    }
    tell(HostVanished{host, "killed"});
    for (auto& [id, orphan] : orphans) {
      if (!job(id).is_leaderless) continue;  // it was there alone
      if (happens(0.5)) {
        tell(JobEnded{id, {Ended::How::stopped, "nobody goes on"}});
        continue;
      }
      orphan.home = Slot{0, orphan.held.front()}.host();
      orphan.ends_at = -1;
      launchers_[id] = orphan;
      tell(Moved{id, orphan.home, orphan.held});
    }
    for (const auto& [id, launcher] : launchers_) {
      if (!orphans.contains(id) && job(id).phase == Phase::running) tell(DevicesChanged{id, launcher.held});
    }
    settle();
  }

  void end(JobId id, const Ended& ended) {
    launchers_.erase(id);
    requests_.erase(id);
    tell(JobEnded{id, ended});
  }

  // A failure by the job's user, in the first of the job's inputs.
  static Ended by_user(const Job& job) {
    Ended end{.how = Ended::How::failed,
              .reason = "incorrect_inputs: damaged",
              .cause = "incorrect_inputs",
              .fault_class = "user"};
    if (!job.request.inputs.empty()) end.files = {job.request.inputs.front()};
    return end;
  }

  void run(double seconds) {
    const double until = now + seconds;
    while (now < until) step();
  }
  // Runs until all jobs are over; the test fails if the jobs take too long.
  void run_out(double most = 1e5) {
    const double until = now + most;
    while (!all_over() && now < until) step();
    INFO(text());
    REQUIRE(all_over());
  }
  bool all_over() const {
    return std::ranges::all_of(state().jobs, [](const auto& entry) { return is_over(entry.second.phase); });
  }

  // Runs without a daemon: launchers carry out the requests that they have.
  void run_without_daemon(double seconds) {
    train(seconds);
    for (auto& [id, launcher] : launchers_) {
      const auto request = requests_.find(id);
      if (request == requests_.end() || request->second.batch != 0 || request->second.at > now) continue;
      if (request->second.is_heard) launcher.held = request->second.held, unheard_[id] = kCost;
      requests_.erase(request);
    }
  }

  // The daemon dies, and a new daemon takes up the saved state. Half of the requests under way are lost, launchers not.
  void restart_daemon() {
    State saved = dispatcher_->state();
    for (auto& [id, request] : requests_) {
      if (request.batch != 0 && happens(0.5, id)) carry_out_batch(id, request);
    }
    std::erase_if(requests_, [&](const auto& entry) {
      return entry.second.batch != 0 || !entry.second.is_heard ||
             (options_.losing > 0 && happens(options_.losing, entry.first));
    });
    dispatcher_.emplace(std::move(saved), settings_);
    orders_.clear();
    tell(TakenUp{});
    std::vector<JobId> up;
    for (const auto& [id, job] : state().jobs) {
      if (is_up(job.phase)) up.push_back(id);
    }
    for (const JobId id : up) {
      if (!launchers_.contains(id)) {
        tell(JobEnded{id, {Ended::How::vanished, "gone"}});
      } else if (job(id).batch.wanted == 0 || launchers_[id].trains_at <= now) {
        tell_batch(id);
        tell(FoundAtWork{id, launchers_[id].held, doing(id), static_cast<int64_t>(truth_[id].step),
                         std::exchange(unheard_[id], 0)});
      }
    }
    tell(TimePassed{});
    settle();
  }
  // The host dies with all launchers.
  void reboot() {
    launchers_.clear();
    requests_.clear();
    restart_daemon();
  }

  // When this was noted of the job.
  std::vector<double> times_of(JobId id, const std::string& what) const {
    std::vector<double> times;
    for (const Noted& note : notes) {
      if (note.job == id && note.what == what) times.push_back(note.time);
    }
    return times;
  }

  std::string text() const {
    std::string all;
    for (const auto& [id, job] : state().jobs) {
      all += fmt::format("job {}: {}, step {} of {}, target {}, {}\n", id, phase_name(job.phase), job.step,
                         job.request.total_steps, job.targeted(), job.reason);
    }
    return all;
  }

 private:
  static constexpr double kDeaf = 1e300;
  static constexpr double kCost = 0.5;  // s, of a change

  struct Truth {
    double mini_batch, step;  // steps with the owner's batch
    std::optional<BatchFreedom> allowed;
    int64_t batch = 0;  // on record; 0: the owner's
    double lr_factor = 1;
    FakeMemory memory = {};
    FakeEnd end = {};
    int64_t evaluations = 0;  // told
  };
  struct Launcher {
    std::vector<std::string> held;
    double trains_at = 0, ends_at = -1;  // -1: the launcher has no end yet
    bool fails = false;
    std::string home = {};
    bool fails_by_user = false;
  };
  struct Pending {
    double at;
    std::vector<std::string> held;
    bool is_heard;
    int64_t batch = 0;  // 0: devices are asked for
    double lr_factor = 1;
  };

  FoundAtWork::Doing doing(JobId id) const {
    using Doing = FoundAtWork::Doing;
    const Launcher& launcher = launchers_.at(id);
    if (launcher.ends_at >= 0 && launcher.ends_at < kDeaf) return Doing::ends;
    if (launcher.trains_at > now) return Doing::starts;
    return requests_.contains(id) ? Doing::changes : Doing::trains;
  }

  // What happens to guests is drawn by itself: guests change nothing for other jobs.
  std::mt19937_64& random_for(JobId id) { return is_guest(state(), id) ? random_of_guests_ : random_; }
  double drawn(double mean, JobId id) {
    return mean * (0.5 + std::uniform_real_distribution<double>(0, 1)(random_for(id)));
  }
  bool happens(double part, JobId id = 0) {
    return std::uniform_real_distribution<double>(0, 1)(random_for(id)) < part;
  }

  void step() {
    constexpr double kTick = 0.1;
    settle();
    train(kTick);
    std::vector<JobId> ids;
    for (const auto& [id, launcher] : launchers_) ids.push_back(id);
    for (const JobId id : ids) look_at(id);  // an end found in this loop is carried out later
    run_out_of_memory();
    run_out_of_gpu_memory();
    tell(TimePassed{});
    settle();
  }

  void train(double seconds) {
    now += seconds;
    for (auto& [id, launcher] : launchers_) {
      if (launcher.trains_at > now || launcher.ends_at >= 0) continue;
      Truth& truth = truth_[id];
      truth.step += seconds * owners_batches(truth) / step_seconds(id, launcher);
    }
  }

  double speed_of(const std::string& type) const {
    const auto speed = options_.speeds.find(type);
    return speed == options_.speeds.end() ? 1 : speed->second;
  }
  // Each EST goes to the device that would be done with it first.
  double step_seconds(JobId id, const Launcher& launcher) const {
    std::vector<std::pair<double, double>> devices;  // busy so far, and a mini-batch
    for (const std::string& name : launcher.held) devices.emplace_back(0, 1 / speed_of(Slot{0, name}.type()));
    const auto done = [](const auto& device) { return device.first + device.second; };
    double all = 0;
    for (int64_t est = 0; est < job(id).request.ests; ++est) {
      const auto first = std::ranges::min_element(devices, {}, done);
      first->first += first->second;
      all = std::max(all, first->first);
    }
    return all * mini_batch_of(truth_.at(id)) * slowdown(launcher) *
           (has_guest_at_work(id) ? 1 + options_.guest_slows : 1);
  }
  bool has_guest_at_work(JobId id) const {
    return std::ranges::any_of(state().slots, [&](const Slot& slot) {
      const auto guest = launchers_.find(slot.guest);
      return slot.holder == id && guest != launchers_.end() && guest->second.trains_at <= now;
    });
  }
  std::map<std::string, double> mini_batches(JobId id, const Launcher& launcher) const {
    std::map<std::string, double> seconds;
    for (const std::string& name : launcher.held) {
      const std::string type = Slot{0, name}.type();
      seconds[type] = mini_batch_of(truth_.at(id)) / speed_of(type);
    }
    return seconds;
  }

  double slowdown(const Launcher& launcher) const {
    std::set<std::string> hosts;
    for (const std::string& name : launcher.held) hosts.insert(Slot{0, name}.host());
    return hosts.size() > 1 ? 1 + options_.spread : 1;
  }

  static double owners_batches(const Truth& truth) {
    return truth.batch == 0 ? 1 : static_cast<double>(truth.batch) / static_cast<double>(truth.allowed->terms.own);
  }
  double mini_batch_of(const Truth& truth) const {
    return truth.mini_batch * (options_.fixed_part + (1 - options_.fixed_part) * owners_batches(truth));
  }

  int64_t epoch_of(JobId id) const {
    const Truth& truth = truth_.at(id);
    const double part = truth.step / static_cast<double>(job(id).request.total_steps);
    const int64_t epochs = truth.allowed->epochs == 0 ? 10 : truth.allowed->epochs;  // 0: it ends with a step
    return static_cast<int64_t>(part * static_cast<double>(epochs));
  }
  void tell_batch(JobId id) {
    const Truth& truth = truth_[id];
    if (!truth.allowed) return;
    const int64_t batch = truth.batch == 0 ? truth.allowed->terms.own : truth.batch;
    tell(BatchInForce{id, batch, truth.lr_factor, epoch_of(id), options_.noise_scale});
  }
  // A change on record is not recorded again.
  void carry_out_batch(JobId id, const Pending& request) {
    Truth& truth = truth_[id];
    if (truth.batch == request.batch) return;
    truth.batch = request.batch;
    truth.lr_factor = request.lr_factor;
    const auto devices = static_cast<int64_t>(launchers_[id].held.size());
    batches[id].push_back({epoch_of(id), request.batch, devices, request.lr_factor});
    launchers_[id].trains_at = now + drawn(options_.start_seconds, id);
  }
  void answer_batch(JobId id) {
    const Pending request = requests_[id];
    requests_.erase(id);
    if (happens(options_.refusing_batch, id)) {
      const bool for_good = options_.refusing_batch == 1 || happens(0.5, id);
      return tell(BatchRefused{id, for_good, "too large"});
    }
    carry_out_batch(id, request);
    tell(BatchInForce{id, request.batch, request.lr_factor, std::nullopt});
  }

  void tell_evaluations(JobId id) {
    Truth& truth = truth_[id];
    if (truth.end.at == 0) return;
    const int64_t all = truth.end.at / truth.end.every, best = all - truth.end.rule.patience;
    while (truth.evaluations < all && static_cast<double>((truth.evaluations + 1) * truth.end.every) <= truth.step) {
      const auto part = static_cast<double>(std::min(++truth.evaluations, best)) / static_cast<double>(all);
      tell(JobEvaluated{id,
                        {truth.evaluations * truth.end.every, 2 - part, part, truth.end.rule.falls ? 2 - part : part}});
    }
  }

  void look_at(JobId id) {
    Launcher& launcher = launchers_[id];
    const auto request = requests_.find(id);
    if (launcher.fails && now >= launcher.trains_at) return end(id, {Ended::How::faulty, "a fault", 1});
    if (launcher.fails_by_user && now >= launcher.trains_at) return end(id, by_user(job(id)));
    if (launcher.ends_at >= 0) {
      if (now >= launcher.ends_at) end(id, {Ended::How::stopped, "stopped", 1, static_cast<int64_t>(truth_[id].step)});
      return;
    }
    if (launcher.trains_at > now) return;
    tell_evaluations(id);
    const FakeEnd& early = truth_[id].end;
    if (early.at > 0 && truth_[id].step >= static_cast<double>(early.at))
      return end(id, {.how = Ended::How::done, .reason = "ended early", .step = early.at});
    if (truth_[id].step >= static_cast<double>(job(id).request.total_steps)) return end(id, {Ended::How::done, "done"});
    tell_batch(id);
    if (job(id).phase == Phase::starting) tell(TrainingBegan{id});
    if (request != requests_.end() && request->second.batch != 0) {
      if (now >= request->second.at) answer_batch(id);
      return;
    }
    if (request != requests_.end() && request->second.is_heard && now >= request->second.at) {
      launcher.held = request->second.held;
      requests_.erase(request);
      tell(DevicesChanged{id, launcher.held, kCost, static_cast<int64_t>(truth_[id].step)});
    } else if (job(id).phase == Phase::changing && request == requests_.end() && orders_.empty()) {
      tell(DevicesChanged{id, launcher.held});  // the answer was lost
    }
    const auto devices = static_cast<int64_t>(launcher.held.size());
    tell(Progressed{id, static_cast<int64_t>(truth_[id].step), job(id).request.total_steps, step_seconds(id, launcher),
                    devices, devices, mini_batches(id, launcher), truth_[id].memory.taken.worker});
  }

  void settle() {
    while (!orders_.empty()) {
      for (const Action& action : std::exchange(orders_, {}))
        std::visit([this](const auto& one) { carry_out(one); }, action);
    }
    check_laws();
  }

  void carry_out(const CheckJob& action) {
    const double mini_batch = options_.spread > 0 ? truth_[action.job].mini_batch : 0;
    std::map<std::string, double> profiles;
    for (const auto& [type, speed] : options_.speeds)
      if (options_.has_profiles) profiles[type] = truth_[action.job].mini_batch / speed;
    const FakeMemory& memory = truth_[action.job].memory;
    tell(Checked{action.job, true, "", mini_batch, 0, options_.work, std::move(profiles), options_.gradient_bytes,
                 memory.told, memory.program, memory.gpus_told});
  }
  void carry_out(const StartJob& action) {
    REQUIRE_FALSE(launchers_.contains(action.job));
    launchers_[action.job] = {action.devices,
                              now + drawn(options_.start_seconds, action.job),
                              -1,
                              happens(options_.failing, action.job),
                              action.home,
                              options_.failing_by_user > 0 && happens(options_.failing_by_user, action.job)};
    check_home(launchers_[action.job], action.devices);
    check_memory(action.job, action.devices);
    check_gpus(action.job, action.devices);
  }
  void carry_out(const GrowJob& action) {
    REQUIRE(launchers_.contains(action.job));
    check_home(launchers_[action.job], action.all);
    std::vector<std::string> at_most = launchers_[action.job].held;
    at_most.insert(at_most.end(), action.added.begin(), action.added.end());
    check_memory(action.job, at_most);
    check_gpus(action.job, action.all);
    const bool takes = !happens(options_.refusing, action.job);
    const bool is_heard = action.given_back.empty() || !happens(options_.hanging, action.job);
    requests_[action.job] = {now + drawn(options_.change_seconds, action.job),
                             takes ? action.all : launchers_[action.job].held, is_heard};
  }
  void carry_out(const ShrinkJob& action) {
    REQUIRE(launchers_.contains(action.job));
    std::vector<std::string> held = launchers_[action.job].held;
    REQUIRE(action.given_back.size() < held.size());
    for (const std::string& name : action.given_back) {
      const auto at = std::ranges::find(held, name);
      REQUIRE(at != held.end());
      held.erase(at);
    }
    check_home(launchers_[action.job], held);
    check_gpus(action.job, held);
    const double after = std::min(action.within, drawn(options_.change_seconds, action.job));
    requests_[action.job] = {now + after, held, !happens(options_.hanging, action.job)};
  }
  // 6: only if the owner allows a change, within the owner's range; rates grow no faster than the batch.
  void carry_out(const ChangeBatch& action) {
    REQUIRE(launchers_.contains(action.job));
    const std::optional<BatchFreedom>& allowed = truth_[action.job].allowed;
    REQUIRE(allowed);
    REQUIRE(action.batch >= allowed->terms.least);
    REQUIRE(action.batch <= allowed->terms.most);
    const double ratio = static_cast<double>(action.batch) / static_cast<double>(allowed->terms.own);
    if (state().policy.starts_with("ones")) REQUIRE(action.lr_factor == doctest::Approx(ratio));
    REQUIRE(action.lr_factor >= std::min(1.0, ratio) * (1 - 1e-9));
    REQUIRE(action.lr_factor <= std::max(1.0, ratio) * (1 + 1e-9));
    requests_[action.job] = {
        now + drawn(options_.change_seconds, action.job), {}, true, action.batch, action.lr_factor};
  }
  void carry_out(const StopJob& action) {
    if (!launchers_.contains(action.job)) return;
    launchers_[action.job].ends_at = happens(options_.hanging, action.job)
                                         ? kDeaf
                                         : now + std::min(action.within, drawn(options_.change_seconds, action.job));
  }
  void carry_out(const KillJob& action) {
    ++killed[action.job];
    if (launchers_.contains(action.job)) end(action.job, {Ended::How::vanished, "killed"});
  }
  void carry_out(const Released& action) {
    released.emplace_back(action.client, action.seconds), check_promise(action);
  }
  void carry_out(const KeepEnd& action) { ends.push_back(action.end); }
  void carry_out(const WriteHistory& action) { notes.push_back({action, now}); }

  // 5: a host with a device of the job leads: the daemon's own host, if the job has a device there.
  static void check_home(const Launcher& launcher, const std::vector<std::string>& held) {
    Target target;
    for (const std::string& name : held) ++target[Slot{0, name}.group()];
    REQUIRE(can_lead(launcher.home, target));
  }

  // 8: the hosts on which the job begins to have devices, or gets more, hold what all of their jobs need.
  void check_memory(JobId id, const std::vector<std::string>& devices) const {
    std::map<std::string, int64_t> wanted;
    for (const std::string& name : devices) ++wanted[Slot{0, name}.host()];
    if (!job(id).memory.needs.are_known()) return;
    for (const auto& [host, count] : wanted) {
      const auto memory = state().memory.find(host);
      if (memory == state().memory.end()) continue;
      const auto here = [&](const std::string& name) { return Slot{0, name}.host() == host; };
      double used = job(id).memory.needs.with(count);
      int64_t had = 0;
      for (const auto& [other, launcher] : launchers_) {
        const int64_t workers = std::ranges::count_if(launcher.held, here);
        if (other == id) had = job(id).phase == Phase::starting ? 0 : workers;
        if (other == id || (is_guest(state(), other) && !is_guest(state(), id))) continue;
        used += job(other).memory.needs.with(workers);
      }
      INFO(text());
      INFO(host);
      if (count > had) REQUIRE(used <= memory->second + 1);
    }
  }
  // What the job needs of each of these devices, if they are GPUs of one host and `needs` are known; else 0.
  static double needed_of_each(const std::vector<std::string>& devices, const std::vector<double>& needs) {
    std::set<std::string> groups;
    for (const std::string& name : devices) groups.insert(Slot{0, name}.group());
    const bool are_gpus_of_one_host = groups.size() == 1 && type_in(*groups.begin()) == "cuda";
    return !are_gpus_of_one_host || needs.empty() ? 0 : needs[std::min(needs.size(), devices.size()) - 1];
  }
  static bool has_less(const std::map<std::string, double>& memory, const std::string& name, double needed) {
    const auto at = memory.find(name);
    return at != memory.end() && needed > at->second + 1;
  }
  // 8: the GPUs that the job is to go on with hold it.
  void check_gpus(JobId id, const std::vector<std::string>& devices) const {
    const MemoryOfJob& memory = job(id).memory;
    const double needed = memory.gpu_ratio * needed_of_each(devices, memory.gpus);
    INFO(text());
    for (const std::string& name : devices) REQUIRE_FALSE(has_less(state().gpu_memory, name, needed));
  }
  void run_out_of_gpu_memory() {
    std::vector<JobId> all;
    for (const auto& [id, launcher] : launchers_) {
      const double taken = needed_of_each(launcher.held, truth_.at(id).memory.gpus_taken);
      const auto is_full = [&](const std::string& name) { return has_less(options_.gpu_memory, name, taken); };
      if (launcher.trains_at <= now && std::ranges::any_of(launcher.held, is_full)) all.push_back(id);
    }
    full_gpus += std::ssize(all);
    for (const JobId id : all)
      end(id, {.how = Ended::How::failed,
               .reason = "gpu_out_of_memory: full",
               .cause = "gpu_out_of_memory",
               .fault_class = "user"});
  }
  void tell_memory() {
    std::map<std::string, MemoryKnown> hosts;
    for (const auto& [host, bytes] : options_.memory) hosts[host].bytes = bytes;
    for (const auto& [gpu, bytes] : options_.gpu_memory) hosts[host_in(gpu)].gpus[gpu.substr(gpu.find("cuda"))] = bytes;
    for (auto& [host, known] : hosts) {
      known.host = host;
      tell(known);
    }
  }
  // The kernel ends the largest job of a host without memory.
  void run_out_of_memory() {
    for (const auto& [host, memory] : options_.memory) {
      double used = 0, most = 0;
      JobId largest = 0;
      for (const auto& [id, launcher] : launchers_) {
        if (launcher.trains_at > now) continue;
        const auto here = [&](const std::string& name) { return Slot{0, name}.host() == host; };
        const double own = truth_.at(id).memory.taken.with(std::ranges::count_if(launcher.held, here));
        used += own;
        if (own > most) most = own, largest = id;
      }
      if (used <= memory) continue;
      ++oom_kills;
      end(largest, {.how = Ended::How::faulty,
                    .reason = "cpu_out_of_memory: killed",
                    .cause = "cpu_out_of_memory",
                    .fault_class = "engine"});
    }
  }

  void check_promise(const Released& action) {
    if (!promised_.contains(action.client)) return;
    CHECK(now <= promised_[action.client]);
    promised_.erase(action.client);
  }

  // 1: a device belongs to one job at most, and one guest, and launchers believe to hold exactly the devices given by
  // the pool.
  void check_laws() {
    std::map<std::string, int64_t> believed, believed_by_guests, there;
    for (const auto& [id, launcher] : launchers_) {
      for (const std::string& name : launcher.held) ++(is_guest(state(), id) ? believed_by_guests : believed)[name];
    }
    check_who_is_alone();
    check_guests();
    for (const Slot& slot : state().slots) there[slot.name] += slot.state != Slot::State::away || slot.holder != 0;
    INFO(text());
    for (const auto& [name, count] : believed_by_guests) REQUIRE(count <= there[name]);
    for (const auto& [name, count] : believed) REQUIRE(count <= there[name]);
    // 2: no client waits longer than promised.
    for (const auto& [client, until] : promised_) REQUIRE(now <= until + 0.11);
  }

  // 7: a guest whose device another job has, or whose device is asked back, was told to leave.
  void check_guests() const {
    for (const Slot& slot : state().slots) {
      if (slot.guest == 0) continue;
      const Job& guest = job(slot.guest);
      INFO(text());
      REQUIRE(guest.request.background);
      REQUIRE_FALSE(job_at(slot.holder).request.background);
      const bool is_its_own = slot.state == Slot::State::present && slot.holder == guest.beside;
      const bool is_told = guest.phase == Phase::stopping || guest.phase == Phase::changing || guest.is_leaderless;
      REQUIRE((is_its_own || is_told));
    }
  }
  Job job_at(JobId id) const { return id == 0 ? Job() : job(id); }

  void check_who_is_alone() const {
    std::map<std::string, std::set<JobId>> on_host;
    for (const auto& [id, launcher] : launchers_) {
      if (is_guest(state(), id)) continue;  // told to leave by then
      for (const std::string& name : launcher.held) on_host[Slot{0, name}.host()].insert(id);
    }
    for (const auto& [host, jobs] : on_host) {
      const bool is_shared = jobs.size() > 1;
      for (const JobId id : jobs) REQUIRE_FALSE((is_shared && job(id).request.alone));
    }
  }

  FakeOptions options_;
  Settings settings_;
  std::mt19937_64 random_, random_of_guests_{options_.seed + 1000};
  std::optional<Dispatcher> dispatcher_;
  std::vector<Action> orders_;
  std::map<JobId, Truth> truth_;
  std::map<JobId, Launcher> launchers_;
  std::map<JobId, Pending> requests_;
  std::map<JobId, double> unheard_;  // cost of changes that no daemon has heard of
  std::map<ClientId, double> promised_;
};

inline std::string with_short_searches(const std::string& policy) {
  const bool searches = policy == "pollux" || policy == "ones";
  return policy + (searches ? ":population=8:generations=3" : "");
}

// What happens to a pool at random: others take devices for a while, the daemon and the host are restarted.
class Disturbances {
 public:
  // `below`: draws a number.
  Disturbances(FakeWorld& world, std::vector<std::string> devices, std::function<int64_t(uint64_t)> below)
      : world_(world), there_(std::move(devices)), below_(std::move(below)) {}

  // 2: devices are taken; 3: one comes back; 4: the daemon is restarted; else now and then the host is.
  void happen(int64_t event) {
    if (event == 2) return take();
    if (event == 3) return lend_last();
    if (event == 4) return world_.restart_daemon();
    if (below_(4) == 0) world_.reboot();
  }
  // All devices come back.
  void end() {
    if (!away_.empty()) world_.lend(away_);
  }

 private:
  void take() {
    for (int64_t count = 1 + below_(2); count > 0 && !there_.empty(); --count) {
      std::swap(there_[static_cast<size_t>(below_(there_.size()))], there_.back());
      away_.push_back(there_.back());
      there_.pop_back();
      world_.take({away_.back()}, 2, ++client_);
    }
    world_.run(2.2);
  }
  void lend_last() {
    if (away_.empty()) return;
    world_.lend({away_.back()});
    there_.push_back(away_.back());
    away_.pop_back();
  }

  FakeWorld& world_;
  std::vector<std::string> there_, away_;
  const std::function<int64_t(uint64_t)> below_;
  ClientId client_ = 0;
};

}  // namespace estrain::dispatch
