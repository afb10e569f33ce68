#include "core/engine/train/job/samples.h"

namespace estrain::train {

JobSamples::JobSamples(const spec::JobSpec& spec, const data::DataPair& data)
    : data_(data),
      seed_(static_cast<uint64_t>(spec.job.seed)),
      sampler_(data::Sampler::Options{data.train->size(), spec.job.ests, spec.data.batch, spec.data.shuffle,
                                      spec.data.drop_last, seed_, spec.elastic.changes}) {}

data::Loader JobSamples::loader_of_step(Step step, EstRange ests) const {
  data::LoaderOptions options;
  options.prefetch = 1;
  options.seed = seed_;
  options.steps = 1;
  return data::Loader(train(), sampler_, ests, step, options);
}

data::LoadedBatch JobSamples::first_batch() const {
  return loader_of_step(Step(0), {VirtualRank(0), VirtualRank(1)}).next();
}

}  // namespace estrain::train
