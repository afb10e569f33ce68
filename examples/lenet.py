"""The model "lenet": LeNet-5 with max pooling and ReLU, for images of 16 x 16 pixels or more.

Parameter names, initialisation and arithmetic are those of core/engine/model/zoo/sequential.h, bit for bit.
"""

import torch
import torch.nn.functional as F
from torch import nn


def pixels_left(pixels):
    """Pixels left of `pixels` after both convolutions and poolings."""
    return ((pixels - 4) // 2 - 4) // 2


class LeNet(nn.Module):
    def __init__(self, channels=1, height=28, width=28, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, kernel_size=5)
        self.conv2 = nn.Conv2d(6, 16, kernel_size=5)
        self.fc1 = nn.Linear(16 * pixels_left(height) * pixels_left(width), 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = LeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images, labels = torch.randn(32, 1, 28, 28), torch.randint(10, (32,))
    for step in range(1, 11):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
