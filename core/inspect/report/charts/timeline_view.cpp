#include "core/inspect/report/charts/timeline_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/base/visible_text.h"
#include "core/inspect/report/charts/axis.h"
#include "core/inspect/report/charts/chart.h"
#include "core/inspect/report/charts/labels.h"
#include "core/inspect/report/charts/reading.h"

namespace estrain::report {
namespace {

constexpr size_t kMostBlocks = 4000, kMostPlaces = 150, kMostNames = 60;
constexpr int64_t kSeparatedEsts = 64;  // more ESTs are drawn without lines in between

struct Sign {
  const char* style;
  const char* symbol;
  const char* words;
};

Sign sign_of(MarkKind kind) {
  switch (kind) {
    case MarkKind::launch:
      return {"launch", "\u25b6", "launch"};
    case MarkKind::end:
      return {"end", "\u25a0", "end"};
    case MarkKind::fault:
      return {"fault", "\u2716", "fault"};
    case MarkKind::recovered:
      return {"recovered", "\u2714", "recovered"};
    case MarkKind::resize:
      return {"resize", "\u25c6", "resize"};
    case MarkKind::slow:
      return {"slow", "\u25b2", "slow worker"};
    case MarkKind::trouble:
      return {"trouble", "!", "trouble"};
    case MarkKind::note:
      break;
  }
  return {"note", "\u00b7", "other"};
}

// The bars to draw: one per stage, or, with empty `blocks`, one for several stages that are too short to be visible.
std::vector<StageBar> drawn_together(const std::vector<StageBar>& stages, double least) {
  std::vector<StageBar> drawn;
  for (const StageBar& stage : stages) {
    const bool is_short = stage.to - stage.from < least;
    const bool joins = is_short && !drawn.empty() && drawn.back().blocks.empty() && drawn.back().stage < 0 &&
                       stage.from - drawn.back().to < least;
    if (joins) {
      drawn.back().to = stage.to;
    } else if (is_short) {
      drawn.push_back({stage.from, stage.to, -1, stage.step, {}});
    } else {
      drawn.push_back(stage);
    }
  }
  return drawn;
}

size_t num_blocks(const std::vector<StageBar>& stages) {
  size_t blocks = 0;
  for (const StageBar& stage : stages) blocks += std::max<size_t>(1, stage.blocks.size());
  return blocks;
}

std::vector<StageBar> stages_to_draw(const Timeline& timeline) {
  double least = timeline.length / 1000;
  std::vector<StageBar> drawn = drawn_together(timeline.stages, least);
  while (num_blocks(drawn) > kMostBlocks && least < timeline.length) {
    least *= 2;
    drawn = drawn_together(timeline.stages, least);
  }
  if (drawn.size() > kMostBlocks) drawn.resize(kMostBlocks);
  return drawn;
}

std::string ests_in_words(const EstRange& ests) {
  if (ests.size() == 0) return "no EST";
  if (ests.size() == 1) return fmt::format("EST {}", ests.begin);
  return fmt::format("ESTs {} to {}", ests.begin, ests.end.value - 1);
}

class TimelineDrawing {
 public:
  TimelineDrawing(const std::string& id, const Timeline& timeline)
      : id_(id),
        timeline_(timeline),
        stages_(stages_to_draw(timeline)),
        x_(Axis::linear(0, std::max(timeline.length, 1e-3))),
        ests_(static_cast<double>(std::max<int64_t>(1, timeline.ests))) {}

  std::string html() const {
    const int height = std::clamp(static_cast<int>(timeline_.ests) * 16, 110, 340);
    return fmt::format(
        "<figure id=\"{}-line\" class=\"timeline\"><figcaption>ESTs on devices over running time<small>The time "
        "between "
        "launches is omitted. A killed launch ends with its last recorded event.</small></figcaption>"
        "{}<div class=\"signs\">{}</div><div class=\"plot\"><div class=\"y\">{}</div><div class=\"area\" "
        "style=\"height:{}px\">{}{}{}</div><div class=\"x\">{}</div></div>{}</figure>\n",
        id_, legend(), signs(), y_labels(), height, picture(), block_names(), places(), x_labels(), table());
  }

 private:
  double percent(double at) const { return 100 * x_.at(at); }
  double px(double at) const { return 1000 * x_.at(at); }
  double py(int64_t est) const { return 1000 * static_cast<double>(est) / ests_; }

