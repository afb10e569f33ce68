#pragma once
// Tells where the blocks of a model's forward pass begin. A block takes one activation from the block before; all else
// is parameters, constants and the mini-batch. So the blocks can be timed one by one, or computed in different places.

#include <torch/types.h>

#include <functional>
#include <string_view>

namespace estrain::model {

// Called when a block begins. `activation`: what the block before hands on; undefined: the first block begins. Returns
// the tensor with which the block begins: `activation`, or another tensor of the same values.
using BlockBegins = std::function<torch::Tensor(std::string_view block, const torch::Tensor& activation)>;

class BlockWatch {
 public:
  // During the object's lifetime, the training passes of this thread call `begins`. One object of a thread at a time.
  explicit BlockWatch(BlockBegins begins);
  ~BlockWatch();
  BlockWatch(const BlockWatch&) = delete;
  BlockWatch& operator=(const BlockWatch&) = delete;

 private:
  const BlockBegins begins_;
};

// For models. Without a watch, begin_block() returns `activation`.
bool blocks_are_watched();
torch::Tensor begin_block(std::string_view block, const torch::Tensor& activation);

}  // namespace estrain::model
