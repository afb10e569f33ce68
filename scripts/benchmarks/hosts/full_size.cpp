// The launcher's decisions for a job of full size, in real time: fake workers, each with its socket and a descriptor
// for its end, and decide() (core/run/decisions/decide.h). No process is started and nothing is trained.
//
//   full_size [--workers N] [--rounds N]
//
// The workers become ready, the job trains, and in each round a random worker is lost: all others report that they have
// left the stage, a worker is started in the place of the lost worker, and the next stage opens. Prints the processor
// time: up to the first stage, of a turn in which nothing happens, and from a loss to the order to open the next stage,
// without what the fakes themselves take. The loop is the launcher's (core/run/launch/launcher/launcher.cpp): a wait,
// an event of each worker that has one, a tick.

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/poll_set.h"
#include "core/base/files/unique_fd.h"
#include "core/run/decisions/decide.h"
#include "core/run/launch/launcher/processes/worker_events.h"
#include "core/state/comm/messages/worker_messages.h"

namespace {

using namespace estrain;
using decisions::WorkerId;

constexpr int64_t kWorkersOfHost = 8;
constexpr int kQuietTurns = 50;

struct FakeWorker {
  comm::WorkerChannel launcher;    // the launcher's end
  comm::WorkersOwnChannel worker;  // the worker's own
  UniqueFd process;                // in the place of the process: never readable
};

// Of this process: other programs may compute, too.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Job {
 public:
  explicit Job(int64_t workers) {
    state_.ests = workers;
    state_.retries = 3;
    state_.host = "h0";
    placement::Devices devices;
    for (int64_t i = 0; i < workers; ++i) devices.push_back({"cpu", {}, fmt::format("h{}", i / kWorkersOfHost)});
    const std::vector<EstRange> ranges = place_ests(placement::evenly(devices), workers);
    for (int64_t i = 0; i < workers; ++i) {
      const WorkerId id{state_.workers_started++};
      state_.workers.push_back(
          {.id = id, .device = devices[static_cast<size_t>(i)], .ests = ranges[static_cast<size_t>(i)]});
      workers_.try_emplace(id, open_channel());
    }
    state_.held = devices;
  }

  // Runs the launcher's loop until the next stage opens. Returns the seconds of the processor.
  double until_open(const std::function<void()>& begin) {
    const int64_t stages = stages_opened_;
    fakes_ = 0;
    const double begun = processor_seconds();
    begin();
    while (stages_opened_ == stages) turn();
    return processor_seconds() - begun - fakes_;
  }

  void all_become_ready() {
    as_fakes([this] {
      for (auto& [id, fake] : workers_) fake.worker.send(comm::Ready{});
    });
  }

  void lose(WorkerId id) {
    workers_.erase(id);
    decisions::WorkerLost lost{
        .worker = id, .verdict = {}, .what = "killed by SIGKILL", .error = Error(Fault::peer, "lost"), .log = {}};
    lost.verdict = {.cause = "killed", .fault_class = "infrastructure", .description = "killed", .retry = true};
    decide(std::move(lost));
  }

  WorkerId some_worker(std::mt19937_64& random) const { return state_.workers[random() % state_.workers.size()].id; }

  void turn() {
    events_of_workers_.watch(
        workers_, [](const FakeWorker& fake) { return std::pair(fake.launcher.descriptor(), fake.process.get()); });
    pollfd polled{events_of_workers_.descriptor(), POLLIN, 0};
    if (poll_within({&polled, 1}, 0ms) > 0) {
      for (const launch::WorkerEvents::Event& event : events_of_workers_.take()) hear(event.worker);
    }
    step_ += 1;
    decide(decisions::Tick{});
  }

  int64_t events() const { return events_decided_; }

 private:
  static FakeWorker open_channel() {
    auto [ours, theirs] = comm::MessageSocket::pair();
    return {comm::WorkerChannel(std::move(ours)), comm::WorkersOwnChannel(std::move(theirs)),
            UniqueFd(::eventfd(0, EFD_CLOEXEC))};
  }

  void as_fakes(const std::function<void()>& act) {
    const double begun = processor_seconds();
    act();
    fakes_ += processor_seconds() - begun;
  }

