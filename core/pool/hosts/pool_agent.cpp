#include "core/pool/hosts/pool_agent.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/signalfd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"
#include "core/base/files/poll_set.h"
#include "core/base/files/run_files.h"
#include "core/base/process/watched_signals.h"
#include "core/base/visible_text.h"
#include "core/job/resources/allocation.h"
#include "core/job/resources/gpus.h"
#include "core/job/resources/machine_limits.h"
#include "core/pool/hosts/duties.h"
#include "core/pool/hosts/own_command.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::pool {
namespace {

constexpr auto kAgentTick = 50ms;
constexpr Nanoseconds kLook = 1s;
constexpr Nanoseconds kLookBeforeTraining = 200ms;  // while the task is not known to train

std::string checked_pool(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::exists(path + "/pool.db", failure))
    return std::filesystem::absolute(path).lexically_normal().string();
  throw Error::make(Fault::usage, "{}: there is no pool", path)
      .advise("serve one there first: estrain pool serve " + path + " --devices LIST");
}

std::vector<std::string> checked_devices(const std::string& list) {
  const std::string wanted = list.empty() ? std::to_string(resources::current_resources().cores) : list;
  const launch::Devices devices = placement::devices_of(launch::parse_devices(wanted));
  for (const launch::Device& device : devices) {
    if (!device.host.empty())
      throw Error::make(Fault::usage, "--devices {}: an agent has the devices of its own host", list)
          .advise("leave the host out; --name says what the pool calls this host");
  }
  launch::check_devices(devices, {.mixed = true, .oversubscribed = false});
  return placement::texts_of(devices);
}

void check_name(const std::string& name) {
  if (placement::parse_device(name + "/cpu")) return;
  throw Error::make(Fault::usage, "--name {}: that is no host's name", name)
      .advise("letters, digits, '.', '-' and '_'");
}

Error taken(const std::string& pool, const std::string& name) {
  return Error::make(Fault::usage, "{}: an agent of a host {} is in this pool already", pool, name)
      .advise("give this agent another name: --name; or end the other agent first");
}

// Held while the agent lives. Where hosts do not see each other's locks, another agent's beats tell.
UniqueFd take_name(const MeetingFolder& meeting, const std::string& pool, const std::string& name) {
  check_name(name);
  const std::string folder = meeting.folder(name);
  make_folders(folder);
  const std::string path = folder + "/lock";
  UniqueFd lock = open_own_file(path, O_RDWR | O_CREAT, 0600);
  if (!take_lock(lock.get(), path)) throw taken(pool, name);
  const auto before = meeting.report(name);
  if (!before || before->gone) return lock;
  std::this_thread::sleep_for(3 * kBeat);
  const auto after = meeting.report(name);
  if (after && after->life == before->life && after->beat != before->beat) throw taken(pool, name);
  return lock;
}

class PoolAgent {
 public:
  explicit PoolAgent(const PoolAgentOptions& options)
      : options_(options),
        meeting_(checked_pool(options.pool)),
        duties_{.life = report_.life},
        lock_(take_name(meeting_, options.pool, options.name)),
        signals_(watch_signals(std::array{SIGTERM, SIGINT, SIGHUP})) {
    report_.devices = checked_devices(options.devices);
    report_.cores = resources::current_resources().cores;
    report_.memory = options.memory ? static_cast<double>(*options.memory) : memory_for_jobs();
    report_.gpus = memory_of_gpus();
    report_.rack = options.rack;
    say(fmt::format("offers {} to the pool {}", fmt::join(report_.devices, ","), options.pool));
  }
  ~PoolAgent() {
    report_.gone = true;
    report_.tasks.clear();
    try_to_write();
  }
  PoolAgent(const PoolAgent&) = delete;

  int run() {
    begin_ = MonotonicClock::now();
    while (true) {
      wait();
      const MonotonicTime now = MonotonicClock::now();
      hear_signals();
      hear_daemon(now);
      reap(now);
      look_at_runs(now);
      tell(now);
      if (const std::optional<int> code = end(now)) return *code;
    }
  }

