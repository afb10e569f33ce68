#include "core/engine/optim/layer_depths.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

using namespace estrain;
using namespace estrain::optim;

namespace {

using Names = std::vector<std::string>;
using Depths = std::vector<size_t>;

std::string complaint(const Names& patterns, const Names& names) {
  try {
    layer_depths(patterns, names);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::spec);
    CHECK(error.advice() != "");
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("a vision transformer has the layers of BEiT and timm") {
  CHECK(layer_depths({}, {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight",
                          "blocks.0.mlp.fc1.weight", "blocks.1.attn.qkv.bias", "blocks.10.attn.qkv.bias", "norm.weight",
                          "head.weight"}) == Depths{0, 0, 0, 1, 1, 2, 3, 4, 4});
}

TEST_CASE("the first number of a name counts, also at the end of a word with an underscore") {
  CHECK(layer_depths({}, {"class_token", "encoder.layers.encoder_layer_0.mlp.0.weight",
                          "encoder.layers.encoder_layer_0.mlp.3.weight", "encoder.layers.encoder_layer_1.mlp.0.weight",
                          "encoder.ln.weight", "heads.head.weight"}) == Depths{0, 1, 1, 2, 3, 3});
  CHECK(layer_depths({}, {"conv1.weight", "layer1.0.conv1.weight", "layer1.1.conv1.weight", "layer2.0.conv1.weight",
                          "fc.weight"}) == Depths{0, 1, 2, 3, 4});
}

TEST_CASE("a parameter between two stacks belongs to the layer before it") {
  CHECK(layer_depths({}, {"embed", "encoder.0.w", "encoder.1.w", "encoder.norm", "decoder.0.w", "head"}) ==
        Depths{0, 1, 2, 2, 3, 4});
}

TEST_CASE("without parameters after the last layer, the last layer is the topmost") {
  CHECK(layer_depths({}, {"0.weight", "0.bias", "2.weight"}) == Depths{1, 1, 2});
}

TEST_CASE("patterns name the layers from the input on") {
  CHECK(layer_depths({"stem.*", "b[0-3].*", "*"}, {"head", "b3.x", "stem.0", "b4.x"}) == Depths{2, 1, 0, 2});
}

TEST_CASE("layers that cannot be found are refused, with the names") {
  CHECK(complaint({}, {"conv.weight", "fc.weight"}) ==
        "optimizer.layer_decay: no name of a parameter has the number of a layer, as in blocks.3.weight; the names are "
        "conv.weight, fc.weight");
  CHECK(complaint({}, {"a", "b", "c", "d2"}) ==
        "optimizer.layer_decay: no name of a parameter has the number of a layer, as in blocks.3.weight; the names are "
        "a, b, c, ...");
  CHECK(complaint({"a*"}, {"ab", "b"}) == "optimizer.layers: no pattern matches the parameter b");
  CHECK(complaint({"*", "b"}, {"a", "b"}) == "optimizer.layers: \"b\" is the first match of no parameter");
}
