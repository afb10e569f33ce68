"""A plain PyTorch training loop: eager.py DEVICE deterministic|any CASE prints its samples/s.

CASE: JSON, {"model", "shape" of an image or [] for text, "batch", "options"}. fp32 without TF32, one stream, the batch
copied to the device at each step; "any": cuDNN may choose the fastest algorithms by trying them.
"""

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import gpt  # noqa: E402
import lenet  # noqa: E402

WARM_STEPS, STEPS_AT_ONCE, MEASURED_SECONDS = 10, 10, 4


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Residual(nn.Module):
    """torchvision's BasicBlock, or its Bottleneck where `widening` is 4."""

    def __init__(self, inputs, width, stride, widening):
        super().__init__()
        outputs = width * widening
        plan = [(inputs, width, 3, stride), (width, width, 3, 1)]
        if widening > 1:
            plan = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        layers = []
        for a, b, kernel, step in plan:
            layers += [convolution(a, b, kernel, step), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet(depths, widening, channels, classes):
    layers = [convolution(channels, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, depth in enumerate(depths):
        for i in range(depth):
            width = 64 << stage
            layers.append(Residual(inputs, width, 2 if stage > 0 and i == 0 else 1, widening))
            inputs = width * widening
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def build(case):
    if case["model"] == "gpt":
        return gpt.GPT(**case["options"])
    if case["model"] == "resnet18":
        return resnet([2, 2, 2, 2], 1, case["shape"][0], 10)
    if case["model"] == "resnet50":
        return resnet([3, 4, 6, 3], 4, case["shape"][0], 10)
    return lenet.LeNet()


def batch_of(case, pinned):
    n = case["batch"]
    if not case["shape"]:
        text = torch.randint(256, (n, case["options"]["context"] + 1))
        batch = (text[:, :-1].contiguous(), text[:, 1:].contiguous())
    else:
        batch = (torch.randn(n, *case["shape"]), torch.randint(10, (n,)))
    return tuple(part.pin_memory() for part in batch) if pinned else batch


def main():
    device, deterministic, case = torch.device(sys.argv[1]), sys.argv[2] == "deterministic", json.loads(sys.argv[3])
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    model = build(case).to(device)
    if case["model"] == "gpt":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    host = batch_of(case, device.type == "cuda")

    def step():
        x, y = (part.to(device, non_blocking=True) for part in host)
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def run(steps):
        for _ in range(steps):
            loss = step()
        return loss.item()  # waits

    run(WARM_STEPS)
    begin, steps = time.monotonic(), 0
    while time.monotonic() - begin < MEASURED_SECONDS:
        run(STEPS_AT_ONCE)
        steps += STEPS_AT_ONCE
    print(steps * case["batch"] / (time.monotonic() - begin))


main()
