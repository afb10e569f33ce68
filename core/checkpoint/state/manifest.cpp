#include "core/checkpoint/state/manifest.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json/codec.h"

namespace estrain::checkpoint {

std::string Manifest::to_json() const { return codec::fields_of(*this).dump(); }

Manifest Manifest::from_json(std::string_view text) {
  const Json json = parse_json(text, "manifest of the job's shared memory");
  Manifest manifest;
  try {
    codec::from_field(json, manifest);
  } catch (const Error& error) {
    throw Error::make(Fault::corrupt, "manifest of the job's shared memory: {}", error.message());
  }
  return manifest;
}

int64_t Manifest::samples_at(Step step) const {
  return std::min(step.value % batches_per_epoch * batch, samples_per_rank);
}

}  // namespace estrain::checkpoint
