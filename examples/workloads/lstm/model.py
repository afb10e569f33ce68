"""A language model of two LSTM layers, as PyTorch's example word_language_model. forward gives its loss."""

import torch
import torch.nn.functional as F
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width, layers=2, dropout=0.2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.drop = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, targets):
        """Both [samples, length]; targets: the tokens that follow."""
        states, _ = self.lstm(self.drop(self.embed(tokens)))
        return F.cross_entropy(self.head(self.drop(states)).flatten(0, 1), targets.flatten())


def example(vocabulary, length):
    return torch.randint(0, vocabulary, (2, length)), torch.randint(0, vocabulary, (2, length))


def build():
    """For WikiText-2."""
    return LanguageModel(33278, 650, dropout=0.5), example(33278, 35)


def small():
    return LanguageModel(2000, 96), example(2000, 48)
