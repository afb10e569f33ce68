#include <doctest/doctest.h>

#include "core/planning/simulate/replayed.h"

namespace estrain::simulate {
namespace {

using dispatch::PastJob;
using dispatch::PoolTrace;

// A job with one EST and 1,000 steps of 0.5 s, except from 10 s to 12.25 s.
PoolTrace trace_with_paces() {
  PastJob job;
  job.request.total_steps = 1000;
  job.seen = {{"cpu", 1, 1, 0.5}};
  job.paces = {{"cpu", 1, 1, 10, 11, 0.1, 0}, {"cpu", 1, 1, 11, 12.25, 0.2, 0.3}};
  PoolTrace trace;
  trace.cores = 4;
  trace.jobs = {job};
  return trace;
}

ReplayedJob& begin(ReplayedJobs& jobs, const PoolTrace& trace) {
  ReplayedJob& job = jobs[1];
  job.job = &trace.jobs[0];
  job.held = {"cpu"};
  return job;
}

TEST_CASE("the pool looks at the moments at which it looked, and each second where it is not known when") {
  const PoolTrace trace = trace_with_paces();
  ReplayedJobs jobs(trace);
  ReplayedJob& job = begin(jobs, trace);
  for (const auto& [looked, next] : {std::pair(3.0, 4.0), {9.25, 10.25}, {9.5, 11.0}, {11.0, 12.25}, {12.25, 13.25}}) {
    CAPTURE(looked);
    job.looked = looked;
    CHECK(job.next_look() == next);
  }
}

TEST_CASE("a launcher tells what it told at that look; where none is known, what it would have measured by then") {
  const PoolTrace trace = trace_with_paces();
  ReplayedJobs jobs(trace);
  const ReplayedJob& job = begin(jobs, trace);
  CHECK(jobs.told_step_seconds(job, 11) == 0);
  CHECK(jobs.told_step_seconds(job, 11.5) == 0);  // nobody asked
  CHECK(jobs.told_step_seconds(job, 12.25) == 0.3);
  CHECK(jobs.told_step_seconds(job, 3.4) == 0);  // two cold steps, then five
  CHECK(jobs.told_step_seconds(job, 3.5) == 0.5);
}

TEST_CASE("a job trains as fast as it did at each moment") {
  const PoolTrace trace = trace_with_paces();
  ReplayedJobs jobs(trace);
  ReplayedJob& job = begin(jobs, trace);
  jobs.advance(5, 6);
  CHECK(job.step == doctest::Approx(2));
  jobs.advance(10, 11);
  CHECK(job.step == doctest::Approx(12));
  jobs.advance(11, 12);
  CHECK(job.step == doctest::Approx(17));
}

}  // namespace
}  // namespace estrain::simulate
