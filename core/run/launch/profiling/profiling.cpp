#include "core/run/launch/profiling/profiling.h"

#include <estrain/version.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/files/long_files.h"
#include "core/base/files/run_files.h"
#include "core/base/files/temporary_folder.h"
#include "core/base/json/json_lines.h"
#include "core/base/process/child_process.h"
#include "core/job/resources/gpus.h"
#include "core/job/spec/parsing/parse.h"
#include "core/planning/plan/partial_sums.h"
#include "core/run/launch/preflight/devices.h"
#include "core/run/launch/preflight/early_checks.h"
#include "core/run/launch/preflight/operator_probe.h"
#include "core/run/launch/profiling/speed_meter.h"
#include "core/state/record/logs/metrics.h"
#include "core/state/run_directory/run_directory.h"
#include "core/state/run_directory/worker_library.h"

namespace estrain::launch {
namespace {

using profile::StageSpeed;

// The fewest steps of a run: the cold steps, a step at which counting begins, and two windows.
constexpr int64_t kLeastSteps = SpeedMeter::kColdSteps + 1 + 2 * SpeedMeter::kWindowSteps;
// Also where a step takes no time: the launcher looks at the clock now and then only.
constexpr double kLeastSeconds = 4e-9 * static_cast<double>(SpeedMeter::kWindow.count());
constexpr int kLongestRun = 16;  // times the length of a run with enough steps
constexpr int64_t kEndless = 1'000'000'000;
constexpr auto kGlance = std::chrono::milliseconds(5);

// The job, but endless, with this number of ESTs, and with training only.
spec::JobSpec shortened(spec::JobSpec spec, int64_t ests) {
  spec.job.ests = ests;
  spec.train.epochs.reset();
  spec.train.steps = kEndless;
  spec.train.eval_every = -1;
  spec.train.nonfinite = spec::NonfinitePolicy::skip;
  spec.checkpoint = {.every = 0, .keep = 1};
  spec.recovery.retries = 0;
  return spec;
}

// Returns the largest number of ESTs of a set of devices.
int64_t most_ests(const spec::JobSpec& spec, const std::set<int64_t>& numbers) {
  int64_t most = 1;
  for (const int64_t workers : numbers) {
    for (const std::vector<int64_t>& ests : profiling_sets(spec.job.ests, workers))
      most = std::max(most, std::reduce(ests.begin(), ests.end()));
  }
  return most;
}

// With other ESTs an epoch ends in other short mini-batches, which the job does not have: the short mini-batches are
// left out if the data set is large enough. A small data set gives short mini-batches alone.
spec::JobSpec with_full_batches(spec::JobSpec spec, int64_t ests, const Device& device) {
  spec::JobSpec full = spec;
  full.data.drop_last = true;
  spec.data.drop_last = false;
  try {
    probe_operators(shortened(full, ests), device, false);
    return full;
  } catch (const Error& error) {
    if (error.fault() == Fault::bug) throw;
    return spec;
  }
}

// Returns a device list. A kind with one device only, a GPU, has `alike` beside it.
std::string device_list(const std::string& kind, const std::vector<std::string>& alike,
                        const std::vector<int64_t>& ests) {
  std::vector<std::string> devices;
  for (size_t i = 0; i < ests.size(); ++i)
    devices.push_back(fmt::format("{}={}", i == 0 || alike.empty() ? kind : alike.at(i - 1), ests[i]));
  return fmt::format("{}", fmt::join(devices, ","));
}

// One run of `estrain train`, ended after a while.
class ShortRun {
 public:
  ShortRun(const spec::JobSpec& spec, std::string devices)
      : devices_(std::move(devices)), run_(folder_.path() + "/run") {
    write_file_atomically(folder_.path() + "/" + RunFiles::kSpec, spec::to_toml(spec));
    ChildOptions options;
    options.arguments = {own_executable(), "train", folder_.path() + "/" + RunFiles::kSpec, "--run", run_.path(),
                         "--devices",      devices_};
    options.output = folder_.path() + "/log";
    // Keep the speeds of a short run out of the user's database.
    options.environment = {{"ESTRAIN_PROFILES", folder_.path() + "/profiles.json"}};
    process_ = ChildProcess::start(options);
  }
  ~ShortRun() {
    if (!process_.running()) return;
    process_.signal(SIGKILL);
    process_.wait();
  }
  ShortRun(const ShortRun&) = delete;

