#include "core/data/reading/skip_bad.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/contains.h"
#include "tests/error_of.h"

namespace estrain::data {
namespace {

// A set of six samples: {number, class of the draw's epoch}. The samples in `bad` cannot be read.
class SomeBad : public Dataset {
 public:
  explicit SomeBad(std::set<int64_t> bad, Fault fault = Fault::corrupt) : bad_(std::move(bad)), fault_(fault) {}
  int64_t size() const override { return 6; }
  SampleShape shape() const override { return SampleShape::vector(1); }
  int64_t classes() const override { return 6; }
  std::vector<int64_t> labels() const override { return {5, 4, 3, 2, 1, 0}; }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    if (bad_.contains(index)) throw Error::make(fault_, "sample {}: torn", index);
    *reinterpret_cast<float*>(out_input) = static_cast<float>(draw.words()[0] >> 8);
    *out_target = index;
  }

 private:
  std::set<int64_t> bad_;
  Fault fault_;
};

struct Skipped {
  std::shared_ptr<BadSamples> bad;
  std::unique_ptr<Dataset> set;

  Skipped(std::set<int64_t> unreadable, int64_t most, Fault fault = Fault::corrupt, bool is_code = false)
      : bad(std::make_shared<BadSamples>(most)),
        set(without_bad_samples(std::make_unique<SomeBad>(std::move(unreadable), fault), {"training", is_code, bad})) {}

  // The numbers of the samples that are read for `indices`.
  std::vector<int64_t> read(const std::vector<int64_t>& indices) const {
    std::vector<float> input(indices.size());
    std::vector<int64_t> targets(indices.size());
    set->read_run({.indices = indices,
                   .draw = [](int64_t index,
                              size_t place) { return SampleDraw(1, Epoch(0), index, static_cast<int64_t>(place)); },
                   .out = {reinterpret_cast<std::byte*>(input.data())},
                   .targets = targets.data(),
                   .is_abandoned = [] { return false; }});
    for (size_t i = 0; i < indices.size(); ++i) {
      const SampleDraw draw(1, Epoch(0), targets[i], static_cast<int64_t>(i));
      CHECK(input[i] == static_cast<float>(draw.words()[0] >> 8));
    }
    return targets;
  }
};

TEST_CASE("the next sample that can be read stands in for one that cannot, and the others stay") {
  const Skipped some({1, 2, 5}, 3);
  CHECK(some.read({0, 1, 2, 3, 4, 5}) == std::vector<int64_t>{0, 3, 3, 3, 4, 0});
  CHECK(some.read({5, 5, 4}) == std::vector<int64_t>{0, 0, 4});
  CHECK(some.read({0, 3}) == std::vector<int64_t>{0, 3});
  float input = 0;
  int64_t target = -1;
  some.set->read(2, SampleDraw(1, Epoch(0), 2), reinterpret_cast<std::byte*>(&input), &target);
  CHECK(target == 3);
  CHECK(some.set->size() == 6);
  CHECK(some.set->labels().front() == 5);
}

TEST_CASE("each sample is reported once, also those found before anybody listens") {
  const Skipped some({1, 2, 5}, 3);
  std::vector<std::string> reports;
  (void)some.read({1});
  some.bad->report_to([&](const BadSamples::Found& found) {
    reports.push_back(fmt::format("{} {} {}", found.set, found.sample, found.why));
  });
  (void)some.read({1, 2});
  (void)some.read({2, 5, 1});
  CHECK(reports == std::vector<std::string>{"training 1 sample 1: torn", "training 2 sample 2: torn",
                                            "training 5 sample 5: torn"});
}

TEST_CASE("one more than may be left out is an error, the sample's own") {
  const Skipped some({1, 2, 5}, 2);
  (void)some.read({1});
  const Error error = error_of([&] { (void)some.read({0, 5}); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.message() == "sample 5: torn");
  CHECK(contains(error.advice(), "data.skip_bad = 2"));
  CHECK(some.read({2, 1}) == std::vector<int64_t>{3, 3});
}

TEST_CASE("a file that cannot be opened is no bad sample; an exception of a user's code is one") {
  const Skipped missing({1}, 9, Fault::io);
  CHECK(error_of([&] { (void)missing.read({1}); }).fault() == Fault::io);
  const Skipped spec({1}, 9, Fault::spec);
  CHECK(error_of([&] { (void)spec.read({1}); }).fault() == Fault::spec);
  CHECK(Skipped({1}, 9, Fault::spec, true).read({1}) == std::vector<int64_t>{2});
}

TEST_CASE("a set without a sample that can be read is an error") {
  const Skipped none({0, 1, 2, 3, 4, 5}, 9);
  CHECK(error_of([&] { (void)none.read({3}); }).message() == "sample 2: torn");
}

}  // namespace
}  // namespace estrain::data
