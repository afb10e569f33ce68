"""The training jobs that are measured, told to each contestant in its own language: a spec for estrain, JSON for the
bare loop and the PyTorch script. Data are random and lie in memory; SGD with momentum everywhere."""

import json
from dataclasses import dataclass

SAMPLES = 4096
TEXT_BYTES = 2_000_000


@dataclass(frozen=True)
class Case:
    name: str
    model: str
    batch: int
    shape: tuple[int, ...] = ()  # of an image; text if empty
    classes: int = 10
    layers: int = 0  # of a gpt, and so on
    width: int = 0
    heads: int = 0
    context: int = 0
    hidden: tuple[int, ...] = ()  # of an mlp
    program: str = ""  # the file of the network as it was exported from PyTorch, to be trained in its place

    def spec(self, folder, ests, steps, sections="", job=""):
        """A spec for estrain, written to `folder`. `sections`: further TOML behind it; `job`: more keys of [job]."""
        if self.shape:
            model = f'name = "{self.model}"\nclasses = {self.classes}\n'
            if self.hidden:
                model += f"hidden = {list(self.hidden)}\n"
            data = f'format = "synthetic"\nshape = {list(self.shape)}\nsamples = {SAMPLES}\n'
        else:
            text = folder / "text"
            text.write_bytes(bytes(i * i * 31 % 251 for i in range(TEXT_BYTES)))
            model = (
                f'name = "{self.model}"\nlayers = {self.layers}\nwidth = {self.width}\n'
                f"heads = {self.heads}\ncontext = {self.context}\n"
            )
            data = f'format = "text"\npath = "{text}"\n'
        if self.program:
            model = f'name = "program"\nfile = "{self.program}"\n'
            model += f"context = {self.context}\n" if self.context else ""
        path = folder / "job.toml"
        path.write_text(
            f'[job]\nname = "bench"\nests = {ests}\n{job}\n[model]\n{model}\n[data]\n{data}batch = {self.batch}\n'
            f"drop_last = true\n\n"
            f'[optimizer]\nname = "sgd"\nlr = 0.01\nmomentum = 0.9\n\n[train]\nsteps = {steps}\neval_every = "never"\n'
            + sections
        )
        return path

    def to_json(self, accumulate=1):
        model = {"name": self.model}
        if not self.shape:
            model |= {"layers": self.layers, "width": self.width, "heads": self.heads, "context": self.context}
        data = {"shape": list(self.shape), "classes": self.classes, "batch": self.batch}
        return json.dumps({"model": model, "accumulate": accumulate} | data)


def resnet18(pixels, batch):
    return Case(f"resnet18-{pixels}x{pixels}-b{batch}", "resnet18", batch, shape=(3, pixels, pixels))


def lenet(batch):
    return Case(f"lenet-b{batch}", "lenet", batch, shape=(1, 28, 28))


def mlp(batch, *hidden):
    return Case(f"mlp-{'-'.join(map(str, hidden))}-b{batch}", "mlp", batch, shape=(1, 28, 28), hidden=hidden)


def gpt(width, layers, context, batch):
    return Case(
        f"gpt-d{width}-l{layers}-t{context}-b{batch}",
        "gpt",
        batch,
        classes=256,
        layers=layers,
        width=width,
        heads=width // 32,
        context=context,
    )


RESNET18 = resnet18(32, 8)
GPT = gpt(64, 2, 64, 8)
ALL = (
    RESNET18,
    resnet18(32, 32),
    resnet18(64, 8),
    resnet18(64, 32),
    lenet(32),
    lenet(128),
    GPT,
    gpt(128, 4, 128, 8),
)
