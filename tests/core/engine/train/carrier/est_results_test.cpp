#include "core/engine/train/carrier/est_results.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace estrain::train {
namespace {

// A record of three ESTs and two digests, in memory of its own.
class Record {
 public:
  explicit Record(std::vector<std::string> terms, bool weighs) {
    manifest.ests = 3;
    manifest.digest_names = {"weight", "est/0/generator"};
    manifest.term_names = std::move(terms);
    manifest.weighs = weighs;
    bytes_.resize(comm::record_bytes(3, static_cast<int64_t>(manifest.words_of_record())) / sizeof(uint64_t));
    view = comm::view_record(reinterpret_cast<std::byte*>(bytes_.data()), 3);
  }

  EstResults results() const { return {manifest, view}; }
  void put(int64_t rank, const std::vector<float>& values, float loss) const {
    for (size_t i = 0; i < values.size(); ++i) results().put(VirtualRank(rank), i, values[i]);
    results().put_loss(VirtualRank(rank), loss);
  }
  float term(size_t k) const { return comm::float_of_word(view.digests[2 + k]); }

  checkpoint::Manifest manifest;
  comm::RecordView view{};

 private:
  std::vector<uint64_t> bytes_;
};

TEST_CASE("a term is folded like the loss: each value times 1/N, summed by the tree") {
  const Record record({"ce", "kl"}, false);
  const float large = 0x1p24f, third = 1.0f / 3;  // large's neighbour is large + 2
  record.put(0, {3 * large, 1}, 3 * large);
  record.put(1, {3, 2}, 3);
  record.put(2, {3, 4}, 3);
  record.results().fold_terms();
  CHECK(record.term(0) == large);  // (large + 1) + 1
  CHECK(record.results().loss() == large);
  CHECK(record.term(1) == (1 * third + 2 * third) + 4 * third);
  CHECK(record.view.digests[0].load() == 0);
  CHECK(record.view.digests[1].load() == 0);
}

TEST_CASE("by weight, sums of losses are summed and divided once, and a term counts by its EST's weight") {
  const Record record({"ce"}, true);
  record.put(0, {0.5f, 5}, 12);
  record.put(1, {0.25f, 1}, 3);
  record.put(2, {2, 2}, 7);
  const EstResults results = record.results();
  results.fold_terms();
  CHECK(results.factor_of_sum() == 1.0f / 8);
  CHECK(results.loss() == 22.0f / 8);
  CHECK(record.term(0) == (0.5f * 5 + 0.25f + 2 * 2) / 8);
  CHECK(record.view.est_losses[0] == 12.0f / 5);
  CHECK(record.view.est_losses[2] == 3.5f);
}

TEST_CASE("an EST without a target counts nothing; without any, the step has no loss and its sum keeps") {
  const Record record({"ce"}, true);
  record.put(0, {std::nanf(""), 0}, 0);
  record.put(1, {2, 4}, 8);
  record.put(2, {std::nanf(""), 0}, 0);
  record.results().fold_terms();
  CHECK(record.view.est_losses[0] == 0);
  CHECK(record.results().loss() == 2);
  CHECK(record.term(0) == 2);
  record.put(1, {0, 0}, 0);
  record.results().fold_terms();
  CHECK(std::isnan(record.results().loss()));
  CHECK(std::isnan(record.term(0)));
  CHECK(record.results().factor_of_sum() == 0);
}

}  // namespace
}  // namespace estrain::train
