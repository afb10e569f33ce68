#include "core/engine/train/job/samples.h"

#include "core/base/error.h"

namespace estrain::train {

JobSamples::JobSamples(const spec::JobSpec& spec, const data::DataPair& data)
    : data_(data),
      seed_(static_cast<uint64_t>(spec.job.seed)),
      sampler_(data::Sampler::Options{data.train->size(), spec.job.ests, spec.data.batch, spec.data.shuffle,
                                      spec.data.drop_last, seed_, spec.elastic.changes}) {}

int64_t JobSamples::classes(const spec::ModelSection& model) const {
  const int64_t classes = model.classes.value_or(train().classes());
  if (classes > 0) return classes;
  throw Error(Fault::spec, "model.classes is missing, and the Dataset of data.file does not tell its classes")
      .advise("give model.classes, or an attribute `classes` of the Dataset: a number, or a list of names");
}

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
