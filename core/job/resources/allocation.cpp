#include "core/job/resources/allocation.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <ctime>
#include <system_error>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/process/child_process.h"

namespace estrain::resources {
namespace {

constexpr std::chrono::seconds kPatienceWithSqueue{2};
// Limit for times: ten times the year of a Slurm job without a limit, and small enough to keep sums from overflowing.
constexpr int64_t kMostSeconds = INT64_C(10) * 365 * 86'400;

std::string_view value_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view{} : std::string_view(found->second);
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> parse_positive(std::string_view text) {
  const auto value = parse_integer(text);
  return value && *value > 0 ? value : std::nullopt;
}

// "72(x2),36": 72 CPUs on the first two nodes, 36 on the third.
std::optional<int64_t> cpus_of_node(std::string_view list, int64_t node) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    const size_t bracket = item.find("(x");
    const bool repeated = bracket != item.npos && item.back() == ')';
    const auto repeats =
        repeated ? parse_positive(item.substr(bracket + 2, item.size() - bracket - 3)) : std::optional<int64_t>(1);
    const auto cpus = parse_positive(repeated ? item.substr(0, bracket) : item);
    if (!cpus || !repeats) return std::nullopt;
    if (node < *repeats) return cpus;
    node -= *repeats;
  }
  return std::nullopt;
}

struct Cores {
  int64_t count;
  std::string from;
};

// Returns all cores of the node for a batch script, however many tasks it requested; for a step started by srun, the
// task's share.
std::optional<Cores> slurm_cores(const Environment& environment) {
  const std::string_view share = "SLURM_CPUS_PER_TASK", node = "SLURM_CPUS_ON_NODE", all = "SLURM_JOB_CPUS_PER_NODE";
  const bool is_step = !value_of(environment, "SLURM_STEP_ID").empty();
  const int64_t node_number = parse_integer(value_of(environment, "SLURM_NODEID")).value_or(0);
  const auto order = is_step ? std::array{share, node, all} : std::array{node, all, share};
  for (const std::string_view name : order) {
    const std::string_view text = value_of(environment, name);
    const auto count = name == all ? cpus_of_node(text, node_number) : parse_positive(text);
    if (count) return Cores{*count, std::string(name)};
  }
  return std::nullopt;
}

// Parses a Slurm memory size, in megabytes or with a unit letter as in sbatch's --mem, into bytes. 0 means "all of the
// node", and no limit.
std::optional<int64_t> parse_memory(std::string_view text) {
  constexpr int64_t kMost = INT64_C(1) << 20;  // terabytes
  int shift = 20;
  if (!text.empty()) {
    const size_t letter = std::string_view("KMGT").find(text.back());
    if (letter != std::string_view::npos) {
      shift = 10 * static_cast<int>(letter + 1);
      text.remove_suffix(1);
    }
  }
  const auto value = parse_positive(text);
  if (!value || *value > (kMost << (40 - shift))) return std::nullopt;
  return *value << shift;
}

struct Memory {
  int64_t bytes;
  std::string from;
};

std::optional<Memory> slurm_memory(const Environment& environment, std::optional<int64_t> cpus,
                                   std::optional<int64_t> gpus) {
  if (const auto bytes = parse_memory(value_of(environment, "SLURM_MEM_PER_NODE")))
    return Memory{*bytes, "SLURM_MEM_PER_NODE"};
  const std::pair<const char*, std::optional<int64_t>> shares[] = {{"SLURM_MEM_PER_CPU", cpus},
                                                                   {"SLURM_MEM_PER_GPU", gpus}};
  for (const auto& [name, count] : shares) {
    const auto bytes = parse_memory(value_of(environment, name));
    if (bytes && count && *count <= INT64_MAX / *bytes) return Memory{*bytes * *count, name};
  }
  return std::nullopt;
}

