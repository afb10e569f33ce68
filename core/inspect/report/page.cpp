#include "core/inspect/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/base/visible_text.h"
#include "core/inspect/report/charts/chart.h"
#include "core/inspect/report/charts/labels.h"
#include "core/inspect/report/charts/timeline_view.h"

namespace estrain::report {
namespace {

// The style of a report: light or dark like the reader's system, also on a phone and on paper. The colours of lines and
// blocks suit colour-blind readers, and a legend names each.
constexpr const char* kStyle = R"css(
:root{--paper:#fff;--ink:#1b1f24;--soft:#5b6470;--rule:#d5dae0;--panel:#f5f7f9;--bad:#b3261e;--good:#186a3b;--warn:#8a5300;
--link:#0a58ca;--k0:#0072b2;--k1:#b84f00;--k2:#007f5f;--k3:#b0497f;--k4:#7d6608;--k5:#8c564b;--k6:#7b4fa3;--k7:#5f6770}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e8eaed;--soft:#a3acb8;--rule:#3a414a;--panel:#1d2127;
--bad:#ff8a80;--good:#7bd69b;--warn:#ffc36b;--link:#8ab8ff;--k0:#4aa8e0;--k1:#ff8c42;--k2:#35c99a;--k3:#e8a3c8;--k4:#e3c84a;
--k5:#8fd0f5;--k6:#b694dd;--k7:#a9b1ba}}
.c0{--k:var(--k0)}.c1{--k:var(--k1)}.c2{--k:var(--k2)}.c3{--k:var(--k3)}.c4{--k:var(--k4)}.c5{--k:var(--k5)}
.c6{--k:var(--k6)}.c7{--k:var(--k7)}
*{box-sizing:border-box}
body{margin:0 auto;max-width:70rem;padding:.75rem;background:var(--paper);color:var(--ink);
font:1rem/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:.25rem 0}h2{font-size:1.25rem;border-bottom:1px solid var(--rule)}h3{font-size:1.05rem}
a{color:var(--link)}nav a{margin-right:1rem;display:inline-block;padding:.3rem 0}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
:target{background:var(--panel);outline:2px solid var(--link)}
figure{margin:1rem 0 1.75rem}figcaption{font-weight:600}small{display:block;font-weight:400;color:var(--soft)}
.plot{display:grid;grid-template-columns:4.6rem 1fr;grid-template-rows:auto 2.6rem}
.area{position:relative;height:15rem;background:var(--panel);border:1px solid var(--rule)}
.area svg{position:absolute;inset:0;width:100%;height:100%}
.y,.x{position:relative;font-size:.75rem;color:var(--soft)}
.y span{position:absolute;right:.4rem;transform:translateY(50%);white-space:nowrap}
.x{grid-column:2}.x span{position:absolute;top:.15rem;transform:translateX(-50%);white-space:nowrap}
.x .far{transform:translateX(-100%)}.x .near{transform:none}
.x b{position:absolute;right:0;top:1.2rem;font-weight:400}
path{vector-effect:non-scaling-stroke}
.grid{stroke:var(--rule);stroke-width:1}.marked{stroke:var(--bad);stroke-width:1;stroke-dasharray:2 3}
.line{fill:none;stroke:var(--k);stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round}.band{fill:var(--k);opacity:.22}
.block{fill:var(--k)}.many{fill:var(--soft);opacity:.6}.recovering{fill:var(--bad);opacity:.35}
.between{stroke:var(--paper);stroke-width:1;opacity:.55}.launches{stroke:var(--ink);stroke-width:1.5}
.saved{stroke:var(--ink);stroke-width:1}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.15rem 1rem;margin:.25rem 0;padding:0;font-size:.85rem}
.legend i{display:inline-block;width:.8rem;height:.8rem;background:var(--k);margin-right:.35rem;vertical-align:-.05rem}
.legend b{margin-right:.3rem}
.places{position:absolute;inset:0;margin:0;padding:0;border:0;min-width:0}
.places legend{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.places label{position:absolute;top:0;height:100%;min-width:2px}
.places input{position:absolute;inset:0;width:100%;height:100%;margin:0;opacity:0}
.places span,.signs span{position:absolute;top:.25rem;left:0;z-index:3;opacity:0;pointer-events:none;padding:.2rem .45rem;
background:var(--ink);color:var(--paper);font-size:.8rem;font-weight:400;border-radius:.25rem;width:max-content;
max-width:min(20rem,44vw)}
.places .right span,.signs .right span{left:auto;right:0}
.places label:hover,.places label:focus-within{background:color-mix(in srgb,var(--ink) 12%,transparent)}
.places label:hover span,.places input:focus+span,.signs a:hover span,.signs a:focus span{opacity:1}
.signs{position:relative;height:1.6rem;margin-left:4.6rem}
.signs a{position:absolute;top:0;transform:translateX(-50%);text-decoration:none;font-size:.95rem;line-height:1.6rem;
padding:0 .1rem}
.signs span{top:1.6rem}
.fault,.trouble{color:var(--bad)}.recovered{color:var(--good)}.slow{color:var(--warn)}.launch,.end,.resize{color:var(--ink)}
.timeline .name{position:absolute;overflow:hidden;display:flex;align-items:center;justify-content:center;color:var(--paper);
font-size:.75rem;white-space:nowrap;pointer-events:none}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;margin:.5rem 0}
td,th{overflow-wrap:normal}.words{overflow-wrap:anywhere}.spent th{text-align:left}
caption{text-align:left;color:var(--soft)}
th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid var(--rule);vertical-align:top}
td.words,th.words{text-align:left;min-width:14rem}.events td,.events th{text-align:left}
.bar{min-width:6rem}.bar i{display:block;height:.8rem;background:var(--k0);margin-top:.25rem}
.runs th,.runs td{text-align:left;overflow-wrap:anywhere}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:.5rem 1rem;margin:.75rem 0}
.facts dt{font-size:.8rem;color:var(--soft)}.facts dd{margin:0}
.warning{border-left:.3rem solid var(--bad);padding:.25rem .6rem;background:var(--panel)}
.verdict{font-size:1.1rem}.same strong{color:var(--good)}.other strong{color:var(--bad)}
pre{overflow-x:auto;background:var(--panel);padding:.6rem;font-size:.8rem;white-space:pre-wrap}
summary{cursor:pointer;padding:.25rem 0;color:var(--link)}
@media (max-width:40rem){.plot{grid-template-columns:3.4rem 1fr}.signs{margin-left:3.4rem}.area{height:11rem}}
@media print{:root{color-scheme:light}body{max-width:none}nav,.places{display:none}figure,tr{break-inside:avoid}
.area,.block,.bar i,.legend i{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";

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

const Series& term_of(const RunRecords& run, const std::string& name) {
  static const Series none;
  const auto found = std::ranges::find(run.terms, name, &std::pair<std::string, Series>::first);
  return found != run.terms.end() ? found->second : none;
}

// A chart for each term of the loss of any run.
std::string term_charts(const std::vector<RunRecords>& runs) {
  std::vector<std::string> names;
  for (const RunRecords& run : runs)
    for (const auto& [name, series] : run.terms)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  std::string html;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto series = [&](const RunRecords& run) -> const Series& { return term_of(run, names[i]); };
    html += to_html({fmt::format("term-{}", i),
                     names[i],
                     "A term of the loss (train.terms).",
                     lines_of(runs, series),
                     {},
                     Chart::AxisRange::values});
  }
  return html;
}

std::string charts(const std::vector<RunRecords>& runs) {
  const std::vector<int64_t> faults = steps_of_faults(runs);
  std::string html;
  html += to_html({"loss", "Loss", loss_remark(runs, !faults.empty()),
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.loss; }), faults,
                   Chart::AxisRange::values});
  html += term_charts(runs);
  html += to_html({"accuracy",
                   "Test accuracy",
                   "",
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.test_accuracy; }),
                   {},
                   Chart::AxisRange::linear});
  html += to_html({"test-loss",
                   "Test loss",
                   "",
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.test_loss; }),
                   {},
                   Chart::AxisRange::values});
  html += to_html({"lr",
                   "Learning rate",
                   "",
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.lr; }),
                   {},
                   Chart::AxisRange::from_zero});
  html += to_html({"speed", "Samples a second", "",
                   lines_of(runs, [](const RunRecords& run) -> const Series& { return run.samples_per_second; }),
                   faults, Chart::AxisRange::from_zero});
  return html;
}

