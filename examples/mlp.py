"""The model "mlp": a multi-layer perceptron with ReLU.

Parameter names, initialisation and arithmetic are those of core/engine/model/zoo/sequential.h, bit for bit.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self, features, classes=10, hidden=(128,), dropout=0.0):
        super().__init__()
        widths = [features, *hidden, classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = self.dropout(F.relu(layer(x)))
        return self.layers[-1](x)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = MLP(features=28 * 28)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(32, 1, 28, 28), torch.randint(10, (32,))
    for step in range(1, 11):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
