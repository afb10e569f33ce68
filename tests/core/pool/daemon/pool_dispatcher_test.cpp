#include "core/pool/daemon/pool_dispatcher.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/core/pool/daemon/resting_pool.h"

namespace estrain::pool {
namespace {

bool kills(PoolDispatcher& dispatcher) {
  return std::ranges::any_of(dispatcher.take_actions(), [](const dispatch::Action& one) {
    return std::holds_alternative<dispatch::KillJob>(one);
  });
}

TEST_CASE("a job that stops has its time by the monotonic clock, whether the wall clock is set forward or back") {
  for (const double by : {1000.0, -1000.0}) {
    CAPTURE(by);
    PoolDispatcher dispatcher(state_with_job(Phase::running, {"cpu"}), {}, 5000, 10);
    dispatcher.tell(dispatch::TimePassed{}, 5000, 10);
    dispatcher.tell(dispatch::CancelAsked{1}, 5000, 10);
    REQUIRE(dispatcher.state().jobs.at(1).phase == Phase::stopping);
    dispatcher.tell(dispatch::TimePassed{}, 5000 + by, 10);
    dispatcher.tell(dispatch::TimePassed{}, 5119 + by, 129);
    CHECK_FALSE(kills(dispatcher));
    dispatcher.tell(dispatch::TimePassed{}, 5121 + by, 131);
    CHECK(kills(dispatcher));
  }
}

}  // namespace
}  // namespace estrain::pool