struct Fact {
  std::string_view name;
  std::string value;
};

int64_t count_of(const RunRecords& run, const std::string& event) {
  const auto found = run.timeline.counts.find(event);
  return found == run.timeline.counts.end() ? 0 : found->second;
}

std::string last_value(const Series& series) { return series.empty() ? "" : short_number(series.last_value()); }

// A run without a value for a fact has an empty string.
std::vector<Fact> facts_of(const RunRecords& run) {
  const Timeline& timeline = run.timeline;
  return {{"run directory", run.path},
          {"model", run.model},
          {"ESTs", fmt::format("{}", timeline.ests)},
          {"state", timeline.state.empty() ? "unknown: it is running, or was killed" : timeline.state},
          {"steps", fmt::format("{} recorded, last {}", run.steps, run.last_step)},
          {"epoch", fmt::format("{}", run.last_epoch)},
          {"last loss", run.steps > 0 ? short_number(run.loss.last_value()) : ""},
          {"last test accuracy", last_value(run.test_accuracy)},
          {"running time", duration(timeline.length)},
          {"launches", fmt::format("{}", count_of(run, "start"))},
          {"faults", fmt::format("{}", count_of(run, "fault"))},
          {"resizes", fmt::format("{}", count_of(run, "resize") + count_of(run, "rebalance"))},
          {"checkpoints", fmt::format("{}", timeline.spent.checkpoints)},
          {"steps without an update", run.without_update > 0 ? fmt::format("{}", run.without_update) : ""}};
}

