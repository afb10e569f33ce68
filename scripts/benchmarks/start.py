"""From the shell to the end of the first step, against torchrun."""

import os
import statistics
import subprocess
import time

from cases import RESNET18, lenet
from estrain_job import EstrainJob
from figures import LOWER, Figure, Group, Measured
from paired_rounds import ratios, run_rounds
from process_tree import end_tree
from torch_ddp import ALONE, steps_of_case

HOW = (
    "seconds from starting `estrain train` with 1 worker to the record of its first step, over those from starting "
    "torchrun with 1 process to the line that the script prints after its first step; alternating, median of the ratios"
)
ROUNDS = (5, 2)


def first_step_seconds(bench, case, ests=1):
    """Until a job of one step has recorded it."""
    with EstrainJob(bench, case, ests, steps=1) as job:
        job.wait_for_step(1)
        return time.monotonic() - job.started


def torchrun_seconds(bench, case):
    folder = bench.new_folder()
    command = steps_of_case(bench, 1, folder.name, case.to_json())
    with open(folder / "log", "w") as log:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | ALONE)
        line = process.stdout.readline()
        seconds = time.monotonic() - begin
    end_tree(process)
    process.stdout.close()
    if line != "stepped\n":
        raise RuntimeError(f"torchrun made no step:\n{(folder / 'log').read_text()[-3000:]}")
    return seconds


def measure(bench, case):
    contestants = {
        "estrain": lambda: first_step_seconds(bench, case),
        "torchrun": lambda: torchrun_seconds(bench, case),
    }
    seconds = run_rounds(contestants, bench.rounds(*ROUNDS))
    note = "seconds: " + ", ".join(f"{name} {statistics.median(values):.2f}" for name, values in seconds.items())
    return {f"start/{case.model}": Measured.of(ratios(seconds["estrain"], seconds["torchrun"]), note=note)}


def groups():
    return [
        Group(
            (Figure(f"start/{case.model}", LOWER, HOW, target=0.2),),
            lambda bench, case=case: measure(bench, case),
            lambda bench: 6 * bench.rounds(*ROUNDS),
        )
        for case in (RESNET18, lenet(32))
    ]
