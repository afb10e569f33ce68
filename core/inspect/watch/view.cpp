#include "core/inspect/watch/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/counted.h"
#include "core/run/launch/control/progress.h"

namespace estrain::watch {
namespace {

enum class Style { plain, strong, dim, good, bad, bar };

const char* code_of(Style style) {
  switch (style) {
    case Style::plain:
      return "";
    case Style::strong:
      return "\033[1m";
    case Style::dim:
      return "\033[2m";
    case Style::good:
      return "\033[32m";
    case Style::bad:
      return "\033[31m";
    case Style::bar:
      return "\033[36m";
  }
  return "";
}

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// A line, cut off at the width of the screen.
class Line {
 public:
  explicit Line(const TerminalLook& look) : look_(look), room_(look.columns) {}

  // Adds trusted text.
  Line& add(std::string_view text, Style style = Style::plain) {
    size_t bytes = 0;
    while (bytes < text.size() && (room_ > 0 || !begins_character(text[bytes]))) {
      if (begins_character(text[bytes])) --room_;
      ++bytes;
    }
    if (bytes == 0) return *this;
    const bool coloured = look_.colour && style != Style::plain;
    text_ += fmt::format("{}{}{}", coloured ? code_of(style) : "", text.substr(0, bytes), coloured ? "\033[0m" : "");
    return *this;
  }
  // Adds untrusted text: only printable ASCII.
  Line& quote(std::string_view text, Style style = Style::plain) {
    std::string safe;
    for (const char byte : text)
      if (byte >= ' ' && byte < '\x7F')
        safe += byte;
      else if (begins_character(byte))
        safe += byte == '\n' || byte == '\t' ? ' ' : '?';
    return add(safe, style);
  }
  Line& pad_to(size_t column) {
    const size_t at = look_.columns - room_;
    return at < column ? add(std::string(column - at, ' ')) : add(" ");
  }
  size_t room() const { return room_; }
  const std::string& text() const { return text_; }

