"""The cost of training a network as an exported program: a step against one of the built-in network."""

import dataclasses
import subprocess
from pathlib import Path

import portable
from cases import GPT, RESNET18
from figures import LOWER, Figure, Group

CASES = ((RESNET18, 0.1), (GPT, 0.02))  # with the seconds of a step, about
PEERS = Path(__file__).resolve().parents[1] / "peers"
HOW = (
    "time of a step of the network as it was exported from PyTorch over that of the built-in network, at {level}, 1 EST "
    "on 1 worker, update included; long-lived processes take turns; median of the ratios of the rounds"
)
# The built-in network's twin in Python with its loss.
NET = """import sys
sys.path.insert(0, {peers!r})
import torch
from twins import twin

class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = twin({model!r}, {shape}, {classes}, **{options})

    def forward(self, inputs, targets):
        return torch.nn.functional.cross_entropy(self.net(inputs).view(-1, {classes}), targets.view(-1))

def build():
    return Trained(), ({inputs}, {targets})
"""


def name_of(case, level):
    return f"exported/{case.model}/{level.lower()}"


def exported(bench, case):
    """The same case as a program."""
    folder = bench.new_folder()
    options = {} if case.shape else {key: getattr(case, key) for key in ("layers", "width", "heads", "context")}
    tokens = f"torch.randint(0, {case.classes}, (4, {case.context}))"
    net, file = folder / "net.py", folder / "net.pt2"
    net.write_text(
        NET.format(
            peers=str(PEERS),
            model=case.model,
            shape=case.shape,
            classes=case.classes,
            options=options,
            inputs=f"torch.randn(4, *{case.shape})" if case.shape else tokens,
            targets="torch.arange(4)" if case.shape else tokens,
        )
    )
    command = [bench.estrain, "export", f"{net}:build", "--output", file, "--python", bench.python]
    subprocess.run(command, check=True, capture_output=True)
    return dataclasses.replace(case, program=str(file))


def measure(bench, case, level):
    key = portable.LEVELS[level]
    start = {
        "program": portable.job_of(bench, exported(bench, case), key=key),
        "built-in": portable.job_of(bench, case, key=key),
    }
    return {name_of(case, level): portable.measured(portable.seconds_of_steps(bench, start), "program", "built-in")}


def group(case, step, level):
    figure = Figure(name_of(case, level), LOWER, HOW.format(level=level), target=1.02)
    return Group((figure,), lambda bench: measure(bench, case, level), lambda bench: 20 + portable.about(bench, step))


def groups():
    return [group(case, step, level) for case, step in CASES for level in portable.LEVELS]