  std::string legend() const {
    std::string html = "<ul class=\"legend\">";
    for (size_t i = 0; i < std::min<size_t>(timeline_.devices.size(), 24); ++i)
      html += fmt::format("<li><i class=\"c{}\"></i>{}</li>", i % kColours, html_escaped(timeline_.devices[i]));
    if (timeline_.devices.size() > 24) html += fmt::format("<li>and {} more</li>", timeline_.devices.size() - 24);
    for (const MarkKind kind : {MarkKind::launch, MarkKind::fault, MarkKind::recovered, MarkKind::resize,
                                MarkKind::slow, MarkKind::trouble, MarkKind::end}) {
      if (std::ranges::find(timeline_.marks, kind, &Mark::kind) == timeline_.marks.end()) continue;
      const Sign sign = sign_of(kind);
      html += fmt::format("<li><b class=\"{}\">{}</b>{}</li>", sign.style, sign.symbol, sign.words);
    }
    return html + "</ul>";
  }

  // Links to the rows of the table of events, reachable with Tab.
  std::string signs() const {
    std::string html;
    for (size_t i = 0; i < timeline_.marks.size(); ++i) {
      const Mark& mark = timeline_.marks[i];
      if (mark.kind == MarkKind::note) continue;
      const Sign sign = sign_of(mark.kind);
      html += fmt::format(
          "<a class=\"{} {}\" href=\"#{}-e{}\" style=\"left:{:.2f}%\">{}<span>{}</span></a>", sign.style,
          x_.at(mark.at) > 0.5 ? "right" : "left", id_, i, percent(mark.at), sign.symbol,
          html_escaped(fmt::format("{}{}, {}: {}", mark.event, mark.step < 0 ? "" : fmt::format(", step {}", mark.step),
                                   duration(mark.at), shortened(mark.words))));
    }
    return html;
  }

  static std::string shortened(const std::string& words) {
    return words.size() <= 120 ? words : words.substr(0, 120) + " …";
  }

  std::string y_labels() const {
    std::string html;
    const int64_t stride = std::max<int64_t>(1, (timeline_.ests + 7) / 8);
    for (int64_t est = 0; est < timeline_.ests; est += stride)
      html += fmt::format("<span style=\"bottom:{:.2f}%\">EST {}</span>",
                          100 - 100 * (static_cast<double>(est) + 0.5) / ests_, est);
    return html;
  }

  std::string x_labels() const {
    std::string html;
    for (const double tick : x_.time_ticks(5)) html += label_at(x_.at(tick), tick == 0 ? "0" : duration(tick));
    return html + "<b>running time</b>";
  }

  static void add_box(std::string& path, double x, double y, double width, double height) {
    fmt::format_to(std::back_inserter(path), "M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", x, y, width, height, width);
  }

  // One path for all blocks of a colour.
  std::string picture() const {
    std::vector<std::string> blocks(kColours);
    std::string many, recovering, lines, launches, saved;
    for (const StageBar& stage : stages_) {
      const double x = px(stage.from), width = std::max(0.5, px(stage.to) - x);
      if (stage.stage < 0 && stage.blocks.empty()) add_box(many, x, 0, width, 1000);
      for (const StageBlock& block : stage.blocks)
        add_box(blocks[block.device % kColours], x, py(block.ests.begin.value), width,
                py(block.ests.end.value) - py(block.ests.begin.value));
    }
    for (const TimeStretch& stretch : timeline_.recoveries)
      add_box(recovering, px(stretch.from), 0, std::max(1.0, px(stretch.to) - px(stretch.from)), 1000);
    if (timeline_.ests <= kSeparatedEsts)
      for (int64_t est = 1; est < timeline_.ests; ++est)
        fmt::format_to(std::back_inserter(lines), "M0 {:.1f}h1000", py(est));
    for (const Mark& mark : timeline_.marks)
      if (mark.kind == MarkKind::launch) fmt::format_to(std::back_inserter(launches), "M{:.1f} 0v1000", px(mark.at));
    for (const double at : timeline_.checkpoints) fmt::format_to(std::back_inserter(saved), "M{:.1f} 960v40", px(at));
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"ESTs on devices over {} "
        "of running time: {} stages\">",
        duration(timeline_.length), timeline_.stages.size());
    for (size_t i = 0; i < kColours; ++i)
      if (!blocks[i].empty()) svg += fmt::format("<path class=\"block c{}\" d=\"{}\"/>", i, blocks[i]);
    for (const auto& [style, path] :
         {std::pair("many", &many), std::pair("recovering", &recovering), std::pair("between", &lines),
          std::pair("launches", &launches), std::pair("saved", &saved)})
      if (!path->empty()) svg += fmt::format("<path class=\"{}\" d=\"{}\"/>", style, *path);
    return svg + "</svg>";
  }

