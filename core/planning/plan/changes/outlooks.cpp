#include "core/planning/plan/changes/outlooks.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace estrain::plan {
namespace {

class Outlooks {
 public:
  Outlooks(const Offer& offer, const std::vector<int64_t>& together) : offer_(offer), together_(together) {}

  std::vector<Outlook> all() const {
    const Fleet fleet = everything();
    std::vector<Outlook> found;
    if (fleet.fewest_workers() > fleet.most_workers()) return found;
    const double now = offer_.before().step_seconds;
    std::optional<double> pace = fleet.shortest_pace(std::max(fleet.fewest_workers(), fleet.most_workers()));
    Counts last(offer_.groups().size());
    for (int left = kMostPaces; pace && *pace < now && left > 0; --left) {
      for (const int64_t group : together_) consider(group, *pace, last, found);
      pace = fleet.next_pace(*pace);
    }
    return found;
  }

 private:
  static constexpr int kMostPaces = 50'000;

  Fleet everything() const {
    Counts counts = offer_.held();
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += offer_.free()[i];
    return Fleet(with_counts(offer_.groups(), counts), together_, offer_.job());
  }

  void consider(int64_t group, double pace, Counts& last, std::vector<Outlook>& found) const {
    const auto g = static_cast<size_t>(group);
    int64_t left = offer_.job().ests, workers = 0;
    for (const int64_t other : together_) {
      const auto o = static_cast<size_t>(other);
      const int64_t each = capacity(offer_.groups()[o], pace);
      if (each == 0) continue;
      const int64_t devices = std::min(offer_.held()[o], offer_.job().ests);
      workers += devices;
      left -= std::min(left, devices * std::min(each, offer_.job().ests));
    }
    const int64_t each = capacity(offer_.groups()[g], pace);
    if (each == 0 || left == 0) return;
    const int64_t needed = (left + each - 1) / each;
    if (needed > offer_.free()[g] || needed == last[g]) return;
    last[g] = needed;
    add(g, needed, std::min(workers + needed, offer_.job().ests), pace, found);
  }

  void add(size_t group, int64_t needed, int64_t workers, double pace, std::vector<Outlook>& found) const {
    const double step = offer_.job().crowding_of(workers) * pace + offer_.job().exchange.seconds(workers, workers);
    Outlook estimate{Counts(offer_.groups().size()), 0};
    estimate.added[group] = needed;
    estimate.speed_up_per_device = (offer_.before().step_seconds / step - 1) / static_cast<double>(needed);
    if (estimate.speed_up_per_device > 0) found.push_back(std::move(estimate));
  }

  const Offer& offer_;
  const std::vector<int64_t>& together_;
};

}  // namespace

std::vector<Outlook> outlooks(const Offer& offer, const std::vector<int64_t>& together) {
  return Outlooks(offer, together).all();
}

}  // namespace estrain::plan
