"""VGG-19 (Simonyan and Zisserman 2015), torchvision's. forward gives logits: the job says which loss."""

import torch
import torchvision
from torch import nn


def build():
    return torchvision.models.vgg19(), (torch.randn(2, 3, 224, 224),)


def small():
    """Its convolutions whole; the classifier, which has 120 of 140 million parameters, is narrow."""
    module = torchvision.models.vgg19(num_classes=10)
    module.avgpool = nn.AdaptiveAvgPool2d(1)
    module.classifier = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, 256), nn.ReLU(),
                                      nn.Dropout(), nn.Linear(256, 10))
    return module, (torch.randn(2, 3, 64, 64),)
