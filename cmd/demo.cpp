#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/commands.h"
#include "cmd/validators.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/run_files.h"
#include "core/base/files/temporary_folder.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/base/process/child_process.h"
#include "core/base/visible_text.h"
#include "core/run/launch/control/run_status.h"

namespace estrain::cmd {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char *kSpec = RunFiles::kSpec, *kResized = "resized", *kUndisturbed = "undisturbed";
constexpr Nanoseconds kBetween = 2s;  // of training between two changes
constexpr std::chrono::milliseconds kGlance = 50ms, kPatienceWithStop = 30s;
constexpr int kStoppedEarly = 75;

// The job ends by `estrain stop` long before its last step.
constexpr const char* kText =
    R"(# The job of `estrain demo`: images of ten classes, half pattern and half noise, made on the spot.
[job]
name = "demo"
ests = 4

[model]
name = "mlp"
hidden = [256, 128]
dropout = 0.1

[data]
format = "synthetic"
shape = [1, 28, 28]
samples = 20000
batch = 16

[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9

[train]
steps = 1000000
eval_every = "never"
)";

struct DemoArguments {
  std::string folder;
  bool keep = false;
};

volatile std::sig_atomic_t asked_to_end = 0;
void note_signal(int) { asked_to_end = 1; }

// An exec gives children the default actions back.
void note_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    action.sa_handler = note_signal;
    ::sigaction(number, &action, nullptr);
  }
}

void end_if_asked() {
  if (asked_to_end != 0) throw Error(Fault::interrupted, "the demo was asked to stop").advise("begin it again");
}

void say(std::string_view text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

// The demo's working directory.
class Workplace {
 public:
  explicit Workplace(const DemoArguments& arguments) {
    if (arguments.folder.empty()) {
      temporary_.emplace("demo");
      if (arguments.keep) temporary_->keep();
      path_ = temporary_->path();
    } else {
      if (fs::exists(arguments.folder) && !(fs::is_directory(arguments.folder) && fs::is_empty(arguments.folder)))
        throw Error::make(Fault::usage, "{} exists already", arguments.folder)
            .advise("name a new or an empty folder: --folder DIR");
      make_folders(arguments.folder);
      path_ = fs::absolute(arguments.folder).lexically_normal().string();
    }
    fs::current_path(path_);
    stays_ = arguments.keep || !temporary_;
  }
  ~Workplace() {
    std::error_code ignored;
    fs::current_path("/", ignored);
  }
  Workplace(const Workplace&) = delete;

  const std::string& path() const { return path_; }
  bool stays() const { return stays_; }
  void keep() {
    if (temporary_) temporary_->keep();
  }

 private:
  std::optional<TemporaryFolder> temporary_;
  std::string path_;
  bool stays_ = false;
};

// A command of this program, stopped by the destructor. `log`: a file for its output; empty: the demo's own output. The
// measured speeds of the demo stay in its folder.
class Running {
 public:
  explicit Running(const Words& words, const std::string& log = "")
      : text_(fmt::format("estrain {}", fmt::join(words, " "))), log_(log) {
    say(fmt::format("\n$ {}{}", text_, log.empty() ? "" : fmt::format(" >{} &", log)));
    ChildOptions options;
    options.arguments = {"estrain"};
    options.arguments.insert(options.arguments.end(), words.begin(), words.end());
    options.same_program = true;
    options.output = log;
    options.environment = {{"ESTRAIN_PROFILES", (fs::current_path() / "profiles.json").string()}};
    process_ = ChildProcess::start(options);
  }
  ~Running() {
    if (!process_.running()) return;
    process_.signal(SIGTERM);
    if (process_.wait_for(kPatienceWithStop)) return;
    process_.signal(SIGKILL);
    process_.wait();
  }
  Running(const Running&) = delete;

  bool ended_within(std::chrono::milliseconds limit) {
    end_if_asked();
    return process_.wait_for(limit, &end_);
  }
  void require_end(int code) {
    while (!ended_within(kGlance)) continue;
    if (end_.signaled || end_.code != code) fail();
  }
  // Throws with the exit code of the command.
  [[noreturn]] void fail() const {
    if (!log_.empty()) fmt::print(stderr, "{}", visible(text_if_readable(log_)));
    const Error error = Error::make(Fault::peer, "`{}` ended with {}", text_, end_.text());
    throw end_.signaled || end_.code == 0 ? error : error.exiting_with(end_.code);
  }

 private:
  std::string text_, log_;
  ChildProcess process_;
  ChildEnd end_;
};

void run(const Words& words) { Running(words).require_end(0); }

void require_running(Running& job, std::chrono::milliseconds limit) {
  if (job.ended_within(limit)) job.fail();
}

int64_t step_of(const std::string& run) {
  try {
    return launch::run_status(run).step.value_or(0);
  } catch (const Error&) {  // the run has not begun
    return 0;
  }
}

void train_a_while(Running& job) {
  const int64_t before = step_of(kResized);
  const auto until = MonotonicClock::now() + kBetween;
  while (MonotonicClock::now() < until || step_of(kResized) <= before) require_running(job, kGlance);
}

void train_resized() {
  say("1. A job trains on 1 worker; then its workers change while it trains.");
  Running job({"train", kSpec, "--run", kResized, "--devices", "1"}, "resized.log");
  for (const char* devices : {"4", "2"}) {
    train_a_while(job);
    run({"resize", kResized, "--devices", devices});
  }
  train_a_while(job);
  run({"stop", kResized});
  job.require_end(kStoppedEarly);
}

std::string pauses() {
  std::vector<std::string> all;
  for_each_object(RunFiles(kResized).events(), [&](const Json& event) {
    if (text_in(event, "event") != "resize") return;
    all.push_back(fmt::format("{:.0f} ms", 1000 * number_in(event, "stood_still_seconds").value_or(0)));
  });
  return fmt::format("{}", fmt::join(all, " and "));
}

void show_next(const Workplace& workplace, Seconds time) {
  say(fmt::format(R"(
The job changed its workers twice, with pauses of {}, and no bit of its result changed. The demo took {:.0f} s.

Next, with data of your own:
  estrain init DATA           writes a commented spec for a folder or a file of data
  estrain check job.toml      finds out early what could fail
  estrain train job.toml      prints how far it is; `estrain status` shows it, too
  estrain help                explains commands, keys of the spec, and errors)",
                  pauses(), time.count()));
  if (workplace.stays())
    say(fmt::format("\nThe runs are in {}: estrain report {} {} --html demo.html draws them", workplace.path(),
                    kResized, kUndisturbed));
}

