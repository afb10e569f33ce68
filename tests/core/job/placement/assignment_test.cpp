#include "core/job/placement/assignment.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/error_of.h"

namespace estrain::placement {
namespace {

TEST_CASE("every EST has one worker, ranges follow each other, sizes differ by one at most, larger ones first") {
  for (int64_t ests = 1; ests <= 40; ++ests) {
    for (int64_t workers = 1; workers <= ests; ++workers) {
      const std::vector<EstRange> ranges = even_ranges(ests, workers);
      CAPTURE(ests);
      CAPTURE(workers);
      REQUIRE(ranges.size() == static_cast<size_t>(workers));
      REQUIRE(ranges.front().begin == VirtualRank(0));
      REQUIRE(ranges.back().end == VirtualRank(ests));
      for (size_t i = 1; i < ranges.size(); ++i) REQUIRE(ranges[i].begin == ranges[i - 1].end);
      REQUIRE(std::ranges::is_sorted(ranges, std::greater(), &EstRange::size));
      REQUIRE(ranges.front().size() - ranges.back().size() <= 1);
      REQUIRE(ranges.back().size() >= 1);
    }
  }
}

TEST_CASE("more workers than ESTs, or none, cannot be placed") {
  for (const int64_t workers : {0, -1, 5}) {
    const Error error = error_of([&] { even_ranges(4, workers); });
    CHECK(error.fault() == Fault::infeasible);
    CHECK(error.advice() == "give between 1 and 4 devices");
  }
  CHECK(error_of([] { even_ranges(4, 5); }).message() == "5 workers for 4 ESTs: every worker must host at least one");
}

TEST_CASE("ranges are as the list says, or even; a list that says it of some devices only is refused") {
  CHECK(place_ests({{Device{}, 1}, {Device{}, 3}}, 4) ==
        std::vector<EstRange>{{VirtualRank(0), VirtualRank(1)}, {VirtualRank(1), VirtualRank(4)}});
  CHECK(place_ests(evenly({Device{}, Device{}}), 5) == even_ranges(5, 2));
  CHECK(error_of([] { place_ests({{Device{}, 1}, {}}, 4); }).fault() == Fault::usage);
  CHECK(error_of([] { place_ests({{Device{}, 1}, {Device{}, 2}}, 4); }).fault() == Fault::infeasible);
}

}  // namespace
}  // namespace estrain::placement
