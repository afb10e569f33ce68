#pragma once
// A pool of real jobs in a folder, served by a daemon that a test may kill.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "command.h"
#include "core/base/clock.h"
#include "run_files.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {

class Pool {
 public:
  Pool(std::string folder, const Words& more, Command::Options options = {}) : folder_(std::move(folder)) {
    serve(more, std::move(options));
  }
  // Its jobs do not end with the daemon.
  ~Pool() {
    daemon_->kill();
    for (const ProcessInfo& process : processes()) {
      const auto names = [&](const std::string& word) { return word.find(folder_ + "/jobs/") != std::string::npos; };
      if (std::ranges::any_of(process.arguments, names)) ::kill(process.pid, SIGKILL);
    }
  }
  Pool(const Pool&) = delete;

  const std::string& folder() const { return folder_; }
  Command& daemon() { return *daemon_; }
  std::string run(int64_t job) const { return folder_ + "/jobs/" + std::to_string(job) + "/run"; }

  void serve(const Words& more = {}, Command::Options options = {}) {
    daemon_.emplace(with({"pool", "serve", folder_}, more), std::move(options));
    wait_until("the pool's daemon", [&] {
      REQUIRE_FALSE(daemon_->ended_within(0ms));
      return daemon_->text().find("in the queue") != std::string::npos;
    });
  }

  Ended ask(const std::string& verb, const Words& more = {}) const {
    return estrain(with({"pool", verb, folder_}, more));
  }
  int64_t submit(const std::string& spec, const Words& more = {}) const {
    const Ended ended = ask("submit", with({spec, "--json"}, more));
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
    return Json::parse(ended.text).at("job").get<int64_t>();
  }
  Json job(int64_t id) const {
    const Ended ended = ask("list", {"--json"});
    for (const Json& one : Json::parse(ended.text)) {
      if (one.at("job") == id) return one;
    }
    return Json::object();
  }
  std::string phase(int64_t id) const { return job(id).at("phase").get<std::string>(); }
  void wait_for(int64_t id, const std::string& phase_wanted) const {
    wait_until(fmt::format("job {} to be {}", id, phase_wanted), [&] { return phase(id) == phase_wanted; });
  }
  std::string log() const { return ask("log").text; }

 private:
  std::string folder_;
  std::optional<Command> daemon_;
};

// The job has the bits of `train` with these words.
inline void check_like_alone(const ScratchFolder& folder, const Pool& pool, int64_t job, const Words& alone) {
  const std::string whole = folder / ("alone" + std::to_string(job));
  REQUIRE(estrain(with({"train"}, with(alone, {"--run", whole}))).code == 0);
  CHECK(difference(pool.run(job), whole).text == "");
}

}  // namespace estrain::testing
