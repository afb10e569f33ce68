#include "core/engine/train/job/samples.h"

#include "core/base/error.h"
#include "core/data/sampling/weighted_draws.h"

namespace estrain::train {
namespace {

std::optional<data::Mixing> mixing_of(const spec::JobSpec& spec, const data::Dataset& train) {
  if (spec.data.mixup == 0 && spec.data.cutmix == 0) return std::nullopt;
  const data::SampleShape& shape = train.shape();
  const int64_t classes = spec.model.classes.value_or(train.classes());
  if (shape.kind != data::SampleShape::Kind::image || classes < 1)
    throw Error(Fault::spec, "data.mixup and data.cutmix are for images with a class each, and these samples are not")
        .advise("remove the keys, or mix the samples in the model");
  return data::Mixing({.mixup = spec.data.mixup,
                       .cutmix = spec.data.cutmix,
                       .seed = static_cast<uint64_t>(spec.job.seed),
                       .height = shape.height,
                       .width = shape.width,
                       .classes = classes});
}

std::vector<int64_t> labels_of(const data::Dataset& train) {
  std::vector<int64_t> labels = train.labels();
  if (!labels.empty()) return labels;
  throw Error(Fault::spec, "data.sampler: the classes of the samples are not known without reading them")
      .advise(
          "use data.sampler = \"weighted\" with a weight for each sample: 1 / count of its class draws all classes "
          "equally often");
}

std::vector<int64_t> lengths_of(const data::Dataset& train) {
  std::vector<int64_t> lengths;
  lengths.reserve(static_cast<size_t>(train.size()));
  for (int64_t i = 0; i < train.size(); ++i) lengths.push_back(train.length(i));
  return lengths;
}

data::EpochSampler::Options sampler_options(const spec::JobSpec& spec, const data::DataPair& data) {
  data::EpochSampler::Options options{data.train->size(),  spec.job.ests,       spec.data.batch,
                                      spec.data.shuffle,   spec.data.drop_last, static_cast<uint64_t>(spec.job.seed),
                                      spec.elastic.changes};
  switch (spec.data.sampler) {
    case spec::Sampler::all:
      break;
    case spec::Sampler::weighted:
      options.weights = data.weights;
      break;
    case spec::Sampler::balanced:
      options.weights = data::balancing_weights(labels_of(*data.train));
      break;
    case spec::Sampler::per_class:
      options.labels = labels_of(*data.train);
      options.per_class = spec.data.per_class;
      break;
  }
  if (spec.data.bucket > 0) {
    options.bucket = spec.data.bucket;
    options.lengths = lengths_of(*data.train);
  }
  return options;
}

}  // namespace

JobSamples::JobSamples(const spec::JobSpec& spec, const data::DataPair& data)
    : data_(data),
      seed_(static_cast<uint64_t>(spec.job.seed)),
      sampler_(sampler_options(spec, data)),
      mixing_(mixing_of(spec, *data.train)) {}

int64_t JobSamples::classes(const spec::ModelSection& model) const {
  const int64_t classes = model.classes.value_or(train().classes());
  if (classes > 0) return classes;
  throw Error(Fault::spec, "model.classes is missing, and the Dataset of data.file does not tell its classes")
      .advise("give model.classes, or an attribute `classes` of the Dataset: a number, or a list of names");
}

data::Loader JobSamples::loader_of_step(Step step, EstRange ests) const {
  return loader(step, ests, /*pads_to_longest=*/false);
}

data::Loader JobSamples::loader(Step step, EstRange ests, bool pads_to_longest) const {
  data::LoaderOptions options;
  options.pads_to_longest = pads_to_longest;
  options.prefetch = 1;
  options.seed = seed_;
  options.mixing = mixing_;
  options.steps = 1;
  return data::Loader(train(), sampler_, ests, step, options);
}

data::LoadedBatch JobSamples::first_batch() const {
  return loader(Step(0), {VirtualRank(0), VirtualRank(1)}, /*pads_to_longest=*/true).next();
}

}  // namespace estrain::train