 private:
  void say(const std::string& what) const {
    fmt::print("host {}: {}\n", options_.name, visible_in_line(what));
    std::fflush(stdout);
  }

  void wait() {
    PollSet waiting;
    waiting.add(signals_.get(), POLLIN);
    for (const auto& [id, child] : children_) waiting.add(child.descriptor(), POLLIN);
    waiting.wait(kAgentTick);
  }

  void hear_signals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (!duties_.is_welcome || report_.leaves) winds_up_ = true;
      if (!report_.leaves) say("leaves: jobs let go of its devices; a second signal does not wait for the pool");
      report_.leaves = true;
    }
  }

  void hear_daemon(MonotonicTime now) {
    if (const auto sign = meeting_.daemon(); sign && sign->beat != daemon_beat_) {
      if (daemon_beat_ >= 0) {  // two beats: the daemon is at work
        daemon_seen_ = now;
        check(*sign);
      }
      daemon_beat_ = sign->beat;
    }
    const bool was_welcome = duties_.is_welcome;
    if (const auto orders = meeting_.orders(options_.name)) {
      decide_on(OrdersRead{*orders}, now);
    }
    if (duties_.is_welcome && !was_welcome) say("is in the pool");
    if (report_.leaves && now - daemon_seen_ > kSilent) winds_up_ = true;
    if (!duties_.refusal.empty()) winds_up_ = true;
    if (!winds_up_) return;
    decide_on(NobodyOrders{}, now);
  }

  void check(const DaemonSign& sign) const {
    const std::string own = std::filesystem::absolute(options_.pool).lexically_normal().string();
    if (duties_.is_welcome || sign.folder == own) return;
    throw Error::make(Fault::usage, "the pool is {} where its daemon runs, and {} here", sign.folder, own)
        .advise("give the shared folder the same path on all hosts");
  }

  void decide_on(const DutyEvent& event, MonotonicTime now) {
    for (const Duty& duty : decide(duties_, event, now))
      std::visit([&](const auto& one) { carry_out(one, now); }, duty.deed);
  }

  void carry_out(const StartTask& duty, MonotonicTime now) {
    ChildOptions options = own_command(duty.task.words, duty.task.log);
    try {
      if (duty.task.kind == kRunAgent) prepare(duty.task, options);
      children_[duty.task.id] = ChildProcess::start(options);
    } catch (const Error& error) {
      say(fmt::format("cannot start {}: {}", fmt::join(options.arguments, " "), error.message()));
      decide_on(ProcessEnded{duty.task.id, false, 1}, now);
    }
    is_news_ = true;
  }

  // The host file of a killed agent leads nowhere.
  void prepare(const Task& task, ChildOptions& options) const {
    std::error_code failure;
    std::filesystem::remove(host_file(task), failure);
    if (!options_.address.empty()) options.arguments.insert(options.arguments.end(), {"--address", options_.address});
    if (!options_.interface.empty())
      options.arguments.insert(options.arguments.end(), {"--interface", options_.interface});
  }

  void carry_out(const ReportNow&, MonotonicTime) { is_news_ = true; }

  void carry_out(const SignalTask& duty, MonotonicTime) {
    const auto child = children_.find(duty.id);
    if (child != children_.end()) child->second.signal(duty.number);
  }

  void reap(MonotonicTime now) {
    std::vector<std::string> over;
    for (auto& [id, child] : children_) {
      ChildEnd end;
      if (!child.wait_for(0ms, &end)) continue;
      over.push_back(id);
      decide_on(ProcessEnded{id, end.signaled, end.code}, now);
      looked_.clear();  // the effects of a request are seen before the end of the request is told
    }
    for (const std::string& id : over) children_.erase(id);
  }

  bool leads(const KnownTask& one) const {
    if (one.task.kind == kLauncher) return true;
    if (one.task.kind != kRunAgent || !children_.contains(one.task.id)) return false;
    const auto owner = run_directory::RunDirectory(one.task.run).owner();
    return owner && owner->is_here() && owner->pid == children_.at(one.task.id).pid();
  }

  bool listens(const KnownTask& one) const {
    std::error_code failure;
    return one.task.kind == kRunAgent && std::filesystem::exists(host_file(one.task), failure);
  }

  // The path of the file written by the run's agent once the agent listens (core/hosts/agents/host_file.h).
  std::string host_file(const Task& task) const { return RunFiles(task.run).host_file(options_.name); }

  void look_at_runs(MonotonicTime now) {
    for (const auto& [id, one] : duties_.known) {
      if (one.report.ended || one.task.kind == kRequest) continue;
      const bool trains = one.report.look && one.report.look->trains();
      const bool is_settled = one.task.kind == kRunAgent ? one.report.listens : trains;
      const Nanoseconds every = is_settled ? kLook : kLookBeforeTraining;
      const auto looked = looked_.find(id);
      if (looked != looked_.end() && now < looked->second + every) continue;
      looked_[id] = now;
      TaskLookedAt seen{id, one.report.leads || leads(one), listens(one)};
      if (seen.leads) seen.look = look_at_run(one.task.run, kLookPatience);
      decide_on(seen, now);
    }
  }

  void tell(MonotonicTime now) {
    if (now < tells_next_ && !is_news_) return;
    tells_next_ = now + kBeat;
    is_news_ = false;
    report_.tasks.clear();
    for (const auto& [id, one] : duties_.known) report_.tasks.push_back(one.report);
    try_to_write();
  }

  void try_to_write() {
    ++report_.beat;
    try {
      meeting_.write(options_.name, report_);
    } catch (const Error& error) {
      if (!is_mute_) say("warning: " + error.message());
      is_mute_ = true;
      return;
    }
    is_mute_ = false;
  }

  std::optional<int> end(MonotonicTime now) const {
    if (winds_up_ && !duties_.anything_runs()) {
      if (!duties_.refusal.empty())
        throw Error::make(Fault::usage, "the pool's daemon does not take this agent: {}", duties_.refusal);
      say("ends; what ran here was stopped with a checkpoint");
      return 0;
    }
    if (report_.leaves && duties_.is_dismissed && !duties_.anything_runs()) {
      say("ends: the pool has let go of its devices");
      return 0;
    }
    if (duties_.is_welcome || winds_up_ || seconds(now - begin_).count() < options_.patience_seconds)
      return std::nullopt;
    throw Error::make(Fault::peer, "{}: no daemon of this pool has answered in {} s", options_.pool,
                      options_.patience_seconds)
        .advise("start it where its devices are: estrain pool serve " + options_.pool +
                "; or wait longer: --patience SECONDS");
  }

  const PoolAgentOptions& options_;
  MeetingFolder meeting_;
  AgentReport report_{.build = Build::own(), .life = new_life(), .pid = ::getpid(), .devices = {}, .tasks = {}};
  Duties duties_;
  UniqueFd lock_, signals_;
  std::map<std::string, ChildProcess> children_;
  std::map<std::string, MonotonicTime> looked_;
  bool is_news_ = true, is_mute_ = false, winds_up_ = false;
  MonotonicTime begin_, tells_next_, daemon_seen_;
  int64_t daemon_beat_ = -1;
};

}  // namespace

double memory_for_jobs() {
  constexpr double kOfJobs = 15.0 / 16;
  return kOfJobs * static_cast<double>(resources::machine_limits().memory_bytes.value_or(0));
}

std::map<std::string, double> memory_of_gpus() {
  std::map<std::string, double> gpus;
  for (const uint64_t bytes : resources::gpu_memories())
    gpus[fmt::format("cuda:{}", gpus.size())] = static_cast<double>(bytes);
  return gpus;
}

int run_pool_agent(const PoolAgentOptions& options) { return PoolAgent(options).run(); }

}  // namespace estrain::pool
