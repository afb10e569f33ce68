#include "core/state/record/logs/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files/input_file.h"
#include "core/base/files/long_files.h"
#include "core/state/record/logs/metrics_line.h"

namespace estrain::record {
namespace {

Step step_of(const Line& line) {
  return std::visit([](const auto& record) { return record.step; }, line);
}

bool is_evaluation(const Line& line) { return std::holds_alternative<EvaluationRecord>(line); }

std::optional<Line> read_if_sound(std::string_view text) {
  try {
    return parse_line(text, "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Copies readable lines up to `last`, with increasing steps.
void copy_sound_lines(const std::string& path, Step last, AppendedFile& copy) {
  std::string text;
  Step step(-1), evaluated(-1);
  LineReader lines(path);
  for (std::string_view line; lines.next(&line);) {
    const std::optional<Line> sound = read_if_sound(line);
    if (!sound || step_of(*sound) > last) continue;
    Step& newest = is_evaluation(*sound) ? evaluated : step;
    if (step_of(*sound) <= newest) continue;
    newest = step_of(*sound);
    text.append(line).append("\n");
    if (text.size() < kWriteBytes) continue;
    copy.append(text);
    text.clear();
  }
  copy.append(text);
}

struct KeptLines {
  uint64_t bytes = 0;
  Step step = Step(-1), evaluated = Step(-1);
  std::string damage;  // why the lines up to `last` are damaged
};

KeptLines lines_until(const std::string& path, Step last) {
  KeptLines kept;
  Step behind = last;       // step of the following line, while lines are kept
  bool unreadable = false;  // whether the following line is
  BackwardLineReader lines(path);
  for (std::string_view text; lines.next(&text);) {
    const std::optional<Line> line = read_if_sound(text);
    const bool stays = kept.bytes > 0;
    if (stays && (!line || step_of(*line) > behind)) {
      kept.damage = fmt::format("a line before that of step {} cannot be read", behind);
      return kept;
    }
    if (!line || step_of(*line) > last) {
      unreadable = !line;
      continue;
    }
    behind = step_of(*line);
    if (!stays) kept.bytes = lines.end();
    if (!stays && unreadable) {  // the unreadable line may have been the evaluation of step `last`
      kept.damage = fmt::format("a line after that of step {} cannot be read", behind);
      return kept;
    }
    Step& newest = is_evaluation(*line) ? kept.evaluated : kept.step;
    newest = std::max(newest, behind);
    if (kept.step >= Step(0) && kept.bytes - lines.begin() >= kCheckedBytes) return kept;
  }
  if (kept.bytes == 0 && unreadable && last > Step(0)) kept.damage = "its first line cannot be read";
  return kept;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::string& path, Step last) : path_(path), file_(path, take_up(path, last)) {}

// Returns how many bytes of the file to keep.
uint64_t MetricsWriter::take_up(const std::string& path, Step last) {
  const KeptLines kept = lines_until(path, last);
  if (!kept.damage.empty()) throw damaged(path, kept.damage);
  step_ = kept.step;
  evaluated_ = kept.evaluated;
  return kept.bytes;
}

std::optional<Damage> mend_metrics(const std::string& path, Step last) {
  const KeptLines kept = lines_until(path, last);
  if (kept.damage.empty()) return std::nullopt;
  const std::string sound = path + ".tmp";
  AppendedFile copy(sound, 0);
  copy_sound_lines(path, last, copy);
  return put_aside(path, sound, kept.damage);
}

void MetricsWriter::append(std::span<const StepRecord> records) {
  std::string text;
  Step last = step_;
  for (const StepRecord& record : records) {
    if (record.step <= step_) continue;
    text += to_line(record);
    last = record.step;
  }
  file_.append(text);
  step_ = last;
}

void MetricsWriter::append(const EvaluationRecord& evaluation) {
  if (evaluation.step <= evaluated_) return;
  file_.append(to_line(evaluation));
  evaluated_ = evaluation.step;
}

Metrics read_metrics(const std::string& path) {
  (void)open_input(path);  // a missing file is an error
  Metrics metrics;
  LineReader lines(path);
  int64_t number = 0;
  for (std::string_view text; lines.next(&text);) {
    Line line = parse_line(text, fmt::format("{}:{}", path, ++number));
    if (is_evaluation(line))
      metrics.evaluations.push_back(std::get<EvaluationRecord>(line));
    else
      metrics.steps.push_back(std::get<StepRecord>(std::move(line)));
  }
  return metrics;
}

}  // namespace estrain::record
