#include "core/data/reading/evaluation_reader.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace estrain::data {
namespace {

class EvaluationPlan : public BatchPlan {
 public:
  EvaluationPlan(int64_t samples, const EvaluationOptions& options)
      : samples_(samples),
        batch_(std::min(options.batch, std::max<int64_t>(1, samples))),
        stride_(options.stride),
        number_(options.first) {
    if (batch_ < 1 || stride_ < 1 || number_ < 0)
      throw Error::make(Fault::bug, "evaluation: batch {}, first {}, stride {}", options.batch, number_, stride_);
  }

  std::optional<BatchRequest> following() override {
    const int64_t first = number_ * batch_;
    if (first >= samples_) return std::nullopt;
    const BatchRequest request{VirtualRank(), Cursor(), number_, std::min(batch_, samples_ - first)};
    number_ += stride_;
    return request;
  }

  void indices(const BatchRequest& request, int64_t first, std::span<int64_t> out) const override {
    std::iota(out.begin(), out.end(), request.number * batch_ + first);
  }

  SampleDraw draw(const BatchRequest&, int64_t, int64_t) const override { return SampleDraw::fixed(); }

 private:
  int64_t samples_, batch_, stride_, number_;
};

}  // namespace

EvaluationReader::EvaluationReader(const Dataset& test, const EvaluationOptions& options)
    : reader_(test, std::make_unique<EvaluationPlan>(test.size(), options),
              {.readers = options.readers,
               .prefetch = options.prefetch,
               .batch = std::min(options.batch, test.size()),
               .memory = options.memory,
               .pads_to_longest = options.pads_to_longest}) {}

}  // namespace estrain::data
