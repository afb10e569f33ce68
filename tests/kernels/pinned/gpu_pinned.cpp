#include <exception>

#include "tests/kernels/pinned/pinned_checks.h"

namespace estrain::kernels::test {
namespace {

std::string in_words(const std::map<std::string, std::string>& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

PinnedOutcome run(const char* operation, void (*check)(uint32_t, PinnedOutcome&), uint32_t seeds) {
  PinnedOutcome outcome;
  outcome.operation = operation;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    try {
      check(seed, outcome);
    } catch (const std::exception& error) {
      record(outcome, seed, {}, 0, error.what());
    }
  }
  return outcome;
}

}  // namespace

void record(PinnedOutcome& outcome, uint32_t seed, const std::map<std::string, std::string>& shape, uint32_t algorithms,
            const std::string& fault) {
  ++outcome.cases;
  outcome.algorithms += algorithms;
  if (algorithms == 0) ++outcome.without;
  if (fault.empty()) return;
  if (outcome.failing++ == 0) outcome.first = "seed " + std::to_string(seed) + ": " + in_words(shape) + ": " + fault;
}

std::vector<PinnedOutcome> check_pinned(uint32_t seeds) {
  return {run("product", check_product, seeds), run("convolution", check_convolution, seeds)};
}

}  // namespace estrain::kernels::test
