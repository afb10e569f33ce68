#include "core/hosts/courier/heartbeats.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

#include "core/base/files/unique_fd.h"
#include "core/state/comm/job_memory.h"
#include "tests/core/hosts/pretended_connection.h"

namespace estrain::hosts {
namespace {

TEST_CASE("a host sends beats to its coordinator ten times a second, and tries another host every ten seconds") {
  net::Loop loop;
  net::Greeting own;
  own.host = "b";
  HostLinks links(loop, {.key = net::SharedKey({}),
                         .own = own,
                         .connected = [](const std::string&) {},
                         .lost = [](const std::string&, const Error&, bool) {},
                         .message = [](const std::string&, const CourierMessage&) {},
                         .measured = [](const std::string&, double, double) {},
                         .landing = [](const std::string&, const net::FrameHead&) { return Landing{}; }});
  const UniqueFd memory = comm::JobMemory::create();
  Holding holding(memory.get());
  RunningStage stage(loop, links, [](const Error&) {});
  Heartbeats beats(links, holding, stage, false);
  const auto coordinator = std::make_shared<Pretended>(0, ""), other = std::make_shared<Pretended>(0, "c");
  for (const auto& connection : {coordinator, other}) links.take(connection);
  for (int tick = 1; tick <= 2'500; ++tick) {
    beats.send_in_time();
    CHECK(coordinator->heard_frames[beat] == tick / 10);
    CHECK(other->heard_frames[bulk] == tick / 1'000);
  }
  CHECK(coordinator->heard_frames[bulk] == 0);
  CHECK(other->heard_frames[beat] == 0);
}

}  // namespace
}  // namespace estrain::hosts
