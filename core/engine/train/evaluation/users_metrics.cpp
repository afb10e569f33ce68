#include "core/engine/train/evaluation/users_metrics.h"

#include <fcntl.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/memory_file.h"
#include "core/base/json/json.h"
#include "core/base/json/json_text.h"
#include "core/base/process/child_process.h"
#include "core/base/process/python.h"
#include "core/state/checkpoint/models/output_parts.h"

namespace estrain::train {
namespace {

constexpr const char* metrics_code =
#include <estrain/python_metrics.inc>
    ;

constexpr const char* kSetting = "train.metrics_python";
constexpr auto kBetweenGlances = 100ms, kForTraceback = 2000ms;
constexpr Seconds kLongestCall{600};

UsersPython python_of(const spec::JobSpec& spec) {
  for (const std::string& named : {spec.train.metrics_python, spec.model.python, spec.data.python})
    if (!named.empty()) return find_python(named, kSetting);
  return find_python("", kSetting);
}

// Python opens the outputs by a descriptor of their folder: a folder's path need not be UTF-8, as texts of JSON are.
struct OutputsFolder {
  std::string path;
  UniqueFd descriptor = open_file(path, O_PATH | O_DIRECTORY);

  std::string path_in_python() const { return fmt::format("/proc/self/fd/{}", descriptor.get()); }
};

Json request(const spec::JobSpec& spec, const OutputsFolder& folder, int answer, int notes) {
  const spec::CodePlace place(spec.train.metrics_file);
  const checkpoint::WrittenOutputs outputs = checkpoint::outputs_in(folder.path);
  Json columns = Json::array();
  for (const checkpoint::OutputColumn& column : outputs.columns)
    columns.push_back({{"name", column.name},
                       {"type", column.type},
                       {"sizes", column.sizes},
                       {"path", checkpoint::rows_path(folder.path_in_python(), column)}});
  return {{"file", place.file},
          {"function", place.name},
          {"seed", static_cast<uint64_t>(spec.job.seed)},
          {"names", spec.train.metrics_names},
          {"rows", outputs.rows},
          {"columns", std::move(columns)},
          {"answer", answer},
          {"notes", notes}};
}

// The numbers do not depend on the device of the worker, which the environment tells to libraries, and sets of texts
// have one order.
std::vector<std::pair<std::string, std::string>> environment() {
  return {{"OMP_NUM_THREADS", "1"},       {"MKL_NUM_THREADS", "1"},   {"OPENBLAS_NUM_THREADS", "1"},
          {"ATEN_CPU_CAPABILITY", ""},    {"ONEDNN_MAX_CPU_ISA", ""}, {"MKL_CBWR", ""},
          {"CUDA_VISIBLE_DEVICES", "-1"}, {"PYTHONHASHSEED", "0"}};
}

[[noreturn]] void refuse(const Json& told, const std::string& place) {
  const std::string message = fmt::format("{} {}", place, told.at("error").get<std::string>());
  const std::string trace = told.value("traceback", ""), advice = told.at("advice");
  if (trace.empty()) throw Error(Fault::spec, message).advise(advice);
  throw Error::make(Fault::spec, "{}\n{}", message, trace).advise(advice).caused_by("user_code");
}

std::vector<double> numbers_in(const Json& told) {
  std::vector<double> numbers;
  for (const std::string text : told.at("numbers")) numbers.push_back(std::strtod(text.c_str(), nullptr));
  return numbers;
}

void kill_and_reap(ChildProcess& child) {
  child.signal(SIGKILL);
  child.wait();
}

// Asks the Python where it is (metrics.py), and ends it.
[[noreturn]] void refuse_late(ChildProcess& child, const std::string& place, Seconds limit, const UniqueFd& notes,
                              const std::function<bool()>& goes_on) {
  child.signal(SIGUSR2);
  const MonotonicTime end = MonotonicClock::now() + kForTraceback;
  const std::string trace = users_traceback(
      notes.get(), [&] { return !child.wait_for(kBetweenGlances) && goes_on() && MonotonicClock::now() < end; });
  if (child.running()) kill_and_reap(child);
  throw Error::make(Fault::spec, "{} has not returned in {:g} s{}", place, limit.count(), trace)
      .advise("see where the function waits; recovery.hang_seconds says how long a call may take")
      .caused_by("user_code");
}

}  // namespace

std::optional<std::vector<double>> users_metrics(const spec::JobSpec& spec, const std::string& folder,
                                                 const std::function<bool()>& goes_on) {
  const std::string& place = spec.train.metrics_file;
  const UsersPython python = python_of(spec);
  const UniqueFd answer = memory_file("estrain-metrics", ""), code = memory_file("estrain-metrics-code", metrics_code);
  const UniqueFd notes = memory_file("estrain-metrics-notes", "");
  const OutputsFolder outputs{folder};
  const UniqueFd job = memory_file("estrain-metrics-job", json_text(request(spec, outputs, answer.get(), notes.get())));
  ChildOptions options;
  options.arguments = {python.program, fmt::format("/proc/self/fd/{}", code.get()), std::to_string(job.get()),
                       "metrics"};  // for readers of the list of processes
  options.inherited = {answer.get(), code.get(), job.get(), notes.get(), outputs.descriptor.get()};
  options.environment = environment();
  ChildProcess child = ChildProcess::start(options);
  const Seconds limit = spec.recovery.hang_seconds > 0 ? Seconds(spec.recovery.hang_seconds) : kLongestCall;
  const MonotonicTime begun = MonotonicClock::now();
  ChildEnd end;
  while (!child.wait_for(kBetweenGlances, &end)) {
    if (!goes_on()) {
      kill_and_reap(child);
      return std::nullopt;
    }
    if (MonotonicClock::now() - begun > limit) refuse_late(child, place, limit, notes, goes_on);
  }
  const Json told = Json::parse(read_memory_file(answer.get()), nullptr, false);
  if (told.is_discarded()) {
    throw Error::make(Fault::spec, "{}: {} ended with {} before the function returned", place, python.program,
                      end.text())
        .advise("its last lines of output, if any, say why; a system without free memory kills a process by SIGKILL")
        .caused_by("user_code");
  }
  if (told.contains("error")) refuse(told, place);
  return numbers_in(told);
}

}  // namespace estrain::train
