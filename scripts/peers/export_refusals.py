#!/usr/bin/env python3
"""examples/export refuses by name what an export would lose in silence, and writes nothing."""

import pathlib
import random
import sys
import tempfile
import types

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "export"))
import export  # noqa: E402


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def middle(self, x):
        return x

    def forward(self, x, y):
        return F.cross_entropy(self.b(self.middle(F.relu(self.a(x)))), y)


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 8) / 8

    @staticmethod
    def backward(ctx, g):
        return g


class Rounded(Base):
    def middle(self, x):
        return StraightThrough.apply(x)


class PythonsRandom(Base):
    def middle(self, x):
        return x * (1 + random.random())


class OtherwiseExported(Base):
    """Exported like models of transformers with their attention "sdpa"."""

    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(_attn_implementation="sdpa")

    def middle(self, x):
        return x * 2 if torch.compiler.is_exporting() else x


def gradient_hook():
    module = Base()
    module.a.weight.register_hook(lambda gradient: gradient * 2)
    return module


def later_hook():
    module = Base()
    module.b.bias.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.mul_(2))
    return module


def module_hook():
    module = Base()
    module.b.register_full_backward_hook(lambda part, given, gradients: (given[0] * 1.5,))
    return module


REFUSED = {"gradient hook": (gradient_hook, "parameter a.weight has gradient hooks"),
           "hook after accumulation": (later_hook, "parameter b.bias has gradient hooks"),
           "backward hook of a module": (module_hook, "module b has backward hooks"),
           "a backward of its own": (Rounded, "StraightThrough has a backward of its own"),
           "another path while it is exported": (OtherwiseExported, 'build the model with attn_implementation="eager"'),
           "Python's random": (PythonsRandom, "Python's or numpy's random numbers")}


def batch(samples=4):
    return torch.randn(samples, 6), torch.randint(0, 3, (samples,))


def refusal(module, example, path):
    try:
        export.export(module, example, path)
    except export.NotExportable as error:
        return str(error)
    return None


def main():
    torch.manual_seed(1)
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name, (build, words) in REFUSED.items():
            said = refusal(build(), batch(), folder / "net.pt2")
            if said is None or words not in said:
                failures.append(f"{name}: {said}")
        if "two or more samples" not in (refusal(Base(), batch(1), folder / "net.pt2") or ""):
            failures.append("a mini-batch of one sample was taken")
        if list(folder.iterdir()):
            failures.append(f"files were left: {list(folder.iterdir())}")
        # The same tensor twice stays two inputs.
        same = torch.randint(0, 3, (4,))
        embed = nn.Embedding(3, 3)

        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = embed

            def forward(self, ids, targets):
                return F.cross_entropy(self.embed(ids), targets)
        export.export(Twice(), (same, same), folder / "net.pt2")
        again = torch.export.load(folder / "net.pt2").module()
        if torch.equal(again(same, same), again(same, (same + 1) % 3)):
            failures.append("a tensor that is given twice became one input")
    print(*failures, sep="\n")
    print(f"{len(REFUSED) + 2 - len(failures)} of {len(REFUSED) + 2} exports refused or made as they should be")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
