// Agents of a pool on this host, under names of their own: jobs on their devices, who may come, how they go.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "command.h"
#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "job_specs.h"
#include "repeated_run.h"
#include "run_files.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {
namespace {

// A daemon without devices of its own.
class HostPool {
 public:
  explicit HostPool(std::string folder) : folder_(std::move(folder)) { serve(); }
  ~HostPool() { daemon_->kill(); }
  HostPool(const HostPool&) = delete;

  void serve() {
    daemon_.emplace(
        Words{"pool", "serve", folder_, "--devices", "none", "--name", "h0", "--policy", "fifo", "--round", "0.5"});
    wait_until("the pool's daemon", [&] {
      REQUIRE_FALSE(daemon_->ended_within(0ms));
      return daemon_->text().find("in the queue") != std::string::npos;
    });
  }
  Command& daemon() { return *daemon_; }
  Words agent_words(const std::string& name, const Words& more = {}) const {
    return with({"agent", "--pool", folder_, "--name", name, "--devices", "cpu*2"}, more);
  }
  Ended ask(const std::string& verb, const Words& more = {}) const {
    return estrain(with({"pool", verb, folder_}, more));
  }
  size_t num_devices() const { return Json::parse(ask("status", {"--json"}).text).at("devices").size(); }
  Json job() const { return Json::parse(ask("list", {"--json"}).text).at(0); }
  void wait_for_phase(const std::string& phase) const {
    wait_until("the job to be " + phase, [&] { return job().at("phase") == phase; });
  }

 private:
  std::string folder_;
  std::optional<Command> daemon_;
};

TEST_CASE("a job runs on the devices of a pool's agent; the agent leaves when the job has stopped with a checkpoint") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), where = folder / "pool";
  HostPool pool(where);
  CHECK(pool.num_devices() == 0);
  Command agent(pool.agent_words("h1", {"--rack", "r7"}));
  wait_until("the agent's devices", [&] { return pool.num_devices() == 2; });
  CHECK(pool.ask("status").says("h1/cpu       free, rack r7"));
  REQUIRE(pool.ask("submit", {spec, "--set", "resources.devices=\"2\""}).code == 0);
  wait_until("steps", [&] { return pool.job().at("step").get<int64_t>() > 0; });
  CHECK(pool.job().at("devices") == Json{"h1/cpu", "h1/cpu"});
  CHECK(pool.ask("list").says("2 x h1/cpu"));
  const Ended again = estrain(pool.agent_words("h1"));
  CHECK(again.code == 2);
  CHECK(again.says("an agent of a host h1 is in this pool already"));
  const Json listed = Json::parse(pool.ask("devices", {"--json"}).text);
  REQUIRE(listed.size() == 2);
  CHECK(listed[0].at("host") == "h1");
  CHECK(listed[0].at("job") == 1);
  CHECK(listed[1].at("state") == "in use");
  CHECK(pool.ask("devices").says("h1/cpu"));
  const Ended none = estrain({"pool", "devices"});
  CHECK(none.code == 2);
  CHECK(none.says("DIR, add or remove is required"));
  const Ended too_many = estrain({"pool", "devices", "add", where, "h1/cpu"});
  CHECK(too_many.code == 2);
  CHECK(too_many.says("the agent of h1 offers 2 of h1/cpu, and the pool has 2 of them"));
  const Ended unknown = estrain({"pool", "devices", "add", where, "h9/cpu"});
  CHECK(unknown.code == 2);
  CHECK(unknown.says("no agent in the pool offers h9/cpu"));
  agent.signal(SIGTERM);
  const Ended left = agent.wait();
  INFO(left.shown());
  CHECK(left.code == 0);
  CHECK(left.says("the pool has let go of its devices"));
  CHECK(pool.num_devices() == 0);
  CHECK(pool.job().at("phase") == "waiting");
  const std::string run = where + "/jobs/1/run";
  const Json stopped = events(run, "stopped").back();
  const auto stopped_at = stopped.at("step").get<int64_t>();
  Command other(pool.agent_words("h2"));
  wait_until("more steps", [&] { return pool.job().at("step").get<int64_t>() > stopped_at + 20; });
  CHECK(events(run, "start").back().at("step") == stopped_at);
  CHECK(pool.ask("cancel", {"1"}).code == 0);  // it does not end by itself
  pool.wait_for_phase("cancelled");
  const std::string alone = folder / "alone", steps = "train.steps=" + std::to_string(last_step(run));
  REQUIRE(estrain({"train", spec, "--run", alone, "--set", steps}).code == 0);
  CHECK(difference(run, alone).text == "");
  other.signal(SIGTERM);
  CHECK(other.wait().code == 0);
}

