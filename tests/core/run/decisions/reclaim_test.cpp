#include <doctest/doctest.h>

#include "core/run/decisions/decide.h"
#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

ReclaimAsked reclaim(const std::vector<std::string>& wanted, double within, MonotonicTime arrived) {
  PendingChange shrunk;
  shrunk.devices = {Share{}};
  return {9, {list_of(devices(wanted)), within}, devices(wanted), arrived, shrunk};
}

TEST_CASE("devices on which nobody works are given back at once") {
  JobAtWork job;
  job.state.held = devices({"cpu", "cpu", "cpu:avx2"});
  job(reclaim({"cpu:avx2"}, 5, job.now.time));
  CHECK(job.find<Answer>() != nullptr);
  CHECK(job.state.held == devices({"cpu", "cpu"}));
}

TEST_CASE("a reclaim gives up the step at half its time, and kills who is left at four fifths") {
  JobAtWork job;
  job(reclaim({"cpu"}, 10, job.now.time));
  CHECK(job.find<PauseStage>() != nullptr);
  job.later(4.9);
  job(Tick{});
  CHECK(job.find<AbortStage>() == nullptr);
  job.later(0.2);
  job(Tick{});
  CHECK(job.find<AbortStage>() != nullptr);
  job.leave({0});
  job.later(2.8);
  job(Tick{});
  CHECK(job.find<KillWorker>() == nullptr);
  job.later(0.2);
  job(Tick{});
  REQUIRE(job.find<KillWorker>() != nullptr);
  CHECK(job.find<KillWorker>()->worker == WorkerId(1));
  CHECK(job.find<CloseStage>() != nullptr);
}

TEST_CASE("a reclaim of all devices stops the job") {
  JobAtWork job;
  job(reclaim({"cpu", "cpu"}, 5, job.now.time));
  CHECK(job.state.ending == RunEnding::stopped);
  CHECK(job.state.stop_clients == std::vector<ClientId>{9});
  CHECK(job.state.grace_seconds == 2.5);
}

TEST_CASE("what cannot be reclaimed is refused") {
  JobAtWork job;
  job(reclaim({"cpu:sse"}, 5, job.now.time));
  REQUIRE(job.find<Refuse>() != nullptr);
  CHECK(job.find<Refuse>()->error.message() == "the job does not hold cpu:sse; it holds cpu,cpu");
}

TEST_CASE("an offer waits until the job has settled") {
  JobAtWork job;
  job.ask({"cpu:avx2"});
  job(OfferAsked{4, {"cpu:avx2"}});
  CHECK(job.actions.empty());
  job.lose(2);
  job(Tick{});
  REQUIRE(job.find<TakeUp>() != nullptr);
  CHECK(job.find<TakeUp>()->waiting.client == 4);
  CHECK(job.state.waiting.empty());
}

}  // namespace
}  // namespace estrain::decisions
