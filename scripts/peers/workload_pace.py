"""How long a model's step takes, and how much memory its ESTs: beside D1, and beside PyTorch's DDP on the same machine.
Contestants take turns; what is told is the median of the ratios of the rounds.

    python scripts/peers/workload_pace.py NAME --workers N --estrain FILE --folder DIR --rounds N --turn SECONDS

For scripts/bench: prints the seconds of a step of a workload, round by round, at D1, at D2 and compiled by PyTorch.
"""

import argparse
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
LEVELS = "D1", "D2"


@dataclass
class Case:
    """A workload as scripts/benchmarks has its cases."""

    path: Path
    batch: int
    resolved: dict = None  # the spec as a run of estrain's has it
    compiled: bool = False  # by PyTorch

    def spec(self, *_):
        return self.path

    def to_json(self, accumulate=1):
        return json.dumps({"spec": self.resolved, "accumulate": accumulate, "compiled": self.compiled})


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

    def against_compiled(self, workers, rounds, turn):
        """{contestant: seconds of a step, by round}: D1 and D2 with an EST on each worker, and as many processes of PyTorch
        with torch.compile and a fused optimizer, which are told what a worker is told of malloc. The compiler has
        finished before the first round."""
        with contextlib.ExitStack() as stack:
            jobs = {level: stack.enter_context(self.job(workers, str(workers), f"job.determinism={level}")) for level in LEVELS}
            for job in jobs.values():
                job.wait_for_step(FIRST_STEPS)
                job.pause()
            one = jobs[LEVELS[0]]
            self.case.resolved, self.case.compiled = tomllib.loads((one.run / "job.toml").read_text()), True
            compiled = stack.enter_context(TorchDdp(self, self.case, workers, environment=one.malloc_settings()))
            compiled.wait_until_ready()
            turns = {level: lambda job=job: job.timed_turn(turn) for level, job in jobs.items()}
            return run_rounds(turns | {"compiled": StepTurns(compiled, turn)}, rounds)

    def memory(self):
        """The memory of all processes of a job of 8 ESTs on 1 worker."""
        with self.job(ESTS, "1") as job:
            job.wait_for_step(FIRST_STEPS)
            return f"{memory.peak(lambda: with_descendants(job.process.pid)) / 1e6:.0f}"


def in_words(ours, theirs):
    ms = [statistics.median(values) * 1e3 for values in (ours, theirs)]
    return f"{statistics.median(ratios(ours, theirs)):.2f} ({ms[0]:.1f} / {ms[1]:.1f} ms)"


def main():
    from workloads import DATA, small_data  # which imports this module
    from workload_runs import Workload

    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    for option, kind in {"workers": int, "estrain": Path, "folder": Path, "rounds": int, "turn": float}.items():
        parser.add_argument(f"--{option}", type=kind, required=True)
    given = parser.parse_args()
    small_data.write(given.folder / "data", {DATA.get(given.name, "pictures"): None})
    pace = Pace(Workload(given.name, given.folder, given.estrain))
    print(json.dumps(pace.against_compiled(given.workers, given.rounds, given.turn)))


if __name__ == "__main__":
    main()
