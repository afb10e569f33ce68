"""ShuffleNetV2 (Ma et al. 2018), torchvision's. forward gives logits: the job says which loss."""

import torch
import torchvision


def build():
    """1.0x for ImageNet."""
    return torchvision.models.shufflenet_v2_x1_0(), (torch.randn(2, 3, 224, 224),)


def small():
    """0.5x for the small pictures."""
    return torchvision.models.shufflenet_v2_x0_5(num_classes=10), (torch.randn(2, 3, 64, 64),)
