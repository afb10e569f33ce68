// Checkpoints that are valid HDF5 but have wrong groups or datasets.
#include "core/state/checkpoint/state/structure.h"

#include <doctest/doctest.h>

#include "core/formats/h5/image/image.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/error_of.h"

namespace estrain::checkpoint {
namespace {

TEST_CASE("an array may have a second name beside the first, of a parameter or a buffer, and nowhere else") {
  const auto read_with = [](const char* array, const char* second_name) {
    h5::FileImage image = h5::FileImage::create({});
    h5::Group root = image.root();
    create_structure(root, small_layout(), sample_meta());
    root.link(array, second_name);
    return read_structure(root).layout.aliases.size();
  };
  const size_t ties = small_layout().aliases.size();
  CHECK(read_with("model/scale", "model/factor") == ties + 1);
  CHECK(read_with("buffers/nothing", "buffers/void") == ties + 1);
  for (const auto& [array, name] : {std::pair{"model/scale", "buffers/scale"},
                                    {"buffers/nothing", "model/nothing"},
                                    {"ests/0/loss", "ests/1/gain"},
                                    {"ests/0/loss", "model/loss"}}) {
    CAPTURE(name);
    const Error error = error_of([&, array = array, name = name] { read_with(array, name); });
    CHECK(error.fault() == Fault::mismatch);
    CHECK(error.message().find("is also an array of another kind") != std::string::npos);
  }
}

}  // namespace
}  // namespace estrain::checkpoint
