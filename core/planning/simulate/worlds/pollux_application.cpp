#include "core/planning/simulate/worlds/pollux_application.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace estrain::simulate {
namespace {

constexpr int64_t kDevicesOfHost = 4;
constexpr int64_t kBatchesTried = 50;

int64_t ceiling(double value) { return static_cast<int64_t>(std::ceil(value - 1e-8)); }

StepTimes mix(const StepTimes& a, const StepTimes& b, double part) {
  return {a.step + (b.step - a.step) * part, a.sync + (b.sync - a.sync) * part};
}

}  // namespace

PolluxApplication::Counts PolluxApplication::packed_counts(int64_t devices) {
  Counts counts;
  for (; devices > 0; devices -= kDevicesOfHost) {
    counts.push_back(static_cast<int32_t>(std::min(devices, kDevicesOfHost)));
  }
  return counts;
}

PolluxApplication::Counts PolluxApplication::normal(const Counts& counts) {
  Counts least, turned;
  for (const int32_t count : counts) {
    if (count > 0) turned.push_back(count);
  }
  least = turned;
  for (size_t i = 1; i < turned.size(); ++i) {
    std::rotate(turned.begin(), turned.begin() + 1, turned.end());
    least = std::min(least, turned);
  }
  return least;
}

std::optional<StepTimes> PolluxApplication::at(const Sizes& sizes, int64_t local) {
  const auto above = std::ranges::lower_bound(sizes.local, local);
  const auto i = static_cast<size_t>(above - sizes.local.begin());
  if (i == sizes.local.size()) return sizes.times.back();
  if (sizes.local[i] == local || i == 0) return sizes.times[i];
  const double part =
      static_cast<double>(local - sizes.local[i - 1]) / static_cast<double>(sizes.local[i] - sizes.local[i - 1]);
  return mix(sizes.times[i - 1], sizes.times[i], part);
}

std::optional<StepTimes> PolluxApplication::times(const Counts& counts, int64_t local) const {
  const Counts key = normal(counts);
  if (const auto measured = placements_.find(key); measured != placements_.end()) return at(measured->second, local);
  int64_t devices = 0;
  for (const int32_t count : key) devices += count;
  const auto sizes = between_.find({std::min<int64_t>(static_cast<int64_t>(key.size()), 16), devices});
  if (sizes == between_.end()) return std::nullopt;
  return at(sizes->second, local);
}

BatchSplit PolluxApplication::split(double batch, int64_t devices) const {
  const auto spread = static_cast<double>(devices);
  const auto per_device = static_cast<double>(ceiling(batch / spread));
  BatchSplit split;
  split.accumulated = ceiling(per_device / static_cast<double>(limits_.most_local)) - 1;
  if (devices == 1 && batch > static_cast<double>(limits_.init)) {
    split.accumulated = std::max<int64_t>(1, split.accumulated);
  }
  split.local = ceiling(per_device / static_cast<double>(split.accumulated + 1));
  split.local = std::min(split.local, limits_.most / (devices * (split.accumulated + 1)));
  return split;
}

PolluxApplication::BatchNeighbours PolluxApplication::between(double batch) const {
  const auto above = std::ranges::lower_bound(batches_, batch);
  const auto i = static_cast<size_t>(above - batches_.begin());
  if (i == batches_.size()) return {i - 1, i - 1, 0};
  if (batches_[i] == batch || i == 0) return {i, i, 0};
  return {i - 1, i, (batch - batches_[i - 1]) / (batches_[i] - batches_[i - 1])};
}

PolluxApplication::Noise PolluxApplication::noise(double batch, int64_t epoch) const {
  const BatchNeighbours where = between(batch);
  const Validation &lower = validation_[where.lower][static_cast<size_t>(epoch)],
                   &upper = validation_[where.upper][static_cast<size_t>(epoch)];
  return {std::lerp(lower.sqr, upper.sqr, where.part), std::lerp(lower.var, upper.var, where.part)};
}

double PolluxApplication::iterations(double batch, int64_t epoch) const {
  const BatchNeighbours where = between(batch);
  const auto row = static_cast<size_t>(epoch);
  return std::lerp(validation_[where.lower][row].iterations, validation_[where.upper][row].iterations, where.part);
}

std::vector<double> PolluxApplication::batches(int64_t devices) const {
  if (limits_.one_device) return {static_cast<double>(limits_.most)};
  const auto least = static_cast<double>(std::max(limits_.init, limits_.least_local * devices));
  const double ratio = static_cast<double>(limits_.most) / least;
  std::vector<double> all;
  for (int64_t i = 0; i < kBatchesTried; ++i) {
    all.push_back(least * std::pow(ratio, static_cast<double>(i) / (kBatchesTried - 1)));
  }
  return all;
}

void PolluxApplication::add_placement(const std::string& digits, int64_t local, StepTimes times) {
  Counts counts;
  for (const char digit : digits) counts.push_back(digit - '0');
  Sizes& sizes = placements_[normal(counts)];
  sizes.local.push_back(local);
  sizes.times.push_back(times);
}

void PolluxApplication::add_between(int64_t hosts, int64_t devices, int64_t local, StepTimes times) {
  Sizes& sizes = between_[{hosts, devices}];
  sizes.local.push_back(local);
  sizes.times.push_back(times);
}

void PolluxApplication::add_validation(int64_t batch, int64_t epoch, Validation row) {
  std::vector<Validation>& rows = rows_[batch];
  rows.resize(std::max(rows.size(), static_cast<size_t>(epoch) + 1));
  rows[static_cast<size_t>(epoch)] = row;
}

void PolluxApplication::finish(const std::string& source) {
  const auto epochs = static_cast<size_t>(limits_.epochs);
  progress_.assign(epochs + 1, 0);
  for (auto& [batch, rows] : rows_) {
    if (rows.size() < epochs) {
      throw Error::make(Fault::spec, "{}: {} with batch {} has {} epochs, fewer than {}", source, name_, batch,
                        rows.size(), epochs);
    }
    for (size_t epoch = 0; epoch < epochs; ++epoch) {
      double& least = progress_[epoch + 1];
      least = least == 0 ? rows[epoch].progress : std::min(least, rows[epoch].progress);
    }
    batches_.push_back(static_cast<double>(batch));
    validation_.push_back(std::move(rows));
  }
  rows_.clear();
  if (batches_.empty()) throw Error::make(Fault::spec, "{}: no rows for application {}", source, name_);
  const auto sort = [](Sizes& sizes) {
    std::vector<std::pair<int64_t, StepTimes>> pairs;
    for (size_t i = 0; i < sizes.local.size(); ++i) pairs.emplace_back(sizes.local[i], sizes.times[i]);
    std::ranges::stable_sort(pairs, {}, &std::pair<int64_t, StepTimes>::first);
    for (size_t i = 0; i < pairs.size(); ++i) sizes.local[i] = pairs[i].first, sizes.times[i] = pairs[i].second;
  };
  for (auto& [counts, sizes] : placements_) sort(sizes);
  for (auto& [shape, sizes] : between_) sort(sizes);
}

}  // namespace estrain::simulate
