#include "core/engine/model/zoo/gpt.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>

namespace estrain::model {
namespace {

class Attention : public torch::nn::Module {
 public:
  Attention(Initializer& init, const GptOptions& options) : heads_(options.heads), dropout_(options.dropout) {
    qkv_ = register_module("qkv", std::make_shared<Linear>(init, options.width, 3 * options.width));
    proj_ = register_module("proj", std::make_shared<Linear>(init, options.width, options.width));
  }

  torch::Tensor forward(const torch::Tensor& x) const {
    const std::vector<torch::Tensor> parts = qkv_->forward(x).split(x.size(2), 2);
    const torch::Tensor y = at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]),
                                                             /*attn_mask=*/{}, is_training() ? dropout_ : 0.0,
                                                             /*is_causal=*/true);
    return at::dropout(proj_->forward(y.transpose(1, 2).flatten(2)), dropout_, is_training());
  }

 private:
  // Turns [n, tokens, width] into [n, heads, tokens, width / heads].
  torch::Tensor by_head(const torch::Tensor& x) const {
    return x.view({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  }

  int64_t heads_;
  double dropout_;
  std::shared_ptr<Linear> qkv_, proj_;
};

class Perceptron : public torch::nn::Module {
 public:
  Perceptron(Initializer& init, const GptOptions& options) : dropout_(options.dropout) {
    fc_ = register_module("fc", std::make_shared<Linear>(init, options.width, 4 * options.width));
    proj_ = register_module("proj", std::make_shared<Linear>(init, 4 * options.width, options.width));
  }

  torch::Tensor forward(const torch::Tensor& x) const {
    return at::dropout(proj_->forward(at::gelu(fc_->forward(x), "tanh")), dropout_, is_training());
  }

 private:
  double dropout_;
  std::shared_ptr<Linear> fc_, proj_;
};

class TransformerBlock : public torch::nn::Module {
 public:
  TransformerBlock(Initializer& init, const GptOptions& options) {
    norm1_ = register_module("norm1", std::make_shared<LayerNorm>(init, options.width));
    attention_ = register_module("attention", std::make_shared<Attention>(init, options));
    norm2_ = register_module("norm2", std::make_shared<LayerNorm>(init, options.width));
    mlp_ = register_module("mlp", std::make_shared<Perceptron>(init, options));
  }

  torch::Tensor forward(const torch::Tensor& x) const {
    const torch::Tensor attended = x + attention_->forward(norm1_->forward(x));
    return attended + mlp_->forward(norm2_->forward(attended));
  }

 private:
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Perceptron> mlp_;
};

bool writes_to_residual_stream(const std::string& name) { return name.ends_with("proj.weight"); }

// GPT-2's initialisation of all parameters, in the order of the names; a tied head occurs once.
void reinitialize(Initializer& init, const torch::nn::Module& model, int64_t layers) {
  for (const auto& [name, parameter] : named_tensors(model).parameters) {
    if (parameter.dim() == 2) {
      const double scale = writes_to_residual_stream(name) ? std::sqrt(2.0 * static_cast<double>(layers)) : 1;
      init.normal(parameter, 0.02 / scale);
    } else if (name.ends_with("bias")) {
      init.fill(parameter, 0);
    }
  }
}

}  // namespace

Gpt::Gpt(Initializer& init, const GptOptions& options, double label_smoothing)
    : Classifier(label_smoothing), dropout_(options.dropout) {
  token_ = register_module("token", std::make_shared<Embedding>(init, options.vocabulary, options.width));
  position_ = register_module("position", std::make_shared<Embedding>(init, options.context, options.width));
  add_block("embedding", [this](const torch::Tensor& tokens) { return embed(tokens); });

  const auto layers = register_module("blocks", std::make_shared<torch::nn::Module>("blocks"));
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string name = std::to_string(i);
    const auto block = layers->register_module(name, std::make_shared<TransformerBlock>(init, options));
    add_block("blocks." + name, [block](const torch::Tensor& x) { return block->forward(x); });
  }

  norm_ = register_module("norm", std::make_shared<LayerNorm>(init, options.width));
  head_ = register_module(
      "head", options.tied ? std::make_shared<Linear>(init, token_->weight)
                           : std::make_shared<Linear>(init, options.width, options.vocabulary, Linear::Bias::without));
  add_block("head", [this](const torch::Tensor& x) { return head_->forward(norm_->forward(x)); });
  reinitialize(init, *this, options.layers);
}

torch::Tensor Gpt::embed(const torch::Tensor& tokens) const {
  const torch::Tensor positions = position_->weight.slice(0, 0, tokens.size(1));
  return at::dropout(token_->forward(tokens) + positions, dropout_, is_training());
}

}  // namespace estrain::model
