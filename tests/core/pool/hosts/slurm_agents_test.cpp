#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/base/files/files.h"
#include "core/pool/hosts/agents.h"
#include "tests/scratch_folder.h"

namespace estrain::pool {
namespace {

// A program in place of srun, for as long as this lives.
class FakeSrun {
 public:
  explicit FakeSrun(const std::string& script) : before_(std::getenv("PATH")) {
    const std::string path = folder_.write("srun", "#!/bin/sh\n" + script);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_.path() + ":" + before_).c_str(), 1);
  }
  ~FakeSrun() { ::setenv("PATH", before_.c_str(), 1); }
  FakeSrun(const FakeSrun&) = delete;

 private:
  ScratchFolder folder_;
  std::string before_;
};

// Children of this process, at work or ended. A child is there as soon as it is started, before it does anything.
int64_t children() {
  int64_t count = 0;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const std::string stat = text_if_readable(process.path() / "stat");
    pid_t parent = 0;
    if (std::sscanf(stat.c_str() + std::min(stat.size(), stat.rfind(')') + 1), " %*c %d", &parent) == 1)
      count += parent == ::getpid();
  }
  return count;
}

// Tends until an agent has ended, ten seconds at the most. `members` have agents of their own.
std::vector<SlurmAgents::StepEnd> tend_until_ended(SlurmAgents& agents, double now,
                                                   const std::vector<std::string>& members = {}) {
  for (int i = 0; i < 1000; ++i) {
    const auto ended = agents.tend(members, now);
    if (!ended.empty()) return ended;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

TEST_CASE("a step for each node starts this program's agent there, under the node's name") {
  const std::vector<std::string> words = SlurmAgents::step_words("/shared/pool", "n2", "8");
  const auto has = [&](const std::string& word) { return std::ranges::find(words, word) != words.end(); };
  for (const char* word : {"srun", "--nodes=1", "--ntasks=1", "--nodelist=n2", "--cpus-per-task=8", "--overlap"})
    CHECK_MESSAGE(has(word), word);
  const auto agent = std::ranges::find(words, "agent");
  REQUIRE(words.end() - agent >= 5);
  CHECK(*(agent - 1) == own_executable());
  CHECK(std::vector<std::string>(agent, agent + 5) ==
        std::vector<std::string>{"agent", "--pool", "/shared/pool", "--name", "n2"});
}

TEST_CASE("an agent that ends is told of, with its last words in a file; none is started where there is one") {
  const ScratchFolder pool;
  FakeSrun srun("echo one more >> " + (pool / "starts") + "\necho no such node\nexit 3\n");
  SlurmAgents agents(pool.path(), {"n2", "n3"});
  const int64_t before = children();
  CHECK(agents.tend({"n2", "n3"}, 1000).empty());
  CHECK(children() == before);
  agents.tend({"n2"}, 1000);
  CHECK(children() == before + 1);
  const auto first = tend_until_ended(agents, 1001, {"n2"});
  REQUIRE(first.size() == 1);
  CHECK(first[0].how.find("exit status 3, see ") == 0);
  CHECK(read_file(agents.log_of("n3")) == "no such node\n");
}

TEST_CASE("an agent that has ended is started again after a pause") {
  const ScratchFolder pool;
  FakeSrun srun("echo one more >> " + (pool / "starts") + "\nexit 1\n");
  SlurmAgents agents(pool.path(), {"n2"});
  REQUIRE(tend_until_ended(agents, 1000).size() == 1);
  const int64_t before = children();
  for (const double now : {1001.0, 1010.0, 1019.0}) {
    CHECK(agents.tend({}, now).empty());
    CHECK(children() == before);
  }
  CHECK(read_file(pool / "starts") == "one more\n");
  REQUIRE(tend_until_ended(agents, 1021).size() == 1);
  CHECK(read_file(pool / "starts") == "one more\none more\n");
}

}  // namespace
}  // namespace estrain::pool
