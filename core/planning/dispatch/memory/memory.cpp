// Memory of hosts (of GPUs: gpu_memory.cpp). Jobs start and grow where the memory suffices; the needs of jobs are
// estimated, seen, and doubled.
//
// A check's estimate is the first. As in DLRover (Q. Wang et al., 2023, section 4), jobs like the job tell more: the
// ratios by which the jobs of the same program that have ended, with this batch or another, differed from their own
// estimates. From then on the job's own peaks tell, and a lack of memory doubles the needs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/process/memory_use.h"
#include "core/planning/dispatch/homes.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/targets.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

constexpr double kMargin = 1.1;          // on a peak that was seen
constexpr int64_t kSettledSteps = 20;    // after which a peak replaces the estimate
constexpr size_t kJobsThatTell = 8;      // of the same program: the newest
constexpr int64_t kAnyNumber = 1 << 30;  // of workers

// Returns whether memory of this size holds as much. Sums of needs differ by rounding.
bool holds(double memory, double needed) {
  constexpr double kRounding = 1;  // byte
  return needed <= memory + kRounding;
}

std::optional<double> memory_of(const State& state, const std::string& host) {
  const auto at = state.memory.find(host);
  return at == state.memory.end() ? std::nullopt : std::optional(at->second);
}

int64_t workers_on(const Target& devices, const std::string& host) {
  int64_t workers = 0;
  for (const auto& [group, count] : devices)
    if (host_in(group) == host) workers += count;
  return workers;
}

std::set<std::string> hosts_of(const Target& devices) {
  std::set<std::string> hosts;
  for (const auto& [group, count] : devices)
    if (count > 0) hosts.insert(host_in(group));
  return hosts;
}

// Returns what a check of a job may take: as much as the largest job so far with one worker; 0 before the first job.
double check_bytes(const State& state) {
  double most = 0;
  for (const auto& [id, job] : state.jobs) most = std::max(most, job.memory.checked.with(1));
  return std::min(most, memory_of(state, "").value_or(most));
}

// Returns the memory of a host for jobs, less what checks at work or about to begin take of the daemon's host.
std::optional<double> memory_beside_checks(const State& state, const std::string& host) {
  std::optional<double> memory = memory_of(state, host);
  if (memory && host.empty()) *memory -= static_cast<double>(checks_at_work(state)) * check_bytes(state);
  return memory;
}

int64_t workers_in(double bytes, const NeededMemory& needs) {
  if (!holds(bytes, needs.with(1))) return 0;
  if (needs.worker <= 0) return kAnyNumber;
  const auto workers = static_cast<int64_t>(std::min<double>(kAnyNumber, (bytes - needs.fixed) / needs.worker));
  return std::max<int64_t>(1, workers);
}

Target common_part(const Target& one, const Target& other) {
  Target both;
  for (const auto& [group, count] : one) {
    const auto at = other.find(group);
    if (at != other.end() && std::min(count, at->second) > 0) both[group] = std::min(count, at->second);
  }
  return both;
}

bool is_closed_by_aside(const State& state, const Job& job, const std::string& host) {
  const Underway::SetAside& aside = state.underway.aside;
  return aside.job != 0 && aside.job != job.id && aside.host == host && !aside.ahead.contains(job.id);
}

// Returns the memory of a host that the job is not to grow into. A waiting job with a target counts by the target.
double kept_from(const State& state, const Job& job, const std::string& host) {
  const Underway::Kept& kept = state.underway.kept;
  if (kept.job == 0 || kept.job == job.id || kept.host != host) return 0;
  return state.jobs.at(kept.job).target.empty() ? kept.bytes : 0;
}

// A running job's devices as far as the job keeps them; a waiting job's target.
Target certain(const Job& job, const AllHeld& held) {
  if (!is_up(job.phase)) return job.target;
  const auto at = held.find(job.id);
  return at == held.end() ? Target() : common_part(job.target, at->second);
}

