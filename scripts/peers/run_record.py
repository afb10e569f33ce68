"""Reads a run directory of `estrain train`, for a program that repeats the run elsewhere."""

import json
import pathlib
import tomllib

import h5py
import numpy


class Run:
    """spec: the resolved job.toml. steps: lines of metrics.jsonl by step. evaluations: their "eval" by step.
    checkpoints: files by step."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.spec = tomllib.loads((self.directory / "job.toml").read_text())
        self.refuse_changes()
        lines = [json.loads(line) for line in (self.directory / "metrics.jsonl").open()]
        self.steps = {line["step"]: line for line in lines if "eval" not in line}
        self.evaluations = {line["step"]: line["eval"] for line in lines if "eval" in line}
        self.checkpoints = {int(path.stem.split("-")[1]): path
                            for path in sorted((self.directory / "checkpoints").glob("step-*.h5"))}
        if list(self.steps) != list(range(1, len(self.steps) + 1)):
            raise SystemExit(f"{directory}: metrics.jsonl does not hold steps 1, 2, 3, ...")
        if 0 not in self.checkpoints or len(self.steps) not in self.checkpoints:
            raise SystemExit(f"{directory}: the first or the last step's checkpoint is missing")

    def refuse_changes(self):
        changes = self.directory / "changes.jsonl"
        if changes.exists() and changes.read_text().strip():
            raise SystemExit(f"{self.directory}: {changes.name} holds changes of the job, which are not repeated here")

    def arrays(self, step):
        """Every dataset of a checkpoint by path: "model/fc1.weight", "optimizer/fc1.weight/exp_avg" and so on."""
        with h5py.File(self.checkpoints[step], "r") as file:
            return {path: array for group in ("model", "buffers", "optimizer", "ests", "schedule", "ema") if group in file
                    for path, array in arrays_below(file[group], group)}


def arrays_below(group, path):
    for name, item in group.items():  # tied weights are links, which visititems() would leave out
        if isinstance(item, h5py.Dataset):
            yield f"{path}/{name}", numpy.asarray(item[()])
        else:
            yield from arrays_below(item, f"{path}/{name}")