  // Returns nothing if the run's launcher saw no window of steps: the machine is very busy.
  std::optional<StageSpeed> measure(double seconds) {
    train_for(seconds);
    process_.signal(SIGTERM);
    const ChildEnd end = process_.wait();
    if (end.signaled || end.code != estrain::exit_code(Fault::interrupted)) throw failure(end);
    return last_stage();
  }

 private:
  void train_for(double seconds) {
    const Nanoseconds length = nanoseconds(Seconds(std::max(seconds, kLeastSeconds)));
    std::optional<MonotonicTime> deadline;  // from the first step on
    for (;;) {
      if (ChildEnd end; process_.wait_for(0ms, &end)) throw failure(end);
      const int64_t steps = steps_done();
      if (steps > 0 && !deadline) deadline = MonotonicClock::now() + length;
      if (steps >= kLeastSteps && MonotonicClock::now() > *deadline) return;
      std::this_thread::sleep_for(kGlance);
    }
  }

  int64_t steps_done() {
    std::ifstream file(run_.metrics(), std::ios::binary);
    file.seekg(read_);
    char buffer[1 << 14];
    while (file.read(buffer, sizeof buffer), file.gcount() > 0) {
      read_ += file.gcount();
      lines_ += std::count(buffer, buffer + file.gcount(), '\n');
    }
    return lines_;
  }

  std::optional<StageSpeed> last_stage() const {
    std::optional<StageSpeed> last;
    for_each_object(run_.events(), [&](const Json& event) {
      if (auto speed = StageSpeed::from_event(event)) last = std::move(speed);
    });
    if (last) weigh_steps(*last);
    return last;
  }

  // A machine with other work now and then makes a few steps long, and a checkpoint makes a few of the first long: all
  // times count as the time of the median step.
  void weigh_steps(StageSpeed& stage) const {
    std::vector<double> times;  // of each step; the unit is of no matter
    for (const auto& step : record::read_metrics(run_.metrics()).steps)
      if (step.step.value > SpeedMeter::kColdSteps && step.samples_per_second > 0)
        times.push_back(1 / step.samples_per_second);
    if (times.size() < 4) return;
    std::ranges::sort(times);
    const size_t n = times.size();
    const double median = times[n / 2], mean = std::reduce(times.begin(), times.end()) / static_cast<double>(n);
    stage.spread = (times[n - 1 - n / 4] - times[n / 4]) / median;
    stage.seconds *= median / mean;
    for (StageSpeed::Worker& worker : stage.workers) worker.computing_seconds *= median / mean;
  }

  Error failure(const ChildEnd& end) const {
    std::string log = last_bytes(folder_.path() + "/log", 2000);
    while (log.ends_with('\n')) log.pop_back();
    return Error::make(Fault::peer, "a short run of the job on {} ended with {}; it said:\n{}", devices_, end.text(),
                       log)
        .advise("`estrain check SPEC` finds what keeps a job from running");
  }

