#pragma once
// What the transforms of all image formats share: means and standard deviations by channel, the place of a centre crop.

#include <cstdint>
#include <vector>

namespace estrain::data {

// One value for every channel, or one per channel; `otherwise` where there is none. `key`: of [data], for messages.
// Throws Fault::spec where their number is another.
std::vector<float> per_channel(const std::vector<double>& values, int64_t channels, float otherwise, const char* key);
// The same for data.std, 1 where there is none. Throws Fault::spec where one is not positive.
std::vector<float> stds_per_channel(const std::vector<double>& values, int64_t channels);

// (larger - smaller) / 2, half a pixel rounded to even, as torchvision's CenterCrop.
int64_t centre_offset(int64_t larger, int64_t smaller);

}  // namespace estrain::data
