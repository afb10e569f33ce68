#pragma once
// A decoder-only transformer: learned token and position embeddings, pre-norm blocks of causal attention and a GELU
// (tanh form) perceptron four times as wide, a final layer norm, and a projection to the vocabulary without bias. The
// projection may share the token embedding. Dropout: after the embeddings and both halves of a block, and in attention.
//
// Initialisation as in GPT-2: weights N(0, 0.02), but weights to the residual stream (attention.proj, mlp.proj) N(0,
// 0.02 / sqrt(2 * layers)); biases 0; norms 1 and 0. Twin: examples/gpt.py, with equal bits in loss, gradients and
// masks.

#include <memory>

#include "core/engine/model/layers/layers.h"
#include "core/engine/model/zoo/classifier.h"

namespace estrain::model {

struct GptOptions {
  int64_t vocabulary;
  int64_t context;  // longest sequence, in tokens
  int64_t layers;
  int64_t heads;
  int64_t width;  // a multiple of heads
  double dropout = 0.1;
  bool tied = true;  // head.weight is token.weight
};

class Gpt : public Classifier {
 public:
  Gpt(Initializer& init, const GptOptions& options, double label_smoothing);

 private:
  torch::Tensor embed(const torch::Tensor& tokens) const;

  double dropout_;
  std::shared_ptr<Embedding> token_, position_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace estrain::model
