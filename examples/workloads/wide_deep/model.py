"""Wide & Deep (Cheng et al. 2016): a weight for each category beside a perceptron over embeddings. forward gives its loss."""

import torch
import torch.nn.functional as F
from torch import nn


class WideDeep(nn.Module):
    """numbers: features that are numbers; fields: the categories of each other feature, in one table; width: of an embedding."""

    def __init__(self, numbers, fields, width, hidden):
        super().__init__()
        self.register_buffer("first_row", torch.tensor([0, *fields[:-1]]).cumsum(0), persistent=False)
        self.wide, self.wide_numbers = nn.Embedding(sum(fields), 1), nn.Linear(numbers, 1)
        self.embedding = nn.Embedding(sum(fields), width)
        nn.init.normal_(self.wide.weight, std=0.01)
        nn.init.normal_(self.embedding.weight, std=0.01)
        sizes = [numbers + len(fields) * width, *hidden]
        layers = [part for size in zip(sizes, sizes[1:]) for part in (nn.Linear(*size), nn.ReLU())]
        self.deep = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, numbers, kinds, label):
        """numbers: [samples, numbers]; kinds: [samples, fields], the category in each field; label: [samples], 1: clicked."""
        rows = kinds + self.first_row
        wide = self.wide(rows).squeeze(2).sum(1) + self.wide_numbers(numbers).squeeze(1)
        deep = self.deep(torch.cat([numbers, self.embedding(rows).flatten(1)], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(wide + deep, label)


def example(fields):
    return {"numbers": torch.rand(4, 13), "kinds": torch.stack([torch.randint(0, field, (4,)) for field in fields], 1),
            "label": torch.tensor([0.0, 1.0, 0.0, 1.0])}


def build():
    """For Criteo's clicks, as criteo.py writes them."""
    fields = [100_000] * 26
    return WideDeep(13, fields, width=16, hidden=(1024, 512, 256)), example(fields)


def small():
    fields = [300] * 26
    return WideDeep(13, fields, width=8, hidden=(64, 32)), example(fields)
