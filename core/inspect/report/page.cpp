#include "core/inspect/report/page.h"

#include <fmt/format.h>

#include <functional>

#include "core/base/visible_text.h"
#include "core/inspect/report/charts/chart.h"
#include "core/inspect/report/charts/labels.h"
#include "core/inspect/report/charts/timeline_view.h"
#include "core/inspect/report/page_style.h"

namespace estrain::report {
namespace {

using SeriesOf = std::function<const Series&(const RunRecords&)>;

// Returns "run" for a single run; otherwise the run's number and name.
std::string name_in_chart(const std::vector<RunRecords>& runs, size_t which) {
  return runs.size() == 1 ? runs[0].name : fmt::format("{}: {}", which + 1, runs[which].path);
}

std::vector<ChartLine> lines_of(const std::vector<RunRecords>& runs, const SeriesOf& series) {
  std::vector<ChartLine> lines;
  for (size_t i = 0; i < runs.size(); ++i) lines.push_back({name_in_chart(runs, i), &series(runs[i]), i});
  return lines;
}

std::vector<int64_t> steps_of_faults(const std::vector<RunRecords>& runs) {
  std::vector<int64_t> steps;
  for (const RunRecords& run : runs)
    for (const Mark& mark : run.timeline.marks)
      if (mark.kind == MarkKind::fault && mark.step >= 0) steps.push_back(mark.step);
  return steps;
}

std::string loss_remark(const std::vector<RunRecords>& runs, bool has_faults) {
  std::string remark = "The line is the mean of neighbouring steps, the band goes from the lowest to the highest.";
  if (has_faults) remark += " Dashed lines: faults.";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].loss.not_finite() > 0)
      remark += fmt::format(" {}{} losses were not finite, first at step {}.",
                            runs.size() > 1 ? fmt::format("Run {}: ", i + 1) : "", runs[i].loss.not_finite(),
                            runs[i].loss.first_not_finite());
  }
  return remark;
}

std::string charts(const std::vector<RunRecords>& runs) {
  const std::vector<int64_t> faults = steps_of_faults(runs);
  std::string html;
  html += to_html({"loss", "Loss", loss_remark(runs, !faults.empty()),
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.loss; }), faults, false});
  html += to_html({"accuracy",
                   "Test accuracy",
                   "",
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.test_accuracy; }),
                   {},
                   true});
  html += to_html({"test-loss",
                   "Test loss",
                   "",
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.test_loss; }),
                   {},
                   false});
  html += to_html({"lr",
                   "Learning rate",
                   "",
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.lr; }),
                   {},
                   true});
  html += to_html({"speed", "Samples a second", "",
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.samples_per_second; }),
                   faults, true});
  return html;
}

std::string fact(std::string_view name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, html_escaped(value));
}

int64_t count_of(const RunRecords& run, const std::string& event) {
  const auto found = run.timeline.counts.find(event);
  return found == run.timeline.counts.end() ? 0 : found->second;
}

std::string facts(const RunRecords& run) {
  const Timeline& timeline = run.timeline;
  std::string html = "<dl class=\"facts\">";
  html += fact("run directory", run.path);
  if (!run.model.empty()) html += fact("model", run.model);
  html += fact("ESTs", fmt::format("{}", timeline.ests));
  html += fact("state", timeline.state.empty() ? "unknown: it is running, or was killed" : timeline.state);
  html += fact("steps", fmt::format("{} recorded, last {}", run.steps, run.last_step));
  html += fact("epoch", fmt::format("{}", run.last_epoch));
  if (run.steps > 0) html += fact("last loss", short_number(run.loss.last_value()));
  if (!run.test_accuracy.empty()) html += fact("last test accuracy", short_number(run.test_accuracy.last_value()));
  html += fact("running time", duration(timeline.length));
  html += fact("launches", fmt::format("{}", count_of(run, "start")));
  html += fact("faults", fmt::format("{}", count_of(run, "fault")));
  html += fact("resizes", fmt::format("{}", count_of(run, "resize") + count_of(run, "rebalance")));
  html += fact("checkpoints", fmt::format("{}", timeline.spent.checkpoints));
  if (run.without_update > 0) html += fact("steps without an update", fmt::format("{}", run.without_update));
  return html + "</dl>";
}