 private:
  const TerminalLook& look_;
  size_t room_;
  std::string text_;
};

std::string number_or_dash(const std::optional<double>& value, const char* format) {
  return value && std::isfinite(*value) ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string number_or_dash(const std::optional<launch::OrNull<double>>& field, const char* format) {
  return number_or_dash(field ? field->value : std::nullopt, format);
}

class Lines {
 public:
  Lines(const WatchView& view, const TerminalLook& look) : view_(view), status_(view.status), look_(look) {}

  std::vector<std::string> all() {
    head();
    progress();
    loss();
    speed();
    trouble();
    const size_t for_events = look_.rows > lines_.size() + 6 ? std::min<size_t>(6, look_.rows / 4) : 0;
    workers(look_.rows - std::min(look_.rows, lines_.size() + for_events + 1));
    events();
    if (lines_.size() > look_.rows) lines_.resize(look_.rows);
    return std::move(lines_);
  }

 private:
  void put(const Line& line) { lines_.push_back(line.text()); }

  void head() {
    const std::string& state = status_.state;
    Line line(look_);
    line.quote(status_.name, Style::strong)
        .quote(fmt::format(" ({}, {}): ", status_.model, counted(status_.ests, "EST")));
    line.quote(state, state == "training" || state == "finished"   ? Style::good
                      : state == "failed" || state == "recovering" ? Style::bad
                                                                   : Style::strong);
    line.quote("  " + status_.run, Style::dim);
    put(line);
  }

  void progress() {
    const std::optional<int64_t>&step = status_.step, &total = status_.total_steps;
    Line line(look_);
    line.add(fmt::format("step {}", step ? fmt::format("{}", *step) : "-"));
    if (step && total && *total > 0) {
      const double share = std::clamp(static_cast<double>(*step) / static_cast<double>(*total), 0.0, 1.0);
      const size_t columns = std::min<size_t>(30, look_.columns / 3);
      line.add(fmt::format(" of {}  ", *total))
          .add(bar(static_cast<size_t>(share * static_cast<double>(columns)), columns, look_.blocks), Style::bar)
          .add(fmt::format("  {:.1f} %", 100 * share));
    }
    if (const auto& left = status_.seconds_left)
      line.add(fmt::format("  {} left", launch::format_duration(std::clamp(*left, 0.0, 1e12))));
    put(line);
  }

  void loss() {
    Line line(look_);
    line.add(fmt::format("loss {}  ", number_or_dash(status_.loss, "{:.4g}")));
    if (!view_.losses.empty() && line.room() > 12) {
      const std::string words = fmt::format("  steps {} to {}", view_.losses.front().first, view_.losses.back().last);
      const size_t columns = line.room() > words.size() + 12 ? line.room() - words.size() : line.room();
      line.add(sparkline(columns_of(std::min<size_t>(columns, 60)), look_.blocks), Style::bar).add(words, Style::dim);
    }
    put(line);
  }

  // The means of the losses in at most `most` columns.
  std::vector<double> columns_of(size_t most) const {
    const size_t stride = (view_.losses.size() + most - 1) / most;
    std::vector<double> means;
    for (size_t i = 0; i < view_.losses.size(); i += stride) {
      report::Span together = view_.losses[i];
      for (size_t j = i + 1; j < std::min(i + stride, view_.losses.size()); ++j) together.add(view_.losses[j]);
      means.push_back(together.mean());
    }
    return means;
  }

  void speed() {
    Line line(look_);
    const double step_seconds = status_.plan ? status_.plan->measured_step_seconds : 0;
    if (step_seconds > 0) line.add(fmt::format("{:.3g} ms a step  ", 1000 * step_seconds));
    if (status_.samples_per_second)
      line.add(fmt::format("{} samples/s  ", number_or_dash(status_.samples_per_second, "{:.1f}")));
    line.add(fmt::format("lr {}  ", number_or_dash(status_.lr, "{:.3g}")));
    line.add(fmt::format("test accuracy {}  ", number_or_dash(status_.test_accuracy, "{:.4f}")));
    if (const auto& saved = status_.last_checkpoint_step; saved && saved->value)
      line.add(fmt::format("checkpoint {}", *saved->value));
    put(line);
  }

  void trouble() {
    for (const std::string& words : {view_.trouble, status_.waits_for_room.value_or(""), status_.error.value_or("")})
      if (!words.empty()) put(Line(look_).quote(words, Style::bad));
  }

  void workers(size_t room) {
    if (!status_.workers || status_.workers->empty() || room < 3) return;
    const std::vector<launch::WorkerStatus>& all = *status_.workers;
    lines_.emplace_back();
    size_t shown = 0;
    for (const launch::WorkerStatus& worker : all) {
      if (shown + 2 >= room && shown + 1 < all.size()) {
        put(Line(look_).add(fmt::format("and {} more workers", all.size() - shown), Style::dim));
        return;
      }
      put_worker(worker);
      ++shown;
    }
  }

  void put_worker(const launch::WorkerStatus& worker) {
    const int64_t begin = worker.ests.begin.value, end = worker.ests.end.value;
    const int64_t ests = std::max<int64_t>(1, status_.ests);
    const size_t widest = std::clamp<size_t>(look_.columns / 3, 4, 32);
    const size_t cells = static_cast<size_t>(std::min<int64_t>(ests, static_cast<int64_t>(widest)));
    const auto cell_of = [&](int64_t est) {
      return static_cast<size_t>(std::clamp<int64_t>(est, 0, ests) * static_cast<int64_t>(cells) / ests);
    };
    const size_t from = cell_of(begin), to = end > begin ? std::max(from + 1, cell_of(end)) : from;
    Line line(look_);
    line.quote(worker.device).pad_to(std::min<size_t>(12, look_.columns / 4));
    line.add(bar(0, std::min(from, cells), look_.blocks), Style::dim)
        .add(bar(to - from, to - from, look_.blocks), Style::bar)
        .add(bar(0, cells - std::min(to, cells), look_.blocks), Style::dim);
    line.add(end <= begin       ? "  no ESTs"
             : end == begin + 1 ? fmt::format("  EST {}", begin)
                                : fmt::format("  ESTs {} to {}", begin, end - 1));
    if (const auto& seconds = worker.seconds_per_mini_batch)
      line.add(fmt::format("  {:.3g} ms a mini-batch", 1000 * *seconds));
    if (const double wait = worker.data_wait().value_or(0); wait >= launch::kNotableDataWait)
      line.add(fmt::format("  {:.0f} % of it waiting for data", 100 * wait), Style::bad);
    if (worker.slow) line.add(fmt::format("  slow: {:.1f} times the usual", worker.slow->factor), Style::bad);
    put(line);
  }

  void events() {
    if (lines_.size() + 3 > look_.rows || view_.events.empty()) return;
    lines_.emplace_back();
    const size_t shown = std::min(view_.events.size(), look_.rows - lines_.size());
    for (size_t i = view_.events.size() - shown; i < view_.events.size(); ++i) {
      const report::Mark& mark = view_.events[i];
      const bool bad = mark.kind == report::MarkKind::fault || mark.kind == report::MarkKind::trouble;
      Line line(look_);
      line.quote(mark.time.size() >= 19 ? mark.time.substr(11, 8) : "", Style::dim).add("  ");
      line.quote(mark.event, bad ? Style::bad : Style::strong);
      if (mark.step >= 0) line.add(fmt::format(", step {}", mark.step));
      line.quote(mark.words.empty() ? "" : ": " + mark.words);
      put(line);
    }
  }

  const WatchView& view_;
  const launch::RunStatus& status_;
  const TerminalLook& look_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> lines_of(const WatchView& view, const TerminalLook& look) { return Lines(view, look).all(); }

std::string sparkline(const std::vector<double>& values, bool blocks) {
  static constexpr const char* fine[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
  static constexpr const char* plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  if (values.empty()) return "";
  const auto [low, high] = std::ranges::minmax_element(values);
  std::string line;
  for (const double value : values) {
    const double height = *high > *low ? (value - *low) / (*high - *low) : 0.5;
    const auto level = static_cast<size_t>(std::clamp(std::lround(height * 7), 0L, 7L));
    line += blocks ? fine[level] : plain[level];
  }
  return line;
}

std::string bar(size_t filled, size_t columns, bool blocks) {
  std::string line;
  for (size_t i = 0; i < columns; ++i) line += i < filled ? (blocks ? "\u2588" : "#") : (blocks ? "\u2591" : ".");
  return line;
}

}  // namespace estrain::watch
