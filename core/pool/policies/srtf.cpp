#include <algorithm>
#include <numeric>

#include "core/pool/policies/admission.h"
#include "core/pool/policies/policies.h"

namespace estrain::pool {
namespace {

class Srtf : public Policy {
 public:
  Decision decide(const View& view) override {
    std::vector<double> left;
    left.reserve(view.jobs.size());
    for (const Job* job : view.jobs) {
      const Shape gang = job->placement.empty() ? packed(view.cluster, job->type, job->requested)
                                                : shape_of(view.cluster, job->placement);
      left.push_back(job->outlook->seconds_left(gang) * static_cast<double>(job->requested) / job->weight);
    }
    std::vector<size_t> order(view.jobs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return left[i]; });
    return admit_gangs(view, order);
  }
};

}  // namespace

std::unique_ptr<Policy> make_srtf() { return std::make_unique<Srtf>(); }

}  // namespace estrain::pool
