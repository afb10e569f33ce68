// `estrain status RUN --watch` on a terminal of its own.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"
#include "job.h"
#include "job_specs.h"
#include "setting.h"

namespace estrain::testing {
namespace {

constexpr const char* kEnter = "\033[?1049h";
constexpr const char* kLeave = "\033[?1049l";

// The program behind a pseudo-terminal.
class OnTerminal {
 public:
  OnTerminal(const Words& arguments, unsigned short columns, unsigned short rows) {
    winsize size{rows, columns, 0, 0};
    int master = -1;
    pid_ = ::forkpty(&master, nullptr, nullptr, &size);
    if (pid_ == 0) {
      std::vector<char*> words = {const_cast<char*>(ESTRAIN_PROGRAM)};
      for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      ::execv(ESTRAIN_PROGRAM, words.data());
      ::_exit(127);
    }
    REQUIRE(pid_ > 0);
    master_ = UniqueFd(master);
    REQUIRE(::tcgetattr(master, &before_) == 0);
  }
  ~OnTerminal() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  OnTerminal(const OnTerminal&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& text() const { return text_; }
  void type(std::string_view keys) const { REQUIRE(::write(master_.get(), keys.data(), keys.size()) > 0); }
  void resize(unsigned short columns, unsigned short rows) const {
    const winsize size{rows, columns, 0, 0};
    REQUIRE(::ioctl(master_.get(), TIOCSWINSZ, &size) == 0);
  }
  void forget() { text_.clear(); }

  void wait_for(const std::string& words) {
    wait_until(words, [&] {
      read_some();
      return text_.find(words) != text_.npos;
    });
  }
  bool ended() {
    read_some();
    int how = 0;
    if (pid_ > 0 && ::waitpid(pid_, &how, WNOHANG) == pid_) {
      code_ = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
      pid_ = 0;
      read_some();
    }
    return pid_ == 0;
  }
  int wait() {
    wait_until("its end", [&] { return ended(); });
    return code_;
  }
  // Whether the terminal is as the program found it: echo and whole lines.
  bool is_given_back() const {
    termios now{};
    return ::tcgetattr(master_.get(), &now) == 0 && now.c_lflag == before_.c_lflag;
  }

 private:
  void read_some() {
    pollfd polled{master_.get(), POLLIN, 0};
    char buffer[65536];
    while (::poll(&polled, 1, 10) > 0 && (polled.revents & POLLIN) != 0) {
      const ssize_t got = ::read(master_.get(), buffer, sizeof buffer);
      if (got <= 0) return;
      text_.append(buffer, static_cast<size_t>(got));
    }
  }

  pid_t pid_ = 0;
  UniqueFd master_;
  termios before_{};
  std::string text_;
  int code_ = -1;
};

bool has(const std::string& text, const std::string& words) { return text.find(words) != text.npos; }

struct Watched {
  ScratchFolder folder;
  Setting kind{"TERM", "xterm"}, locale{"LC_ALL", "C.UTF-8"}, no_colour{"NO_COLOR", ""};
  Job job{folder.write("job.toml", long_job()), folder / "run", {"--devices", "cpu,cpu"}};
  Words words{"status", folder / "run", "--watch", "--every", "0.1"};

  Watched() { job.reach(20); }
};

TEST_CASE("a job is watched through a resize to its end") {
  Watched watched;
  OnTerminal terminal(watched.words, 100, 30);
  terminal.wait_for("ESTs 3 to 5");
  CHECK(has(terminal.text(), kEnter));
  CHECK(has(terminal.text(), "training"));
  CHECK(has(terminal.text(), "\u2588"));
  CHECK(has(terminal.text(), "\033[36m"));
  CHECK_FALSE(terminal.is_given_back());
  REQUIRE(watched.job.resize("cpu").code == 0);
  terminal.wait_for("ESTs 0 to 5");
  terminal.wait_for("resize");
  CHECK_FALSE(terminal.ended());
  REQUIRE(watched.job.stop().code == 0);
  CHECK(terminal.wait() == 0);
  CHECK(terminal.is_given_back());
  const size_t leaves = terminal.text().find(kLeave);
  REQUIRE(leaves != std::string::npos);
  CHECK(has(terminal.text().substr(leaves), "stopped"));  // the last view stays on the screen
}

TEST_CASE("q, Ctrl-C and SIGTERM end the view and not the job, and give the terminal back") {
  Watched watched;
  for (const std::string how : {"q", "\x03", "SIGTERM"}) {
    CAPTURE(how);
    OnTerminal terminal(watched.words, 80, 24);
    terminal.wait_for("training");
    if (how == "SIGTERM")
      ::kill(terminal.pid(), SIGTERM);
    else
      terminal.type(how);
    CHECK(terminal.wait() == 0);
    CHECK(terminal.is_given_back());
    CHECK(has(terminal.text(), kLeave));
  }
  const int64_t step = watched.job.step();
  watched.job.reach(step + 5);
}

TEST_CASE("a narrow terminal gets narrow lines, a changed one others, and NO_COLOR no colours") {
  Watched watched;
  const Setting no_colour("NO_COLOR", "1");
  OnTerminal terminal(watched.words, 24, 8);
  terminal.wait_for("loss");
  CHECK_FALSE(has(terminal.text(), "\033[36m"));
  CHECK_FALSE(has(terminal.text(), "test accuracy"));
  terminal.resize(120, 40);
  terminal.wait_for("test accuracy");
  terminal.type("q");
  CHECK(terminal.wait() == 0);
}

TEST_CASE("stopped with Ctrl-Z and continued, the view gives the terminal back and takes it again") {
  Watched watched;
  OnTerminal terminal(watched.words, 80, 24);
  terminal.wait_for("training");
  ::kill(terminal.pid(), SIGTSTP);
  wait_until("its stop", [&] {
    terminal.ended();
    return terminal.is_given_back();
  });
  CHECK(has(terminal.text(), kLeave));
  terminal.forget();
  ::kill(terminal.pid(), SIGCONT);
  terminal.wait_for(kEnter);
  terminal.wait_for("training");
  terminal.type("q");
  CHECK(terminal.wait() == 0);
  CHECK(terminal.is_given_back());
}

TEST_CASE("where --watch cannot draw it says so") {
  const ScratchFolder folder;
  const std::string run = train_on(folder, folder.write("job.toml", mlp_job()), "cpu");
  const Ended piped = estrain({"status", run, "--watch"});
  CHECK(piped.code == 2);
  CHECK(piped.says("stdout is none"));
  CHECK(estrain({"status", "--watch"}).code == 2);
  CHECK(estrain({"status", run, "--watch", "--json"}).code == 2);
  CHECK(estrain({"status", folder / "none", "--watch"}).code == 2);
  const Setting kind("TERM", "dumb");
  OnTerminal dumb({"status", run, "--watch"}, 80, 24);
  CHECK(dumb.wait() == 2);
  CHECK(has(dumb.text(), "TERM is \"dumb\""));
}

}  // namespace
}  // namespace estrain::testing