TEST_CASE("an agent that is killed takes its jobs with it; they go on when it is back") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), where = folder / "pool";
  HostPool pool(where);
  std::optional<Command> agent(pool.agent_words("h1"));
  REQUIRE(pool.ask("submit", {spec, "--set", "train.steps=600", "--set", "checkpoint.every=50"}).code == 0);
  wait_until("steps", [&] { return pool.job().at("step").get<int64_t>() > 0; });
  pool.daemon().kill();
  agent->kill();
  agent.emplace(pool.agent_words("h1"));
  pool.serve();
  pool.wait_for_phase("done");
  CHECK(pool.ask("log").says("host h1 was lost"));
  CHECK_FALSE(pool.ask("log").says("faulted"));
  const std::string alone = folder / "alone";
  REQUIRE(estrain({"train", spec, "--run", alone, "--set", "train.steps=600"}).code == 0);
  CHECK(difference(where + "/jobs/1/run", alone).text == "");
  agent->signal(SIGTERM);
  CHECK(agent->wait().code == 0);
}

// Agents of a run reach each other there.
const Words kOnThisMachine = {"--address", "127.0.0.1"};

std::vector<Json> lines_with(const std::string& text, const std::string& key) {
  std::vector<Json> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json.contains(key)) found.push_back(json);
  }
  return found;
}

TEST_CASE("the past of a pool on several hosts is replayed on these hosts, which come and go as they did") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), where = folder / "pool";
  HostPool pool(where);
  Command first(pool.agent_words("h1", kOnThisMachine)), second(pool.agent_words("h2", kOnThisMachine));
  wait_until("both hosts", [&] { return pool.num_devices() == 4; });
  REQUIRE(pool.ask("submit", {spec, "--set", "train.steps=400", "--set", "resources.devices=\"4\""}).code == 0);
  wait_until("steps on both hosts", [&] {
    const Json job = pool.job();
    return job.at("devices").size() == 4 && job.at("step").get<int64_t>() > 0;
  });
  second.signal(SIGTERM);
  CHECK(second.wait().code == 0);
  Command third(pool.agent_words("h3", kOnThisMachine));
  wait_until("the third host", [&] { return pool.num_devices() == 4; });
  pool.wait_for_phase("done");
  first.kill();
  wait_until("the loss of the host", [&] { return pool.num_devices() == 2; });
  const std::string trace = pool.ask("trace").text;
  INFO(trace);
  const Json start = lines_with(trace, "pool").at(0).at("pool");
  CHECK(start.at("devices").size() == 4);
  REQUIRE(start.at("hosts").size() == 3);
  CHECK(start.at("hosts")[0].at(0) == "h1");
  CHECK(start.at("hosts")[0].at(1).get<int64_t>() >= 1);
  REQUIRE(lines_with(trace, "added_s").size() == 1);
  CHECK(lines_with(trace, "added_s")[0].at("devices") == Json{"h3/cpu", "h3/cpu"});
  const std::vector<Json> removed = lines_with(trace, "removed_s"), lost = lines_with(trace, "host_lost_s");
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].at("devices") == Json{"h2/cpu", "h2/cpu"});
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].at("host") == "h1");
  CHECK(pool.ask("log").says("[h1/cpu*2,h2/cpu*2]"));
  const Ended replayed = estrain({"simulate", folder.write("t.jsonl", trace), "--policy", "fifo,srtf", "--json", "-"});
  INFO(replayed.shown());
  REQUIRE(replayed.code == 0);
  const Json result = Json::parse(replayed.text).at(0);
  CHECK(result.at("jobs") == 1);
  CHECK(result.at("decisions").front().at("names") == Json{"h1/cpu", "h1/cpu", "h2/cpu", "h2/cpu"});
  third.signal(SIGTERM);
  CHECK(third.wait().code == 0);
}

