"""Vision Transformer (Dosovitskiy et al. 2021), torchvision's. forward gives logits: the job says which loss."""

import torch
import torchvision


def build():
    """ViT-B/16 for ImageNet."""
    return torchvision.models.vit_b_16(), (torch.randn(2, 3, 224, 224),)


def small():
    module = torchvision.models.VisionTransformer(image_size=64, patch_size=8, num_layers=2, num_heads=3,
                                                  hidden_dim=96, mlp_dim=192, dropout=0.1, num_classes=10)
    return module, (torch.randn(2, 3, 64, 64),)
