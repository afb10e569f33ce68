"""The accuracy of LeNet on Fashion-MNIST by configs/lenet-fashion.toml, in estrain and in plain PyTorch."""

import json
import statistics
import subprocess
from pathlib import Path

from figures import HIGHER, Figure, Group, Measured

TREE = Path(__file__).resolve().parents[2]
SPEC = TREE / "configs/lenet-fashion.toml"
SCRIPT = Path(__file__).with_name("accuracy_script.py")
SEEDS = (3, 1)  # of a full run, of a quick one: 0, 1, …
TARGET = 88  # what scripts/quickstart asks for
OURS, THEIRS = "accuracy/lenet-fashion/estrain", "accuracy/lenet-fashion/pytorch"

HOW = (
    "share of Fashion-MNIST's test images that LeNet gets right after 3 epochs of all 60,000 training images, {}; the "
    "median of seeds 0, 1 and 2, spread is from the least to the highest"
)
HOW_OURS = HOW.format("trained by `estrain train configs/lenet-fashion.toml` with 4 ESTs of 8 samples on 1 worker")
HOW_THEIRS = HOW.format("in plain PyTorch: one process, batches of 32 in the order of torch.randperm, the same settings")


def measured(accuracies):
    percent = [100 * accuracy for accuracy in accuracies]
    note = "seeds 0, 1, …: " + ", ".join(f"{value:.2f}" for value in percent) + " %"
    return Measured(statistics.median(percent), min(percent), max(percent), note=note)


def of_estrain(bench, seed):
    run = bench.new_folder() / "run"
    command = [bench.estrain, "train", SPEC, "--run", run, "--devices", "1", "--set", f"job.seed={seed}"]
    subprocess.run(command, check=True, capture_output=True, text=True, env=bench.environment)
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["eval"]["accuracy"] for line in lines if "eval" in line][-1]


def of_pytorch(bench, seed):
    done = subprocess.run([bench.python, SCRIPT, SPEC, str(seed)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["accuracy"]


def measure(bench):
    seeds = range(bench.rounds(*SEEDS))
    return {
        OURS: measured([of_estrain(bench, seed) for seed in seeds]),
        THEIRS: measured([of_pytorch(bench, seed) for seed in seeds]),
    }


def groups():
    figures = (
        Figure(OURS, HIGHER, HOW_OURS, TARGET, " %"),
        Figure(THEIRS, HIGHER, HOW_THEIRS, TARGET, " %"),
    )
    return [Group(figures, measure, lambda bench: 60 * bench.rounds(*SEEDS))]
