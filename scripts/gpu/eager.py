"""A plain PyTorch training loop that takes turns: eager.py DEVICE CASE.

CASE: what scripts/benchmarks/cases.py says in JSON. Prints "ready", then for each line {"mode", "precision",
"seconds"} of its input the seconds of a step, over so many seconds of training. Without deterministic algorithms unless
the mode is "deterministic"; with "benchmark" cuDNN chooses algorithms by trying them. fp32 without TF32, or bf16
autocast; one stream; the batch is copied from pinned memory at each step.
"""

import contextlib
import json
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import twins  # noqa: E402

STEPS_AT_ONCE = 4


def batch_of(case, pinned):
    n, shape, classes = case["batch"], case["shape"], case["classes"]
    if not shape:
        text = torch.randint(classes, (n, case["model"]["context"] + 1))
        batch = (text[:, :-1].contiguous(), text[:, 1:].contiguous())
    else:
        batch = (torch.randn(n, *shape), torch.randint(classes, (n,)))
    return tuple(part.pin_memory() for part in batch) if pinned else batch


class Loop:
    def __init__(self, device, case):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.device = torch.device(device)
        self.model = twins.twin(shape=case["shape"], classes=case["classes"], **case["model"]).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.batch = batch_of(case, self.device.type == "cuda")

    def step(self, precision):
        x, y = (part.to(self.device, non_blocking=True) for part in self.batch)
        bf16 = torch.autocast(self.device.type, torch.bfloat16)
        with bf16 if precision == "bf16" else contextlib.nullcontext():
            loss = F.cross_entropy(self.model(x).flatten(0, -2), y.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, precision, steps):
        for _ in range(steps):
            loss = self.step(precision)
        loss.item()  # waits

    def seconds_of_step(self, precision, seconds):
        self.run(precision, 1)
        begin, steps = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            self.run(precision, STEPS_AT_ONCE)
            steps += STEPS_AT_ONCE
        return (time.monotonic() - begin) / steps


def main():
    loop = Loop(sys.argv[1], json.loads(sys.argv[2]))
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    print("ready", flush=True)
    for line in sys.stdin:
        turn = json.loads(line)
        # What has no deterministic form (an average pooling of VGG) is left as it is, as a user would.
        torch.use_deterministic_algorithms(turn["mode"] == "deterministic", warn_only=True)
        torch.backends.cudnn.benchmark = turn["mode"] == "benchmark"
        print(loop.seconds_of_step(turn["precision"], turn["seconds"]), flush=True)


main()
