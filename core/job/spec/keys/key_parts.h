#pragma once
// The lists from which the table of keys is made (keys.h), and their common parts.

#include <cstdint>
#include <string>
#include <vector>

#include "core/job/spec/keys/keys.h"

namespace estrain::spec {

std::vector<SpecKey<JobSpec>> job_and_model_keys();
std::vector<SpecKey<JobSpec>> data_keys();
std::vector<SpecKey<JobSpec>> optimizer_and_schedule_keys();
std::vector<SpecKey<JobSpec>> run_keys();

// A key's name is made from the path of its field: name and field cannot disagree.
#define ESTRAIN_KEY(field) \
  make_key<JobSpec>(       \
      #field, [](auto& spec) -> auto& { return spec.field; })

using Words = std::vector<std::string>;

inline const Words users_models = {"program", "python"};
inline const Words following_evaluations = {"plateau"};

// Larger than any use, and small enough to keep products from overflowing.
inline constexpr int64_t kMostUnits = 1'000'000;        // of a layer, a side of an image
inline constexpr int64_t kMostSamples = 1'000'000'000;  // of a data set, a batch
inline constexpr int64_t kMostSteps = 1'000'000'000'000;

}  // namespace estrain::spec
