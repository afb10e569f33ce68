// Ends that are learnt, by rules in virtual time.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/planning/dispatch/turn.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

JobId submit(FakeWorld& world, const std::string& program, int64_t end, int64_t most, int64_t every = 10,
             EarlyStop rule = {.patience = 2}) {
  world.memory_of_next.program = program;
  world.end_of_next = {rule, end, every};
  return world.submit(1, most, 0.1);
}

JobId submit_whole(FakeWorld& world, int64_t steps) {
  world.memory_of_next.program = "whole";
  world.end_of_next = {};
  return world.submit(1, steps, 0.1);
}

double end_of(const FakeWorld& world, JobId id) {
  State state = world.state();
  learn_ends(state);
  return static_cast<double>(world.job(id).step) + foreseen_end(state, world.job(id)).steps;
}

void tell(FakeWorld& world, JobId id, int64_t step, double metric) {
  world.tell(JobEvaluated{id, {step, 1, 0, metric}});
}

TEST_CASE("a job that an early stop has ended counts with the steps that it made") {
  FakeWorld world("fifo", 1);
  const JobId early = submit(world, "a", 100, 1000), whole = submit_whole(world, 100);
  world.run_out();
  CHECK(world.job(early).phase == Phase::done);
  CHECK(world.job(early).step == 100);
  CHECK(world.job(early).request.total_steps == 1000);
  CHECK(world.ends[0].step == 100);
  CHECK(world.job(whole).step == 100);
  // Without this, the job would look faster: a step takes 0.1 s.
  CHECK(world.job(early).speeds.step_seconds({"cpu", 1, 1}, 1) == doctest::Approx(0.1).epsilon(0.2));
}

TEST_CASE("before a job with an early stop is done, all steps are expected") {
  FakeWorld world("fifo", 1);
  const JobId id = submit(world, "a", 100, 1000);
  CHECK(end_of(world, id) == 1000);
  world.run(6);
  REQUIRE(world.job(id).evaluations.count > 2);
  CHECK(end_of(world, id) == 1000);
}

TEST_CASE("a job of a program whose jobs are done is expected to end like them, before it starts and at half way") {
  FakeWorld world("fifo", 1);
  for (const int64_t end : {100, 120, 110}) submit(world, "a", end, 1000);
  world.run_out();
  const JobId id = submit(world, "a", 130, 2000);
  CHECK(end_of(world, id) == doctest::Approx(110));
  while (world.job(id).step < 65) world.run(0.5);
  CHECK(end_of(world, id) == doctest::Approx(130).epsilon(0.2));
}

TEST_CASE("a job with a deadline is expected to make all of its steps") {
  FakeWorld world("fifo", 1);
  for (const int64_t end : {100, 100}) submit(world, "a", end, 1000);
  world.run_out();
  world.memory_of_next.program = "a";
  world.end_of_next = {{.patience = 2}, 100, 10};
  Request request;
  request.deadline = world.now + 1e6;
  const JobId id = world.submit(1, 1000, 0.1, request);
  CHECK(end_of(world, id) == 1000);
  world.run(6);
  CHECK(end_of(world, id) == 1000);
}

TEST_CASE("an end is told in samples: jobs of another batch make fewer steps") {
  FakeWorld world("fifo", 1);
  for (const int64_t end : {100, 100}) submit(world, "a", end, 1000);
  world.run_out();
  CHECK(end_of(world, submit(world, "a", 25, 1000, 5, {.patience = 2, .samples = 4})) == doctest::Approx(25));
}

// A job of at most 1,000 steps with the owner's batch, of 8 samples, half of them before the pool doubled the batch.
Job with_doubled_batch(JobId id, int64_t step, Phase phase) {
  Job job;
  job.id = id;
  job.phase = phase;
  job.request.early_stop = EarlyStop{.patience = 2, .samples = 8};
  job.request.batch = {{8, 1, 64}, 10};
  job.request.total_steps = 750;
  job.batch = {.batch = 16, .own_steps = 1000};
  job.step = step;
  job.memory.program = "a";
  return job;
}

