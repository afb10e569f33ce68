#include "core/pool/hosts/job_look.h"

#include <doctest/doctest.h>

#include "core/base/json/codec.h"

namespace estrain::pool {
namespace {

TEST_CASE("a look is read as it was written, with what is not known left out") {
  const JobLook look{.state = "training",
                     .step = 5,
                     .total_steps = 100,
                     .held = std::vector<std::string>{"cpu", "cpu"},
                     .devices_at_work = 1,
                     .step_seconds = 0.5,
                     .batch = BatchLook{64, 2, 3, 1.5},
                     .mini_batches = {{"cpu:sse", 0.25}},
                     .links = {{"nodeB", 1e9, 0.001}},
                     .worker_bytes = 5e8};
  JobLook read;
  codec::read_fields(codec::fields_of(look), read);
  CHECK(read.trains());
  CHECK(read.step == 5);
  CHECK(read.held == look.held);
  CHECK(read.mini_batches == look.mini_batches);
  CHECK(read.links == look.links);
  CHECK(read.worker_bytes == 5e8);
  REQUIRE(read.batch);
  CHECK(read.batch->epoch == 3);
  CHECK(read.batch->noise_scale == 1.5);
  JobLook none;
  codec::read_fields(codec::fields_of(JobLook()), none);
  CHECK_FALSE(none.step);
  CHECK_FALSE(none.held);
  CHECK_FALSE(none.batch);
  CHECK_FALSE(none.trains());
}

TEST_CASE("a run without a launcher is not looked at") { CHECK_FALSE(look_at_run("/nonexistent/run", kLookPatience)); }

}  // namespace
}  // namespace estrain::pool
