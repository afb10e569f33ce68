#pragma once
// The layer of each parameter, for optimizer.layer_decay, from the names of the parameters in the model's order.
//
// Without patterns, a layer is what names have in common up to their first number: `blocks.3.norm.weight` belongs to
// `blocks.3`, and `layers.encoder_layer_3.mlp.0.bias` to `layers.encoder_layer_3`. Layers are ordered by their first
// parameter. A parameter without a number belongs to the layer before it; parameters before the first layer, such as
// embeddings, form layer 0, and parameters after the last layer's first one, such as a norm and a head, form the
// topmost layer. For vision transformers this is the numbering of BEiT (get_num_layer_for_vit) and of timm.

#include <cstddef>
#include <string>
#include <vector>

namespace estrain::optim {

// Returns a number for each name; the number is higher for a layer closer to the output. With patterns, parameters that
// match the first pattern have 0, and a parameter belongs to the first pattern that it matches. Throws Fault::spec if
// no name has a number, if a name matches no pattern, or for a pattern without a parameter.
std::vector<size_t> layer_depths(const std::vector<std::string>& patterns, const std::vector<std::string>& names);

}  // namespace estrain::optim
