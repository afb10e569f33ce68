"""A plain PyTorch training loop that takes turns: eager.py DEVICE MODE CASE.

MODE: "plain", or words joined by "+": "deterministic" (torch's deterministic algorithms), "benchmark" (cuDNN chooses
algorithms by trying them), "channels_last" (of images), "fused" (the optimizer), "compiled" (torch.compile). The mode is
that of the whole process, since choices are remembered. CASE: what scripts/benchmarks/cases.py says in JSON. Prints
{} when it is ready, then for each line {"precision", "seconds"} of its input {"seconds": of a step, "note"}, over so
many seconds of training. fp32 without TF32, or bf16 autocast; one stream; the batch is copied from pinned memory at
each step.
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
NO_DETERMINISTIC_FORM = "does not have a deterministic implementation"


def batch_of(case, pinned):
    n, shape, classes = case["batch"], case["shape"], case["classes"]
    if not shape:
        text = torch.randint(classes, (n, case["model"]["context"] + 1))
        batch = (text[:, :-1].contiguous(), text[:, 1:].contiguous())
    else:
        batch = (torch.randn(n, *shape), torch.randint(classes, (n,)))
    return tuple(part.pin_memory() for part in batch) if pinned else batch


class Loop:
    def __init__(self, device, case, mode):
        self.note = ""
        deterministic = "deterministic" in mode
        # Strictly: some operators, attention among them, take another form where torch is only to warn.
        torch.use_deterministic_algorithms(deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.device = torch.device(device)
        self.model = twins.twin(shape=case["shape"], classes=case["classes"], **case["model"]).to(self.device)
        self.layout = torch.channels_last if "channels_last" in mode and case["shape"] else torch.preserve_format
        self.model.to(memory_format=self.layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused="fused" in mode)
        self.forward = torch.compile(self.model) if "compiled" in mode else self.model
        self.batch = batch_of(case, self.device.type == "cuda")

    def step(self, precision):
        x, y = (part.to(self.device, non_blocking=True) for part in self.batch)
        x = x.contiguous(memory_format=self.layout) if self.layout == torch.channels_last else x
        bf16 = torch.autocast(self.device.type, torch.bfloat16)
        with bf16 if precision == "bf16" else contextlib.nullcontext():
            loss = F.cross_entropy(self.forward(x).flatten(0, -2), y.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, precision, steps):
        for _ in range(steps):
            loss = self.step(precision)
        loss.item()  # waits

    def first(self, precision):
        """A step, after which is known whether all operators have a deterministic form; else as a user would go on."""
        try:
            self.run(precision, 1)
        except RuntimeError as error:
            if NO_DETERMINISTIC_FORM not in str(error):
                raise
            torch.use_deterministic_algorithms(True, warn_only=True)
            operator = str(error).split(NO_DETERMINISTIC_FORM)[0].strip()
            self.note = f"PyTorch only warns: {operator} has no deterministic form"
            self.run(precision, 1)

    def seconds_of_step(self, precision, seconds):
        self.first(precision)
        begin, steps = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            self.run(precision, STEPS_AT_ONCE)
            steps += STEPS_AT_ONCE
        return (time.monotonic() - begin) / steps


def main():
    device, mode, case = sys.argv[1], sys.argv[2].split("+"), json.loads(sys.argv[3])
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = "benchmark" in mode
    loop = Loop(device, case, mode)
    print("{}", flush=True)
    for line in sys.stdin:
        turn = json.loads(line)
        seconds = loop.seconds_of_step(turn["precision"], turn["seconds"])
        print(json.dumps({"seconds": seconds, "note": loop.note}), flush=True)


main()
