#pragma once
// Shared by the transforms of all image formats: mean and standard deviation of channels, centre crops.

#include <cstdint>
#include <vector>

namespace estrain::data {

// Expands a value for all channels, or takes a value per channel; uses `otherwise` without values. `key`: the key in
// [data], for messages. Throws Fault::spec for another number of values.
std::vector<float> per_channel(const std::vector<double>& values, int64_t channels, float otherwise, const char* key);
// The same for data.std, 1 if absent. Throws Fault::spec if a value is not positive.
std::vector<float> stds_per_channel(const std::vector<double>& values, int64_t channels);

// (larger - smaller) / 2, with half a pixel rounded to even, as in torchvision's CenterCrop.
int64_t centre_offset(int64_t larger, int64_t smaller);

}  // namespace estrain::data
