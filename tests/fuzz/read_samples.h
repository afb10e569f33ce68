#pragma once
// Reads samples from an opened data set, as a worker's readers do.

#include <algorithm>
#include <vector>

#include "core/data/formats/dataset.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {

// Reads samples of several arrays.
inline void read_fields(const data::Dataset& samples) {
  std::vector<std::vector<int64_t>> memory;
  std::vector<std::byte*> out;
  const data::SampleShape shape = samples.shape();
  for (const data::SampleShape::Field& part : shape.parts) {
    memory.emplace_back((part.bytes() + 7) / 8);
    out.push_back(reinterpret_cast<std::byte*>(memory.back().data()));
  }
  for (const int64_t index : {INT64_C(0), samples.size() / 2, samples.size() - 1})
    samples.read_fields(index, data::SampleDraw(1, Epoch(0), index), out);
}

// Reads the first, the last and a middle sample, into buffers of exactly the size announced by the data set.
inline void read_samples(const data::Dataset& samples) {
  constexpr size_t most_bytes = 16 << 20;
  const data::SampleShape shape = samples.shape();
  require(samples.size() >= 0, "a size is not negative");
  if (samples.size() == 0 || shape.input_bytes() > most_bytes) return;
  if (shape.kind == data::SampleShape::Kind::fields) return read_fields(samples);
  std::vector<int64_t> input((shape.input_bytes() + 7) / 8);
  std::vector<int64_t> targets(static_cast<size_t>(shape.targets()));
  for (const int64_t index : {INT64_C(0), samples.size() / 2, samples.size() - 1}) {
    samples.read(index, data::SampleDraw(1, Epoch(0), index), reinterpret_cast<std::byte*>(input.data()),
                 targets.data());
    for (const int64_t target : targets) require(target >= 0 && target < samples.classes(), "a target is a class");
  }
}

inline void read_samples(const data::DataPair& data) {
  read_samples(*data.train);
  if (data.test) read_samples(*data.test);
}

}  // namespace estrain::fuzz
