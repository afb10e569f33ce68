#include "core/planning/scheduling/policies/policies.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "tests/core/planning/scheduling/stub_job.h"
#include "tests/error_of.h"

namespace estrain::scheduling {
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
  JobView& first = pool.add(8, std::vector<double>(8, 1), 1000);
  const auto policy = make_tiresias({.limit = 800});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{8});
  pool.add(4, std::vector<double>(8, 1), 10);
  first.held = 99;
  CHECK(pool.decide(*policy) == std::vector<int64_t>{8, 0});
  first.held = 100;
  CHECK(pool.decide(*policy) == std::vector<int64_t>{0, 4});
  pool.add(2, std::vector<double>(8, 1), 10);
  CHECK(pool.decide(*policy) == std::vector<int64_t>{0, 4, 2});  // a later job precedes it, too
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

class LearntEnd : public StubOutlook {
 public:
  LearntEnd(double steps, double confidence, bool is_learnt)
      : StubOutlook({1}, steps), steps_(steps), confidence_(confidence), is_learnt_(is_learnt) {}
  Epochs epochs() const override { return {10'000, 100 * steps_, confidence_, is_learnt_}; }

 private:
  double steps_, confidence_;
  bool is_learnt_;
};

TEST_CASE(
    "ones draws how far jobs are: with little confidence, the longer job is at times in front; not where jobs of a "
    "pool "
    "have told the end, unless the user says so") {
  const auto times_in_front = [](double confidence, const std::string& policy = "ones", bool is_learnt = false) {
    const LearntEnd shorter(100, confidence, is_learnt), longer(125, confidence, is_learnt);
    int64_t times = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      StubPool pool({{"gpu", 1}});
      pool.add(1, {1}, 1).outlook = &shorter;
      pool.add(1, {1}, 1).outlook = &longer;
      times += pool.decide(*make_policy(policy, seed).policy)[1];
    }
    return times;
  };
  CHECK(times_in_front(1) == 0);
  CHECK(times_in_front(0.001) > 4);
  CHECK(times_in_front(0.001, "ones", true) == 0);
  CHECK(times_in_front(0.001, "ones:belief=1", true) > 4);
  CHECK(times_in_front(0.001, "ones:belief=0") == 0);
  const Error refusal = error_of([] { make_policy("ones:belief=0.5", 1); });
  CHECK(refusal.fault() == Fault::usage);
  CHECK(refusal.message() == "policy ones: belief=0.5 is not one of \"0\", \"1\"");
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
  CHECK(pool.decide(*policy) == std::vector<int64_t>{5, 2});  // one more gains 0.25, two gain 0.21 each
  CHECK(pool.decide(*policy) == std::vector<int64_t>{6, 2});
}

TEST_CASE("easyscale: a proposal that does not fit becomes smaller, in the published simulator it is refused") {
  for (const bool as_simulated : {false, true}) {
    StubPool pool(kTwoHosts);
    pool.add(8, {8, 4, 4, 2, 2, 2, 1.2, 1}, 100);
    pool.add(1, {8}, 100);
    const auto policy = make_easyscale({.as_simulated = as_simulated});
    for (const int64_t held : {1, 2, 4}) CHECK(pool.decide(*policy) == std::vector<int64_t>{held, 1});
    CHECK(pool.decide(*policy) == std::vector<int64_t>{as_simulated ? 4 : 7, 1});
    pool.remove(1);
    CHECK(pool.decide(*policy) == std::vector<int64_t>{8});
  }
}

// Four ESTs that take 1 s each on the first type, 1.5 s on the second.
class FourEsts : public StubOutlook {
 public:
  FourEsts() : StubOutlook({}, 1) {}
  double seconds_left(const Shape& shape) const override {
    for (const double step : {1.0, 1.5, 2.0, 3.0, 4.0, 4.5})
      if (shape.devices[0] * std::floor(step) + shape.devices[1] * std::floor(step / 1.5) >= 4) return step;
    return 6;
  }
};

TEST_CASE("easyscale as in its published simulator: first the slowest type, then more devices than ESTs") {
  for (const bool as_simulated : {false, true}) {
    StubPool pool({{"v100", 4}, {"t4", 2}});
    const FourEsts outlook;
    JobView& job = pool.add(4, {}, 1);
    job.outlook = &outlook;
    job.most = 4;
    job.mixes_types = true;
    const auto policy = make_easyscale({.mixes = true, .as_simulated = as_simulated});
    const auto held = [&] {
      pool.decide(*policy);
      std::vector<int64_t> devices(2);
      for (const DevicesOnHost& share : job.placement) devices[share.host] = share.devices;
      return devices;
    };
    CHECK(held() == (as_simulated ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 0}));
    CHECK(held() == (as_simulated ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{2, 0}));
    CHECK(held() == (as_simulated ? std::vector<int64_t>{3, 1} : std::vector<int64_t>{4, 0}));
    CHECK(held() == (as_simulated ? std::vector<int64_t>{4, 1} : std::vector<int64_t>{4, 0}));
  }
}

