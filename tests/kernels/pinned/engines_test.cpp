// cuDNN's engines for an absent GPU, for which the device's description suffices. gpu_check tests their results.
#include <doctest/doctest.h>

#include <algorithm>

#include "kernels/pinned/algorithm.h"
#include "kernels/pinned/convolution.h"
#include "kernels/pinned/failure.h"

namespace estrain::kernels::pinned {
namespace {

// A GPU of sm_90 with 132 multiprocessors.
constexpr const char* kGpu =
    R"({"deviceName": "NVIDIA H100 80GB HBM3", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000,)"
    R"("maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,)"
    R"("multiProcessorCount": 132, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "l2CacheSize": 52428800,)"
    R"("warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,)"
    R"("reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "pciDeviceId": 1, "maxCtasPerSM": 32,)"
    R"("maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1,)"
    R"("totalGlobalMem": 85000000000})";

const Convolutions& library() {
  static const Convolutions convolutions{std::string(kGpu)};
  return convolutions;
}

ConvolutionProblem convolution(int64_t channels_in, int64_t size, int64_t channels_out, int64_t filter) {
  ConvolutionProblem c;
  c.batch = 8;
  c.channels_in = channels_in;
  c.height.size = c.width.size = size;
  c.channels_out = channels_out;
  c.height.filter = c.width.filter = filter;
  c.height.padding = c.width.padding = filter / 2;
  return c;
}

std::vector<ConvolutionProblem> shapes() {
  std::vector<ConvolutionProblem> some = {convolution(3, 224, 64, 7),  convolution(64, 56, 64, 3),
                                          convolution(64, 56, 256, 1), convolution(1, 28, 6, 5),
                                          convolution(32, 14, 32, 3),  convolution(5, 9, 7, 2)};
  some[0].height.stride = some[0].width.stride = 2;
  some[4].groups = 32;
  some[5].height.dilation = 2;
  ConvolutionProblem line = convolution(16, 100, 32, 5);
  line.height.size = line.height.filter = 1;
  line.height.padding = 0;
  some.push_back(line);
  ConvolutionProblem volume = convolution(16, 28, 32, 3);
  volume.depth = {.size = 8, .filter = 3, .stride = 2, .padding = 1};
  some.push_back(volume);
  return some;
}

constexpr Pass kPasses[] = {Pass::forward, Pass::data, Pass::filter};

TEST_CASE("every convolution has algorithms in each arithmetic, in ascending order, each built from its text") {
  for (ConvolutionProblem shape : shapes()) {
    for (const Pass pass : kPasses) {
      shape.pass = pass;
      for (const auto& [element, math] :
           {std::pair{Element::f32, Math::exact}, {Element::f32, Math::tf32}, {Element::bf16, Math::exact}}) {
        shape.element = element;
        shape.math = math;
        CAPTURE(static_cast<int>(pass));
        CAPTURE(shape.channels_in);
        const std::vector<std::string> candidates = library().candidates(shape);
        CHECK(candidates.size() >= 2);
        std::vector<ConvolutionAlgorithm> algorithms;
        for (const std::string& text : candidates) {
          const BuiltConvolution built = library().build(shape, text);
          REQUIRE(built.plan != nullptr);
          CHECK(built.plan->workspace() <= shape.most_workspace());
          algorithms.push_back(*ConvolutionAlgorithm::from_text(text));
        }
        CHECK(std::ranges::is_sorted(algorithms));
        CHECK(std::ranges::adjacent_find(algorithms) == algorithms.end());
      }
    }
  }
}

TEST_CASE("a filter that reaches beyond the padded image has no algorithms") {
  ConvolutionProblem shape = convolution(3, 8, 4, 11);
  shape.height.padding = shape.width.padding = 1;
  shape.height.stride = shape.width.stride = 2;
  CHECK(!shape.filter_fits());
  CHECK(convolution(3, 8, 4, 11).filter_fits());
  for (const Pass pass : kPasses) {
    shape.pass = pass;
    CHECK(library().candidates(shape).empty());
    CHECK(!library().build(shape, ConvolutionAlgorithm{0, {}}.text()).plan);
  }
}

TEST_CASE("candidates are the same when asked for again") {
  const ConvolutionProblem shape = convolution(64, 56, 64, 3);
  CHECK(library().candidates(shape) == library().candidates(shape));
}

// Number of algorithms refused for the shape with this reason.
size_t refused(const ConvolutionProblem& shape, const std::vector<std::string>& algorithms, std::string_view reason) {
  return static_cast<size_t>(std::ranges::count_if(algorithms, [&](const std::string& algorithm) {
    const BuiltConvolution built = library().build(shape, algorithm);
    return built.plan == nullptr && built.refusal.find(reason) != std::string::npos;
  }));
}

