#pragma once
// The samples of a job, and their order in the training.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/data/formats/dataset.h"
#include "core/data/reading/loader.h"
#include "core/data/sampling/sampler.h"
#include "core/job/spec/job_spec.h"

namespace estrain::train {

class JobSamples {
 public:
  // `data` must outlive the Samples. Throws as data::EpochSampler, Fault::spec where samples that are no images with a
  // class are to be mixed, and Fault::spec where data.sampler needs the classes of the samples, and the data do not
  // tell the classes.
  JobSamples(const spec::JobSpec& spec, const data::DataPair& data);

  const data::DataPair& data() const { return data_; }
  const data::Dataset& train() const { return *data_.train; }
  const data::Dataset& test() const { return *data_.test; }
  const data::EpochSampler& sampler() const { return sampler_; }
  void change_batches(std::vector<batches::BatchChange> changes) { sampler_.change_batches(std::move(changes)); }
  // The model's number of classes, by default the data set's. Throws Fault::spec if neither is known.
  int64_t classes(const spec::ModelSection& model) const;
  // How training mini-batches are mixed; nothing if they are not.
  const std::optional<data::Mixing>& mixing() const { return mixing_; }
  bool are_of_tokens() const { return train().shape().kind == data::SampleShape::Kind::tokens; }

  int64_t evaluated() const { return data_.test ? data_.test->size() : 0; }  // in each evaluation

  // Reads the mini-batches of `ests` in the step after `step`, and no later mini-batches.
  data::Loader loader_of_step(Step step, EstRange ests) const;
  // Returns the first mini-batch of virtual rank 0, for trials. Ragged arrays are padded to the longest sample of the
  // data: no mini-batch needs more memory.
  data::LoadedBatch first_batch() const;

 private:
  data::Loader loader(Step step, EstRange ests, bool pads_to_longest) const;

  const data::DataPair& data_;
  const uint64_t seed_;
  data::EpochSampler sampler_;
  const std::optional<data::Mixing> mixing_;
};

}  // namespace estrain::train
