#include "core/hosts/exchange/state_shares.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/json/codec.h"

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
  StateShares read;
  codec::from_field(codec::to_field(shares), read);
  CHECK(read.from == shares.from);
  CHECK(read.to == shares.to);
  CHECK(read.lr == 0.25);
  CHECK(read.evaluated == 40);
  CHECK_NOTHROW(read.require_sender());
  read.from.clear();
  CHECK_THROWS_AS(read.require_sender(), Error);
  CHECK_THROWS_AS(codec::from_field(Json{{"from", 7}}, read), Error);
}

}  // namespace
}  // namespace estrain::hosts