// Returns the memory of a host less the needs of the other jobs, each with as many workers there as workers_of() says.
template <typename WorkersOf>
double left_beside(const State& state, const Job& job, double memory, WorkersOf workers_of) {
  for (const auto& [id, other] : state.jobs) {
    if (id != job.id && !other.request.background && !other.target.empty())
      memory -= other.memory.needs.with(workers_of(other));
  }
  return memory;
}

double left_beside(const State& state, const Job& job, const std::string& host, double memory, const AllHeld& held) {
  return left_beside(state, job, memory, [&](const Job& other) {
    const bool is_placed = other.phase != Phase::waiting || state.underway.placed.contains(other.id);
    return is_placed ? workers_on(certain(other, held), host) : 0;
  });
}

// Fits targets to memory (turn.h).
class MemoryFit {
 public:
  MemoryFit(DispatchTurn& turn, const std::vector<Job*>& jobs)
      : state_(turn.state), jobs_(jobs), held_(all_held(turn.state)) {}

  std::vector<JobId> run() {
    std::vector<JobId> refused;
    for (Job* job : jobs_) {
      if (job->phase != Phase::waiting || job->target.empty()) continue;
      if (fits(*job) || make_room(*job)) {
        planned_.insert(job->id);
        continue;
      }
      refused.push_back(job->id);
      job->target.clear();
    }
    for (Job* job : jobs_) {
      if (!is_up(job->phase)) continue;
      trim(*job);
      planned_.insert(job->id);
    }
    return refused;
  }

 private:
  int64_t workers_of(const Job& job, const std::string& host) const {
    if (planned_.contains(job.id)) return workers_on(job.target, host);
    return is_up(job.phase) ? workers_on(certain(job, held_), host) : 0;
  }

  double left_on(const std::string& host, const Job& job) const {
    const std::optional<double> memory = memory_beside_checks(state_, host);
    if (!memory) return std::numeric_limits<double>::infinity();
    return left_beside(state_, job, *memory, [&](const Job& other) { return workers_of(other, host); });
  }

  bool fits(const Job& job) const {
    return gpus_hold(state_, job, job.target) &&
           std::ranges::all_of(hosts_of(job.target), [&](const std::string& host) {
             return !is_closed_by_aside(state_, job, host) &&
                    holds(left_on(host, job), job.memory.needs.with(workers_on(job.target, host)));
           });
  }

  // Returns the workers of the job beyond the job's gang, and beyond its owner's minimum.
  static int64_t surplus(const Job& job) {
    if (!is_up(job.phase)) return 0;
    return std::max<int64_t>(0, job.targeted() - std::max({int64_t{1}, job.request.devices, job.request.least}));
  }

  // Finds a host with memory for the job, if need be at the cost of workers beyond other jobs' gangs. Where GPUs do not
  // hold the job with the number of devices that the policy meant, it gets the nearest number that does.
  bool make_room(Job& job) {
    const Target wanted = job.target;
    const std::string type = type_in(wanted.begin()->first);
    const int64_t count = job.targeted(), most = std::max(count, std::min(job.request.most, job.request.ests));
    for (const bool takes_as_many : {true, false}) {
      for (const std::string& group : groups_of(state_)) {
        const std::string host = host_in(group);
        if (type_in(group) != type || is_closed_by_aside(state_, job, host)) continue;
        if (!memory_of(state_, host) && type != "cuda") continue;
        if (gpus_hold(state_, job, {{group, count}}) != takes_as_many) continue;
        const std::optional<int64_t> devices =
            takes_as_many ? count : nearest_on_gpus(state_, job, group, count, std::min(most, capacity(state_, group)));
        if (!devices) continue;
        job.target = {{group, *devices}};
        if (make_room_on(host, group, job)) return true;
        job.target = wanted;
      }
    }
    return false;
  }