int demo(const DemoArguments& arguments) {
  const auto begin = MonotonicClock::now();
  note_signals();
  Workplace workplace(arguments);
  try {
    say(fmt::format("The demo works in {}{}.\n", workplace.path(),
                    workplace.stays() ? "" : ", which it removes at the end (--keep keeps it)"));
    write_file_atomically(kSpec, kText);
    train_resized();
    say("\n2. The same job trains for as many steps on 1 worker, and nothing changes.");
    run({"train", kSpec, "--run", kUndisturbed, "--devices", "1", "--set",
         fmt::format("train.steps={}", step_of(kResized))});
    say("\n3. The two runs compared: every loss of every step, and every tensor.");
    run({"verify", kResized, kUndisturbed});
    show_next(workplace, seconds(MonotonicClock::now() - begin));
  } catch (const Error& error) {
    if (error.fault() == Fault::interrupted) throw;
    workplace.keep();
    throw error.advise(
        fmt::format("{}{}the logs are in {}", error.advice(), error.advice().empty() ? "" : "; ", workplace.path()));
  }
  return 0;
}

}  // namespace

void add_demo(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("demo", "Show in a minute: train, resize while it trains, verify; needs no data");
  auto arguments = std::make_shared<DemoArguments>();
  CLI::Option* folder =
      verb->add_option("--folder", arguments->folder, "New folder to work in, which stays (default: a temporary one)")
          ->check(not_empty());
  verb->add_flag("--keep", arguments->keep, "Keep the temporary folder")->excludes(folder);
  verb->callback([arguments, &chosen] { chosen = [arguments] { return demo(*arguments); }; });
}

}  // namespace estrain::cmd
