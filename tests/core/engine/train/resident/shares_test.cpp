#include "core/engine/train/resident/shares.h"

#include <doctest/doctest.h>

#include <vector>

namespace estrain::train {
namespace {

TEST_CASE("every float is in one bucket and has one owner") {
  for (const size_t floats :
       {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}, size_t{4096}, size_t{50'000}}) {
    for (const uint32_t workers : {1u, 2u, 3u, 7u, 64u}) {
      CAPTURE(floats);
      CAPTURE(workers);
      const Shares shares(floats, workers);
      std::vector<int> bucketed(floats), owned(floats);
      size_t end = floats;
      for (size_t b = 0; b < shares.buckets(); ++b) {
        const BucketRange bucket = shares.bucket(b);
        CHECK(bucket.end == end);  // from the end, without a gap
        CHECK(bucket.begin < bucket.end);
        CHECK(bucket.begin % 64 == 0);
        end = bucket.begin;
        for (size_t i = bucket.begin; i < bucket.end; ++i) ++bucketed[i];
        for (uint32_t worker = 0; worker < workers; ++worker) {
          const BucketRange share = shares.share(b, worker);
          REQUIRE(share.begin <= share.end);
          CHECK((share.size() == 0 || share.begin % 64 == 0));
          CHECK((share.size() == 0 || (share.begin >= bucket.begin && share.end <= bucket.end)));
          for (size_t i = share.begin; i < share.end; ++i) ++owned[i];
        }
      }
      CHECK(end == 0);
      CHECK(bucketed == std::vector<int>(floats, 1));
      CHECK(owned == std::vector<int>(floats, 1));
    }
  }
}

TEST_CASE("buckets are large enough for a link, and several even where there is little to pass on") {
  CHECK(Shares(1000, 2).buckets() == 4);
  CHECK(Shares(140'000'000, 8).buckets() == 18);
  const Shares even(8192, 4);
  for (size_t b = 0; b < even.buckets(); ++b) {
    for (uint32_t worker = 0; worker < 4; ++worker) CHECK(even.share(b, worker).size() == 512);
  }
  CHECK(Shares(0, 2).buckets() == 0);
}

}  // namespace
}  // namespace estrain::train
