#include "core/inspect/report/run_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/input_file.h"
#include "core/base/files/long_files.h"
#include "core/base/files/run_files.h"
#include "core/inspect/verify/compare.h"
#include "core/inspect/verify/report.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/record/logs/metrics_reader.h"

namespace estrain::report {
namespace {

void require_run(const std::string& path) {
  std::error_code failure;
  const RunFiles run(path);
  for (const std::string& sign : {run.spec(), run.metrics(), run.events(), run.checkpoints()})
    if (std::filesystem::exists(sign, failure)) return;
  throw Error::make(Fault::usage, "{}: {}", path, failure ? failure.message() : "no run there")
      .advise("give the run directory that `estrain train` printed");
}

std::string folder_name(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string();
}

void read_spec(RunRecords& run) {
  const std::string path = RunFiles(run.path).spec();
  run.name = folder_name(run.path);
  try {
    const UniqueFd file = open_input_if_present(path);
    if (!file) return run.damage.push_back(path + " is missing");
    run.spec = read_whole(file.get(), path, kMostSpec);
    const spec::JobSpec spec = spec::parse_text(run.spec, path);
    run.name = spec.job.name;
    run.model = spec.model.name;
    run.timeline.ests = spec.job.ests;
  } catch (const Error& error) {
    run.damage.push_back(error.message());
  }
}

Series& term_of(RunRecords& run, const std::string& name) {
  const auto found = std::ranges::find(run.terms, name, &std::pair<std::string, Series>::first);
  return found != run.terms.end() ? found->second : run.terms.emplace_back(name, Series()).second;
}

void add(RunRecords& run, const record::StepRecord& step) {
  ++run.steps;
  run.last_step = step.step.value;
  run.last_epoch = step.epoch.value;
  run.loss.add(step.step.value, step.loss);
  run.lr.add(step.step.value, step.lr);
  if (step.samples_per_second > 0) run.samples_per_second.add(step.step.value, step.samples_per_second);
  for (const auto& [name, value] : step.terms) term_of(run, name).add(step.step.value, value);
  run.without_update += step.left_out;
}

void add(RunRecords& run, const record::EvaluationRecord& evaluation) {
  run.test_loss.add(evaluation.step.value, evaluation.loss);
  run.test_accuracy.add(evaluation.step.value, evaluation.accuracy);
}

void read_metrics(RunRecords& run) {
  record::MetricsReader lines(RunFiles(run.path).metrics());
  int64_t out_of_order = 0;
  while (const auto line = lines.next()) {
    const auto* step = std::get_if<record::StepRecord>(&*line);
    if (step == nullptr)
      add(run, std::get<record::EvaluationRecord>(*line));
    else if (run.steps == 0 || step->step.value > run.last_step)
      add(run, *step);
    else
      ++out_of_order;
  }
  if (lines.unreadable() > 0)
    run.damage.push_back(fmt::format("damaged: {} line(s) cannot be read and are left out, first {}",
                                     lines.unreadable(), lines.first_unreadable()));
  if (out_of_order > 0)
    run.damage.push_back(
        fmt::format("damaged: {} line(s) of {}/metrics.jsonl repeat a step and are left out", out_of_order, run.path));
}

void read_events(RunRecords& run) {
  const std::string path = RunFiles(run.path).events();
  TimelineReader timeline;
  LineReader lines(path);
  int64_t number = 0, unreadable = 0, first = 0;
  for (std::string_view text; lines.next(&text);) {
    ++number;
    const Json event = parse_json_if_sound(text);
    if (event.is_object())
      timeline.add(event);
    else if (unreadable++ == 0)
      first = number;
  }
  const int64_t ests = run.timeline.ests;
  run.timeline = timeline.finish();
  run.timeline.ests = std::max(run.timeline.ests, ests);
  if (unreadable > 0)
    run.damage.push_back(
        fmt::format("damaged: {} line(s) cannot be read and are left out, first {}:{}", unreadable, path, first));
}

std::optional<record::StepRecord> next_step(record::MetricsReader& lines) {
  while (auto line = lines.next())
    if (auto* step = std::get_if<record::StepRecord>(&*line)) return std::move(*step);
  return std::nullopt;
}

// Equal bits have distance 0, even NaNs.
double distance(float a, float b) {
  if (std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b)) return 0;
  return std::abs(static_cast<double>(a) - static_cast<double>(b));
}

Series loss_distances(const std::string& run_a, const std::string& run_b) {
  record::MetricsReader lines_a(RunFiles(run_a).metrics()), lines_b(RunFiles(run_b).metrics());
  Series distances;
  auto a = next_step(lines_a), b = next_step(lines_b);
  while (a && b) {
    if (a->step == b->step) distances.add(a->step.value, distance(a->loss, b->loss));
    const bool a_is_behind = a->step <= b->step, b_is_behind = b->step <= a->step;
    if (a_is_behind) a = next_step(lines_a);
    if (b_is_behind) b = next_step(lines_b);
  }
  return distances;
}

}  // namespace

RunRecords read_run(const std::string& path) {
  require_run(path);
  RunRecords run;
  run.path = path;
  read_spec(run);
  read_metrics(run);
  read_events(run);
  return run;
}

RunDifference difference_of(const std::string& a, const std::string& b) {
  RunDifference difference;
  difference.losses = loss_distances(a, b);
  try {
    const verify::Comparison found = verify::compare(a, b);
    difference.compared = true;
    difference.identical = found.identical();
    if (found.difference) difference.first_step = found.difference->step.value;
    difference.words = verify::to_text(found);
  } catch (const Error& error) {
    difference.words = error.message();
  }
  return difference;
}

}  // namespace estrain::report
