#include "core/hosts/exchange/state_shares.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

namespace estrain::hosts {
namespace {

TEST_CASE("shares of a state lie one behind the other, and are about equal") {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{4097}, size_t{50'000}, size_t{10'000'000}}) {
    for (const size_t senders : {1, 2, 3, 7}) {
      CAPTURE(bytes);
      CAPTURE(senders);
      size_t next = 0;
      for (size_t place = 0; place < senders; ++place) {
        const ByteRange share = state_share(bytes, senders, place);
        CHECK(share.begin == next);
        CHECK(share.end >= share.begin);
        CHECK(share.end - share.begin <= bytes / senders + 2 * 4096);
        next = share.end;
      }
      CHECK(next == bytes);
    }
  }
}

TEST_CASE("who sends to whom is read as it was written; without a sender it is refused") {
  const StateShares shares{.from = {"", "h1"}, .to = {"h2"}, .lr = 0.25, .evaluated = 40};
  const StateShares read = StateShares::from_json(shares.to_json());
  CHECK(read.from == shares.from);
  CHECK(read.to == shares.to);
  CHECK(read.lr == 0.25);
  CHECK(read.evaluated == 40);
  Json none = shares.to_json();
  none["from"] = Json::array();
  CHECK_THROWS_AS(StateShares::from_json(none), Error);
  CHECK_THROWS_AS(StateShares::from_json({{"from", 7}}), Error);
}

}  // namespace
}  // namespace estrain::hosts