  // Takes workers beyond other jobs' gangs on a host, until the host has memory and devices for the job's target.
  bool make_room_on(const std::string& host, const std::string& group, const Job& job) {
    const std::vector<std::pair<Job*, Target>> before = targets_on(host);
    while (!has_room(job, group)) {
      const auto victim = widest_on(host, job);
      if (victim.first == nullptr) break;
      lessen(*victim.first, victim.second);
      victim.first->reason = "gives way: another job needs the memory";
    }
    if (has_room(job, group) && is_open_to(state_, job, host)) return true;
    for (const auto& [other, target] : before) other->target = target;
    return false;
  }

  bool has_room(const Job& job, const std::string& group) const {
    return fits(job) && targeted_of(state_, group) <= capacity(state_, group);
  }

  std::vector<std::pair<Job*, Target>> targets_on(const std::string& host) const {
    std::vector<std::pair<Job*, Target>> targets;
    for (Job* job : jobs_)
      if (is_up(job->phase) && workers_on(job->target, host) > 0) targets.emplace_back(job, job->target);
    return targets;
  }

  // Returns the job with most workers beyond its gang that has some on the host, and a group of the host to take from.
  std::pair<Job*, std::string> widest_on(const std::string& host, const Job& for_job) const {
    std::pair<Job*, std::string> widest = {nullptr, ""};
    for (Job* job : jobs_) {
      if (job == &for_job || surplus(*job) == 0) continue;
      if (widest.first != nullptr && surplus(*job) <= surplus(*widest.first)) continue;
      for (const auto& [group, count] : job->target)
        if (host_in(group) == host && !leaves_home(*job, group) && is_held_with_less(*job, group))
          widest = {job, group};
    }
    return widest;
  }

  // Returns whether the job would have no device at home without one of this group's.
  static bool leaves_home(const Job& job, const std::string& group) {
    return host_in(group) == job.home && workers_on(job.target, job.home) == 1;
  }

  // Returns whether GPUs hold the job without one of this group's.
  bool is_held_with_less(const Job& job, const std::string& group) const {
    Target less = job.target;
    --less[group];
    return gpus_hold(state_, job, less);
  }

  // Takes new devices from the target of a job that is up, as far as memory is lacking.
  void trim(Job& job) const {
    const Target has = certain(job, held_);
    const bool was_meant_to_run = !job.target.empty();
    for (const auto& [group, count] : Target(job.target)) {
      const std::string host = host_in(group);
      const auto own = has.find(group);
      const int64_t kept = own == has.end() ? 0 : own->second;
      const auto is_too_much = [&] {
        return is_closed_by_aside(state_, job, host) || !holds(left_on(host, job) - kept_from(state_, job, host),
                                                               job.memory.needs.with(workers_on(job.target, host)));
      };
      while (wanted(job, group) > kept && memory_of(state_, host) && is_too_much()) lessen(job, group);
    }
    if (!is_held_by_gpus(job)) change_to_what_holds(job);
    if (job.target.empty() && was_meant_to_run) stay(job);
    if (is_held_by_gpus(job)) return;
    job.target.clear();
    job.reason = "stops: so few GPUs do not hold it";
  }

  // A job at work is held by its present GPUs, whatever was foretold.
  bool is_held_by_gpus(const Job& job) const {
    const auto at = held_.find(job.id);
    return gpus_hold(state_, job, job.target) || (at != held_.end() && job.target == at->second);
  }

  // Gives the job the nearest number of the group's devices that holds the job; no devices if no number does.
  void change_to_what_holds(Job& job) const {
    const std::string group = job.target.begin()->first, host = host_in(group);
    const int64_t meant = job.targeted(),
                  spare = std::max<int64_t>(0, capacity(state_, group) - targeted_of(state_, group));
    const int64_t most = std::min({meant + spare, std::max(meant, job.request.most), job.request.ests});
    const std::optional<int64_t> devices = nearest_on_gpus(state_, job, group, meant, most);
    job.target.clear();
    if (!devices) return;
    const auto held = held_.find(job.id);
    const bool is_growth = held == held_.end() || *devices > workers_on(held->second, host);
    const double left = left_on(host, job) - kept_from(state_, job, host);
    if (is_growth && (is_closed_by_aside(state_, job, host) || !holds(left, job.memory.needs.with(*devices)))) return;
    job.target = {{group, *devices}};
  }

