#pragma once
// Opens data sets and reads their samples, for the tests of the formats.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/data/formats/dataset.h"
#include "tests/core/data/data_files.h"
#include "tests/error_of.h"

namespace estrain::data {

struct ImageSample {
  std::vector<float> input;
  int64_t target = -1;
};

inline ImageSample read_image(const Dataset& dataset, int64_t index) {
  ImageSample sample;
  sample.input.resize(static_cast<size_t>(dataset.shape().elements()));
  dataset.read(index, SampleDraw::fixed(), reinterpret_cast<std::byte*>(sample.input.data()), &sample.target);
  return sample;
}

inline std::vector<float> over_255(const std::string& pixels) {
  std::vector<float> result;
  for (char pixel : pixels) result.push_back(static_cast<float>(static_cast<uint8_t>(pixel)) / 255.0f);
  return result;
}

inline Error refusal(const spec::DataSection& section, std::optional<int64_t> classes = std::nullopt) {
  return error_of([&] { open(section, 4, 0, classes); });
}

}  // namespace estrain::data
