"""torchvision's ResNets and VGGs, for a Python without torchvision: the same names, draws and arithmetic."""

import torch
import torch.nn.functional as F
from torch import nn

RESNETS = {"resnet18": (1, [2, 2, 2, 2]), "resnet34": (1, [3, 4, 6, 3]), "resnet50": (4, [3, 4, 6, 3])}
VGGS = {
    "vgg11": [64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0],  # 0: pooling
    "vgg19": [64, 64, 0, 128, 128, 0, *4 * [256], 0, *4 * [512], 0, *4 * [512], 0],
}


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """torchvision's BasicBlock, or its Bottleneck where `widening` is 4."""

    def __init__(self, inputs, width, stride, widening):
        super().__init__()
        outputs = width * widening
        plan = [(inputs, width, 3, stride), (width, width, 3, 1)]
        if widening > 1:
            plan = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        self.depth = len(plan)
        for i, (a, b, kernel, step) in enumerate(plan, 1):
            setattr(self, f"conv{i}", convolution(a, b, kernel, step))
            setattr(self, f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i in range(1, self.depth + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.depth:
                y = F.relu(y, inplace=True)
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    def __init__(self, widening, depths, channels, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        inputs = 64
        for stage, depth in enumerate(depths):
            width, blocks = 64 << stage, []
            for i in range(depth):
                blocks.append(Block(inputs, width, 2 if stage > 0 and i == 0 else 1, widening))
                inputs = width * widening
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class VGG(nn.Module):
    def __init__(self, plan, channels, classes, dropout):
        super().__init__()
        layers = []
        for width in plan:
            if width:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(dropout),
            nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(dropout), nn.Linear(4096, classes),
        )  # fmt: skip
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def build(name, channels, classes, dropout=0.5):
    if name in RESNETS:
        return ResNet(*RESNETS[name], channels, classes)
    return VGG(VGGS[name], channels, classes, dropout)