TEST_CASE("an algorithm that rounds its inputs is refused where float32 was asked for") {
  ConvolutionProblem shape = convolution(64, 56, 64, 3);
  for (const Pass pass : kPasses) {
    shape.pass = pass;
    shape.math = Math::tf32;
    const std::vector<std::string> rounding = library().candidates(shape);
    shape.math = Math::exact;
    CHECK(refused(shape, rounding, "rounded inputs") > 0);
    const std::vector<std::string> exact = library().candidates(shape);
    CHECK(refused(shape, exact, "") == 0);
  }
}

std::vector<std::string> all_engines() {
  std::vector<std::string> engines;
  for (int64_t engine = 0; engine < 100; ++engine) engines.push_back(ConvolutionAlgorithm{engine, {}}.text());
  return engines;
}

TEST_CASE("16-bit floats are not TF32") {
  for (const Pass pass : kPasses) {
    ConvolutionProblem shape = convolution(64, 56, 256, 1);
    shape.pass = pass;
    for (const Math math : {Math::exact, Math::tf32}) {
      shape.math = math;
      CHECK(refused(shape, all_engines(), "16-bit floats") > 0);
    }
    shape.math = Math::exact;
    shape.element = Element::bf16;
    CHECK(refused(shape, all_engines(), "16-bit floats") == 0);
  }
}

TEST_CASE("in bf16 no algorithm adds parts of a sum that are rounded to bf16") {
  const std::vector<std::string> split = {"engine=47 knobs=0:2,2:1,5:4,14:2", "engine=47 knobs=0:12,2:4,5:3,14:3"};
  const std::string whole = "engine=47 knobs=0:1,2:1,5:4,14:2";
  ConvolutionProblem shape = convolution(16, 20, 32, 3);
  shape.pass = Pass::filter;
  shape.element = Element::bf16;
  CHECK(refused(shape, split, "partial sums in less than float32") == split.size());
  CHECK(refused(shape, {whole}, "partial sums") == 0);
  for (const std::string& text : library().candidates(shape)) {
    const ConvolutionAlgorithm algorithm = *ConvolutionAlgorithm::from_text(text);
    for (const auto& [knob, value] : algorithm.knobs) CHECK((knob != 0 || value <= 1));
  }
  shape.element = Element::f32;
  CHECK(refused(shape, split, "partial sums") == 0);
}

// Whether one of the shape's candidates is refused as inexact, since it runs on tensor cores.
bool has_tensor_cores(ConvolutionProblem shape) {
  const std::vector<std::string> candidates = library().candidates(shape);
  shape.element = Element::f32;
  shape.math = Math::exact;
  return refused(shape, candidates, "rounded inputs") > 0;
}

TEST_CASE("large batches have algorithms on tensor cores, which take workspace") {
  for (const auto& [in, size, out] : {std::tuple{256, 56, 64}, {256, 56, 128}, {64, 56, 256}}) {
    for (const Pass pass : kPasses) {
      ConvolutionProblem shape = convolution(in, size, out, 1);
      shape.batch = 256;
      shape.pass = pass;
      CAPTURE(in);
      CAPTURE(out);
      CAPTURE(static_cast<int>(pass));
      shape.math = Math::tf32;
      CHECK(has_tensor_cores(shape));
    }
  }
}

TEST_CASE("an engine that is not deterministic is refused by name") {
  const std::vector<std::string> engines = all_engines();
  size_t found = 0;
  for (const Pass pass : {Pass::data, Pass::filter}) {
    ConvolutionProblem shape = convolution(64, 56, 64, 3);
    shape.pass = pass;
    shape.math = Math::tf32;
    const size_t refusals = refused(shape, engines, "not deterministic");
    found += refusals;
    for (const std::string& candidate : library().candidates(shape)) {
      const ConvolutionAlgorithm plain = {ConvolutionAlgorithm::from_text(candidate)->engine, {}};
      CHECK(refused(shape, {plain.text()}, "not deterministic") == 0);
    }
  }
  CHECK(found > 0);
}

TEST_CASE("what is no algorithm, or none of this library's, is refused") {
  const ConvolutionProblem shape = convolution(64, 56, 64, 3);
  CHECK(refused(shape, {"engine=7777 knobs="}, "no such engine") == 1);
  CHECK(refused(shape, {"id=1"}, "not an algorithm") == 1);
  CHECK(refused(shape, {"engine=0 knobs=2:999"}, "knob") == 1);
  CHECK_THROWS_AS(Convolutions(std::string("{}")), Failure);
}

}  // namespace
}  // namespace estrain::kernels::pinned