  // Keeps a job that was to move on its present devices, without the devices given to other jobs by the policy.
  void stay(Job& job) const {
    const auto held = held_.find(job.id);
    if (held == held_.end()) return;
    for (const auto& [group, count] : held->second) {
      const int64_t kept = std::min(count, capacity(state_, group) - targeted_of(state_, group));
      if (kept > 0) job.target[group] = kept;
    }
    job.reason = "stays: the hosts meant for it have no memory left";
  }

  State& state_;
  const std::vector<Job*>& jobs_;
  const AllHeld held_;
  std::set<JobId> planned_;  // the jobs counted by their targets
};

// Returns the most by which an estimate of the job's program was wrong, of the newest jobs that are done.
struct RatiosOfLike {
  NeededMemory host{1, 1};
  double gpu = 1;
};
RatiosOfLike ratios_of_like(const State& state, const std::string& program) {
  RatiosOfLike all;
  NeededMemory& ratios = all.host;
  size_t found = 0;
  bool is_first = true;
  for (auto at = state.jobs.rbegin(); at != state.jobs.rend() && found < kJobsThatTell; ++at) {
    const MemoryOfJob& memory = at->second.memory;
    if (at->second.phase != Phase::done || memory.program != program || !memory.checked.are_known()) continue;
    ++found;
    const auto ratio = [](double now, double before) { return before > 0 ? now / before : 1; };
    const NeededMemory one{ratio(memory.needs.fixed, memory.checked.fixed),
                           ratio(memory.needs.worker, memory.checked.worker)};
    ratios = is_first ? one : NeededMemory{std::max(ratios.fixed, one.fixed), std::max(ratios.worker, one.worker)};
    all.gpu = std::max(all.gpu, memory.gpu_ratio);
    is_first = false;
  }
  return all;
}

// Of the largest host of the pool; infinite where the memory of a host is not known.
double largest_memory(const State& state) {
  double most = 0;
  for (const std::string& group : groups_of(state))
    most = std::max(most, memory_of(state, host_in(group)).value_or(std::numeric_limits<double>::infinity()));
  return most;
}

bool has_waited_too_long(const DispatchTurn& turn, const Job& job) {
  return job.memory.waits_since > 0 && turn.now >= job.memory.waits_since + turn.settings.memory_patience;
}

// Returns the host with most memory left, of those that would have memory for the job if they were empty.
std::optional<std::string> host_for(const State& state, const Job& job, const AllHeld& held) {
  std::optional<std::string> roomiest;
  double most = 0;
  for (const std::string& group : groups_of(state)) {
    const std::string host = host_in(group);
    const std::optional<double> memory = memory_of(state, host);
    if (!memory || type_in(group) != job.request.type || workers_on_empty(state, job, host) == 0) continue;
    if (!fewest_on_gpus(state, job, group)) continue;
    const double left = left_beside(state, job, host, *memory, held);
    if (!roomiest || left > most) most = left, roomiest = host;
  }
  return roomiest;
}

std::string text_of(double bytes) { return format_bytes(static_cast<uint64_t>(std::max(0.0, bytes))); }

std::string name_of(const std::string& host) { return host.empty() ? "the daemon's host" : host; }

}  // namespace

void estimate_memory(const State& state, Job& job, const Checked& event) {
  job.memory.checked = job.memory.needs = event.memory;
  job.memory.program = event.program;
  job.memory.gpus = event.gpus;
  job.memory.gpu_ratio = 1;
  if (event.program.empty()) return;
  const RatiosOfLike ratios = ratios_of_like(state, event.program);
  job.memory.needs = {event.memory.fixed * ratios.host.fixed, event.memory.worker * ratios.host.worker};
  job.memory.gpu_ratio = ratios.gpu;
}

