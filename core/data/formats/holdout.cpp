#include "core/data/formats/holdout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/data/sampling/sampler.h"

namespace estrain::data {
namespace {

// Some samples of a set, read by their numbers in the set.
class Part : public Dataset {
 public:
  Part(std::shared_ptr<const Dataset> all, std::vector<int64_t> samples)
      : all_(std::move(all)), samples_(std::move(samples)) {}

  int64_t size() const override { return std::ssize(samples_); }
  SampleShape shape() const override { return all_->shape(); }
  int64_t classes() const override { return all_->classes(); }
  std::vector<int64_t> labels() const override {
    const std::vector<int64_t> of_all = all_->labels();
    std::vector<int64_t> labels;
    if (of_all.empty()) return labels;
    for (const int64_t sample : samples_) labels.push_back(of_all[static_cast<size_t>(sample)]);
    return labels;
  }
  int64_t stored_number(int64_t index) const override { return all_->stored_number(number(index)); }
  int64_t stored() const override { return all_->stored(); }
  int64_t length(int64_t index) const override { return all_->length(number(index)); }
  std::vector<int64_t> lengths_of(std::span<const int64_t> indices) const override {
    return all_->lengths_of(numbers(indices));
  }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    all_->read(number(index), draw, out_input, out_target);
  }
  void read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const override {
    all_->read_fields(number(index), draw, out);
  }
  void read_run(const SampleRun& run) const override {
    const std::vector<int64_t> of_run = numbers(run.indices);
    SampleRun of_all = run;
    of_all.indices = of_run;
    all_->read_run(of_all);
  }

 private:
  int64_t number(int64_t index) const { return samples_[static_cast<size_t>(index)]; }
  std::vector<int64_t> numbers(std::span<const int64_t> indices) const {
    std::vector<int64_t> numbers;
    for (const int64_t index : indices) numbers.push_back(number(index));
    return numbers;
  }

  const std::shared_ptr<const Dataset> all_;
  const std::vector<int64_t> samples_;
};

// The number of samples to keep for evaluation, by class.
std::map<int64_t, int64_t> counts_to_keep(const std::vector<int64_t>& labels, double fraction) {
  std::map<int64_t, int64_t> counts;
  if (fraction <= 0) return counts;
  for (const int64_t label : labels) ++counts[label];
  for (auto& [label, count] : counts)
    if (count == 1)
      count = 0;
    else
      count = std::clamp<int64_t>(std::llround(fraction * static_cast<double>(count)), 1, count - 1);
  return counts;
}

}  // namespace

void note_held_out(DataScan& scan, const std::vector<int64_t>& labels, double fraction) {
  if (fraction <= 0) return;
  int64_t kept = 0;
  for (const auto& [label, count] : counts_to_keep(labels, fraction)) kept += count;
  scan.train_samples -= kept;
  scan.findings.push_back(Finding::fine(
      "data", fmt::format("{} of {} samples are kept for evaluation, by data.holdout", kept, labels.size())));
}

void hold_out(DataPair& pair, const std::vector<int64_t>& labels, double fraction, uint64_t seed) {
  if (fraction <= 0) return;
  std::map<int64_t, int64_t> left = counts_to_keep(labels, fraction);
  std::vector<int64_t> train, test;
  for (const int64_t sample : randperm(std::ssize(labels), seed))
    (left.at(labels[static_cast<size_t>(sample)])-- > 0 ? test : train).push_back(sample);
  if (test.empty())
    throw Error::make(Fault::spec, "data.holdout = {} keeps none of {} samples: no class has two", fraction,
                      labels.size())
        .advise("give more samples, or data.holdout = 0");
  std::ranges::sort(train);
  std::ranges::sort(test);
  const std::shared_ptr<const Dataset> all = std::move(pair.train);
  pair.train = std::make_unique<Part>(all, std::move(train));
  pair.test = std::make_unique<Part>(all, std::move(test));
}

}  // namespace estrain::data