  std::string devices_;
  TemporaryFolder folder_{"profile"};
  run_directory::RunDirectory run_;
  ChildProcess process_;
  std::streamoff read_ = 0;
  int64_t lines_ = 0;
};

StageSpeed measured(const spec::JobSpec& job, const std::string& devices, double seconds) {
  for (int longer = 1; longer <= kLongestRun; longer *= 4) {
    if (const auto speed = ShortRun(job, devices).measure(longer * std::max(seconds, kLeastSeconds))) return *speed;
  }
  throw Error::make(Fault::peer, "a short run of the job on {} was never seen to train: the machine is too busy",
                    devices)
      .advise("measure when it has cores to spare");
}

profile::Memory memory_of(const JobSize& size) {
  const auto bytes = [](uint64_t value) { return static_cast<int64_t>(value); };
  return {bytes(size.worker), bytes(size.state), bytes(size.gradients), bytes(size.batch)};
}

// Returns the linker's build note near the start of a library (elf(5), NT_GNU_BUILD_ID), in hexadecimal digits.
std::string build_note(const std::string& path) {
  using namespace std::string_view_literals;
  std::ifstream file(path, std::ios::binary);
  std::string start(4096, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  constexpr std::string_view note = "\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"sv;
  const size_t at = start.find(note);
  if (at == start.npos || at + note.size() + 8 > start.size()) return "";
  std::string digits;
  for (size_t i = 0; i < 8; ++i) digits += fmt::format("{:02x}", static_cast<uint8_t>(start[at + note.size() + i]));
  return digits;
}

std::string cpu_model() {
  const std::string text = text_if_readable("/proc/cpuinfo");
  const size_t name = text.find("model name");
  if (name == text.npos) return "unknown";
  const size_t begin = text.find_first_not_of(": \t", name + 10), end = text.find('\n', name);
  return begin < end ? text.substr(begin, end - begin) : "unknown";
}

int64_t partial_sums(const std::vector<int64_t>& ranges) {
  return plan::partial_sums_of(std::reduce(ranges.begin(), ranges.end()), ranges, std::identity());
}

// Returns the numbers of workers in the sets to run.
std::set<int64_t> numbers_of_workers(const spec::JobSpec& spec, int64_t devices, int64_t most) {
  std::set<int64_t> numbers = {1};
  const int64_t all = std::min({devices, spec.job.ests, most});
  if (all >= 2) numbers.insert({2, all});
  return numbers;
}

}  // namespace

profile::MachineFacts profile_host(int64_t cores) {
  const std::string note = build_note(run_directory::worker_library());
  return {cpu_model(), cores, note.empty() ? ESTRAIN_VERSION : fmt::format("{} {}", ESTRAIN_VERSION, note),
          resources::gpu_models()};
}

std::vector<std::vector<int64_t>> profiling_sets(int64_t ests, int64_t workers) {
  if (workers == 1) {
    std::vector<std::vector<int64_t>> sets = {{1}};
    if (ests > 1) sets.push_back({std::min<int64_t>(ests, 4)});
    return sets;
  }
  // Even ranges crowd all the time. Two and three ESTs each are whole subtrees in one case and torn ones in the other.
  std::vector<std::vector<int64_t>> sets;
  for (const int64_t each : {2, 3}) sets.emplace_back(static_cast<size_t>(workers), each);
  if (partial_sums(sets[0]) == partial_sums(sets[1])) sets.pop_back();
  return sets;
}

void KindProfile::learn_into(profile::Profiles& profiles, const spec::JobSpec& spec, const profile::MachineFacts& host,
                             int64_t now) const {
  if (!one_est && !alone && together.empty()) return;
  profiles.at(profile::describe_work(spec, kind, host)) = {};
  // A disturbed set would scale the earlier measurements; the time alone has the last word.
  for (const StageSpeed& stage : together) profiles.learn(spec, host, stage, now);
  if (one_est && alone) profiles.learn_update(spec, host, *one_est, *alone, now);
  if (const auto& lone = alone ? alone : one_est) profiles.learn(spec, host, *lone, now);
  if (memory) profiles.at(profile::describe_work(spec, kind, host)).memory = memory;
}

KindProfile profile(const spec::JobSpec& spec, const profile::KindCount& kind, const ProfilingOptions& options) {
  KindProfile found;
  found.kind = kind.kind;
  const Device device = placement::devices_from({kind.kind}).front();
  check_devices({device}, {});
  found.memory = memory_of(job_size(probe_operators(spec, device, false)));
  const int64_t at_hand = device.is_gpu() ? 1 + std::ssize(options.alike) : kind.count;
  const std::set<int64_t> numbers = numbers_of_workers(spec, at_hand, options.most_workers);
  const spec::JobSpec job = with_full_batches(spec, most_ests(spec, numbers), device);
  for (const int64_t workers : numbers) {
    for (const std::vector<int64_t>& ests : profiling_sets(spec.job.ests, workers)) {
      const std::string devices = device_list(kind.kind, options.alike, ests);
      options.say(devices);
      const int64_t total = std::reduce(ests.begin(), ests.end());
      const StageSpeed speed = measured(shortened(job, total), devices, options.seconds);
      if (workers > 1) {
        found.together.push_back(speed);
      } else {
        (total == 1 ? found.one_est : found.alone) = speed;
      }
    }
  }
  return found;
}

}  // namespace estrain::launch