void learn_memory(const State& state, Job& job, const Progressed& event) {
  MemoryOfJob& memory = job.memory;
  if (!(event.worker_bytes > 0)) return;
  if (memory.peak <= 0) memory.peak_from = event.step;
  memory.peak = std::max(memory.peak, event.worker_bytes);
  const double seen = kMargin * memory.peak;
  const bool is_settled = memory.shortages == 0 && event.step >= memory.peak_from + kSettledSteps;
  // The job is at work on a host of the pool: no peak says that no host has memory for the job.
  const double most = std::max(memory.needs.worker, largest_memory(state) - memory.needs.fixed);
  memory.needs.worker = std::min(most, is_settled ? seen : std::max(memory.needs.worker, seen));
}

void double_memory(DispatchTurn& turn, Job& job) {
  MemoryOfJob& memory = job.memory;
  ++memory.shortages;
  if (!memory.needs.are_known()) return;
  const double before = memory.needs.with(1);
  const double factor = std::max(1.0, std::min(2.0, largest_memory(turn.state) / before));
  memory.needs = {memory.needs.fixed * factor, memory.needs.worker * factor};
  turn.act(note_of(job, "memory",
                   fmt::format("memory was lacking: with a worker it counts for {} from now on, not {}",
                               text_of(memory.needs.with(1)), text_of(before))));
}

int64_t workers_on_empty(const State& state, const Job& job, const std::string& host) {
  const std::optional<double> memory = memory_of(state, host);
  return memory ? workers_in(*memory, job.memory.needs) : kAnyNumber;
}

int64_t workers_with_memory(const State& state, const Job& job, const std::string& host, const AllHeld& held) {
  const std::optional<double> memory = memory_beside_checks(state, host);
  if (!memory || !job.memory.needs.are_known()) return kAnyNumber;
  const auto at = held.find(job.id);
  const int64_t own = is_up(job.phase) && at != held.end() ? workers_on(at->second, host) : 0;
  if (is_closed_by_aside(state, job, host)) return own;
  const double left = left_beside(state, job, host, *memory, held);
  const int64_t fitting = workers_in(left, job.memory.needs);
  if (!is_up(job.phase)) return fitting;
  return std::max(std::min(own, fitting), workers_in(left - kept_from(state, job, host), job.memory.needs));
}

bool has_memory_for(const State& state, const Job& job, const Target& devices) {
  if (state.memory.empty() || !job.memory.needs.are_known()) return true;
  const AllHeld held = all_held(state);
  const auto own = held.find(job.id);
  for (const std::string& host : hosts_of(devices)) {
    const std::optional<double> memory = memory_beside_checks(state, host);
    const int64_t workers = workers_on(devices, host);
    if (!memory || (own != held.end() && workers_on(own->second, host) >= workers)) continue;
    double used = job.memory.needs.with(workers);
    for (const auto& [id, has] : held) {
      const Job& other = state.jobs.at(id);
      if (id == job.id || (other.request.background && !job.request.background)) continue;
      used += other.memory.needs.with(workers_on(has, host));
    }
    if (!holds(*memory, used)) return false;
  }
  return true;
}

std::optional<double> memory_left_for_check(const State& state, int64_t at_work) {
  std::optional<double> left = memory_of(state, "");
  if (!left) return left;
  *left -= static_cast<double>(at_work) * check_bytes(state);
  for (const auto& [id, has] : all_held(state)) *left -= state.jobs.at(id).memory.needs.with(workers_on(has, ""));
  return left;
}

bool has_memory_for_check(const State& state, int64_t at_work) {
  const std::optional<double> left = memory_left_for_check(state, at_work);
  return !left || holds(*left, check_bytes(state));
}

void on(DispatchTurn& turn, const CheckBegan& event) {
  Job& job = job_of(turn.state, event.job);
  if (job.phase == Phase::checking) job.reason = "is being checked";
}

