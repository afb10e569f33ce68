"""The metrics of a run, step by step, for programs that show or compare runs. Needs nothing but Python.

    from run_metrics import read
    for step, values in read("runs/a"):       # 1, {"train/loss": 2.32, "train/lr": 0.01, …}
        ...

import_wandb.py and import_mlflow.py use it. The file's format: core/state/record/FORMAT.md.
"""

import json
import pathlib
import tomllib

TRAIN = ("loss", "lr", "samples_per_s", "epoch")


def job_of(run):
    """The job's spec, as a dictionary."""
    return tomllib.loads(pathlib.Path(run, "job.toml").read_text())


def flat(tables, prefix=""):
    """{"job": {"ests": 4}} as {"job.ests": 4}."""
    entries = {}
    for key, value in tables.items():
        entries |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return entries


def read(run):
    """Yields (step, {name: number}); an evaluation comes with its step. Numbers that are not finite are left out."""
    step, values = None, {}
    with open(pathlib.Path(run, "metrics.jsonl")) as lines:
        for line in lines:
            if not line.endswith("\n"):
                break  # it is being written
            found = json.loads(line)
            if found["step"] != step and values:
                yield step, values
                values = {}
            step = found["step"]
            scores = found.get("eval")
            if scores:
                named = {f"eval/{name}": value for name, value in (scores | scores.get("metrics", {})).items()}
            else:
                named = {f"train/{name}": found.get(name) for name in TRAIN}
                named |= {f"train/{name}": value for name, value in found.get("terms", {}).items()}
            values |= {name: value for name, value in named.items() if isinstance(value, (int, float))}
    if values:
        yield step, values
