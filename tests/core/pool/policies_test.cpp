#include "core/pool/policies.h"

#include <doctest/doctest.h>

#include "tests/core/pool/stub_job.h"
#include "tests/error_of.h"

namespace estrain::pool {
namespace {

const std::vector<Host> kTwoHosts = {{"gpu", 4}, {"gpu", 4}};

TEST_CASE("fifo is blocked by the head of its line, backfill is not, serial runs one") {
  for (const bool backfill : {false, true}) {
    StubPool pool(kTwoHosts);
    for (const int64_t requested : {4, 6, 2}) pool.add(requested, std::vector<double>(8, 1), 10);
    const auto policy = make_fifo(backfill);
    CHECK(pool.decide(*policy) == std::vector<int64_t>{4, 0, backfill ? 2 : 0});
    pool.remove(0);
    CHECK(pool.decide(*policy) == std::vector<int64_t>{6, 2});
  }
  StubPool pool(kTwoHosts);
  for (const int64_t requested : {4, 2}) pool.add(requested, std::vector<double>(8, 1), 10);
  CHECK(pool.decide(*make_fifo_serial()) == std::vector<int64_t>{4, 0});
}

TEST_CASE("srtf takes devices from the job with more left, counted in device-seconds") {
  StubPool pool(kTwoHosts);
  pool.add(8, std::vector<double>(8, 1), 100);  // 800 device-seconds
  const auto policy = make_srtf();
  CHECK(pool.decide(*policy) == std::vector<int64_t>{8});
  pool.add(2, std::vector<double>(8, 1), 300);  // 600
  pool.add(1, std::vector<double>(8, 1), 900);  // 900
  CHECK(pool.decide(*policy) == std::vector<int64_t>{0, 2, 1});
}

TEST_CASE("tiresias moves a job back when its attained service reaches the limit, for good") {
  StubPool pool(kTwoHosts);
  Job& first = pool.add(8, std::vector<double>(8, 1), 1000);
  const auto policy = make_tiresias({.limit = 800});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{8});
  pool.add(4, std::vector<double>(8, 1), 10);
  first.held = 99;
  CHECK(pool.decide(*policy) == std::vector<int64_t>{8, 0});
  first.held = 100;
  CHECK(pool.decide(*policy) == std::vector<int64_t>{0, 4});
  pool.add(2, std::vector<double>(8, 1), 10);
  CHECK(pool.decide(*policy) == std::vector<int64_t>{0, 4, 2});  // who comes later is before it, too
}

TEST_CASE("optimus gives each device to the job whose remaining time it shortens most") {
  StubPool pool({{"gpu", 4}});
  pool.add(1, {10, 6, 5, 5}, 10);   // gains 40, 10, 0
  pool.add(1, {8, 6, 4.5, 4}, 10);  // gains 20, 15, 5
  const auto policy = make_optimus();
  CHECK(pool.decide(*policy) == std::vector<int64_t>{2, 2});
  const Placement before = pool.jobs()[1].placement;
  pool.jobs()[0].most = 1;
  CHECK(pool.decide(*policy) == std::vector<int64_t>{1, 3});
  pool.jobs()[1].most = 2;
  CHECK(pool.decide(*policy) == std::vector<int64_t>{1, 2});  // the fourth is of no use
}

TEST_CASE("jobs beyond the devices wait under optimus, in order") {
  StubPool pool({{"gpu", 2}});
  for (int i = 0; i < 3; ++i) pool.add(1, {1}, 10);
  CHECK(pool.decide(*make_optimus()) == std::vector<int64_t>{1, 1, 0});
  CHECK(pool.reasons[2] == "waits: each device has a job");
}

TEST_CASE("easyscale starts jobs on one device and lets them double, most speed-up per device first") {
  StubPool pool(kTwoHosts);
  pool.add(8, {8, 4, 2.7, 2, 1.6, 1.4, 1.2, 1}, 100);
  pool.add(2, {8, 7.9}, 100);
  pool.jobs()[1].most = 2;
  const auto policy = make_easyscale({});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{1, 1});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{2, 2});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{4, 2});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{5, 2});  // one more brings 0.25, two bring 0.21 each
  CHECK(pool.decide(*policy) == std::vector<int64_t>{6, 2});
}

TEST_CASE("policies are chosen by name, with options") {
  CHECK(make_policy("tiresias:limit=100", 1).policy != nullptr);
  CHECK(make_policy("estrain:batch=free", 1).knowledge == Knowledge::free_batch);
  CHECK(make_policy("estrain", 1).knowledge == Knowledge::given_batch);
  const auto message = [](const char* text) {
    const Error error = error_of([&] { make_policy(text, 1); });
    CHECK(error.fault() == Fault::usage);
    return error.message();
  };
  CHECK(message("tiresia") == "unknown policy \"tiresia\"; did you mean \"tiresias\"?");
  CHECK(message("tiresias:limits=1") == "policy tiresias has no option \"limits\"; did you mean \"limit\"?");
  CHECK(message("tiresias:limit=x").find("is no number") != std::string::npos);
  CHECK(message("tiresias:limit").find("KEY=VALUE") != std::string::npos);
  CHECK(message("fifo:a=1").find("it has none") != std::string::npos);
  CHECK(message("estrain:batch=huge").find("none of \"given\", \"free\"") != std::string::npos);
}

}  // namespace
}  // namespace estrain::pool
