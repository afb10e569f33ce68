#include "core/inspect/watch/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/long_files.h"
#include "core/base/files/poll_set.h"
#include "core/base/files/run_files.h"
#include "core/base/files/unique_fd.h"
#include "core/base/process/child_process.h"
#include "core/inspect/watch/view.h"
#include "core/run/launch/control/run_status.h"
#include "core/state/record/logs/metrics_line.h"

namespace estrain::watch {
namespace {

constexpr uint64_t kMostMetrics = uint64_t{64} << 20, kMostEvents = uint64_t{64} << 10;
constexpr size_t kEvents = 20;

// Draws on the whole terminal and restores the terminal at destruction, even if the process is terminated, or stopped
// with Ctrl-Z and continued.
class Terminal {
 public:
  // Throws Fault::usage if stdout is not a terminal, or cannot be redrawn (TERM=dumb).
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // The terminal's size; colours unless NO_COLOR is set; block elements if the locale uses UTF-8.
  TerminalLook look() const;
  void draw(const std::vector<std::string>& lines);

  enum class Happened { nothing, redraw, quit };
  // Waits for a key, a signal or the timeout. q, Q, Ctrl-C, Ctrl-D, SIGTERM and SIGHUP quit.
  Happened wait(std::chrono::milliseconds limit);

 private:
  void take();
  void give_back();
  void stop_until_continued();
  Happened read_keys();
  Happened read_signal();