  void hear(WorkerId id) {
    const auto at = workers_.find(id);
    comm::WorkerReport report;
    if (at == workers_.end() || at->second.launcher.receive(&report, 0ms) != comm::Received::message) return;
    if (std::holds_alternative<comm::LeftStage>(report)) {
      decide(decisions::WorkerLeft{id});
    } else {
      decide(decisions::WorkerReady{id});
    }
  }

  void decide(decisions::Event event) {
    events_.add(std::move(event), [this](const decisions::Event& next) {
      ++events_decided_;
      for (const decisions::Action& action : decisions::decide(state_, next, moment())) carry_out(action);
    });
  }

  decisions::Moment moment() const {
    decisions::Moment now;
    now.time = MonotonicClock::now();
    now.attached = stages_opened_ > 0;
    now.trained = Step(step_);
    now.stage_started = stages_opened_ > 0 ? static_cast<int64_t>(state_.workers.size()) : 0;
    now.stage_started_at = now.time;
    now.step_seconds = 1;
    return now;
  }

  void carry_out(const decisions::Action& action) {
    if (std::holds_alternative<decisions::AbortStage>(action.deed)) {
      as_fakes([this] {
        for (auto& [id, fake] : workers_) fake.worker.send(comm::LeftStage{});
      });
    } else if (const auto* start = std::get_if<decisions::StartWorkers>(&action.deed)) {
      as_fakes([&] {
        for (const decisions::WorkerOrder& order : start->workers)
          workers_.try_emplace(order.id, open_channel()).first->second.worker.send(comm::Ready{});
      });
    } else if (std::holds_alternative<decisions::CloseStage>(action.deed)) {
      decide(decisions::StageClosed{.held = true});
    } else if (std::holds_alternative<decisions::OpenStage>(action.deed)) {
      ++stages_opened_;
    } else if (const auto* log = std::get_if<decisions::Log>(&action.deed); log != nullptr && log->event == "failed") {
      throw Error(Fault::bug, "the job has failed: " + log->details.dump());
    }
  }

  decisions::RunState state_;
  std::map<WorkerId, FakeWorker> workers_;
  launch::WorkerEvents events_of_workers_;
  decisions::EventQueue events_;
  int64_t stages_opened_ = 0, step_ = 0, events_decided_ = 0;
  double fakes_ = 0;  // seconds
};

// Three descriptors for each worker, and some of the program's own.
void allow_descriptors(int64_t workers) {
  const rlim_t needed = static_cast<rlim_t>(3 * workers + 64);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return;
  limit.rlim_cur = needed;
  limit.rlim_max = std::max(limit.rlim_max, needed);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw Error::make(Fault::usage, "{} workers need {} descriptors, and the system allows fewer (ulimit -n)", workers,
                      needed);
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

int64_t option(std::span<char*> words, const std::string& name, int64_t otherwise) {
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    if (words[i] == name) return std::atoll(words[i + 1]);
  }
  return otherwise;
}

int64_t peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<size_t>(argc));
  const int64_t workers = option(words, "--workers", 10240), rounds = option(words, "--rounds", 5);
  try {
    allow_descriptors(workers);
    Job job(workers);
    const double first = job.until_open([&] { job.all_become_ready(); });
    std::vector<double> quiet, losses;
    for (int i = 0; i < kQuietTurns; ++i) {
      const double begun = processor_seconds();
      job.turn();
      quiet.push_back(processor_seconds() - begun);
    }
    std::mt19937_64 random(1);
    const int64_t events = job.events();
    for (int64_t i = 0; i < rounds; ++i) losses.push_back(job.until_open([&] { job.lose(job.some_worker(random)); }));
    const double each = median(losses);
    fmt::print(
        "{} workers: {:.1f} ms from the first report to the first stage; {:.2f} ms a quiet turn, {:.1f} % of a core at "
        "ten turns a "
        "second; {:.1f} ms from a loss to the next stage ({:.0f} decisions/s); {} MB\n",
        workers, 1e3 * first, 1e3 * median(quiet), 1e3 * median(quiet), 1e3 * each,
        static_cast<double>(job.events() - events) / static_cast<double>(rounds) / each, peak_kilobytes() / 1024);
  } catch (const Error& error) {
    fmt::print(stderr, "full_size: {}\n", error.message());
    return 1;
  }
  return 0;
}
