#include "core/pool/daemon/daemon.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "core/base/clock.h"
#include "tests/core/pool/daemon/resting_pool.h"
#include "tests/error_of.h"

namespace estrain::pool {
namespace {

using dispatch::Slot;
using Names = std::vector<std::string>;

// A daemon of the pool that an earlier one has left, on nodeA. What it starts, it starts by the agent of nodeB, which
// only writes down what it is told.
class ServedFolder {
 public:
  explicit ServedFolder(dispatch::State state, const std::optional<AgentOfB>& agent = AgentOfB{}) {
    if (agent) prepare_agent(path(), *agent);
    for (const auto& [id, job] : state.jobs) make_folders(PoolDirectory(path()).run(id));
    if (state.seen == 0) state.seen = wall_seconds() - 1;
    Ledger::open(PoolDirectory(path()).database()).save(state, {});
  }

  std::string path() const { return folder_.path(); }
  ServeOptions options() const {
    return {.directory = path(), .devices = {}, .nodes = {}, .name = "nodeA", .policy = {}};
  }
  void serve() { serve(options()); }
  void serve(const ServeOptions& options) { daemon_.emplace(options, UniqueFd(::dup(end_.get()))); }
  void stop() { daemon_.reset(); }
  Daemon& daemon() { return *daemon_; }
  const dispatch::Job& job(dispatch::JobId id = 1) const { return daemon_->state().jobs.at(id); }

  Names devices() const {
    Names names;
    for (const Slot& slot : daemon_->state().slots) {
      if (!slot.for_good) names.push_back(slot.name);
    }
    return names;
  }
  // Of the agent of nodeB; as written.
  std::vector<Task> orders(std::string_view kind) const {
    std::vector<Task> found;
    const std::optional<Orders> written = MeetingFolder(path()).orders("nodeB");
    REQUIRE(written);
    for (const Task& task : written->tasks) {
      if (task.kind == kind) found.push_back(task);
    }
    return found;
  }
  std::vector<Line> history(std::string_view what) const {
    std::vector<Line> found;
    for (const Line& line : Ledger::open(PoolDirectory(path()).database()).history()) {
      if (line.what == what) found.push_back(line);
    }
    return found;
  }
  dispatch::State on_disk() const { return Ledger::open(PoolDirectory(path()).database()).load(); }

  // A client asks for this; the daemon hears it in its next turn.
  UniqueFd ask(const Json& request) {
    UniqueFd client = launch::connect_to_launcher(path());
    REQUIRE(daemon_->turn(1s));
    const std::string line = request.dump() + "\n";
    REQUIRE(::write(client.get(), line.data(), line.size()) == std::ssize(line));
    return client;
  }
  static Json answer(const UniqueFd& client) {
    pollfd polled{client.get(), POLLIN, 0};
    std::string text(4096, ' ');
    if (::poll(&polled, 1, 1000) != 1) return Json();
    const ssize_t size = ::read(client.get(), text.data(), text.size());
    return Json::parse(text.substr(0, static_cast<size_t>(std::max<ssize_t>(size, 0))));
  }
  void tell_to_end() const { REQUIRE(::eventfd_write(end_.get(), 1) == 0); }

