"""The contestants of a measurement: jobs of estrain that are stopped between their turns, and plain PyTorch loops."""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

from cases import Case, gpt
from estrain_job import EstrainJob
from paired_rounds import ratios, run_rounds
from process_tree import end_tree
from report import Failed, Skipped

NOT_BUILT = "no portable kernels for CUDA"
FIRST_STEPS = 8  # before anything is timed
DRAIN_SECONDS = 0.2
SHORT_TURN = 0.5  # seconds
STATE_TURN = 4.0  # seconds of a job that saves its state every 2 s or more: a turn has as many saves as training has
D2, BF16 = 'determinism = "D2"\n', 'precision = "bf16"\n'


def cases(machine):
    if machine.dry_run:
        small = {name: Case(name, "lenet", 2, (1, 28, 28)) for name in ("lenet", "resnet18", "resnet50", "vgg19")}
        return small | {"gpt": gpt(32, 2, 32, 2), "large gpt": gpt(32, 2, 32, 2), "large resnet50": small["resnet50"]}
    return {
        "lenet": Case("lenet", "lenet", 128, (1, 28, 28)),
        "resnet18": Case("resnet18", "resnet18", 64, (3, 32, 32)),
        "resnet50": Case("resnet50", "resnet50", 32, (3, 224, 224)),
        "vgg19": Case("vgg19", "vgg19", 64, (3, 32, 32)),
        "gpt": gpt(384, 6, 256, 16),
        # That keep the GPU busy. GPT-2's smallest network has this width, these layers and this context.
        "large gpt": gpt(768, 12, 1024, 16),
        "large resnet50": Case("large-resnet50", "resnet50", 128, (3, 224, 224)),
    }


class Turns(EstrainJob):
    """A job of estrain on one worker. Throws Skipped where this version has not got what it needs."""

    def __init__(self, machine, case, ests=1, job="", options=()):
        readers = ("--set", f"data.readers={machine.rounds(4, 1)}", "--set", "recovery.hang_seconds=60")
        super().__init__(machine, case, ests, machine.devices(1), job=job, options=(*readers, *options))

    def pause(self):
        super().pause()
        time.sleep(DRAIN_SECONDS)  # the GPU goes on with what it has been given, which is nobody else's turn

    def get_ready(self):
        try:
            self.wait_for_step(FIRST_STEPS)  # by then it has its algorithms
        except (RuntimeError, TimeoutError) as error:
            workers = "\n".join(log.read_text()[-1500:] for log in self.run.glob("worker-*.log"))
            if NOT_BUILT in f"{error}{workers}":
                raise Skipped("not built: portable kernels for CUDA") from None
            raise Failed(f"{error}\n{workers}") from None
        self.pause()
        return self


class Eager:
    """The loop of eager.py in one of its modes."""

    def __init__(self, machine, case, mode):
        self.log, self.notes = machine.new_folder(f"{case.name}-{mode}") / "eager.log", []
        environment = dict(os.environ)
        environment.pop("CUBLAS_WORKSPACE_CONFIG", None)
        if "deterministic" in mode:
            environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        script = Path(__file__).with_name("eager.py")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [machine.python, script, machine.device, mode, case.to_json()], env=environment, text=True, stderr=log,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_tree(self.process)

    def _answer(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise Failed(f"eager.py ended with code {self.process.wait()}\n{self.log.read_text()[-2000:]}")
        return json.loads(line)

    def get_ready(self):
        self._answer()
        return self

    def turn(self, precision, seconds):
        self.process.stdin.write(json.dumps({"precision": precision, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        answer = self._answer()
        if answer.get("note") and answer["note"] not in self.notes:
            self.notes.append(answer["note"])
        return answer["seconds"]


def side_by_side(turns, rounds, seconds):
    """{name: seconds of a step, by round} of {name: function that takes one turn of so long}, after a short turn that
    does not count. `seconds`: {name: of its turns}."""
    run_rounds({name: lambda turn=turn: turn(SHORT_TURN) for name, turn in turns.items()}, 1)
    return run_rounds({name: lambda name=name: turns[name](seconds[name]) for name in turns}, rounds)


@contextlib.contextmanager
def all_started(choosing, others=None):
    """{name: contestant}, made ready: of `choosing` one after the other, as each measures algorithms on a GPU that is
    nobody else's; then `others`, together, so that their starts overlap."""
    with contextlib.ExitStack() as stack:
        started = {name: stack.enter_context(make()).get_ready() for name, make in choosing.items()}
        more = {name: stack.enter_context(make()) for name, make in (others or {}).items()}
        yield started | {name: one.get_ready() for name, one in more.items()}


__all__ = ["BF16", "D2", "Eager", "STATE_TURN", "Turns", "all_started", "cases", "ratios", "side_by_side"]
