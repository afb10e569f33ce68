#include "core/inspect/report/difference.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/base/error.h"
#include "core/base/files/run_files.h"
#include "core/inspect/verify/compare.h"
#include "core/inspect/verify/report.h"
#include "core/state/record/logs/metrics_reader.h"

namespace estrain::report {
namespace {

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
