#include "core/engine/train/resident/shares.h"

#include <doctest/doctest.h>

#include <algorithm>
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
  CHECK(Shares(4000, 2).buckets() == 8);
  CHECK(Shares(140'000'000, 8).buckets() == 18);
  const Shares even(8192, 4);
  for (size_t b = 0; b < even.buckets(); ++b) {
    for (uint32_t worker = 0; worker < 4; ++worker) CHECK(even.share(b, worker).size() == 256);
  }
  CHECK(Shares(0, 2).buckets() == 0);
}

TEST_CASE("all buckets but the first have equal shares") {
  for (const size_t floats : {size_t{64}, size_t{1000}, size_t{50'000}, size_t{140'000'000}}) {
    for (const uint32_t workers : {2u, 3u, 7u}) {
      const Shares shares(floats, workers);
      for (size_t b = 1; b < shares.buckets(); ++b) {
        CHECK(shares.is_even(b));
        for (uint32_t worker = 0; worker < workers; ++worker)
          CHECK(shares.share(b, worker).size() * workers == shares.bucket(b).size());
      }
    }
  }
  CHECK_FALSE(Shares(65, 2).is_even(0));
}

TEST_CASE("each parameter is told of with its first bucket, and so is one without elements") {
  checkpoint::StateLayout layout;
  model::NamedTensors tensors;
  for (const int64_t elements : {0, 700, 0, 3, 300, 0})
    tensors.parameters.emplace_back("p" + std::to_string(tensors.parameters.size()), torch::zeros({elements}));
  const ModelPlaces places(tensors, layout);
  const OwnShares shares(places, 1, 2);
  size_t end = places.num_parameters();
  for (size_t b = 0; b < shares.buckets(); ++b) {
    const BucketRange told = shares.first_parts(b);
    CHECK(told.end == end);
    end = told.begin;
    for (size_t i = told.begin; i < told.end; ++i) CHECK(shares.buckets_of(i).front() == b);
  }
  CHECK(end == 0);
}

TEST_CASE("the parts of a bucket are those of all workers, and a parameter knows its buckets") {
  checkpoint::StateLayout layout;
  model::NamedTensors tensors;
  for (const auto& [name, elements] : {std::pair("a", 700), std::pair("b", 3), std::pair("c", 300)})
    tensors.parameters.emplace_back(name, torch::zeros({elements}));
  const ModelPlaces places(tensors, layout);
  constexpr uint32_t workers = 2;
  std::vector<size_t> owned(places.num_parameters()), in_parts(places.num_parameters());
  for (uint32_t worker = 0; worker < workers; ++worker) {
    const OwnShares shares(places, worker, workers);
    size_t largest = 0;
    for (size_t b = 0; b < shares.buckets(); ++b) {
      largest = std::max(largest, shares.bucket(b).size());
      for (const ParameterPiece& piece : shares.pieces(b)) {
        CHECK(shares.offset(piece) >= shares.own(b).begin);
        CHECK(shares.offset(piece) + piece.size <= shares.own(b).end);
        owned[piece.parameter] += piece.size;
      }
      for (const ParameterPiece& part : shares.parts(b)) {
        if (worker == 0) in_parts[part.parameter] += part.size;
        CHECK(std::ranges::count(shares.buckets_of(part.parameter), b) == 1);
      }
    }
    CHECK(shares.largest_bucket() == largest);
    for (size_t i = 0; i < places.num_parameters(); ++i) CHECK(std::ranges::is_sorted(shares.buckets_of(i)));
  }
  CHECK(owned == std::vector<size_t>{700, 3, 300});
  CHECK(in_parts == owned);
}

}  // namespace
}  // namespace estrain::train
