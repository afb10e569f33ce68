"""Swin Transformer (Liu et al. 2021), torchvision's. forward gives logits: the job says which loss."""

import torch
import torchvision


def build():
    """Swin-T for ImageNet."""
    return torchvision.models.swin_t(), (torch.randn(2, 3, 224, 224),)


def small():
    """Two stages, shifted windows in both."""
    module = torchvision.models.SwinTransformer(patch_size=[4, 4], embed_dim=48, depths=[2, 2], num_heads=[2, 4],
                                                window_size=[4, 4], stochastic_depth_prob=0.1, num_classes=10)
    return module, (torch.randn(2, 3, 64, 64),)
