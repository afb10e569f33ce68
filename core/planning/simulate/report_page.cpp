#include <algorithm>
#include <map>

#include "core/base/visible_text.h"
#include "core/planning/simulate/report.h"

namespace estrain::simulate {
namespace {

constexpr double kWidth = 1000, kUseHeight = 120, kJobHeight = 3;
constexpr size_t kMostBars = 400;

double x_of(const SimulationResult& result, double at) {
  return kWidth * (at - result.begin) / (result.end - result.begin);
}

// Devices in use over time, as a step line.
std::string use_over_time(const SimulationResult& result) {
  std::map<double, int64_t> changes;
  for (const Stretch& stretch : result.stretches) {
    changes[stretch.from] += stretch.devices;
    changes[stretch.to] -= stretch.devices;
  }
  const auto y_of = [&](int64_t devices) {
    return kUseHeight * (1 - static_cast<double>(devices) / static_cast<double>(result.devices));
  };
  std::string points = fmt::format("0,{:.0f}", kUseHeight);
  int64_t in_use = 0;
  for (const auto& [at, change] : changes) {
    points += fmt::format(" {:.1f},{:.1f}", x_of(result, at), y_of(in_use));
    in_use += change;
    points += fmt::format(" {:.1f},{:.1f}", x_of(result, at), y_of(in_use));
  }
  return fmt::format("<svg viewBox=\"0 0 {0} {1}\"><polygon points=\"{2} {0},{1}\" fill=\"#4a7\"/></svg>\n", kWidth,
                     kUseHeight, points);
}

// A bar for each job: grey while it waits, darker with more devices.
std::string job_bars(const SimulationResult& result) {
  const size_t jobs = std::min(result.jobs.size(), kMostBars);
  std::string bars = fmt::format("<svg viewBox=\"0 0 {} {}\">", kWidth, static_cast<double>(jobs) * kJobHeight);
  const auto bar = [&](size_t job, double from, double to, const std::string& colour) {
    bars += fmt::format("<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>",
                        x_of(result, from), static_cast<double>(job) * kJobHeight,
                        std::max(0.3, x_of(result, to) - x_of(result, from)), kJobHeight - 1, colour);
  };
  for (size_t job = 0; job < jobs; ++job) bar(job, result.jobs[job].submitted, result.jobs[job].finished, "#ccc");
  for (const Stretch& stretch : result.stretches) {
    if (stretch.job >= jobs) continue;
    const int64_t light = 75 - 55 * stretch.devices / std::max<int64_t>(1, result.devices);
    bar(stretch.job, stretch.from, stretch.to, fmt::format("hsl(210,70%,{}%)", light));
  }
  return bars + "</svg>\n";
}

}  // namespace

std::string format_page(const std::string& title, const std::vector<SimulationResult>& results) {
  std::string page = fmt::format(
      "<!doctype html><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>body{{font:14px sans-serif;margin:2em;max-width:1100px}}pre{{overflow-x:auto}}"
      "svg{{width:100%;display:block;margin:4px 0}}</style>\n<h1>{0}</h1>\n<pre>{1}</pre>\n",
      html_escaped(title), html_escaped(format_table(results)));
  for (const SimulationResult& result : results) {
    page += fmt::format("<h2>{}, workload {}</h2>\n<p>Devices in use, of {}, over {:.0f} s; below, the jobs.</p>\n",
                        html_escaped(result.policy), html_escaped(result.workload), result.devices,
                        result.end - result.begin);
    page += use_over_time(result) + job_bars(result);
  }
  return page;
}

}  // namespace estrain::simulate