TEST_CASE("a pool changes the batch of a job over several hosts: its agents wait, and a repeat has its bits") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", endless_epochs() + "[elastic]\nbatch = \"adaptive\"\n");
  const std::string where = folder / "pool", run = where + "/jobs/1/run";
  HostPool pool(where);
  Command first(pool.agent_words("h1", kOnThisMachine)), second(pool.agent_words("h2", kOnThisMachine));
  wait_until("both hosts", [&] { return pool.num_devices() == 4; });
  REQUIRE(pool.ask("submit", {spec, "--set", "resources.devices=\"2\""}).code == 0);
  const auto step = [&] { return pool.job().at("step").get<int64_t>(); };
  wait_until("steps", [&] { return step() > 0; });
  CHECK(pool.ask("policy", {"ones"}).code == 0);
  wait_until("twice the batch", [&] { return pool.job().at("batch") == 64; });
  auto devices = pool.job().at("devices").get<Words>();
  std::ranges::sort(devices);  // the hosts came in any order
  CHECK(devices == Words{"h1/cpu", "h1/cpu", "h2/cpu", "h2/cpu"});
  const int64_t after = changes_of(run).at(0).at("step").get<int64_t>();
  wait_until("steps of it", [&] { return step() > after + 10; });
  CHECK(pool.ask("cancel", {"1"}).code == 0);
  pool.wait_for_phase("cancelled");
  INFO(pool.ask("log").text);
  CHECK_FALSE(pool.ask("log").says("faulted"));
  REQUIRE(changes_of(run).size() == 1);
  CHECK(changes_of(run)[0].at("lr_factor") == std::sqrt(2.0));  // the optimizer is AdamW
  check_repeat(folder, run);
  for (Command* agent : {&first, &second}) {
    agent->signal(SIGTERM);
    CHECK(agent->wait().code == 0);
  }
}

// The program with another build id (elf(5), NT_GNU_BUILD_ID): its note is changed by a byte.
std::string other_build(const ScratchFolder& folder) {
  const char* named = std::getenv("ESTRAIN_PROGRAM");
  std::ifstream file(named != nullptr ? named : ESTRAIN_PROGRAM, std::ios::binary);
  std::string program((std::istreambuf_iterator<char>(file)), {});
  const std::string note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  const size_t at = program.find(note);
  REQUIRE(at != std::string::npos);
  program[at + note.size()] ^= 1;
  const std::string path = folder.write("estrain", program);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST_CASE("a pool's agent is refused by name: no pool, no daemon, the daemon's own name, another build, a wrong list") {
  const ScratchFolder folder;
  const std::string where = folder / "pool";
  const Ended no_pool = estrain({"agent", "--pool", where});
  CHECK(no_pool.code == 2);
  CHECK(no_pool.says("there is no pool"));
  CHECK(no_pool.says("estrain pool serve"));
  HostPool pool(where);
  const Ended own = estrain(pool.agent_words("h0"));
  CHECK(own.code == 2);
  CHECK(own.says("the pool calls the daemon's own host h0"));
  const Ended named = estrain({"agent", "--pool", where, "--name", "h1", "--devices", "h2/cpu"});
  CHECK(named.code == 2);
  CHECK(named.says("an agent has the devices of its own host"));
  CHECK(estrain({"agent", "--pool", where, "--run", where}).code == 2);
  CHECK(estrain({"agent"}).code == 2);
  CHECK(estrain({"agent", "--run", where, "--devices", "cpu"}).code == 2);
  const Ended bad_name = estrain({"agent", "--pool", where, "--name", "../x"});
  CHECK(bad_name.code == 2);
  CHECK(bad_name.says("no host's name"));
  const Ended serve_other = estrain({"pool", "serve", folder / "other", "--devices", "h1/cpu"});
  CHECK(serve_other.code == 2);
  CHECK(serve_other.says("devices of other hosts come with an agent there"));
  Command::Options options;
  options.before = "shift; set -- '" + other_build(folder) + "' \"$@\"";
  Command stranger(pool.agent_words("h1"), options);
  const Ended refused = stranger.wait();
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says("the pool's daemon does not take this agent: it is of estrain"));
  CHECK(pool.ask("log").says("refused"));
  CHECK(pool.num_devices() == 0);
  pool.daemon().kill();
  const Ended no_daemon = estrain(pool.agent_words("h1", {"--patience", "0.5"}));
  CHECK(no_daemon.code == 1);
  CHECK(no_daemon.says("no daemon of this pool has answered in 0.5 s"));
}

TEST_CASE("commands to a pool that is served on another host say where") {
  const ScratchFolder folder;
  const std::string where = folder / "pool";
  { HostPool pool(where); }
  Json sign = Json::parse(read_file(where + "/hosts/daemon.json"));
  CHECK(estrain({"pool", "list", where}).code == 0);
  sign["machine"] = "another";
  write_file_atomically(where + "/hosts/daemon.json", sign.dump());
  for (const char* verb : {"list", "status", "log"}) {
    const Ended elsewhere = estrain({"pool", verb, where});
    CHECK(elsewhere.code == 2);
    CHECK(elsewhere.says("the daemon of this pool is, or was last, on another host, another"));
  }
  CHECK(estrain({"pool", "policy", where, "srtf"})
            .says("the daemon of this pool is, or was last, on another host, another"));
}

}  // namespace
}  // namespace estrain::testing
