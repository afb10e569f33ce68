#include "core/planning/dispatch/trace/decision_log.h"

#include <doctest/doctest.h>

#include "tests/at_length.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

// Jobs come, are cancelled, fail and change; devices are taken and lent; a host is lost, and daemons die.
std::string log_of_a_random_schedule(const std::string& policy, uint64_t seed, const Settings& settings) {
  DecisionLog log(policy, 1);
  FakeOptions options{.seed = seed, .failing = 0.1, .refusing = 0.2, .hanging = 0.05, .refusing_batch = 0.2};
  options.noise_scale = 500;
  options.work = "work";
  options.log = &log;
  FakeWorld world(policy, 3, options, settings, {{"h1", 2}});
  std::mt19937_64 random(seed);
  for (int i = 0; i < 6; ++i) {
    Request request;
    request.devices = 1 + static_cast<int64_t>(random() % 3);
    request.most = 8;
    request.user = random() % 2 == 0 ? "anna" : "bert";
    if (random() % 2 == 0) request.batch = {{16, 8, 64}, 10};
    const JobId id = world.submit(8, 200 + static_cast<int64_t>(random() % 500), 0.05, request);
    world.run(static_cast<double>(random() % 10));
    if (random() % 4 == 0 && !is_over(world.job(id).phase)) world.tell(CancelAsked{id});
    if (i == 2) {
      world.take(1, 3, 1);
      world.run(5);
    }
    if (i == 3) world.lose_host("h1");
    if (i == 4) world.lend(1);
    if (random() % 3 == 0) world.restart_daemon();
  }
  world.run_out();
  return log.text();
}

TEST_CASE("a dispatcher that is told the events of a log decides as the dispatcher of the log did") {
  const Settings settings{.retries = 1000};
  for (const char* policy : {"estrain", "fifo-backfill", "ones", "pollux"}) {
    CAPTURE(policy);
    for (uint64_t seed = 1; seed <= testing::rounds(3, 20); ++seed) {
      CAPTURE(seed);
      const std::string log = log_of_a_random_schedule(policy, seed, settings);
      CHECK(log.find("\"start_job\"") != log.npos);
      CHECK(first_difference(log, settings) == std::nullopt);
    }
  }
}

TEST_CASE("a log with another action is told from what the dispatcher does") {
  const Settings settings{.retries = 1000};
  std::string log = log_of_a_random_schedule("estrain", 1, settings);
  const size_t at = log.find("check found nothing");
  REQUIRE(at != log.npos);
  log.replace(at, 19, "check found something");
  const auto difference = first_difference(log, settings);
  REQUIRE(difference);
  CHECK(difference->find("check found something") != difference->npos);
}

}  // namespace
}  // namespace estrain::dispatch