// Counts by CUDA's own rule: the list ends at the first entry other than a device ("", "-1", "NoDevFiles").
int64_t visible_gpus(std::string_view list) {
  int64_t count = 0;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    const bool is_index = parse_integer(item).value_or(-1) >= 0;
    if (!is_index && !item.starts_with("GPU-") && !item.starts_with("MIG-")) return count;
    ++count;
  }
  return count;
}

// CUDA goes by its own variable, whoever set the variable.
std::optional<int64_t> gpus_of_node(const Environment& environment, bool by_slurm) {
  if (const auto found = environment.find("CUDA_VISIBLE_DEVICES"); found != environment.end())
    return visible_gpus(found->second);
  if (!by_slurm) return std::nullopt;
  const auto count = parse_integer(value_of(environment, "SLURM_GPUS_ON_NODE"));
  return count && *count >= 0 ? count : std::nullopt;
}

constexpr std::string_view kEnd = "SLURM_JOB_END_TIME";

// Negative: the job has ended.
std::optional<int64_t> seconds_to_end(const Environment& environment, const Instant& now) {
  const auto end = parse_positive(value_of(environment, kEnd));
  if (!end || *end - now.unix_seconds > kMostSeconds) return std::nullopt;
  return *end - now.unix_seconds;
}

void read_slurm(const Environment& environment, const Instant& now, Allocation& allocation) {
  const std::string_view job = value_of(environment, "SLURM_JOB_ID");
  if (job.empty()) return;
  const std::optional<int64_t> left = seconds_to_end(environment, now);
  if (left && *left < 0) {
    allocation.ended_job = job;
    return;
  }
  allocation.slurm_job = job;
  if (left) allocation.ends = now.monotonic + *left * 1s;
  allocation.restarts = std::max<int64_t>(0, parse_integer(value_of(environment, "SLURM_RESTART_COUNT")).value_or(0));
  allocation.nodes = parse_positive(value_of(environment, "SLURM_JOB_NUM_NODES")).value_or(1);
}

// Applies Slurm's grant, where less than the machine's limits.
void grant(const Environment& environment, Allocation& allocation) {
  const std::optional<Cores> cores = slurm_cores(environment);
  if (cores && cores->count <= allocation.cores) {
    allocation.cores = cores->count;
    allocation.cores_from = cores->from;
  }
  const auto cpus = cores ? std::optional<int64_t>(cores->count) : std::nullopt;
  const std::optional<Memory> memory = slurm_memory(environment, cpus, allocation.gpus);
  if (memory && (!allocation.memory_bytes || memory->bytes <= *allocation.memory_bytes)) {
    allocation.memory_bytes = memory->bytes;
    allocation.memory_from = memory->from;
  }
}