  // Labels of large enough blocks.
  std::string block_names() const {
    std::string html;
    size_t names = 0;
    for (const StageBar& stage : stages_) {
      const double width = percent(stage.to) - percent(stage.from);
      for (const StageBlock& block : stage.blocks) {
        if (width < 12 || block.ests.size() == 0 || static_cast<double>(block.ests.size()) / ests_ < 0.06) continue;
        if (++names > kMostNames) return html;
        const double top = py(block.ests.begin.value) / 10, height = py(block.ests.end.value) / 10 - top;
        html += fmt::format(
            "<span class=\"name\" aria-hidden=\"true\" style=\"left:{:.2f}%;width:{:.2f}%;top:{:.2f}%;height:{:.2f}%\">"
            "{}</span>",
            percent(stage.from), width, top, height, html_escaped(timeline_.devices[block.device]));
      }
    }
    return html;
  }

  std::string in_words(const StageBar& stage) const {
    std::string words = fmt::format("{} to {}", duration(stage.from), duration(stage.to));
    if (stage.step >= 0) words += fmt::format(", from step {}", stage.step);
    if (stage.blocks.empty()) return words + ": several short stages";
    for (size_t i = 0; i < std::min<size_t>(stage.blocks.size(), 16); ++i)
      words += fmt::format("{}{}: {}", i == 0 ? ": " : "; ", timeline_.devices[stage.blocks[i].device],
                           ests_in_words(stage.blocks[i].ests));
    if (stage.blocks.size() > 16) words += fmt::format("; and {} more workers", stage.blocks.size() - 16);
    return words;
  }

  std::string places() const {
    std::vector<ReadingPlace> all;
    for (const StageBar& stage : stages_)
      if (all.size() < kMostPlaces) all.push_back({x_.at(stage.from), x_.at(stage.to), in_words(stage)});
    return reading_places(id_ + "-places", "Stages", all);
  }

  std::string table() const {
    std::string html =
        "<details><summary>Stages as a table</summary><div class=\"scroll\"><table><thead><tr><th>from</th><th>to</th>"
        "<th>from step</th><th>workers and their ESTs</th></tr></thead><tbody>";
    for (size_t i = 0; i < std::min(stages_.size(), kMostMarks); ++i) {
      const StageBar& stage = stages_[i];
      std::string workers;
      for (const StageBlock& block : stage.blocks)
        if (workers.size() < 2000)
          workers += fmt::format("{}{}: {}", workers.empty() ? "" : "; ", timeline_.devices[block.device],
                                 ests_in_words(block.ests));
      html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"words\">{}</td></tr>", duration(stage.from),
                          duration(stage.to), stage.step,
                          stage.blocks.empty() ? "several short stages" : html_escaped(workers));
    }
    html += "</tbody></table></div>";
    if (stages_.size() > kMostMarks) html += fmt::format("<p>and {} more</p>", stages_.size() - kMostMarks);
    return html + "</details>";
  }

  const std::string& id_;
  const Timeline& timeline_;
  const std::vector<StageBar> stages_;
  const Axis x_;
  const double ests_;
};

struct Part {
  const char* name;
  double seconds;
  const char* means;
};

std::string part_row(const Part& part, int64_t tenths) {
  const double share = static_cast<double>(tenths) / 10;
  return fmt::format(
      "<tr><th scope=\"row\">{}</th><td>{}</td><td>{:.1f} %</td><td class=\"bar\"><i style=\"width:{:.1f}%\"></i></td>"
      "<td class=\"words\">{}</td></tr>",
      part.name, duration(part.seconds), share, share, part.means);
}

// Returns tenths that add up to `whole`, in proportion to the parts; those with the largest remainders are rounded up.
std::vector<int64_t> shares_of(const std::vector<Part>& parts, int64_t whole) {
  double sum = 0;
  for (const Part& part : parts) sum += part.seconds;
  std::vector<int64_t> tenths(parts.size(), 0);
  if (sum <= 0) return tenths;
  std::vector<std::pair<double, size_t>> remainders;
  int64_t left = whole;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double exact = static_cast<double>(whole) * parts[i].seconds / sum;
    tenths[i] = static_cast<int64_t>(exact);
    left -= tenths[i];
    remainders.emplace_back(static_cast<double>(tenths[i]) - exact, i);
  }
  std::ranges::sort(remainders);
  for (size_t i = 0; i < remainders.size() && left > 0; ++i, --left) ++tenths[remainders[i].second];
  return tenths;
}

