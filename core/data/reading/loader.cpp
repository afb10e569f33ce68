#include "core/data/reading/loader.h"

#include <limits>

#include "core/base/error.h"

namespace estrain::data {
namespace {

class TrainingPlan : public BatchPlan {
 public:
  TrainingPlan(const EpochSampler& sampler, EstRange ests, Step start, const LoaderOptions& options)
      : sampler_(sampler), ests_(ests), seed_(options.seed), mixing_(options.mixing), step_(start), rank_(ests.begin) {
    if (ests.size() < 1 || ests.begin.value < 0 || ests.end.value > sampler.ests())
      throw Error::make(Fault::bug, "loader: ESTs {} to {} of {}", ests.begin, ests.end, sampler.ests());
    steps_left_ = options.steps.value_or(std::numeric_limits<int64_t>::max());
  }

  std::optional<BatchRequest> following() override {
    if (steps_left_ <= 0) return std::nullopt;
    const batches::BatchSchedule& schedule = sampler_.schedule();
    BatchRequest request{rank_, schedule.cursor_at(step_), number_++, schedule.batch_size(step_)};
    if (mixing_) request.mix = mixing_->of(request.cursor, rank_);
    if (++rank_ == ests_.end) {
      rank_ = ests_.begin;
      ++step_;
      --steps_left_;
    }
    return request;
  }

  void indices(const BatchRequest& request, int64_t first, std::span<int64_t> out) const override {
    sampler_.indices(request.cursor, request.rank, first, out);
  }

  SampleDraw draw(const BatchRequest& request, int64_t index, int64_t place) const override {
    const int64_t repeat = sampler_.draws_again() ? 1 + sampler_.place_of(request.cursor, request.rank, place) : 0;
    return SampleDraw(seed_, request.cursor.epoch, index, repeat);
  }

 private:
  const EpochSampler& sampler_;
  EstRange ests_;
  uint64_t seed_;
  std::optional<Mixing> mixing_;
  Step step_;
  VirtualRank rank_;
  int64_t number_ = 0;
  int64_t steps_left_;
};

}  // namespace

Loader::Loader(const Dataset& dataset, const EpochSampler& sampler, EstRange ests, Step start,
               const LoaderOptions& options)
    : reader_(dataset, std::make_unique<TrainingPlan>(sampler, ests, start, options),
              {options.readers, options.prefetch, sampler.batch(), options.most_readers, options.most_prefetch,
               options.memory, options.pads_to_longest}) {}

LoadedBatch Loader::next() {
  std::optional<LoadedBatch> batch = reader_.next();
  if (!batch) throw Error(Fault::bug, "loader: asked for a mini-batch beyond the last step");
  return std::move(*batch);
}

}  // namespace estrain::data
