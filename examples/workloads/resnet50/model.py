"""ResNet-50 (He et al. 2016), torchvision's. forward gives logits: the job says which loss."""

import torch
import torchvision


def build():
    return torchvision.models.resnet50(), (torch.randn(2, 3, 224, 224),)


def small():
    """ResNet-50 in full width and depth, on the small pictures."""
    return torchvision.models.resnet50(num_classes=10), (torch.randn(2, 3, 64, 64),)
