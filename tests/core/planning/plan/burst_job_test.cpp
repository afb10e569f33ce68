#include "core/planning/plan/burst_job.h"

#include <doctest/doctest.h>

#include "tests/contains.h"

namespace estrain::plan {
namespace {

const BurstNetwork kGigabyte{1e9, 1e-3};

MeasuredBlock block(std::string name, double seconds, double output_bytes, double parameter_bytes, double update = 0) {
  return {.name = std::move(name),
          .forward = seconds / 4,
          .backward = seconds * 3 / 4,
          .update = update,
          .output_bytes = output_bytes,
          .parameter_bytes = parameter_bytes};
}

// Computing with few parameters, then parameters with little computing.
std::vector<MeasuredBlock> like_vgg() { return {block("features", 1, 1e6, 1e6), block("classifier", 0.01, 0, 1e9)}; }

BurstVerdict verdict_of(const std::vector<MeasuredBlock>& blocks, int64_t ests, int64_t devices, double limit = 2) {
  const std::vector<BurstPart> parts = parts_of(blocks, {.ests = ests, .most = devices, .network = kGigabyte});
  return weigh_burst_plan(best_burst_plan(parts, kGigabyte, limit), parts, kGigabyte, limit);
}

std::vector<int64_t> devices_of(const BurstPlan& plan) {
  std::vector<int64_t> devices;
  for (const BurstStep& step : plan.steps) devices.push_back(step.devices);
  return devices;
}

TEST_CASE("a block computes whole ESTs, and updates on every device") {
  const std::vector<BurstPart> parts =
      parts_of({block("a", 1, 10, 4, 0.5), block("b", 2, 20, 8)}, {.ests = 6, .most = 100});
  REQUIRE(parts.size() == 2);
  const BurstLayer &a = parts[0].branches.at(0).at(0), &b = parts[1].branches.at(0).at(0);
  CHECK(a.name == "a");
  CHECK(a.compute == std::vector<double>{6.5, 3.5, 2.5});  // 6, 3 and 2 ESTs on the fullest device; no eighth device
  CHECK(b.compute == std::vector<double>{12, 6, 4});
  CHECK(a.input_bytes == 0);
  CHECK(b.input_bytes == 60);  // of all ESTs
  CHECK(a.parameter_bytes == 4);
  CHECK(b.parameter_bytes == 8);
  CHECK(parts_of({block("a", 1, 0, 0)}, {.ests = 8, .most = 3})[0].branches[0][0].compute == std::vector<double>{8, 4});
  CHECK(parts_of({block("a", 1, 0, 0)}, {.ests = 8, .most = 1})[0].branches[0][0].compute == std::vector<double>{8});
  CHECK(parts_of({block("a", 1, 0, 0)}, {.ests = 1, .most = 8})[0].branches[0][0].compute == std::vector<double>{1});
}

TEST_CASE("many parameters stay on one device where the network is slow, and the gain is over the best data parallel") {
  const BurstVerdict verdict = verdict_of(like_vgg(), 4, 4);
  CHECK(devices_of(verdict.best) == std::vector<int64_t>{4, 1});
  // 1 s and the sum of 1 MB; 4 MB of activations from four devices, and their gradients; 4 x 0.01 s.
  CHECK(verdict.best.seconds == doctest::Approx(1.002 + 0.001 + 0.006 + 0.04));
  REQUIRE(verdict.same.size() == 3);
  CHECK(verdict.same[0].seconds == doctest::Approx(4.04));
  CHECK(verdict.same[2].seconds == doctest::Approx(1.002 + 0.01 + 1.001));
  CHECK(verdict.fastest == 2);
  CHECK(verdict.speed_up == doctest::Approx(2.013 / 1.049));
  CHECK(verdict.no_gain.empty());
}

TEST_CASE("data parallelism passes on factors as hosts do, and a plan promises no gain that factors have taken") {
  std::vector<MeasuredBlock> blocks = like_vgg();
  // The classifier's gradient is almost all of the 1 GB.
  blocks[1].factored = {{9.9e8, 1'000'000, 0.001}};
  const BurstVerdict verdict = verdict_of(blocks, 4, 4, 4);
  const BurstStep& classifier = verdict.same[2].steps[1];
  // The rest of the gradients, the factors for three other devices, and three products.
  CHECK(classifier.sync == doctest::Approx(0.001 + 0.01 + 0.003 + 0.003));
  CHECK(classifier.factored == 1);
  CHECK(verdict.same[2].steps[0].factored == 0);
  CHECK(verdict.same[2].seconds == doctest::Approx(1.002 + 0.01 + 0.017));
  CHECK(devices_of(verdict.best) == std::vector<int64_t>{4, 4});
  CHECK(verdict.speed_up == doctest::Approx(1));

  blocks[1].factored[0].product_seconds = 1;  // longer than the sum
  CHECK(verdict_of(blocks, 4, 4).same[2].seconds == doctest::Approx(1.002 + 0.01 + 1.001));
}

TEST_CASE("why nothing is gained") {
  CHECK(verdict_of(like_vgg(), 1, 8).no_gain == "there is one device, or one EST: nothing can be divided");
  CHECK(verdict_of(like_vgg(), 8, 1).no_gain == "there is one device, or one EST: nothing can be divided");
  CHECK(verdict_of({block("whole", 1, 0, 1e6)}, 4, 4).no_gain == "the network is a single block");

  const BurstVerdict all = verdict_of({block("a", 1, 1e6, 1e6), block("b", 1, 0, 1e6)}, 4, 4);
  CHECK(devices_of(all.best) == std::vector<int64_t>{4, 4});
  CHECK(all.speed_up == doctest::Approx(1));
  CHECK(all.no_gain ==
        "every block is fastest on 4 devices, where sums of gradients take 4.00 ms beside 2000.00 ms of computing");

  const BurstVerdict none = verdict_of({block("a", 0.01, 1e6, 1e9), block("b", 0.01, 0, 1e9)}, 4, 4);
  CHECK(devices_of(none.best) == std::vector<int64_t>{1, 1});
  CHECK(none.fastest == 0);
  CHECK(none.no_gain ==
        "every block is fastest on one device: more would save 60.00 ms of computing and take 2002.00 ms more for sums "
        "of gradients");

  // A limit of 1 allows only one device where anything is summed.
  const BurstVerdict limited = verdict_of({block("a", 1, 1e6, 1e6), block("b", 1, 0, 1e6)}, 4, 4, 1);
  CHECK(limited.speed_up < 1);
  CHECK(limited.no_gain ==
        "data parallel over 4 devices is faster, and exceeds the limit: block a takes 4008.00 ms of device-time, "
        "4000.00 ms on one device");

  // The classifier's sum costs 10 ms, passing the activations on to one device nearly as much.
  const BurstVerdict little = verdict_of({block("a", 1, 5e5, 1e6), block("b", 0.001, 0, 1e7)}, 4, 4, 3);
  CHECK(devices_of(little.best) == std::vector<int64_t>{4, 1});
  CHECK(little.speed_up > 1);
  CHECK(little.speed_up < 1.01);
  CHECK(contains(little.no_gain, "passing activations on takes 4.00 ms"));
}

}  // namespace
}  // namespace estrain::plan
