#include "core/data/sampling/class_groups.h"

#include <algorithm>
#include <map>
#include <utility>

namespace estrain::data {

class ClassGroups::Words {
 public:
  Words(uint64_t seed, Epoch epoch, int64_t place)
      : key_(philox_key(seed)), epoch_(static_cast<uint32_t>(epoch.value)), place_(static_cast<uint32_t>(place)) {}

  uint32_t at(int64_t k) const {
    const PhiloxCounter counter{place_, static_cast<uint32_t>(k / 4), epoch_,
                                static_cast<uint32_t>(PhiloxStream::class_groups)};
    return philox(counter, key_)[static_cast<size_t>(k % 4)];
  }

 private:
  PhiloxKey key_;
  uint32_t epoch_, place_;
};

namespace {

// A shuffle of 0 to n - 1 that stores only the exchanged places.
class PartialShuffle {
 public:
  explicit PartialShuffle(int64_t n) : n_(n) {}

  int64_t step(uint32_t word) {
    const int64_t other = step_ + below(word, n_ - step_);
    const int64_t chosen = value(other);
    moved_[other] = value(step_++);
    return chosen;
  }

 private:
  int64_t value(int64_t place) const {
    const auto at = moved_.find(place);
    return at == moved_.end() ? place : at->second;
  }

  int64_t n_, step_ = 0;
  std::map<int64_t, int64_t> moved_;
};

}  // namespace

ClassGroups::ClassGroups(const std::vector<int64_t>& labels, int64_t each, uint64_t seed) : each_(each), seed_(seed) {
  std::map<int64_t, std::vector<int64_t>> classes;
  for (size_t i = 0; i < labels.size(); ++i) classes[labels[i]].push_back(static_cast<int64_t>(i));
  for (auto& [label, samples] : classes) samples_.push_back(std::move(samples));
}

void ClassGroups::group(const Words& words, int64_t number, int64_t of_class, std::span<int64_t> out) const {
  const std::vector<int64_t>& samples = samples_[static_cast<size_t>(of_class)];
  const auto count = static_cast<int64_t>(samples.size());
  PartialShuffle shuffle(count);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint32_t word = words.at(number * (each_ + 1) + 1 + static_cast<int64_t>(i));
    out[i] = samples[static_cast<size_t>(count < each_ ? below(word, count) : shuffle.step(word))];
  }
}

void ClassGroups::indices(Epoch epoch, int64_t place, int64_t first, std::span<int64_t> out) const {
  const Words words(seed_, epoch, place);
  PartialShuffle classes(this->classes());
  std::vector<int64_t> samples(static_cast<size_t>(each_));
  const int64_t end = first + static_cast<int64_t>(out.size());
  for (int64_t number = 0, begin = 0; begin < end; ++number, begin += each_) {
    const int64_t of_class = classes.step(words.at(number * (each_ + 1)));
    if (begin + each_ <= first) continue;
    group(words, number, of_class, samples);
    const int64_t from = std::max(begin, first), to = std::min(begin + each_, end);
    std::copy(samples.begin() + (from - begin), samples.begin() + (to - begin), out.begin() + (from - first));
  }
}

}  // namespace estrain::data