std::string damage(const RunRecords& run) {
  std::string html;
  for (const std::string& words : run.damage) html += fmt::format("<p class=\"warning\">{}</p>", html_escaped(words));
  return html;
}

std::string run_section(const RunRecords& run, size_t number, bool alone) {
  const std::string id = fmt::format("run-{}", number);
  const std::string heading = alone ? "Time and devices" : fmt::format("Run {}: {}", number, run.name);
  std::string html = fmt::format("<section id=\"{}\"><h2>{}</h2>", id, html_escaped(heading));
  html += "<h3>Time line</h3>" + timeline_html(id, run.timeline);
  html += "<h3>Where the time went</h3>" + time_spent_html(run.timeline);
  html += "<h3>Devices</h3>" + devices_html(run.timeline);
  html += "<h3>Events</h3>" + events_html(id, run.timeline);
  if (!run.spec.empty()) {
    constexpr size_t longest = 65536;
    html += fmt::format("<details><summary>The job's spec</summary><pre>{}</pre></details>",
                        html_escaped(run.spec.substr(0, longest)));
  }
  return html + "</section>\n";
}

std::string summary(const std::vector<RunRecords>& runs) {
  std::string html = "<section id=\"summary\"><h2>Summary</h2>";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs.size() > 1) html += fmt::format("<h3>Run {}: {}</h3>", i + 1, html_escaped(runs[i].name));
    html += damage(runs[i]) + facts(runs[i]);
  }
  return html + "</section>\n";
}

std::string verdict(const RunDifference& difference) {
  if (!difference.compared) return "not compared";
  return difference.identical ? "none: all bits are equal" : fmt::format("first at step {}", difference.first_step);
}

std::string difference_section(const std::vector<RunRecords>& runs, const std::vector<RunDifference>& differences) {
  if (differences.empty()) return "";
  std::string html = "<section id=\"difference\"><h2>Difference</h2>";
  for (size_t i = 0; i < differences.size(); ++i) {
    const RunDifference& difference = differences[i];
    html += fmt::format("<p class=\"verdict {}\">Run {} from run 1: <strong>{}</strong></p><pre>{}</pre>",
                        difference.identical ? "same" : "other", i + 2, verdict(difference),
                        html_escaped(difference.words));
    html += to_html({fmt::format("difference-{}", i + 2),
                     fmt::format("Distance of the losses of runs 1 and {}", i + 2),
                     "",
                     {{runs[i + 1].path, &difference.losses, i + 1}},
                     {},
                     true});
  }
  return html + "</section>\n";
}

std::string title_of(const std::vector<RunRecords>& runs) {
  if (runs.size() == 1) return runs[0].name;
  return fmt::format("{} and {} more", runs[0].name, runs.size() - 1);
}

}  // namespace

std::string page(const std::vector<RunRecords>& runs, const std::vector<RunDifference>& differences) {
  const std::string title = html_escaped(title_of(runs));
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>{} - estrain report</title>\n<style>{}</style></head>\n<body><header><h1>{}</h1><nav "
      "aria-label=\"Sections\">",
      title, kStyle, title);
  if (!differences.empty()) html += "<a href=\"#difference\">Difference</a> ";
  html += "<a href=\"#curves\">Curves</a>";
  for (size_t i = 0; i < runs.size(); ++i)
    html += fmt::format(" <a href=\"#run-{0}\">{1}</a>", i + 1,
                        runs.size() == 1 ? "Time and devices" : fmt::format("Run {}", i + 1));
  html += "</nav></header>\n<main>" + summary(runs) + difference_section(runs, differences);
  html += "<section id=\"curves\"><h2>Curves</h2>" + charts(runs) + "</section>\n";
  for (size_t i = 0; i < runs.size(); ++i) html += run_section(runs[i], i + 1, runs.size() == 1);
  return html + "</main></body></html>\n";
}

}  // namespace estrain::report
