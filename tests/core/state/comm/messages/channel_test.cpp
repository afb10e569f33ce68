#include "core/state/comm/messages/channel.h"

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/state/comm/messages/worker_messages.h"

namespace estrain::comm {
namespace {

TEST_CASE("what one end of a channel says the other one hears") {
  auto [a, b] = MessageSocket::pair();
  WorkerChannel launcher(std::move(a));
  WorkersOwnChannel worker(std::move(b));
  RunStage stage{
      WorkerRank(1), {{VirtualRank(0), VirtualRank(3)}, {VirtualRank(3), VirtualRank(4)}}, std::nullopt, true, false};
  REQUIRE(launcher.send(stage));
  WorkerOrder order;
  REQUIRE(worker.receive(&order, 1s) == Received::message);
  const auto& heard = std::get<RunStage>(order);
  CHECK(heard.worker == stage.worker);
  CHECK(heard.ranges == stage.ranges);
  CHECK(heard.restarted);
  CHECK_FALSE(heard.exchanges);
  REQUIRE(worker.send(Failed(Error(Fault::infeasible, "no").advise("try").caused_by("host_lost"))));
  WorkerReport report;
  REQUIRE(launcher.receive(&report, 1s) == Received::message);
  const Error error = std::get<Failed>(report).error();
  CHECK(error.fault() == Fault::infeasible);
  CHECK(error.message() == "no");
  CHECK(error.advice() == "try");
  CHECK(error.cause() == "host_lost");
  CHECK(launcher.receive(&report, 0ms) == Received::nothing);
  worker.close();
  CHECK(launcher.receive(&report, 1s) == Received::closed);
}

}  // namespace
}  // namespace estrain::comm