// Parses numbers between colons: {hours, minutes, seconds}, {minutes, seconds} or {seconds}.
std::optional<int64_t> parse_clock(std::string_view text) {
  int64_t seconds = 0;
  for (int parts = 0; parts < 3; ++parts) {
    const size_t colon = text.find(':');
    const auto part = parse_integer(text.substr(0, colon));
    if (!part || *part < 0 || *part > kMostSeconds) return std::nullopt;
    seconds = 60 * seconds + *part;
    if (colon == text.npos) return seconds;
    text.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

// Returns the end according to squeue, otherwise `known`.
std::optional<MonotonicTime> end_by_squeue(const std::string& job, std::optional<MonotonicTime> known) {
  const auto left = ask_time_left(job, kPatienceWithSqueue);
  if (!left) return known;
  return *left == kNoTimeLimit ? std::nullopt : std::optional(MonotonicClock::now() + *left * 1s);
}

// Asks once in a process: squeue may take a while, and an ended job does not begin again.
bool still_runs(const std::string& job) {
  static std::map<std::string, bool> known;
  const auto found = known.find(job);
  if (found != known.end()) return found->second;
  return known[job] = ask_time_left(job, kPatienceWithSqueue).has_value();
}

Instant this_instant() { return {static_cast<int64_t>(::time(nullptr)), MonotonicClock::now()}; }

}  // namespace

std::optional<double> Allocation::seconds_left() const {
  if (!ends) return std::nullopt;
  return std::max(0.0, seconds(*ends - MonotonicClock::now()).count());
}

Allocation read_allocation(const Environment& environment, const MachineLimits& limits, const Instant& now) {
  Allocation allocation;
  allocation.cores = limits.cores;
  allocation.cores_from = limits.cores_from;
  allocation.memory_bytes = limits.memory_bytes;
  allocation.memory_from = limits.memory_from;
  read_slurm(environment, now, allocation);
  allocation.gpus = gpus_of_node(environment, !allocation.ended_job);
  if (allocation.slurm_job) grant(environment, allocation);
  return allocation;
}

Allocation current_resources() {
  Environment environment = own_environment();
  const MachineLimits limits = machine_limits();
  Allocation allocation = read_allocation(environment, limits, this_instant());
  if (!allocation.ended_job || !still_runs(*allocation.ended_job)) return allocation;
  environment.erase(std::string(kEnd));
  return read_allocation(environment, limits, this_instant());
}

Allocation current_allocation() {
  Allocation allocation = current_resources();
  if (allocation.slurm_job && !allocation.ends) allocation.ends = end_by_squeue(*allocation.slurm_job, {});
  return allocation;
}

std::optional<MonotonicTime> current_end(std::optional<MonotonicTime> known) {
  const std::optional<std::string> job = environment_variable("SLURM_JOB_ID");
  return job && !job->empty() ? end_by_squeue(*job, known) : known;
}

std::string words_of_ended_job(const Allocation& allocation) {
  if (!allocation.ended_job) return "";
  return "Slurm job " + *allocation.ended_job +
         " has ended (SLURM_JOB_END_TIME is past, and squeue does not know that the job runs): its variables in this "
         "environment do not count";
}

Json describe(const Allocation& allocation) {
  Json json = {{"cores", allocation.cores}, {"cores_from", allocation.cores_from}};
  if (allocation.memory_bytes) {
    json["memory_bytes"] = *allocation.memory_bytes;
    json["memory_from"] = allocation.memory_from;
  }
  if (allocation.gpus) json["gpus"] = *allocation.gpus;
  if (!allocation.slurm_job) return json;
  json["slurm_job"] = *allocation.slurm_job;
  json["restarts"] = allocation.restarts;
  json["nodes"] = allocation.nodes;
  if (const auto left = allocation.seconds_left()) json["seconds_left"] = *left;
  return json;
}

std::optional<int64_t> parse_time_left(std::string_view text) {
  if (text == "UNLIMITED") return kNoTimeLimit;
  int64_t days = 0;
  if (const size_t dash = text.find('-'); dash != text.npos) {
    const auto number = parse_integer(text.substr(0, dash));
    if (!number || *number < 0 || *number > kMostSeconds / 86'400) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  const auto rest = parse_clock(text);
  if (!rest || *rest > kMostSeconds) return std::nullopt;
  return days * 86'400 + *rest;
}

std::optional<int64_t> ask_time_left(const std::string& job, std::chrono::milliseconds patience,
                                     const std::string& squeue) {
  const UniqueFd answer(::memfd_create("estrain-squeue", MFD_CLOEXEC));
  if (!answer) return std::nullopt;
  const std::string answer_path = "/proc/self/fd/" + std::to_string(answer.get());
  try {
    ChildOptions options;
    options.arguments = {"/usr/bin/env", squeue, "--noheader", "--jobs", job, "--format", "%L"};
    options.output_descriptor = answer.get();
    ChildProcess process = ChildProcess::start(options);
    ChildEnd end;
    if (!process.wait_for(patience, &end)) {
      process.signal(SIGKILL);
      process.wait();
      return std::nullopt;
    }
    if (end.signaled || end.code != 0) return std::nullopt;
    return parse_time_left(without_blanks(read_file(answer_path)));
  } catch (const Error&) {
    return std::nullopt;  // no program can be started: the end is unknown
  }
}

}  // namespace estrain::resources
