#include "core/run/launch/preflight/operator_probe.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace estrain::launch {
namespace {

using comm::ProbedOperator;
using comm::ProbeReport;

ProbeReport report(double torch, std::optional<double> portable, std::vector<ProbedOperator> operators = {}) {
  ProbeReport made;
  made.operators = std::move(operators);
  made.seconds = {.torch = torch, .portable = portable};
  return made;
}

ProbedOperator use(const char* name, const char* coverage, const char* which = "",
                   std::vector<std::string> layers = {}) {
  return {.name = name,
          .coverage = coverage,
          .which = which,
          .calls = 3,
          .layers = std::move(layers),
          .on_gpus = "repeatable"};
}

BitsChoice choose(const ProbeReport& measured, spec::Precision precision = spec::Precision::fp32) {
  spec::JobSpec job;
  job.job.precision = precision;
  return choose_determinism(job, measured);
}

TEST_CASE("auto takes D2 where all is covered and it costs nothing, and says why") {
  const BitsChoice cheap = choose(report(0.010, 0.006, {use("aten::mm", "replaced")}));
  CHECK(cheap.determinism == spec::Determinism::d2);
  CHECK(cheap.kernels == spec::Kernels::portable);
  CHECK(
      cheap.reason ==
      "every operator is covered, and a mini-batch takes 6.00 ms with the portable kernels, 10.00 ms with LibTorch's");
  const BitsChoice dear = choose(report(0.010, 0.011));
  CHECK(dear.determinism == spec::Determinism::d1);
  CHECK(dear.kernels == spec::Kernels::torch);
  CHECK(choose(report(0.010, 0.0104)).determinism == spec::Determinism::d2);
}

TEST_CASE("auto takes D1 where an operator is not covered, however cheap, and names it") {
  const std::vector<ProbedOperator> operators = {use("aten::cumsum", "not covered", "", {"stem", "head"}),
                                                 use("aten::mm", "not covered", "on Double"),
                                                 use("aten::relu", "exact")};
  const BitsChoice verdict = choose(report(0.010, 0.001, operators));
  CHECK(verdict.determinism == spec::Determinism::d1);
  CHECK(verdict.reason == "no portable kernel for aten::cumsum (stem, head); aten::mm on Double");
}

TEST_CASE("auto takes D1 where the portable kernels lack the job's precision, and names it") {
  for (const auto& [precision, name] : {std::pair{spec::Precision::bf16, "bf16"}, {spec::Precision::tf32, "tf32"}}) {
    const BitsChoice verdict = choose(report(0.010, std::nullopt), precision);
    CHECK(verdict.determinism == spec::Determinism::d1);
    CHECK(verdict.kernels == spec::Kernels::torch);
    CHECK(verdict.reason ==
          std::string("job.precision is \"") + name + "\", the portable kernels compute in fp32 alone");
  }
}

TEST_CASE("operators that fail on GPUs are named with their layers") {
  std::vector<ProbedOperator> operators = {use("aten::mm", "not covered"),
                                           use("aten::histc", "not covered", "", {"head"})};
  operators[0].on_gpus = "composed", operators[1].on_gpus = "raises";
  CHECK(raising_operators(report(1, 1, operators)) == std::vector<std::string>{"aten::histc (head)"});
  CHECK(unpinned_operators(report(1, 1, operators)).empty());
  operators[0].on_gpus = "unpinned";
  CHECK(unpinned_operators(report(1, 1, operators)) == std::vector<std::string>{"aten::mm"});
}

TEST_CASE("the table has a line for each operator") {
  const std::string text =
      format_operators(report(1, 1, {use("aten::mm", "replaced", "", {"fc"}), use("aten::relu", "exact")}));
  CHECK(std::ranges::count(text, '\n') == 3);
  CHECK(text.find("aten::mm") != std::string::npos);
  CHECK(text.find("replaced") != std::string::npos);
}

}  // namespace
}  // namespace estrain::launch