std::string facts(const RunRecords& run) {
  std::string html = "<dl class=\"facts\">";
  for (const Fact& fact : facts_of(run)) {
    if (!fact.value.empty())
      html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", fact.name, html_escaped(fact.value));
  }
  return html + "</dl>";
}

// A column for each run, a row for each fact that a run has.
std::string facts_side_by_side(const std::vector<RunRecords>& runs) {
  std::vector<std::vector<Fact>> columns;
  std::string html = "<div class=\"scroll\"><table class=\"runs\"><thead><tr><th></th>";
  for (size_t i = 0; i < runs.size(); ++i) {
    html += fmt::format("<th scope=\"col\">Run {}: {}</th>", i + 1, html_escaped(runs[i].name));
    columns.push_back(facts_of(runs[i]));
  }
  html += "</tr></thead><tbody>";
  for (size_t row = 0; row < columns.front().size(); ++row) {
    std::string cells;
    for (const std::vector<Fact>& column : columns)
      cells += fmt::format("<td>{}</td>", html_escaped(column[row].value));
    const bool known = std::ranges::any_of(columns, [row](const auto& column) { return !column[row].value.empty(); });
    if (known) html += fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>", columns.front()[row].name, cells);
  }
  return html + "</tbody></table></div>";
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
  for (const RunRecords& run : runs) html += damage(run);
  html += runs.size() == 1 ? facts(runs.front()) : facts_side_by_side(runs);
  return html + "</section>\n";
}

bool differs(const Series& distances) {
  return distances.not_finite() > 0 ||
         std::ranges::any_of(distances.spans(), [](const Span& span) { return span.high > 0; });
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
    if (!differs(difference.losses)) continue;
    html += to_html({fmt::format("difference-{}", i + 2),
                     fmt::format("Distance of the losses of runs 1 and {}", i + 2),
                     "",
                     {{runs[i + 1].path, &difference.losses, i + 1}},
                     {},
                     Chart::AxisRange::from_zero});
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
      "dark\">\n<title>{}{}\n<style>{}</style></head>\n<body><header><h1>{}</h1><nav "
      "aria-label=\"Sections\">",
      title, kTitleEnd, kStyle, title);
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
