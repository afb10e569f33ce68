#include "core/planning/dispatch/speeds/speeds.h"

#include <algorithm>
#include <cmath>

namespace estrain::dispatch {
namespace {

constexpr double kSame = 1e-3;  // s between two moments taken as the same

}  // namespace

int64_t most_ests(int64_t ests, int64_t devices) { return (ests + devices - 1) / devices; }

double apart(int64_t one, int64_t other) {
  return std::abs(std::log(static_cast<double>(one) / static_cast<double>(other)));
}

std::pair<double, double> apart(const Speeds::Key& one, const Speeds::Key& other) {
  return {apart(one.hosts, other.hosts), apart(one.devices, other.devices)};
}

void Speeds::observe(const Key& key, double step_seconds) {
  if (!(step_seconds > 0) || !std::isfinite(step_seconds) || key.devices < 1) return;
  Measured& measured = measured_[key];
  measured.seconds = measured.times == 0 ? step_seconds : (1 - kNewest) * measured.seconds + kNewest * step_seconds;
  ++measured.times;
}

void Speeds::saw(const Look& look, double now) {
  if (!(look.steps > 0) || !(look.seconds > 0) || look.devices < 1) return;
  Seen& seen = seen_[{look.type, look.devices, std::lround(look.in_use)}];
  seen.steps += look.steps;
  seen.seconds += look.seconds;
  const double from = now - look.seconds;
  const auto goes_on = [&](const Pace& last) {
    return last.type == look.type && last.devices == look.devices &&
           std::lround(last.in_use) == std::lround(look.in_use) && std::abs(from - last.to) < kSame &&
           last.to - last.from < kCoarsest * (now - paces_[0].from);
  };
  if (paces_.newest() == nullptr || !goes_on(*paces_.newest()))
    paces_.add({look.type, look.devices, look.in_use, from, from, 0, 0});
  Pace& pace = *paces_.newest();
  pace.in_use += (look.in_use - pace.in_use) * look.seconds / (now - pace.from);
  pace.to = now;
  pace.steps += look.steps;
  if (look.told > 0) pace.told = look.told;
}

void Speeds::Paces::add(const Pace& pace) {
  if (newest_) {
    if (!closed_) {
      closed_ = std::make_shared<std::vector<Pace>>();
    } else if (closed_.use_count() > 1) {
      closed_ = std::make_shared<std::vector<Pace>>(*closed_);
    }
    closed_->push_back(*newest_);
  }
  newest_ = pace;
}

std::vector<Speeds::Pace> Speeds::Paces::all() const {
  std::vector<Pace> all;
  for (size_t at = 0; at < size(); ++at) all.push_back((*this)[at]);
  return all;
}

bool Speeds::Paces::operator==(const Paces& other) const {
  if (newest_ != other.newest_ || num_closed() != other.num_closed()) return false;
  return closed_ == other.closed_ || num_closed() == 0 || *closed_ == *other.closed_;
}

void Speeds::rescale(double factor) {
  mini_batch_ *= factor;
  for (auto& [key, measured] : measured_) measured = {measured.seconds * factor, 0};
}

double Speeds::step_seconds(const Key& key, int64_t ests) const {
  const std::pair<const Key, Measured>* nearest = nullptr;
  std::pair<double, double> distance;
  for (const auto& entry : measured_) {
    if (entry.first.type != key.type) continue;
    const std::pair away = apart(entry.first, key);
    if (nearest != nullptr && away >= distance) continue;
    nearest = &entry;
    distance = away;
  }
  const auto turns = static_cast<double>(most_ests(ests, key.devices));
  const double tried = turns * (mini_batch_ > 0 ? mini_batch_ : kUnknownMiniBatch);
  if (nearest == nullptr) return tried;
  const double scaled = nearest->second.seconds * turns / static_cast<double>(most_ests(ests, nearest->first.devices));
  // Fewer hosts than ever measured exchange less.
  return mini_batch_ > 0 && nearest->first.hosts > key.hosts ? std::min(scaled, tried) : scaled;
}

}  // namespace estrain::dispatch