  termios before_{};
  bool reads_keys_ = false, taken_ = false;
  UniqueFd signals_;
};

constexpr int kIn = STDIN_FILENO, kOut = STDOUT_FILENO;

// Switches to the alternate screen without cursor and line wrap; and back.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l\033[2J", kLeave = "\033[?7h\033[?25h\033[?1049l";

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = environment_variable(name).value_or("");
    if (locale.empty()) continue;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(kOut, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("cannot write to the terminal", errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP}) sigaddset(&set, number);
  return set;
}

void require_terminal() {
  if (::isatty(kOut) != 1)
    throw Error(Fault::usage, "--watch needs a terminal, but stdout is none")
        .advise("omit --watch, or call `estrain status RUN --json` repeatedly");
  const std::string kind = environment_variable("TERM").value_or("");
  if (kind.empty() || kind == "dumb")
    throw Error::make(Fault::usage, "--watch needs a terminal that can be redrawn, but TERM is \"{}\"", kind)
        .advise("omit --watch");
}

Terminal::Terminal() {
  require_terminal();
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw system_error("cannot watch for signals", errno);
  reads_keys_ = ::isatty(kIn) == 1 && ::tcgetattr(kIn, &before_) == 0;
  take();
}

Terminal::~Terminal() {
  try {
    give_back();
  } catch (const Error&) {  // the terminal is gone
  }
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void Terminal::take() {
  if (reads_keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(kIn, TCSANOW, &raw);
  }
  taken_ = true;
  write_all(kEnter);
}

void Terminal::give_back() {
  if (!taken_) return;
  taken_ = false;
  if (reads_keys_) ::tcsetattr(kIn, TCSANOW, &before_);
  write_all(kLeave);
}

TerminalLook Terminal::look() const {
  TerminalLook look;
  winsize size{};
  if (::ioctl(kOut, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    look.columns = size.ws_col;
    look.rows = size.ws_row;
  }
  look.colour = environment_variable("NO_COLOR").value_or("").empty();
  look.blocks = locale_is_utf8();
  return look;
}

void Terminal::draw(const std::vector<std::string>& lines) {
  std::string text = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\r\n") + lines[i] + "\033[K";
  write_all(text + "\033[J");
}

Terminal::Happened Terminal::wait(std::chrono::milliseconds limit) {
  pollfd polled[2] = {{signals_.get(), POLLIN, 0}, {reads_keys_ ? kIn : -1, POLLIN, 0}};
  if (::poll(polled, 2, static_cast<int>(limit.count())) <= 0) return Happened::nothing;
  if (polled[0].revents != 0) return read_signal();
  if ((polled[1].revents & POLLIN) == 0) return Happened::quit;  // hung up
  return read_keys();
}

Terminal::Happened Terminal::read_keys() {
  char keys[64];
  const ssize_t got = ::read(kIn, keys, sizeof keys);
  if (got <= 0) return Happened::quit;
  for (const char key : std::string_view(keys, static_cast<size_t>(got)))
    if (key == 'q' || key == 'Q' || key == '\x03' || key == '\x04') return Happened::quit;
  return Happened::redraw;
}

Terminal::Happened Terminal::read_signal() {
  signalfd_siginfo told{};
  if (::read(signals_.get(), &told, sizeof told) != sizeof told) return Happened::nothing;
  if (told.ssi_signo == SIGTSTP) {
    stop_until_continued();
    return Happened::redraw;
  }
  return told.ssi_signo == SIGWINCH ? Happened::redraw : Happened::quit;
}

void Terminal::stop_until_continued() {
  give_back();
  ::raise(SIGSTOP);
  take();
}

constexpr size_t kSpans = 240;
constexpr std::chrono::milliseconds kLongestWait = 1h;

bool has_ended(const launch::RunStatus& status) {
  const std::string& state = status.state;
  return state == "finished" || state == "stopped" || state == "failed" || state == "not running";
}

class Watch {
 public:
  explicit Watch(const std::string& run) : run_(run), records_(run) { view_.status = launch::run_status(run); }

  bool has_ended() const { return watch::has_ended(view_.status); }
  const WatchView& view() const { return view_; }

  void look_again() {
    try {
      view_.status = launch::run_status(run_);
      view_.trouble.clear();
    } catch (const Error& error) {
      if (error.fault() == Fault::usage) throw;
      view_.trouble = error.message();
    }
    read_records();
  }
  void read_records() {
    try {
      records_.follow();
    } catch (const Error& error) {
      view_.trouble = error.message();
    }
    view_.losses = records_.losses().in_spans(kSpans);
    view_.events = records_.events();
  }

 private:
  const std::string& run_;
  Records records_;
  WatchView view_;
};

// Returns the final look.
TerminalLook draw_until_done(Watch& watch, double seconds) {
  Terminal terminal;
  const Nanoseconds period = nanoseconds(Seconds(seconds));
  MonotonicTime next = MonotonicClock::now() + period;
  for (;;) {
    terminal.draw(lines_of(watch.view(), terminal.look()));
    if (watch.has_ended()) break;
    const auto happened = terminal.wait(std::min(left_until(next), kLongestWait));
    if (happened == Terminal::Happened::quit) break;
    if (MonotonicClock::now() < next) continue;
    watch.look_again();
    next = MonotonicClock::now() + period;
  }
  return terminal.look();
}

}  // namespace

void Records::follow() {
  follow_metrics();
  follow_events();
}

void Records::follow_metrics() {
  const std::string path = RunFiles(run_).metrics();
  const uint64_t size = size_of_file(path);
  if (size < read_) {
    losses_ = {};
    read_ = 0;
  }
  if (read_ == 0 && size > kMostMetrics)
    read_ = size - kMostMetrics;  // in the middle of a line, which counts as
                                  // damaged
  LineReader lines(path, read_);
  for (std::string_view text; lines.next(&text);) {
    try {
      const record::Line line = record::parse_line(text, "");
      if (const auto* step = std::get_if<record::StepRecord>(&line)) losses_.add(step->step.value, step->loss);
    } catch (const Error&) {
    }
  }
  read_ = lines.end();
}

void Records::follow_events() {
  report::TimelineReader timeline;
  std::istringstream lines(last_bytes(RunFiles(run_).events(), kMostEvents));
  for (std::string text; std::getline(lines, text);) {
    const Json event = parse_json_if_sound(text);
    if (event.is_object()) timeline.add(event);
  }
  events_ = timeline.finish().marks;
  if (events_.size() > kEvents) events_.erase(events_.begin(), events_.end() - kEvents);
}

void watch_run(const std::string& run, double seconds) {
  Watch watch(run);
  watch.read_records();
  TerminalLook look = draw_until_done(watch, seconds);
  for (const std::string& line : lines_of(watch.view(), look)) fmt::print("{}\n", line);
}

}  // namespace estrain::watch