void on(DispatchTurn& turn, const CheckWaits& event) {
  const State& state = turn.state;
  Job& job = job_of(turn.state, event.job);
  if (job.phase != Phase::checking) return;
  const std::optional<double> memory = memory_of(state, "");
  job.reason = kToBeChecked;
  if (!memory || event.at_work >= kChecksAtOnce) return;
  job.reason = fmt::format("waits for memory to be checked: a check may take {}, and {} of {} are left on {}",
                           text_of(check_bytes(state)), text_of(*memory_left_for_check(state, event.at_work)),
                           text_of(*memory), name_of(""));
}

bool has_memory_for_guest(const State& state, const Job& guest, const std::string& host) {
  const std::optional<double> memory = memory_of(state, host);
  if (!memory || !guest.memory.needs.are_known()) return true;
  double used = 0;
  for (const auto& [id, has] : all_held(state)) {
    const Job& other = state.jobs.at(id);
    if (!other.request.background || id <= guest.id) used += other.memory.needs.with(workers_on(has, host));
  }
  return holds(*memory, used);
}

std::vector<JobId> fit_memory(DispatchTurn& turn, const std::vector<Job*>& jobs) {
  if (turn.state.memory.empty() && turn.state.gpu_memory.empty()) return {};
  return MemoryFit(turn, jobs).run();
}

void set_memory_aside(DispatchTurn& turn, const std::vector<Job*>& jobs, const std::vector<JobId>& refused) {
  State& state = turn.state;
  if (state.underway.aside.job != 0) return;
  const AllHeld held = all_held(state);
  for (const JobId id : refused) {
    const Job& job = state.jobs.at(id);
    if (!has_waited_too_long(turn, job)) continue;
    const std::optional<std::string> host = host_for(state, job, held);
    if (!host) continue;
    state.underway.aside = {id, *host, {}};
    for (const Job* ahead : jobs) {
      if (ahead->id == id) return;
      if (ahead->phase == Phase::waiting) state.underway.aside.ahead.insert(ahead->id);
    }
    return;
  }
}

void keep_memory(DispatchTurn& turn, const std::vector<Job*>& jobs) {
  State& state = turn.state;
  for (const Job* job : jobs) {
    if (job->phase != Phase::waiting || !has_waited_too_long(turn, *job)) continue;
    const std::optional<std::string> host = host_for(state, *job, all_held(state));
    if (!host) continue;
    state.underway.kept = {job->id, *host, job->memory.needs.with(1)};
    return;
  }
}

void let_wait_for_memory(DispatchTurn& turn, Job& job) {
  const State& state = turn.state;
  const AllHeld held = all_held(state);
  std::string roomiest;
  double most = -std::numeric_limits<double>::infinity();
  for (const std::string& group : groups_of(state)) {
    const std::optional<double> memory = memory_of(state, host_in(group));
    if (!memory || type_in(group) != job.request.type) continue;
    if (const double left = left_beside(state, job, host_in(group), *memory, held); left > most)
      most = left, roomiest = host_in(group);
  }
  job.target.clear();
  const double needed = job.memory.needs.with(1);
  const std::string gpus = lack_of_gpu_memory(state, job);
  const bool is_host_full = std::isfinite(most) && !holds(most, needed);
  job.reason = "waits for memory: " +
               (is_host_full || gpus.empty()
                    ? fmt::format("it needs {}, and {} of {} are left on {}", text_of(needed), text_of(most),
                                  text_of(memory_of(state, roomiest).value_or(0)), name_of(roomiest))
                    : gpus);
  if (job.memory.waits_since > 0) return;
  job.memory.waits_since = turn.now;
  turn.act(note_of(job, "waits", job.reason));
}

void on(DispatchTurn& turn, const MemoryKnown& event) {
  if (event.bytes > 0) {
    turn.state.memory[event.host] = event.bytes;
  } else {
    turn.state.memory.erase(event.host);
  }
  std::erase_if(turn.state.gpu_memory, [&](const auto& entry) { return host_in(entry.first) == event.host; });
  for (const auto& [gpu, bytes] : event.gpus)
    turn.state.gpu_memory[event.host.empty() ? gpu : event.host + "/" + gpu] = bytes;
  turn.state.underway.is_stale = true;
}

}  // namespace estrain::dispatch
