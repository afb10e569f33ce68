"""EfficientNet (Tan and Le 2019), torchvision's. forward gives logits: the job says which loss."""

import torch
import torchvision


def build():
    """B0 for ImageNet."""
    return torchvision.models.efficientnet_b0(), (torch.randn(2, 3, 224, 224),)


def small():
    """B0 on the small pictures."""
    return torchvision.models.efficientnet_b0(num_classes=10), (torch.randn(2, 3, 64, 64),)
