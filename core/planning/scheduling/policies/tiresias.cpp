#include <algorithm>
#include <map>

#include "core/planning/scheduling/policies/admission.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

class Tiresias : public Policy {
 public:
  explicit Tiresias(const TiresiasOptions& options) : options_(options) {}

  Decision decide(const View& view) override {
    for (auto& [order, index] : index_of_) index = kGone;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const auto [at, is_new] = index_of_.try_emplace(view.jobs[i]->order, i);
      at->second = i;
      if (is_new) first_.push_back(view.jobs[i]->order);
    }
    std::erase_if(index_of_, [](const auto& job) { return job.second == kGone; });
    std::erase_if(second_, [&](int64_t order) { return !index_of_.contains(order); });
    std::erase_if(first_, [&](int64_t order) {
      const auto at = index_of_.find(order);
      if (at == index_of_.end()) return true;
      const JobView& job = *view.jobs[at->second];
      const bool demoted = job.held * static_cast<double>(job.requested) >= options_.limit;
      if (demoted) second_.push_back(order);
      return demoted;
    });
    std::vector<size_t> order;
    order.reserve(view.jobs.size());
    for (const auto* queue : {&first_, &second_}) {
      for (const int64_t job : *queue) order.push_back(index_of_.at(job));
    }
    return admit_gangs(view, order);
  }

 private:
  static constexpr size_t kGone = ~size_t{0};

  TiresiasOptions options_;
  std::vector<int64_t> first_, second_;  // jobs by JobView::order
  std::map<int64_t, size_t> index_of_;   // into the view
};

}  // namespace

std::unique_ptr<Policy> make_tiresias(const TiresiasOptions& options) { return std::make_unique<Tiresias>(options); }

}  // namespace estrain::scheduling
