"""xDeepFM (Lian et al. 2018): products of embeddings, layer by layer, beside a perceptron and a weight for each category.
forward gives its loss."""

import torch
import torch.nn.functional as F
from torch import nn


class Products(nn.Module):
    """The compressed interaction network: layer k holds weighted sums of products of its input's and the first rows."""

    def __init__(self, fields, layers):
        super().__init__()
        before = [fields, *layers[:-1]]
        self.layers = nn.ModuleList(nn.Linear(rows * fields, layer, bias=False) for rows, layer in zip(before, layers))

    def forward(self, first):
        """first: [samples, fields, width]. Returns the rows of all layers, summed over the width: [samples, sum of layers]."""
        rows, sums = first, []
        for layer in self.layers:
            products = rows.unsqueeze(2) * first.unsqueeze(1)
            rows = layer(products.flatten(1, 2).transpose(1, 2)).transpose(1, 2)
            sums.append(rows.sum(2))
        return torch.cat(sums, 1)


class XDeepFM(nn.Module):
    """numbers: features that are numbers; fields: the categories of each other feature, in one table; width: of an embedding."""

    def __init__(self, numbers, fields, width, hidden, layers):
        super().__init__()
        self.register_buffer("first_row", torch.tensor([0, *fields[:-1]]).cumsum(0), persistent=False)
        self.linear, self.linear_numbers = nn.Embedding(sum(fields), 1), nn.Linear(numbers, 1)
        self.embedding = nn.Embedding(sum(fields), width)
        nn.init.normal_(self.linear.weight, std=0.01)
        nn.init.normal_(self.embedding.weight, std=0.01)
        self.products, self.predict = Products(len(fields), layers), nn.Linear(sum(layers), 1)
        sizes = [numbers + len(fields) * width, *hidden]
        steps = [part for size in zip(sizes, sizes[1:]) for part in (nn.Linear(*size), nn.ReLU())]
        self.deep = nn.Sequential(*steps, nn.Linear(sizes[-1], 1))

    def forward(self, numbers, kinds, label):
        """numbers: [samples, numbers]; kinds: [samples, fields], the category in each field; label: [samples], 1: clicked."""
        rows = kinds + self.first_row
        embedded = self.embedding(rows)
        score = self.linear(rows).squeeze(2).sum(1) + self.linear_numbers(numbers).squeeze(1)
        score = score + self.predict(self.products(embedded)).squeeze(1)
        score = score + self.deep(torch.cat([numbers, embedded.flatten(1)], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(score, label)


def example(fields):
    return {"numbers": torch.rand(4, 13), "kinds": torch.stack([torch.randint(0, field, (4,)) for field in fields], 1),
            "label": torch.tensor([0.0, 1.0, 0.0, 1.0])}


def build():
    """For Criteo's clicks, as ../wide_deep/criteo.py writes them."""
    fields = [100_000] * 26
    return XDeepFM(13, fields, width=16, hidden=(400, 400), layers=(128, 128)), example(fields)


def small():
    fields = [300] * 26
    return XDeepFM(13, fields, width=8, hidden=(64, 32), layers=(8, 8)), example(fields)
