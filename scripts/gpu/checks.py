"""The checks in the order in which they are begun, by groups that fit into one call each, what is worth most first.

What was skipped for want of time can be asked for by --only.
"""

from dataclasses import dataclass
from typing import Callable

import equality
import kernel_checks
import pace
import pinned_choices
import programs
import restarts
import sharing
import torch_bits
import traces

GROUPS = ("bits", "programs", "speed", "cost", "rest")


@dataclass
class Check:
    name: str
    make: Callable  # (machine, report) -> what the table says
    seconds: float = 170  # that it may take
    alone: bool = False  # what is timed
    group: str = "bits"


def timed(name, make, seconds, group="speed"):
    return Check(name, make, seconds, alone=True, group=group)


def all_checks():
    return [
        Check("a worker starts", equality.starts, 120, alone=True),
        Check("D1 resnet18", equality.d1("resnet18"), 300),
        Check("D1 gpt", equality.d1("gpt"), 300),
        Check("torch's bits lenet", torch_bits.check("lenet"), 200),
        Check("torch's bits gpt", torch_bits.check("gpt"), 200),
        Check("torch's bits resnet18", torch_bits.check("resnet18"), 200),
        Check("kernels", kernel_checks.kernels, 220),
        Check("D1 resnet50", equality.d1("resnet50"), 300),
        Check("pinned choices resnet18", pinned_choices.check("resnet18"), 200),
        Check("D1 vgg19", equality.d1("vgg19"), 300),
        Check("CUDA graphs gpt", equality.graphs("gpt"), 150),
        Check("D2 lenet", equality.d2("lenet"), 130),
        Check("bf16", equality.precision("bf16"), 150),
        Check("D2 gpt", equality.d2("gpt"), 220),
        Check("D2 resnet18", equality.d2("resnet18"), 180),
        Check("tf32", equality.precision("tf32"), 150),
        Check("CUDA graphs resnet18", equality.graphs("resnet18"), 150),
        Check("sanitizer memcheck", kernel_checks.sanitizer("memcheck"), 130),
        Check("sanitizer racecheck", kernel_checks.sanitizer("racecheck"), 130),
        Check("GPUs exchange", equality.exchange("resnet18"), 130),
        Check("a GPU that is not there is refused", equality.refuses_missing_gpu, 60),
        *(Check(f"program {name}", programs.check(name), 170, group="programs") for name in programs.NAMES),
        timed("throughput gpt", pace.throughput("gpt"), 190),
        timed("throughput resnet50", pace.throughput("resnet50"), 240),
        timed("strong baselines gpt", pace.baselines("large gpt"), 200),
        timed("strong baselines resnet50", pace.baselines("large resnet50"), 200),
        timed("D2 over D1: gpt, resnet18", pace.d2_over_d1("gpt", "resnet18"), 130),
        timed("gemm", kernel_checks.gemm, 60),
        timed("D2 over D1: resnet50, lenet", pace.d2_over_d1("resnet50", "lenet"), 130),
        timed("switching gpt", sharing.switching("gpt"), 130, "cost"),
        timed("resizes resnet50", restarts.check("resnet50"), 150, "cost"),
        timed("memory", sharing.memory, 140, "cost"),
        timed("resizes gpt", restarts.check("gpt"), 150, "cost"),
        timed("switching resnet18", sharing.switching("resnet18"), 130, "cost"),
        timed("where time goes: gpt, resnet50", traces.where("gpt", "resnet50"), 150, "rest"),
        timed("throughput resnet18", pace.throughput("resnet18"), 190, "rest"),
        timed("slots in host memory gpt", sharing.slots_in_host("gpt"), 100, "rest"),
        timed("throughput vgg19", pace.throughput("vgg19"), 240, "rest"),
    ]


def wanted(group, words):
    """The checks of a group (None: of all) whose name has one of the words, if there are any."""
    checks = [check for check in all_checks() if group in (None, check.group)]
    return [check for check in checks if not words or any(word in check.name for word in words)]


def programs_of(some_checks):
    """Names of the exported networks that the checks train."""
    return [check.name.removeprefix("program ") for check in some_checks if check.group == "programs"]