TEST_CASE("an end is told in samples, also of a job whose batch the pool changed on the way") {
  State state;
  state.jobs[1] = with_doubled_batch(1, 550, Phase::done);  // 600 with the owner's batch
  state.jobs[1].evaluations = {.kept = {{500, 1, 0.5, 1}}, .count = 1, .last = {500, 1, 0.5, 1}};
  Job plain = with_doubled_batch(2, 0, Phase::running);
  plain.request.batch.reset();
  plain.batch = {};
  plain.request.total_steps = 1000;
  learn_ends(state);
  CHECK(state.underway.ends.part == doctest::Approx(0.6));
  CHECK(foreseen_end(state, plain).steps == doctest::Approx(600));
  CHECK(foreseen_end(state, with_doubled_batch(3, 510, Phase::running)).steps == doctest::Approx((600 - 520) / 2.0));
  Job evaluated = with_doubled_batch(4, 510, Phase::running);
  evaluated.memory.program = "b";
  evaluated.evaluations = {.kept = {{260, 1, 0.5, 1}}, .count = 2, .last = {510, 1, 0.5, 1}};  // every 260
  const ForeseenEnd end = foreseen_end(state, evaluated);
  CHECK(end.evaluations.to_come == doctest::Approx((1000 - 520) / 260.0));  // less than the rule of the early stop
  CHECK(end.steps == doctest::Approx(240));
  evaluated.evaluations.worse = 1;
  CHECK(foreseen_end(state, evaluated).steps == doctest::Approx(130));
}

TEST_CASE("jobs of other programs tell the part of its steps that a job makes") {
  FakeWorld world("fifo", 1);
  submit(world, "a", 100, 1000);
  submit(world, "b", 200, 400);
  submit_whole(world, 50);  // tells nothing
  world.run_out();
  const JobId id = submit(world, "c", 500, 2000);
  CHECK(end_of(world, id) == doctest::Approx(0.3 * 2000));
  world.run(20);
  CHECK(end_of(world, id) == doctest::Approx(0.3 * 2000));
  CHECK(end_of(world, submit(world, "", 500, 1000)) == doctest::Approx(300));
  CHECK(end_of(world, submit_whole(world, 700)) == 700);
}

TEST_CASE("the rule of the early stop says how many evaluations come at least, and the steps how many at most") {
  FakeWorld world("fifo", 1);
  for (int i = 0; i < 2; ++i) submit(world, "a", 50, 1000);
  world.run_out();
  const EarlyStop patient{.patience = 8};
  const JobId longer = submit(world, "a", 400, 1000, 10, patient);
  while (world.job(longer).evaluations.count < 30) world.run(0.5);
  const Job& job = world.job(longer);
  REQUIRE(job.evaluations.worse == 0);
  CHECK(end_of(world, longer) == doctest::Approx(job.evaluations.last.step + 80));  // its like ended at 50
  while (world.job(longer).evaluations.count < 36) world.run(0.5);
  CHECK(job.evaluations.worse == 4);
  CHECK(end_of(world, longer) == doctest::Approx(job.evaluations.last.step + 40));
  world.run_out();
  CHECK(end_of(world, submit(world, "a", 20, 30)) <= 30);
}

TEST_CASE("a job that has been evaluated is not expected to make more than its steps") {
  FakeWorld world("fifo", 1);
  for (const int64_t end : {100, 100}) submit(world, "a", end, 1000);
  world.run_out();
  const JobId id = submit(world, "a", 60, 60);
  while (world.job(id).evaluations.count < 3) world.run(0.5);
  CHECK(end_of(world, id) == doctest::Approx(60));
}