TEST_CASE("philly waits for few hosts, backs off, and takes any devices in the end") {
  StubPool pool(kTwoHosts);
  pool.add(3, std::vector<double>(8, 1), 10);
  pool.add(3, std::vector<double>(8, 1), 10);
  const auto policy = make_philly({.timeout = 100, .back_off = 50, .tries = 2});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{3, 3});  // one host each: one device is free on both
  pool.add(2, std::vector<double>(8, 1), 10);
  const auto at = [&](double now) {
    pool.now = now;
    return pool.decide(*policy)[2];
  };
  CHECK(at(0) == 0);
  CHECK(at(99) == 0);
  CHECK(at(100) == 0);  // the first try has failed; the second begins at 150
  CHECK(at(150) == 0);
  CHECK(at(249) == 0);
  CHECK(at(250) == 0);  // so has the second
  CHECK(at(299) == 0);
  CHECK(at(300) == 2);
}

TEST_CASE("philly lets an owner below its quota take back devices, but only where most are in use") {
  for (const double busy : {0.5, 1.0}) {
    StubPool pool(kTwoHosts);
    for (int i = 0; i < 2; ++i) pool.add(3, std::vector<double>(8, 1), 10).owner = "large";
    const auto policy = make_philly({.busy = busy});
    CHECK(pool.decide(*policy) == std::vector<int64_t>{3, 3});
    JobView& job = pool.add(4, std::vector<double>(8, 1), 10);
    job.owner = "small";
    job.quota = 4;
    CHECK(pool.decide(*policy) == (busy == 0.5 ? std::vector<int64_t>{3, 0, 4} : std::vector<int64_t>{3, 3, 0}));
  }
}

TEST_CASE("philly takes nothing from an owner that is at its quota, and no more than brings an owner down to it") {
  for (const int64_t quota : {8, 4}) {
    StubPool pool(kTwoHosts);
    for (int i = 0; i < 2; ++i) {
      JobView& job = pool.add(4, std::vector<double>(8, 1), 10);
      job.owner = "large";
      job.quota = quota;
    }
    const auto policy = make_philly({.busy = 0.5});
    CHECK(pool.decide(*policy) == std::vector<int64_t>{4, 4});
    for (const char* owner : {"small", "other"}) {
      JobView& job = pool.add(4, std::vector<double>(8, 1), 10);
      job.owner = owner;
      job.quota = 4;
    }
    CHECK(pool.decide(*policy) == (quota == 8 ? std::vector<int64_t>{4, 4, 0, 0} : std::vector<int64_t>{4, 0, 4, 0}));
    CHECK(pool.decide(*policy) == (quota == 8 ? std::vector<int64_t>{4, 4, 0, 0} : std::vector<int64_t>{4, 0, 4, 0}));
  }
}

TEST_CASE(
    "philly: a job that would take its owner beyond its quota comes after those that would not, and takes nothing") {
  StubPool pool(kTwoHosts);
  const auto add = [&](int64_t requested, const char* owner) {
    JobView& job = pool.add(requested, std::vector<double>(8, 1), 10);
    job.owner = owner;
    job.quota = 3;
  };
  add(4, "beyond");
  add(3, "within");
  add(3, "also");
  const auto policy = make_philly({.busy = 0});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{0, 3, 3});
}

