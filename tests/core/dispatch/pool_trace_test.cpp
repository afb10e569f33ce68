#include "core/dispatch/pool_trace.h"

#include <doctest/doctest.h>

#include <sstream>

#include "core/base/error.h"

namespace estrain::dispatch {
namespace {

TEST_CASE("what is written of a pool is read as it was") {
  PoolTrace trace;
  trace.devices = {"cpu", "cuda:1"};
  trace.cores = 3;
  trace.policy = "srtf";
  PastJob job;
  job.id = 7;
  job.submitted = 0.1;
  job.mini_batch = 0.2;
  job.request.name = "n";
  job.request.user = "u";
  job.request.priority = -2;
  job.request.ests = 4;
  job.request.devices = 3;
  job.request.least = 1;
  job.request.most = 2;
  job.request.deadline = 9.5;
  job.request.type = "cuda";
  job.request.mixes_types = job.request.weighs_offers = true;
  job.request.total_steps = 50;
  job.check = 1, job.start = 2, job.grow = 3, job.shrink = 4, job.stop = 5, job.lost = 6;
  job.seen = {{"cpu", 1, 2, 0.25}, {"cuda", 2, 2, 0.1}};
  PastJob plain;
  plain.id = 8;
  plain.request.total_steps = 1;
  plain.seen = {{"cpu", 1, 1, 1}};
  trace.jobs = {job, plain};
  trace.taken = {{1, 2, 0.5}, {3, 4, std::nullopt}};
  trace.away = {{5, 6}};
  PoolTrace copy;
  std::istringstream lines(trace.text());
  for (std::string line; std::getline(lines, line);) copy.add(Json::parse(line));
  CHECK(copy == trace);
  copy.add(Json::parse(R"({"something": "else"})"));
  CHECK(copy == trace);
}

}  // namespace
}  // namespace estrain::dispatch