TEST_CASE("evaluations: better by the rule, once each, thinned evenly") {
  FakeWorld world("fifo", 1);
  const JobId falls = submit(world, "a", 1000, 1000, 1000, {.patience = 3, .min_delta = 0.1});
  tell(world, falls, 1, 2.0);
  tell(world, falls, 2, 1.95);  // not by the least improvement
  tell(world, falls, 3, 1.9);
  CHECK(world.job(falls).evaluations.worse == 2);
  CHECK(world.job(falls).evaluations.best == 2.0);
  tell(world, falls, 3, 0);  // again, after a loss of the job
  tell(world, falls, 2, 0);
  CHECK(world.job(falls).evaluations.count == 3);
  tell(world, falls, 4, 1.8);
  CHECK(world.job(falls).evaluations.worse == 0);
  CHECK(world.job(falls).evaluations.best == 1.8);
  const JobId rises = submit(world, "a", 1000, 1000, 1000, {.patience = 3, .falls = false});
  for (int64_t step = 1; step <= 300; ++step) tell(world, rises, step, static_cast<double>(step));
  const EvaluationsOfJob& seen = world.job(rises).evaluations;
  CHECK(seen.worse == 0);
  CHECK(seen.count == 300);
  CHECK(seen.kept.size() <= 64);
  CHECK(seen.kept.size() > 32);
  for (size_t i = 1; i < seen.kept.size(); ++i) CHECK(seen.kept[i].step - seen.kept[i - 1].step == seen.stride);
  const JobId diverged = submit(world, "a", 1000, 1000, 1000, {.patience = 3, .falls = false});
  tell(world, diverged, 1, -std::numeric_limits<double>::max());  // not finite
  CHECK(world.job(diverged).evaluations.worse == 1);
  tell(world, diverged, 2, -5);
  CHECK(world.job(diverged).evaluations.worse == 0);
  const JobId whole = submit_whole(world, 100);
  tell(world, whole, 1, 2);
  CHECK(world.job(whole).evaluations.count == 0);
}

TEST_CASE(
    "ends of jobs drawn at random: half way the median error is at most a fifth, and less than without learning") {
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> drawn(0, 0.25);
  FakeWorld world("fifo", 8);
  std::vector<double> errors;
  for (int i = 0; i < 40; ++i) {
    const auto end = static_cast<int64_t>((i % 2 == 0 ? 300 : 900) * drawn(random)) / 10 * 10;
    const JobId id = submit(world, i % 2 == 0 ? "a" : "b", end, 3000);
    while (world.job(id).step < end / 2) world.run(0.5);
    if (i >= 10) errors.push_back(std::abs(end_of(world, id) / static_cast<double>(end) - 1));
    world.run_out();
  }
  std::ranges::sort(errors);
  MESSAGE("median error ", errors[errors.size() / 2]);
  CHECK(errors[errors.size() / 2] <= 0.2);
}

TEST_CASE("srtf and estrain start the job that is expected to end first, in front of one with fewer steps at most") {
  for (const std::string policy : {"srtf", "estrain"}) {
    CAPTURE(policy);
    FakeWorld world(policy, 1);
    for (int i = 0; i < 3; ++i) submit(world, "a", 50, 5000);
    world.run_out();
    submit_whole(world, 30);
    const JobId whole = submit_whole(world, 1000), early = submit(world, "a", 50, 5000);
    world.run_out();
    CHECK(*world.job(early).finished < *world.job(whole).finished);
  }
}

TEST_CASE("a new daemon expects the same ends, and a log of decisions with evaluations can be decided again") {
  DecisionLog log("estrain", 1);
  FakeOptions options;
  options.log = &log;
  FakeWorld world("estrain", 2, options);
  for (const int64_t end : {100, 140, 120}) submit(world, "a", end, 1000);
  world.run_out();
  const JobId id = submit(world, "a", 130, 1000);
  world.run(6);
  CHECK(first_difference(log.text(), Settings()) == std::nullopt);
  const double before = end_of(world, id);
  REQUIRE(world.job(id).evaluations.count > 0);
  world.restart_daemon();
  CHECK(end_of(world, id) == doctest::Approx(before).epsilon(0.01));
  CHECK(before < 200);
}

}  // namespace
}  // namespace estrain::dispatch
