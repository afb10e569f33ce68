#include "tests/kernels/pinned/pinned_checks.h"

namespace estrain::kernels::test {

std::string in_words(const std::map<std::string, std::string>& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

void record(PinnedOutcome& outcome, uint32_t seed, const std::map<std::string, std::string>& shape, const Tally& tally,
            const std::string& fault) {
  ++outcome.cases;
  outcome.algorithms += tally.tried;
  outcome.unfit += tally.unfit;
  if (tally.tried == 0) ++outcome.without;
  if (fault.empty()) return;
  if (outcome.failing++ == 0) outcome.first = "seed " + std::to_string(seed) + ": " + in_words(shape) + ": " + fault;
}

}  // namespace estrain::kernels::test
