#include "core/hosts/agents/stranger_log.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "core/base/json/json_lines.h"
#include "tests/scratch_folder.h"

namespace estrain::hosts {
namespace {

std::vector<int64_t> told(const ScratchFolder& run) {
  std::vector<int64_t> counts;
  for_each_object(run.path() + "/events.jsonl", [&](const Json& event) {
    CHECK(event.at("event") == "refused_connection");
    CHECK(event.at("host") == "nodeB");
    counts.push_back(event.at("connections"));
  });
  return counts;
}

TEST_CASE("the first stranger is told of at once, the others together, those of the last minute at the end") {
  const ScratchFolder run;
  net::Loop loop;
  const Error why(Fault::peer, "no greeting");
  std::optional<StrangerLog> log;
  log.emplace(loop, run.path(), "nodeB", 30ms);
  log->note("10.0.0.9:1", why);
  for (int i = 0; i < 5000; ++i) log->note("10.0.0.9:2", why);
  CHECK(told(run) == std::vector<int64_t>{1});
  const auto look = loop.every(5ms, [&] {
    if (told(run).size() == 2) loop.stop();
  });
  loop.run();
  loop.restart();
  CHECK(told(run) == std::vector<int64_t>{1, 5000});
  log->note("10.0.0.9:3", why);
  log.reset();
  CHECK(told(run) == std::vector<int64_t>{1, 5000, 1});
}

}  // namespace
}  // namespace estrain::hosts
