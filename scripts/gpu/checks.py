"""The checks in the order in which they are begun: what is worth most first, bits before times.

All of them take about as long as there is; what was skipped for want of time can be asked for by --only.
"""

from dataclasses import dataclass
from typing import Callable

import equality
import kernel_checks
import pace
import restarts
import sharing
import torch_bits


@dataclass
class Check:
    name: str
    make: Callable  # (machine, report) -> what the table says
    seconds: float = 170  # that it may take
    alone: bool = False  # what is timed


def all_checks():
    return [
        Check("a worker starts", equality.starts, 120, alone=True),
        Check("D1 resnet18", equality.d1("resnet18")),
        Check("D1 gpt", equality.d1("gpt")),
        Check("torch's bits lenet", torch_bits.check("lenet"), 100),
        Check("torch's bits resnet18", torch_bits.check("resnet18"), 100),
        Check("torch's bits gpt", torch_bits.check("gpt"), 100),
        Check("D1 resnet50", equality.d1("resnet50")),
        Check("D1 vgg19", equality.d1("vgg19")),
        Check("GPUs exchange", equality.exchange("resnet18"), 130),
        Check("D2 lenet", equality.d2("lenet"), 130),
        Check("D2 gpt", equality.d2("gpt"), 130),
        Check("D2 resnet18", equality.d2("resnet18"), 130),
        Check("a GPU that is not there is refused", equality.refuses_missing_gpu, 60),
        Check("kernels", kernel_checks.kernels, 90, alone=True),
        Check("throughput gpt", pace.throughput("gpt"), 75, alone=True),
        Check("throughput resnet50", pace.throughput("resnet50"), 75, alone=True),
        Check("D2 / D1", pace.d2_over_d1, 75, alone=True),
        Check("resizes resnet50", restarts.check("resnet50"), 75, alone=True),
        Check("switching", sharing.switching, 75, alone=True),
        Check("memory", sharing.memory, 75, alone=True),
        Check("throughput resnet18", pace.throughput("resnet18"), 75, alone=True),
        Check("resizes gpt", restarts.check("gpt"), 75, alone=True),
        Check("throughput vgg19", pace.throughput("vgg19"), 75, alone=True),
        Check("sanitizer memcheck", kernel_checks.sanitizer("memcheck"), 75),
        Check("sanitizer racecheck", kernel_checks.sanitizer("racecheck"), 75),
    ]
