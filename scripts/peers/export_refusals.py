#!/usr/bin/env python3
"""`estrain export` refuses by name what an export would lose in silence, says where and what to do, and writes nothing; and
takes what only looks like it."""

import contextlib
import io
import json
import pathlib
import random
import sys
import tempfile
import types
import zipfile

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "core/engine/python"))
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


class Decides(Base):
    def middle(self, x):
        return x * 2 if x.sum() > 0 else x  # a decision


class DropsSeldom(Base):
    def middle(self, x):
        return x if random.random() > 1e-4 else 2 * x


class Broken(Base):
    def middle(self, x):
        return x @ x


class ForeignOperator(Base):
    def middle(self, x):
        return torch.ops.estrain_peers.doubled(x)


class Shares(Base):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1).expand(8))

    def middle(self, x):
        return x * self.scale


class WritesOrder(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3, 2).t())

    def middle(self, x):
        self.seen += 1
        return x + self.seen.sum()


@torch.library.custom_op("estrain_peers::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(lambda x: torch.empty_like(x))
doubled.register_autograd(lambda ctx, gradient: gradient * 2)

REFUSED |= {
    "a decision by values": (Decides, "data-dependent"),
    "a decision that is seldom": (DropsSeldom, "Python's or numpy's random numbers"),
    "a module that fails itself": (Broken, "its forward fails, RuntimeError: mat1 and mat2"),
    "another library's operator": (ForeignOperator, "it calls estrain_peers::doubled"),
    "a parameter with shared elements": (Shares, "scale has elements that share memory"),
    "a written buffer in another order": (WritesOrder, "writes buffer seen, which is in another order"),
}
# What is said of it, in full: place and advice.
LINES = {"a decision by values": ("export_refusals.py", ", in middle: return x * 2 if x.sum() > 0 else x  # a decision",
                                  'model = { name = "python", file = "net.py:build" }', "torch.where"),
         "another library's operator": ("write it with these",), "a module that fails itself": ("\ncorrect it",)}


class TypingChecks(Base):
    """As beartype's, whose choice of what to look at changes nothing."""

    def middle(self, x):
        random.getrandbits(32)
        return x


class Uniform(Base):
    def middle(self, x):
        return x * torch.empty_like(x).uniform_(0, 1) + torch.empty_like(x).uniform_()


class AutocastOff(Base):
    def middle(self, x):
        with torch.autocast("cuda", enabled=False):
            return x * 2


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def product_of_experts(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """As transformers defines it."""
    output, start = torch.zeros(len(input), weight.size(2)), 0
    for i, end in enumerate(offs.tolist()):
        torch.mm(input[start:end], weight[i], out=output[start:end])
        start = end
    return output


def backward_of_experts(ctx, gradient):
    given, weight, offs = ctx.kept
    of_given, of_weight, start = torch.zeros_like(given), torch.zeros_like(weight), 0
    for i, end in enumerate(offs.tolist()):
        torch.mm(gradient[start:end], weight[i].T, out=of_given[start:end])
        torch.mm(given[start:end].T, gradient[start:end], out=of_weight[i])
        start = end
    return of_given, of_weight, None


product_of_experts.register_fake(lambda given, weight, offs: torch.empty(given.size(0), weight.size(2)))
product_of_experts.register_autograd(backward_of_experts, setup_context=lambda ctx, inputs, output:
                                     setattr(ctx, "kept", inputs))


class Experts(Base):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8, 8))

    def middle(self, x):
        chosen = x[:, :3].argmax(1)
        order = chosen.argsort()
        offs = torch.cumsum(F.one_hot(chosen, 3).sum(0), 0, dtype=torch.int32)
        return torch.ops.transformers.grouped_mm_fallback(x[order], self.weight, offs)[order.argsort()]


class CompiledFunction(Base):
    @torch.compile
    def middle(self, x):
        return x * 2


class CompiledPart(Base):
    def __init__(self):
        super().__init__()
        self.a = torch.compile(self.a)


class Synced(Base):
    def __init__(self):
        super().__init__()
        self.norm = nn.SyncBatchNorm(8)

    def middle(self, x):
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(x)
        return self.norm(x)


class OwnTypes(Base):
    def middle(self, x):
        return x * x.float().sum()


# And words on standard error; "": none.
TAKEN = {"draws that change nothing": (TypingChecks, ""), "uniform_ with its defaults": (Uniform, ""),
         "transformers' product of experts": (Experts, ""), "autocast for GPUs, switched off": (AutocastOff, ""), "a compiled module": (lambda: torch.compile(Base()), ""),
         "a compiled part": (CompiledPart, ""), "a compiled function": (CompiledFunction, ""),
         "SyncBatchNorm": (Synced, "norm is a SyncBatchNorm"), "calls of torch.distributed": (Synced, "calls is_initialized")}


def marks(path):
    with zipfile.ZipFile(path) as file:
        return {name.rsplit("/", 1)[1]: file.read(name).decode() for name in file.namelist() if "/extra/" in name}


def try_taken(folder):
    for name, (build, words) in TAKEN.items():
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            refused = refusal(build(), batch(), folder / "taken.pt2")
        if refused is not None:
            yield f"{name}: {refused}"
        elif words not in said.getvalue() or not words and said.getvalue():
            yield f"{name}: said {said.getvalue()!r}"
        elif any("_orig_mod" in key for key in torch.export.load(folder / "taken.pt2").state_dict):
            yield f"{name}: names have _orig_mod"
    export.export(Synced(), batch(), folder / "taken.pt2")
    if "calls is_initialized" not in json.loads(marks(folder / "taken.pt2")["estrain.notes"])[0]:
        yield "the file has no note of the calls of torch.distributed"
    for build, precision, mark in ((Base, "fp32", None), (OwnTypes, "fp32", "fp32"), (OwnTypes, "bf16", "bf16")):
        export.export(build(), batch(), folder / "taken.pt2", precision=precision)
        if marks(folder / "taken.pt2").get("estrain.precision") != mark:
            yield f"{build.__name__} exported for {precision} is marked {marks(folder / 'taken.pt2')}"


def batch(samples=4):
    return torch.randn(samples, 6), torch.randint(0, 3, (samples,))


def refusal(module, example, path):
    try:
        export.export(module, example, path)
    except export.NotExportable as error:
        return error.message("net.py:build") + "\n" + error.advice_for("net.py:build")
    return None


def main():
    torch.manual_seed(1)
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name, (build, words) in REFUSED.items():
            said = refusal(build(), batch(), folder / "net.pt2")
            if said is None or any(each not in said for each in (words, *LINES.get(name, ()))) or \
                    len(said.splitlines()) > 3:
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
        failures += try_taken(folder)
    print(*failures, sep="\n")
    tried = len(REFUSED) + len(TAKEN) + 6
    print(f"{tried - len(failures)} of {tried} exports refused or made as they should be")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
