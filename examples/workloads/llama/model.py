"""Llama (Touvron et al. 2023), Hugging Face's: rotary positions, RMSNorm, SwiGLU, grouped keys. forward gives its loss."""

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM


class LanguageModel(LlamaForCausalLM):
    """Takes tokens and those that follow them, as the data give them; parameters have transformers' names."""

    def forward(self, tokens, targets):
        logits = super().forward(input_ids=tokens, use_cache=False, return_dict=False)[0]
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def example(vocabulary, length):
    return torch.randint(0, vocabulary, (2, length)), torch.randint(0, vocabulary, (2, length))


# With its attention "sdpa", transformers takes another path while a model is exported than while it trains.
EAGER = {"attn_implementation": "eager"}


def build():
    """The width and depth of TinyLlama, 1.1 billion parameters."""
    config = LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                         num_key_value_heads=4, **EAGER)
    return LanguageModel(config), example(32000, 1024)


def small():
    config = LlamaConfig(vocab_size=2000, hidden_size=96, intermediate_size=256, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=48, **EAGER)
    return LanguageModel(config), example(2000, 48)