 private:
  ScratchFolder folder_;
  UniqueFd end_{::eventfd(0, EFD_CLOEXEC)};
  std::optional<Daemon> daemon_;
};

// A pool without devices in which job 1 was up when the daemon before ended.
dispatch::State left_behind(Phase phase) {
  dispatch::State state = state_with_job(phase, {});
  state.jobs[1].request.type = "cpu";
  return state;
}

TEST_CASE("a daemon that begins knows what became of jobs whose launchers have ended meanwhile") {
  const auto job_after = [](Phase phase, const std::string& events) {
    ServedFolder pool(left_behind(phase));
    const std::string run = PoolDirectory(pool.path()).run(1);
    if (!events.empty()) {
      replace_bytes(run + "/job.toml", "");
      replace_bytes(run + "/events.jsonl", events);
    }
    pool.serve();
    pool.daemon().begin();
    return pool.job();
  };
  CHECK(job_after(Phase::running, "{\"event\": \"start\"}\n{\"event\": \"finished\"}\n").phase == Phase::done);
  CHECK(job_after(Phase::running, "{\"event\": \"stopped\"}\n").failures == 0);
  const dispatch::Job lost = job_after(Phase::changing, "{\"event\": \"start\"}\n");
  CHECK(lost.phase == Phase::waiting);
  CHECK(lost.failures == 1);
  const dispatch::Job never = job_after(Phase::starting, "");
  CHECK(never.phase == Phase::waiting);
  CHECK(never.failures == 0);
}

TEST_CASE("nothing is decided before the daemon begins: by then it knows of all jobs") {
  dispatch::State state = state_with_job(Phase::running, {"nodeB/cpu"}, "nodeB");
  state.slots.push_back({.id = ++state.last_slot, .name = "nodeB/cpu"});
  dispatch::Job& next = state.jobs[2] = state.jobs[1];
  next.id = state.last_job = 2;
  next.phase = Phase::waiting;
  next.target.clear();
  next.home.clear();
  next.request.most = next.request.devices = state.jobs[1].request.most = 1;
  ServedFolder pool(state, AgentOfB{.tasks = {RestingPool::task_of(kLauncher, "t1")}});
  pool.serve();
  CHECK(pool.job(2).phase == Phase::waiting);
  pool.daemon().begin();
  CHECK(pool.job(2).phase == Phase::starting);
  CHECK(pool.job(1).phase == Phase::running);
  REQUIRE(pool.daemon().turn(0ms));
  CHECK(pool.orders(kLauncher).size() == 2);
}

TEST_CASE("a start is on the disk before it is carried out: a daemon that is killed then leaves no launcher unknown") {
  ServedFolder pool(state_with_job(Phase::waiting, {"nodeB/cpu"}));
  pool.serve();
  pool.daemon().begin();
  CHECK(pool.job().phase == Phase::starting);
  CHECK(pool.orders(kLauncher).empty());
  const dispatch::State state = pool.on_disk();
  CHECK(state.jobs.at(1).phase == Phase::starting);
  CHECK(state.slots.at(0).holder == 1);
  CHECK(pool.history("started").size() == 1);
}

TEST_CASE("a job that an earlier daemon started and could not write down is not started a second time") {
  ServedFolder pool(state_with_job(Phase::waiting, {"nodeB/cpu"}));
  ChildOptions sleeper;
  sleeper.arguments = {"/bin/sleep", "60"};
  ChildProcess launcher = ChildProcess::start(sleeper);
  const UniqueFd lock = lock_of_run(PoolDirectory(pool.path()).run(1), launcher.pid());
  pool.serve();
  pool.daemon().begin();
  REQUIRE(pool.daemon().turn(0ms));
  CHECK(pool.orders(kLauncher).empty());
  CHECK(dispatch::is_up(pool.job().phase));
  launcher.signal(SIGKILL);
  launcher.wait();
}

TEST_CASE(
    "a job whose host was gone when the daemon began waits, without a failure, and its devices are no longer there") {
  ServedFolder pool(state_with_job(Phase::running, {"nodeB/cpu", "nodeB/cpu"}, "nodeB"), std::nullopt);
  pool.serve();
  pool.daemon().begin();
  CHECK(pool.devices().empty());
  CHECK(pool.job().phase == Phase::waiting);
  CHECK(pool.job().failures == 0);
  REQUIRE(pool.daemon().turn(0ms));
  REQUIRE(pool.history("lost").size() == 1);
  CHECK(pool.history("lost")[0].names == Names{"nodeB/cpu", "nodeB/cpu"});
}

TEST_CASE("the history tells from when to when no daemon served the pool, and nothing of a new pool") {
  dispatch::State state = left_behind(Phase::waiting);
  state.seen = 1'700'000'000;
  ServedFolder pool(state);
  const double before = wall_seconds();
  pool.serve();
  pool.daemon().begin();
  REQUIRE(pool.daemon().turn(0ms));
  REQUIRE(pool.history("away").size() == 1);
  CHECK(pool.history("away")[0].time == 1'700'000'000);
  REQUIRE(pool.history("served").size() == 1);
  CHECK(pool.history("served")[0].time >= before);
  const ScratchFolder folder;
  Daemon first({.directory = folder / "new", .devices = "none", .nodes = {}, .name = "nodeA", .policy = {}},
               UniqueFd(::eventfd(0, EFD_CLOEXEC)));
  first.begin();
  REQUIRE(first.turn(0ms));
  for (const Line& line : Ledger::open(folder / "new/pool.db").history()) CHECK(line.what != "served");
}

TEST_CASE("where the queue was lost, jobs are numbered above those whose folders are there, which is said once") {
  ServedFolder pool{dispatch::State()};
  const PoolDirectory directory(pool.path());
  make_folders(directory.run(2));
  make_folders(directory.run(7));
  make_folders(pool.path() + "/jobs/12x");
  for (const dispatch::JobId number : {8, 9}) {
    pool.serve();
    pool.daemon().begin();
    REQUIRE(pool.daemon().turn(0ms));
    const std::string spec = "[job]\nests = 2\n[model]\nname = \"mlp\"\n[data]\nshape = [7]\n[train]\nsteps = 5\n";
    const UniqueFd client = pool.ask({{"do", "submit"}, {"spec", spec}, {"user", "ann"}});
    REQUIRE(pool.daemon().turn(1s));
    CHECK(ServedFolder::answer(client).at("job") == number);
    CHECK(pool.job(number).request.user == "ann");
    REQUIRE(pool.history("unknown").size() == 1);
    CHECK(pool.history("unknown")[0].reason.find("whose folders are in jobs: 2, 7;") != std::string::npos);
    pool.stop();
  }
}

TEST_CASE("a pool that knows all its jobs says nothing of them when it begins") {
  ServedFolder pool(left_behind(Phase::waiting));
  pool.serve();
  pool.daemon().begin();
  REQUIRE(pool.daemon().turn(0ms));
  CHECK(pool.history("unknown").empty());
}

TEST_CASE("a pool keeps its policy and its devices unless it is served with others") {
  dispatch::State state = state_with_job(Phase::done, {"cpu", "nodeB/cpu"});
  state.policy = "srtf";
  const auto served_with = [&](const std::string& devices, const std::string& policy) {
    auto pool = std::make_unique<ServedFolder>(state);
    ServeOptions options = pool->options();
    options.devices = devices;
    options.policy = policy;
    pool->serve(options);
    return pool;
  };
  CHECK(served_with("", "")->daemon().state().policy == "srtf");
  CHECK(served_with("", "fifo")->daemon().state().policy == "fifo");
  CHECK(served_with("", "")->devices() == Names{"cpu", "nodeB/cpu"});
  CHECK(served_with("cpu", "")->devices() == Names{"cpu", "nodeB/cpu"});
  CHECK(served_with("none", "")->devices() == Names{"nodeB/cpu"});
  CHECK(served_with("cpu:sse", "estrain")->devices() == Names{"nodeB/cpu", "cpu:sse"});
}

TEST_CASE("a pool keeps the rack of the daemon's host unless it is served with another") {
  ServedFolder pool{left_behind(Phase::done)};
  ServeOptions options = pool.options();
  for (const char* rack : {"r1", "", "r2"}) {
    options.rack = *rack == '\0' ? std::nullopt : std::optional<std::string>(rack);
    pool.serve(options);
    pool.daemon().begin();
    pool.daemon().end();
    CHECK(pool.on_disk().racks == std::map<std::string, std::string>{{"", options.rack.value_or("r1")}});
    pool.stop();
  }
}

TEST_CASE("what a daemon cannot be started with is refused, and a new pool is not begun") {
  const ScratchFolder folder;
  const auto refusal = [&](const std::string& devices, const std::string& policy) {
    const ServeOptions options{
        .directory = folder / "pool", .devices = devices, .nodes = {}, .name = "nodeA", .policy = policy};
    const Error error = error_of([&] { Daemon(options, UniqueFd(::eventfd(0, EFD_CLOEXEC))); });
    CHECK(error.fault() == Fault::usage);
    CHECK_FALSE(std::filesystem::exists(folder / "pool"));
    return error.message();
  };
  CHECK(refusal("", "").find("a new pool needs devices") != std::string::npos);
  CHECK(refusal("nodeB/cpu", "").find("devices of other hosts come with an agent there") != std::string::npos);
  CHECK(refusal("cpu", "polux").find("polux") != std::string::npos);
  CHECK(refusal("gpu", "").find("gpu") != std::string::npos);
}

TEST_CASE("a group may use a pool that is served for the group, and each job's user is who asked") {
  ServedFolder pool(left_behind(Phase::done));
  ServeOptions options = pool.options();
  options.group = ::getegid();
  pool.serve(options);
  struct stat socket {};
  REQUIRE(::stat((pool.path() + "/control.sock").c_str(), &socket) == 0);
  CHECK((socket.st_mode & 07777) == 0660);
  pool.daemon().begin();
  const std::string spec = "[job]\nests = 2\n[model]\nname = \"mlp\"\n[data]\nshape = [7]\n[train]\nsteps = 5\n";
  const UniqueFd client = pool.ask({{"do", "submit"}, {"spec", spec}});
  REQUIRE(pool.daemon().turn(1s));
  CHECK(ServedFolder::answer(client).at("job") == 2);
  CHECK(pool.job(2).request.uid == ::geteuid());
}

TEST_CASE("a policy that knows one type of device is refused for a pool of two, and the pool stays as it is") {
  dispatch::State state = state_with_job(Phase::done, {"cpu", "cpu:avx2"});
  state.policy = "estrain";
  ServedFolder pool(state);
  ServeOptions options = pool.options();
  options.policy = "optimus";
  CHECK(error_of([&] { pool.serve(options); }).fault() == Fault::infeasible);
  pool.serve();
  CHECK(pool.daemon().state().policy == "estrain");
}

TEST_CASE("one daemon serves a pool at a time") {
  ServedFolder pool(left_behind(Phase::done));
  pool.serve();
  const Error error = error_of([&] { Daemon(pool.options(), UniqueFd(::eventfd(0, EFD_CLOEXEC))); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message().find("another daemon serves this pool already") != std::string::npos);
}

TEST_CASE("a daemon makes its deleted lock file anew, and ends if another daemon has made one") {
  ServedFolder pool(left_behind(Phase::done));
  pool.serve();
  const PoolDirectory directory(pool.path());
  std::filesystem::remove(directory.lock_file());
  REQUIRE(pool.daemon().turn(0ms));
  CHECK(read_file(directory.lock_file()) == std::to_string(::getpid()));
  CHECK(error_of([&] { directory.lock(); }).fault() == Fault::usage);
  std::filesystem::remove(directory.lock_file());
  const UniqueFd of_other = directory.lock();
  const Error error = error_of([&] { pool.daemon().turn(0ms); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message() == pool.path() + ": its file `lock` was deleted, and another daemon serves the pool");
}

TEST_CASE("an agent that joins while pool.db cannot be written brings its devices to the next daemon, too") {
  ServedFolder pool(left_behind(Phase::done), std::nullopt);
  auto database = sqlite::Database::open(PoolDirectory(pool.path()).database(), sqlite::Access::read_write);
  database.execute("CREATE TRIGGER full BEFORE INSERT ON history BEGIN SELECT RAISE(ABORT, 'no room'); END");
  pool.serve();
  pool.daemon().begin();
  make_folders(pool.path() + "/hosts");
  for (int64_t beat = 1; beat <= 8 && pool.devices().empty(); ++beat) {
    write_report(pool.path(), {}, beat);
    REQUIRE(pool.daemon().turn(0ms));
    std::this_thread::sleep_for(std::chrono::milliseconds(120));  // the daemon looks at agents ten times a second
  }
  CHECK(pool.devices() == Names{"nodeB/cpu", "nodeB/cpu"});
  CHECK(MeetingFolder(pool.path()).orders("nodeB").value().unrecorded);
  pool.stop();
  pool.serve();
  CHECK(pool.devices() == Names{"nodeB/cpu", "nodeB/cpu"});
  database.execute("DROP TRIGGER full");
  pool.daemon().begin();
  pool.daemon().end();
  CHECK(pool.on_disk().slots.size() == 2);
  CHECK_FALSE(MeetingFolder(pool.path()).orders("nodeB").value().unrecorded);
}

// Job 1 trains on one device of nodeB, whose agent looks at it all the time. Another one, which was taken from it, is
// away.
struct LookedAt : ServedFolder {
  LookedAt() : ServedFolder(with_one_away(), reported(1)) {
    serve();
    daemon().begin();
    look();
    REQUIRE(daemon().turn(0ms));
  }
  static dispatch::State with_one_away() {
    dispatch::State state = state_with_job(Phase::running, {"nodeB/cpu"}, "nodeB");
    state.jobs[1].request.devices = 2;
    state.jobs[1].owed = 1;
    state.slots.push_back({.id = ++state.last_slot, .name = "nodeB/cpu", .state = Slot::State::away});
    return state;
  }
  static AgentOfB reported(int64_t looks) {
    TaskReport report{.id = "t1", .job = 1, .kind = std::string(kLauncher), .leads = true, .looks = looks, .look = {}};
    report.look = JobLook{.state = "training",
                          .step = looks,
                          .total_steps = 100,
                          .held = std::vector<std::string>{"cpu"},
                          .devices_at_work = 1,
                          .batch = {}};
    return {.tasks = {RestingPool::task_of(kLauncher, "t1")}, .reports = {report}};
  }
  // The agent's next look is there when the daemon looks next.
  void look() {
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    ++looks_;
    write_report(path(), reported(looks_), looks_);
  }

 private:
  int64_t looks_ = 1;
};

TEST_CASE("a look at a job that was just told to change is no answer to that") {
  LookedAt pool;
  CHECK(pool.job().step == 2);
  const UniqueFd client = pool.ask({{"do", "lend"}, {"devices", "nodeB/cpu"}});
  pool.look();
  REQUIRE(pool.daemon().turn(1s));
  CHECK(LookedAt::answer(client).at("ok") == true);
  CHECK(pool.job().step == 3);
  CHECK(pool.job().phase == Phase::changing);
  CHECK(pool.job().targeted() == 2);
  const auto requests = pool.orders(kRequest);
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].words[0] == "resize");
  CHECK(pool.history("changed").empty());
}

TEST_CASE("what is asked of a daemon that is told to end is carried out, answered and on the disk") {
  LookedAt pool;
  const UniqueFd client = pool.ask({{"do", "lend"}, {"devices", "nodeB/cpu"}});
  pool.tell_to_end();
  CHECK_FALSE(pool.daemon().turn(1s));
  pool.daemon().end();
  CHECK(LookedAt::answer(client).at("ok") == true);
  CHECK(pool.orders(kRequest).size() == 1);
  CHECK(pool.history("lend").size() == 1);
  CHECK(pool.history("grows").size() == 1);
  const dispatch::State state = pool.on_disk();
  CHECK(state.jobs.at(1).phase == Phase::changing);
  CHECK(state.slots[1].holder == 1);
}

TEST_CASE("a job that is cancelled while the daemon ends is cancelled, with a line in the history") {
  ServedFolder pool(left_behind(Phase::waiting));
  pool.serve();
  pool.daemon().begin();
  const UniqueFd client = pool.ask({{"do", "cancel"}, {"job", 1}});
  pool.tell_to_end();
  CHECK_FALSE(pool.daemon().turn(1s));
  pool.daemon().end();
  CHECK(ServedFolder::answer(client).at("ok") == true);
  CHECK(pool.on_disk().jobs.at(1).phase == Phase::cancelled);
  CHECK(pool.history("cancelled").size() == 1);
}

TEST_CASE("jobs go on when their daemon ends, and the next one leaves them where they are") {
  LookedAt pool;
  pool.tell_to_end();
  CHECK_FALSE(pool.daemon().turn(1s));
  pool.daemon().end();
  CHECK(pool.orders(kLauncher).at(0).signal == 0);
  CHECK(pool.orders(kRequest).empty());
  CHECK(pool.on_disk().jobs.at(1).phase == Phase::running);
  CHECK(pool.on_disk().jobs.at(1).home == "nodeB");
}

}  // namespace
}  // namespace estrain::pool
