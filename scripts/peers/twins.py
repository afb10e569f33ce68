"""The zoo's models in Python: those of examples/, and torchvision's (networks.py where that is not installed)."""

import math
import pathlib
import sys
import unittest.mock

from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import gpt  # noqa: E402
import lenet  # noqa: E402
import mlp  # noqa: E402
import networks  # noqa: E402


def twin(name, shape, classes, **options):
    """The model `name` for samples of `shape` (empty for text), in training mode, with the weights that it draws from
    torch's default generator. `options` are the keys of the spec's [model] that concern it."""
    if name == "mlp":
        return mlp.MLP(math.prod(shape), classes, **options)
    if name == "lenet":
        return lenet.LeNet(*shape, classes)
    if name == "gpt":
        return gpt.GPT(vocabulary=classes, **options)
    return torchvision_model(name, shape[0], classes, **options)


def torchvision_model(name, channels, classes, **options):
    """torchvision's model, built with a first convolution for `channels`, so that all draws fit."""
    try:
        import torchvision  # takes a second, which small jobs do without
    except ImportError:
        return networks.build(name, channels, classes, **options)

    class Conv2d(nn.Conv2d):
        def __init__(self, inputs, *args, **kwargs):
            super().__init__(channels if inputs == 3 else inputs, *args, **kwargs)

    with unittest.mock.patch.object(nn, "Conv2d", Conv2d):
        return getattr(torchvision.models, name)(weights=None, num_classes=classes, **options)
