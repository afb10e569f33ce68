"""GPT-2 (Radford et al. 2019), Hugging Face's. forward gives its loss."""

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel


class LanguageModel(GPT2LMHeadModel):
    """Takes tokens and those that follow them, as the data give them; parameters have transformers' names."""

    def forward(self, tokens, targets):
        logits = super().forward(input_ids=tokens, use_cache=False, return_dict=False)[0]
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def example(vocabulary, length):
    return torch.randint(0, vocabulary, (2, length)), torch.randint(0, vocabulary, (2, length))


def build():
    """GPT-2 of 124 million parameters."""
    return LanguageModel(GPT2Config()), example(50257, 1024)


def small():
    config = GPT2Config(vocab_size=2000, n_positions=48, n_embd=96, n_layer=2, n_head=3)
    return LanguageModel(config), example(2000, 48)
