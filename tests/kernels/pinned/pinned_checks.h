#pragma once
// Pinned operations on a GPU: each candidate algorithm for a random shape is compared with sums in double precision,
// run twice for equal bits, and rebuilt from its text for equal bits.

#include <cstdint>
#include <map>
#include <string>

namespace estrain::kernels::test {

struct PinnedOutcome {
  uint32_t cases = 0;       // shapes
  uint32_t without = 0;     // shapes without an algorithm
  uint32_t algorithms = 0;  // tried, over all shapes
  uint32_t unfit = 0;       // algorithms that fail or give different bits at a second run: training skips these
  uint32_t failing = 0;     // shapes with a fault
  std::string first;        // the first fault: shape, algorithm, element
};

std::string in_words(const std::map<std::string, std::string>& shape);

// For a shape: the number of candidates, and of unfit candidates.
struct Tally {
  uint32_t tried = 0, unfit = 0;
};

// Tests a shape drawn from a seed, with the process's libraries and device; adds the result to `outcome`.
void check_product(uint32_t seed, PinnedOutcome& outcome);
void check_convolution(uint32_t seed, PinnedOutcome& outcome);
void record(PinnedOutcome& outcome, uint32_t seed, const std::map<std::string, std::string>& shape, const Tally& tally,
            const std::string& fault);

}  // namespace estrain::kernels::test
