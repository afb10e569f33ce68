"""The portable kernels against LibTorch's own calls, shape by shape, in one process for each family."""

import json
import math
import os
import subprocess

from figures import HIGHER, Figure, Group, Measured

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
# name, program, arguments, what is measured, target of the geometric mean
FAMILIES = (
    ("gemm", "gemm", (), "matrix products: square, a gpt's, an mlp's, batched", 1.0),
    ("attention", "attention", (), "attention forward and backward, with and without dropout", 1.0),
    ("convolution/resnet50-b4", "convolution", ("--layers", "resnet50"), "ResNet-50's convolutions, 224x224, batch 4", 1.6),
    ("convolution/resnet50-b16", "convolution", ("--layers", "resnet50x16"), "the same at batch 16", 1.1),
    ("convolution/resnet18-32x32-b8", "convolution", ("--layers", "resnet18"), "ResNet-18's, 32x32, batch 8", 2.0),
    ("convolution/vgg11-32x32-b8", "convolution", ("--layers", "vgg11-32"), "VGG-11's, 32x32, batch 8", 1.0),
    ("convolution/lenet", "convolution", ("--layers", "lenet"), "LeNet's, batch 32 and 128", 1.0),
    ("depthwise", "layers", ("--filter", "depthwise"), "depthwise 3x3 of ShuffleNetV2 and MobileNetV2, batch 4", 3.0),
    ("layers", "layers", ("--filter", "norm"), "batch and layer normalisation", 1.0),
    ("arithmetic", "arithmetic", (), "elementwise functions, softmax, losses, random numbers, reductions", 1.0),
)
ROUNDS = (15, 7)
HOW = (
    "LibTorch's time over the portable kernel's: {what}; forward and backward, 1 thread{limit}; the least of alternating "
    "rounds for each shape, geometric mean over the shapes; the spread is from the worst shape, which is named, to the best"
)
PEAK = "kernel/gemm/share-of-peak"
PEAK_HOW = "the least share of a core's peak of fused multiply-adds, measured in turns with it, that square products of 256 to 1536 reach"


def run(bench, program, arguments, environment):
    subprocess.run(["ninja", "-C", bench.build, f"bench_{program}"], check=True, capture_output=True)
    rounds = ("--rounds", str(bench.rounds(*ROUNDS)))
    command = [bench.build / "scripts/benchmarks" / f"bench_{program}", "--json", *rounds]
    done = subprocess.run(
        [*command, *arguments], check=True, capture_output=True, text=True, env=os.environ | environment
    )
    return json.loads(done.stdout)["rows"]


def measure(bench, name, program, arguments, environment):
    rows = run(bench, program, arguments, environment)
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    worst, best = min(rows, key=lambda row: row["ratio"]), max(rows, key=lambda row: row["ratio"])
    below = sum(row["ratio"] < 0.95 for row in rows)
    note = f"worst {worst['name']} {worst['ratio']:.2f}; {below} of {len(rows)} shapes below 0.95"
    return {name: Measured(mean, worst["ratio"], best["ratio"], note=note)}


def group(family, program, arguments, what, target, avx2):
    name = f"kernel/{family}" + ("/avx2" if avx2 else "")
    limit = ", both limited to AVX2" if avx2 else ""
    figure = Figure(name, HIGHER, HOW.format(what=what, limit=limit), target=0.95 if avx2 else target)
    more = ("--isa", "avx2") if avx2 else ()
    return Group(
        (figure,), lambda bench: measure(bench, name, program, arguments + more, AVX2 if avx2 else {}), about
    )


def about(bench):
    """The programs already built."""
    return 1.5 * bench.rounds(*ROUNDS)


def measure_peak(bench):
    rows = run(bench, "gemm", ("--peak", "--filter", "square"), {})
    large = [row for row in rows if int(row["name"].split()[1]) >= 256]
    shares = sorted(row["ratio"] for row in large)
    least = min(large, key=lambda row: row["ratio"])
    return {PEAK: Measured(shares[0], shares[0], shares[-1], note=f"least at {least['name']}")}


def groups():
    families = [group(*family, avx2) for avx2 in (False, True) for family in FAMILIES]
    return families + [Group((Figure(PEAK, HIGHER, PEAK_HOW, target=0.9),), measure_peak, about)]
