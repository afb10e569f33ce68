"""How long a model's step takes, and how much memory its ESTs: beside D1, and beside PyTorch's DDP on the same machine.
Contestants take turns; what is told is the median of the ratios of the rounds."""

import contextlib
import json
import statistics
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from workload_runs import FOREVER

import memory  # of scripts/benchmarks, which workload_runs puts on the path
from contest import FIRST_STEPS, StepTurns
from estrain_job import EstrainJob
from paired_rounds import ratios, run_rounds
from process_tree import with_descendants
from torch_ddp import TorchDdp

ROUNDS, TURN = 5, 1.0  # seconds
ESTS = 8


@dataclass
class Case:
    """A workload as scripts/benchmarks has its cases."""

    path: Path
    batch: int
    resolved: dict = None  # the spec as a run of estrain's has it

    def spec(self, *_):
        return self.path

    def to_json(self, accumulate=1):
        return json.dumps({"spec": self.resolved, "accumulate": accumulate})


class Pace:
    environment, resize_options, ddp_options, python = None, (), (), sys.executable

    def __init__(self, workload):
        self.workload, self.estrain, self.folders = workload, workload.estrain, 0
        self.case = Case(workload.spec, tomllib.loads(workload.spec.read_text())["data"]["batch"])

    def new_folder(self):
        self.folders += 1
        path = self.workload.folder / f"{self.workload.name}.pace{self.folders}"
        path.mkdir()
        return path

    def job(self, ests, devices, *settings):
        settings = f"job.ests={ests}", f"train.steps={FOREVER}", "train.eval_every=never", *settings
        options = [word for setting in settings for word in ("--set", setting)]
        return EstrainJob(self, self.case, ests, devices, options=options)

    def d2(self):
        """Seconds of a step at D2 over those at D1, 1 EST."""
        with self.job(1, "1") as plain, self.job(1, "1", "job.determinism=D2") as portable:
            for job in plain, portable:
                job.wait_for_step(FIRST_STEPS)
                job.pause()
            turns = {"D1": lambda: plain.timed_turn(TURN), "D2": lambda: portable.timed_turn(TURN)}
            seconds = run_rounds(turns, ROUNDS)
        return in_words(seconds["D2"], seconds["D1"])

    def against_ddp(self, workers):
        """Seconds of a step over those of as many processes of DDP, an EST on each worker."""
        with contextlib.ExitStack() as stack:
            job = stack.enter_context(self.job(workers, str(workers)))
            job.wait_for_step(FIRST_STEPS)
            job.pause()
            self.case.resolved = tomllib.loads((job.run / "job.toml").read_text())
            ddp = stack.enter_context(TorchDdp(self, self.case, workers))
            ddp.wait_until_ready()
            turns = {"estrain": lambda: job.timed_turn(TURN), "ddp": StepTurns(ddp, TURN)}
            seconds = run_rounds(turns, ROUNDS)
        return in_words(seconds["estrain"], seconds["ddp"])

    def memory(self):
        """The memory of all processes of a job of 8 ESTs on 1 worker."""
        with self.job(ESTS, "1") as job:
            job.wait_for_step(FIRST_STEPS)
            return f"{memory.peak(lambda: with_descendants(job.process.pid)) / 1e6:.0f}"


def in_words(ours, theirs):
    ms = [statistics.median(values) * 1e3 for values in (ours, theirs)]
    return f"{statistics.median(ratios(ours, theirs)):.2f} ({ms[0]:.1f} / {ms[1]:.1f} ms)"