TEST_CASE("ours shares devices out to short jobs first, and leaves what is held unless a change is worth it") {
  const std::vector<double> linear = {8, 4, 8.0 / 3, 2, 1.6, 8.0 / 6, 8.0 / 7, 1};
  StubPool pool(kTwoHosts);
  pool.add(8, linear, 100'000);
  const auto policy = make_estrain({});
  CHECK(pool.decide(*policy) == std::vector<int64_t>{8});
  pool.add(8, linear, 3000);
  const std::vector<int64_t> with_short = pool.decide(*policy);
  CHECK(with_short[1] > with_short[0]);
  CHECK(with_short[0] + with_short[1] == 8);
  pool.remove(1);
  CHECK(pool.decide(*policy) == std::vector<int64_t>{8});
  pool.add(8, {8, 7}, 1000);  // hardly gains by the second device
  const std::vector<int64_t> shared = pool.decide(*policy);
  CHECK(shared[0] + shared[1] == 8);
  CHECK(shared[1] >= 1);
  CHECK(pool.decide(*policy) == shared);
  pool.jobs()[0].most = 2;
  CHECK(pool.decide(*policy)[0] == 2);
}

const std::vector<double> linear = {8, 4, 8.0 / 3, 2, 1.6, 8.0 / 6, 8.0 / 7, 1};

TEST_CASE("ours: with aging an older job counts for more") {
  const auto shares = [&](const EstrainOptions& options, double steps, double submitted) {
    StubPool pool(kTwoHosts);
    pool.add(8, linear, 1000);
    pool.add(8, linear, steps);
    pool.jobs()[1].submitted = submitted;
    return pool.decide(*make_estrain(options));
  };
  CHECK(shares({}, 1000, -1e6) == shares({}, 1000, 0));
  const std::vector<int64_t> aged = shares({.aging = 1}, 1000, -1e6);
  CHECK(aged[1] > aged[0]);
}

TEST_CASE("ours: with alone, a short job that hardly gets faster leaves devices to a long one") {
  const auto shares = [](double alone) {
    StubPool pool(kTwoHosts);
    pool.add(8, {8, 6, 5.2, 4.8, 4.5, 4.3, 4.2, 4.1}, 1000);
    pool.add(8, linear, 50'000);
    return pool.decide(*make_estrain({.alone = alone, .exact = true}));
  };
  const std::vector<int64_t> without = shares(0), with = shares(0.65);
  CHECK(without[0] > without[1]);
  CHECK(with[0] < with[1]);
  CHECK(with[0] > 0);
}

TEST_CASE("ours: a job counts for more the more end after it, unless the makespan counts for much") {
  const auto shares = [](double makespan) {
    StubPool pool(kTwoHosts);
    for (const double steps : {1000, 1001, 1002}) pool.add(8, linear, steps);
    return pool.decide(*make_estrain({.makespan = makespan}));
  };
  CHECK(shares(0) == std::vector<int64_t>{3, 3, 2});
  const std::vector<int64_t> by_length = shares(0.01);
  CHECK(by_length[0] > by_length[1]);
  CHECK(by_length[1] > by_length[2]);
  CHECK(shares(1e6) == shares(0));
}

TEST_CASE("ours: a job with more than the horizon left pays for a change once in each, and keeps its devices") {
  const auto shares = [](double horizon) {
    StubPool pool(kTwoHosts);
    const auto policy = make_estrain({.horizon = horizon});
    pool.add(8, linear, 100'000);
    pool.jobs()[0].most = 7;
    pool.decide(*policy);
    pool.jobs()[0].most = 8;
    return pool.decide(*policy);
  };
  CHECK(shares(1e12) == std::vector<int64_t>{8});
  CHECK(shares(500) == std::vector<int64_t>{7});
}

TEST_CASE("ours: the exact share-out finds what the greedy one misses, and large clusters get the greedy one") {
  const auto shares = [](bool exact, int more) {
    StubPool pool({{"gpu", 100}});
    pool.add(3, {1e9, 1e9, 100, 100}, 1);  // most per device, but leaves one that is of no use
    pool.add(2, {1e9, 180, 180, 180}, 1);
    pool.add(2, {1e9, 180, 180, 180}, 1);
    for (int job = 0; job < 96; ++job) pool.add(1, {1}, 1).most = 1;  // leave four devices to these three
    for (int job = 0; job < more; ++job) pool.add(1, {1e300}, 1).most = 1;
    std::vector<int64_t> devices = pool.decide(*make_estrain({.patience = 0, .exact = exact}));
    devices.resize(3);
    return devices;
  };
  CHECK(shares(false, 0)[0] == 3);
  CHECK(shares(true, 0) == std::vector<int64_t>{0, 2, 2});
  CHECK(shares(true, 300) == std::vector<int64_t>{0, 2, 2});
  CHECK(shares(true, 302)[0] == 3);
}

TEST_CASE("ours gives nothing for devices on which a job cannot run, also where a change is free") {
  for (const bool exact : {false, true}) {
    StubPool pool({{"gpu", 4}});
    for (int job = 0; job < 2; ++job) pool.add(4, {8, 4}, 1000);
    CHECK(pool.decide(*make_estrain({.patience = 0, .exact = exact})) == std::vector<int64_t>{2, 2});
  }
}

TEST_CASE("ours gives several devices at once where only several bring something") {
  StubPool pool({{"gpu", 4}});
  pool.add(4, {8, 9, 9, 2}, 1000);  // exchange costs more than two devices gain
  CHECK(pool.decide(*make_estrain({})) == std::vector<int64_t>{4});
}

TEST_CASE("ours mixes types only for jobs that may") {
  StubPool pool({{"v100", 2}, {"t4", 2}});
  pool.add(4, {4, 2, 1.5, 1}, 10'000);
  CHECK(pool.decide(*make_estrain({})) == std::vector<int64_t>{2});
  pool.jobs()[0].mixes_types = true;
  CHECK(pool.decide(*make_estrain({})) == std::vector<int64_t>{4});
}

TEST_CASE("a round of ours with 1,000 jobs on 10,000 devices takes less than a second") {
  StubPool pool(std::vector<Host>(1250, {"gpu", 8}));
  for (int job = 0; job < 1000; ++job) {
    std::vector<double> step_seconds;
    for (int devices = 1; devices <= 64; ++devices) step_seconds.push_back(1.0 / devices + 0.001 * (job % 17));
    pool.add(8, step_seconds, 1000 + 37 * job).most = 64;
  }
  const auto policy = make_policy("estrain:batch=free", 1).policy;  // the one with more to weigh
  double least = 10;
  for (int round = 0; round < 3; ++round) {
    const auto began = std::chrono::steady_clock::now();
    const std::vector<int64_t> devices = pool.decide(*policy);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    CHECK(std::accumulate(devices.begin(), devices.end(), int64_t{0}) <= 10'000);
    pool.jobs()[static_cast<size_t>(round)].most = 1;
  }
  MESSAGE("seconds: " << least);
  CHECK(least < 1);
}

TEST_CASE("policies are chosen by name, with options") {
  for (const char* name : {"philly:tries=1", "easyscale-heter:growth=4", "srtf"})
    CHECK(make_policy(name, 1).policy != nullptr);
  CHECK(make_policy("tiresias:limit=100", 1).policy != nullptr);
  CHECK(make_policy("estrain:batch=free", 1).knowledge == Knowledge::free_batch);
  CHECK(make_policy("estrain:batch=free:goodput=learnt", 1).knowledge == Knowledge::learnt_batch);
  CHECK(make_policy("estrain:batch=free:goodput=shared", 1).knowledge == Knowledge::shared_batch);
  CHECK(make_policy("estrain", 1).knowledge == Knowledge::given_batch);
  CHECK(make_policy("estrain:shares=exact:alone=0.5:makespan=10:horizon=2000", 1).policy != nullptr);
  const auto message = [](const char* text) {
    const Error error = error_of([&] { make_policy(text, 1); });
    CHECK(error.fault() == Fault::usage);
    return error.message();
  };
  CHECK(message("tiresia") == "unknown policy \"tiresia\"; did you mean \"tiresias\"?");
  CHECK(message("tiresias:limits=1") == "policy tiresias has no option \"limits\"; did you mean \"limit\"?");
  CHECK(message("tiresias:limit=x").find("is not a number") != std::string::npos);
  CHECK(message("tiresias:limit").find("KEY=VALUE") != std::string::npos);
  CHECK(message("fifo:a=1").find("it has none") != std::string::npos);
  CHECK(message("estrain:goodput=learnt").find("need batch=free") != std::string::npos);
  CHECK(message("estrain:goodput=shared").find("need batch=free") != std::string::npos);
  CHECK(make_policy("easyscale-heter:rule=simulator", 1).policy != nullptr);
  CHECK(make_policy_for_real_jobs("easyscale-homo:rule=simulator", 1).policy != nullptr);
  CHECK(error_of([] { make_policy_for_real_jobs("easyscale-heter:rule=simulator", 1); }).fault() == Fault::usage);
  CHECK(error_of([] { make_policy_for_real_jobs("deeppool", 1); }).fault() == Fault::usage);
  CHECK(message("estrain:batch=huge").find("not one of \"given\", \"free\"") != std::string::npos);
}

}  // namespace
}  // namespace estrain::scheduling
