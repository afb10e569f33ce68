#pragma once
// Pinned operations on a GPU: every algorithm that is a candidate for a random shape, against sums in double precision,
// twice with equal bits, and built again from its text with equal bits.

#include <cstdint>
#include <map>
#include <string>

namespace estrain::kernels::test {

struct PinnedOutcome {
  uint32_t cases = 0;       // shapes
  uint32_t without = 0;     // of which no algorithm was found for
  uint32_t algorithms = 0;  // tried, over all shapes
  uint32_t unfit = 0;       // of which do not run, or give other bits at a second run: training passes over these
  uint32_t failing = 0;     // shapes with a fault
  std::string first;        // the first fault: shape, algorithm, element
};

std::string in_words(const std::map<std::string, std::string>& shape);

// Of a shape: its candidates, and those of them that are unfit.
struct Tally {
  uint32_t tried = 0, unfit = 0;
};

// One shape drawn from a seed, with the process's libraries and device; what came of it is added to `outcome`.
void check_product(uint32_t seed, PinnedOutcome& outcome);
void check_convolution(uint32_t seed, PinnedOutcome& outcome);
void record(PinnedOutcome& outcome, uint32_t seed, const std::map<std::string, std::string>& shape, const Tally& tally,
            const std::string& fault);

}  // namespace estrain::kernels::test