std::string rows_of(const std::vector<Part>& parts, const std::vector<int64_t>& tenths) {
  std::string html;
  for (size_t i = 0; i < parts.size(); ++i) html += part_row(parts[i], tenths[i]);
  return html;
}

}  // namespace

std::string timeline_html(const std::string& id, const Timeline& timeline) {
  if (timeline.stages.empty()) return "<p>No stage is recorded: the run did not begin to train.</p>";
  return TimelineDrawing(id, timeline).html();
}

std::string time_spent_html(const Timeline& timeline) {
  const TimeSpent& spent = timeline.spent;
  if (spent.running <= 0) return "<p>No time is recorded.</p>";
  const double rest =
      std::max(0.0, spent.running - spent.starting - spent.stepping - spent.recovering - spent.standing);
  const std::vector<Part> parts = {
      {"steps", spent.stepping, "steps with a measured time, of which:"},
      {"starting", spent.starting, "from each launch to its first step"},
      {"resizes", spent.standing, "standing still"},
      {"recoveries", spent.recovering, "from a last sign of life to the next step"},
      {"rest", rest, "evaluations, first steps of stages, warm-up, stages without a final event"}};
  const double computing = std::min(spent.computing, spent.stepping);
  const double exchange = std::min(spent.exchange, spent.stepping - computing);
  const std::vector<Part> of_steps = {
      {"&nbsp;&nbsp;computing", computing, "the mean of the workers"},
      {"&nbsp;&nbsp;exchange", exchange, "sums of gradients and updates"},
      {"&nbsp;&nbsp;waiting", spent.stepping - computing - exchange, "for other workers and for data"}};
  const std::vector<int64_t> tenths = shares_of(parts, 1000);
  std::string html =
      "<div class=\"scroll\"><table class=\"spent\"><thead><tr><th>what</th><th>time</th><th>share</th><th></th><th "
      "class=\"words\">as far from the records</th></tr></thead><tbody>";
  html += part_row(parts[0], tenths[0]) + rows_of(of_steps, shares_of(of_steps, tenths[0]));
  html += rows_of({parts.begin() + 1, parts.end()}, {tenths.begin() + 1, tenths.end()});
  return html + fmt::format("</tbody></table></div><p>Total: {}. {} checkpoints took {} in parallel with training.</p>",
                            duration(spent.running), spent.checkpoints, duration(spent.saving));
}

std::string devices_html(const Timeline& timeline) {
  if (timeline.work.empty()) return "<p>No stage was long enough for a measurement.</p>";
  std::string html =
      "<div class=\"scroll\"><table><thead><tr><th>kind of device</th><th>mini-batches</th><th>computing</th><th>of "
      "it waiting for data</th><th>a mini-batch</th></tr></thead><tbody>";
  for (const auto& [kind, work] : timeline.work) {
    const double each = work.mini_batches > 0 ? work.computing_seconds / static_cast<double>(work.mini_batches) : NAN;
    html += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                        html_escaped(kind), work.mini_batches, duration(work.computing_seconds),
                        duration(work.reading_seconds), std::isnan(each) ? "-" : short_number(1000 * each) + " ms");
  }
  html += "</tbody></table></div>";
  const auto slow = timeline.counts.find("slow_worker");
  return html + (slow == timeline.counts.end()
                     ? "<p>No worker was found slow.</p>"
                     : fmt::format("<p>Workers were found slow {} time(s): see the events.</p>", slow->second));
}

std::string events_html(const std::string& id, const Timeline& timeline) {
  std::string html =
      "<div class=\"scroll\"><table class=\"events\"><thead><tr><th>running "
      "time</th><th>UTC</th><th>step</th><th>event</th>"
      "<th>what</th></tr></thead><tbody>";
  for (size_t i = 0; i < timeline.marks.size(); ++i) {
    if (i == kMostMarks / 2 && timeline.marks_left_out > 0)
      html += fmt::format("<tr><td colspan=\"5\">{} events are omitted here</td></tr>", timeline.marks_left_out);
    const Mark& mark = timeline.marks[i];
    const Sign sign = sign_of(mark.kind);
    html += fmt::format(
        "<tr id=\"{}-e{}\" tabindex=\"-1\"><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{} {}</td><td "
        "class=\"words\">{}</td></tr>",
        id, i, duration(mark.at), html_escaped(mark.time), mark.step < 0 ? "" : fmt::format("{}", mark.step),
        sign.style, sign.symbol, html_escaped(mark.event), html_escaped(mark.words));
  }
  return html + "</tbody></table></div>";
}

}  // namespace estrain::report
