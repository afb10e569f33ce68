#include "core/state/checkpoint/state/manifest.h"

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

}  // namespace estrain::checkpoint
