#include "core/record/metrics.h"

#include <fmt/format.h>

#include "core/base/files.h"
#include "core/record/metrics_line.h"

namespace estrain::record {
namespace {

// Calls visit(line, offset behind it) for every whole line until it returns false.
template <typename Visit>
void for_each_line(const std::string& path, std::string_view text, Visit&& visit) {
  size_t begin = 0, number = 1;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1, ++number)
    if (!visit(parse_line(text.substr(begin, end - begin), fmt::format("{}:{}", path, number)), end + 1)) return;
}

Step step_of(const Line& line) {
  return std::visit([](const auto& record) { return record.step; }, line);
}

}  // namespace

MetricsWriter::Kept MetricsWriter::whole_lines_until(const std::string& path, Step last) {
  Kept kept;
  for_each_line(path, read_file_if_present(path).value_or(""), [&](const Line& line, size_t end) {
    if (step_of(line) > last) return false;
    (std::holds_alternative<EvaluationRecord>(line) ? kept.evaluated : kept.step) = step_of(line);
    kept.bytes = end;
    return true;
  });
  return kept;
}

MetricsWriter::MetricsWriter(const std::string& path, Step last) : MetricsWriter(path, whole_lines_until(path, last)) {}

MetricsWriter::MetricsWriter(const std::string& path, const Kept& kept)
    : step_(kept.step), evaluated_(kept.evaluated), file_(path, kept.bytes) {}

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
  Metrics metrics;
  for_each_line(path, read_file(path), [&](Line line, size_t) {
    if (auto* step = std::get_if<StepRecord>(&line))
      metrics.steps.push_back(std::move(*step));
    else
      metrics.evaluations.push_back(std::get<EvaluationRecord>(line));
    return true;
  });
  return metrics;
}

}  // namespace estrain::record
