"""A step of the small networks of examples/workloads against torch.compile with a fused optimizer."""

import json
import statistics
import subprocess
from pathlib import Path

from figures import LOWER, Figure, Group, Measured
from paired_rounds import ratios

WORKLOADS = (
    "gpt2", "llama", "bert", "electra", "t5", "vit", "swin", "resnet50", "shufflenetv2", "vgg19", "efficientnet", "yolov3",
    "lstm", "neumf", "wide_deep", "xdeepfm",
)  # fmt: skip
TARGETS = {"D1": 1.0, "D2": 0.8}
ROUNDS, TURN = (9, 4), (1.0, 0.4)  # of a full run, of a quick one
COMPILING = 60  # seconds, with exporting
PACE = Path(__file__).resolve().parents[1] / "peers/workload_pace.py"
HOW = (
    "time of a step at {level}, 1 EST on each of {workers}, over that of {peer} in PyTorch with torch.compile, a fused optimizer "
    "and a worker's malloc settings, one thread each; the network that small() makes in examples/workloads/{name}, on the same data; "
    "compiling is not counted; long-lived processes take turns; median of the ratios of the rounds"
)
PEERS = {1: "the module", 2: "2 processes of DistributedDataParallel"}


def name_of(workload, level, workers):
    return f"compiled/{workers}w/{workload}/{level.lower()}"


def seconds_of_steps(bench, workload, workers):
    """{"D1", "D2", "compiled": seconds of a step, by round}"""
    if not Path(bench.workloads_python).exists():
        raise RuntimeError(f"{bench.workloads_python} is missing; run scripts/workloads --setup first")
    command = [bench.workloads_python, PACE, workload, "--workers", str(workers), "--estrain", bench.estrain]
    command += ["--folder", bench.new_folder(), "--rounds", str(bench.rounds(*ROUNDS)), "--turn", str(bench.duration(*TURN))]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{workload} against torch.compile:\n{ended.stderr[-3000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def measure(bench, workload, workers):
    seconds = seconds_of_steps(bench, workload, workers)
    note = "ms a step: " + ", ".join(f"{name} {statistics.median(values) * 1e3:.2f}" for name, values in seconds.items())
    return {
        name_of(workload, level, workers): Measured.of(ratios(seconds[level], seconds["compiled"]), note=note)
        for level in TARGETS
    }


def group(workload, workers):
    told = "1 worker" if workers == 1 else f"{workers} workers"
    figures = tuple(
        Figure(
            name_of(workload, level, workers),
            LOWER,
            HOW.format(level=level, workers=told, peer=PEERS[workers], name=workload),
            target=target,
        )
        for level, target in TARGETS.items()
    )
    return Group(
        figures,
        lambda bench: measure(bench, workload, workers),
        lambda bench: COMPILING + 3 * bench.rounds(*ROUNDS) * bench.duration(*TURN),
    )


def groups():
    return [group(workload, workers) for workers in PEERS for workload in WORKLOADS]
