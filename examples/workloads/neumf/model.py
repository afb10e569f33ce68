"""NeuMF (He et al. 2017): a product of factors and a perceptron over others, joined. forward gives its loss."""

import torch
import torch.nn.functional as F
from torch import nn


class NeuMF(nn.Module):
    """factors: predictive ones; a layer of the perceptron is half as wide as the one before it."""

    def __init__(self, users, items, factors=8, layers=3, dropout=0.0):
        super().__init__()
        width = factors << layers - 1
        self.user_factors, self.item_factors = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.user_features, self.item_features = nn.Embedding(users, width), nn.Embedding(items, width)
        steps = []
        for i in range(layers):
            steps += [nn.Dropout(dropout), nn.Linear(2 * width >> i, width >> i), nn.ReLU()]
        self.perceptron = nn.Sequential(*steps)
        self.predict = nn.Linear(2 * factors, 1)
        for part in self.modules():
            if isinstance(part, nn.Embedding):
                nn.init.normal_(part.weight, std=0.01)

    def forward(self, user, item, label):
        """user, item: [samples], their numbers; label: [samples], 1 where the user chose the item."""
        product = self.user_factors(user) * self.item_factors(item)
        features = torch.cat([self.user_features(user), self.item_features(item)], 1)
        score = self.predict(torch.cat([product, self.perceptron(features)], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(score, label)


def example(users, items):
    return {"user": torch.randint(0, users, (4,)), "item": torch.randint(0, items, (4,)),
            "label": torch.tensor([0.0, 1.0, 0.0, 1.0])}


def build():
    """For MovieLens 1M."""
    return NeuMF(6040, 3706, factors=64), example(6040, 3706)


def small():
    return NeuMF(200, 120, factors=8, dropout=0.1), example(200, 120)
