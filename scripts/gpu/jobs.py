"""The jobs of the checks, and runs of them."""

import json
import os
import signal
import time
from dataclasses import dataclass, field

from report import Failed

# Words of workers about algorithms.
MEASURED = ", the fastest of "
STORE_LOST = ("algorithms chosen for earlier runs are not used", "a chosen algorithm is not kept for later runs")
REASONS = ("estrain: ", "lost worker")  # how lines begin that say why a run ended
GPT = {"width": 256, "heads": 4, "layers": 6, "context": 128, "dropout": 0.1}
SMALL_GPT = {"width": 32, "heads": 2, "layers": 2, "context": 32, "dropout": 0.1}  # for the CPU


def both_ends(text, first=600, last=1500):
    return text if len(text) <= first + last else f"{text[:first]}\n[…]\n{text[-last:]}"


def sgd():
    return {"name": "sgd", "lr": 0.01, "momentum": 0.9}


def adamw():
    return {"name": "adamw", "lr": 0.001}


@dataclass
class Model:
    name: str
    batch: int
    shape: tuple = ()  # of an image; none: text
    options: dict = field(default_factory=dict)
    optimizer: dict = field(default_factory=sgd)
    short_steps: int = 10  # of runs that are compared at their beginning only
    data: dict = field(default_factory=dict)  # keys of [data], instead of made-up images or a text
    checkpoint: dict = field(default_factory=lambda: {"keep": 1})

    def spec(self, tree, ests, steps):
        sections = {
            "job": {"name": self.name, "ests": ests, "seed": 3},
            "model": {"name": self.name, **self.options},
            "data": {"batch": self.batch},
            "optimizer": self.optimizer,
            "train": {"steps": steps, "eval_every": "never"},
            "checkpoint": self.checkpoint,
            # Several jobs share the GPU, and its libraries come from a cold disk: a worker that waits does not hang.
            "recovery": {"hang_seconds": 120},
        }
        if self.data:
            sections["data"] |= self.data
        elif self.shape:
            sections["model"]["classes"] = 10
            samples = 4 * ests * self.batch
            sections["data"] |= {"format": "synthetic", "shape": list(self.shape), "samples": samples}
        else:
            sections["data"] |= {"format": "text", "path": str(tree / "core/GUIDE.md")}
        text = ""
        for section, keys in sections.items():
            text += f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        return text


class Run:
    """A job under way, or done. `profiles`: its own database, beside which chosen algorithms are kept."""

    def __init__(self, machine, model, folder, ests, steps, devices, more=(), profiles=None):
        self.machine, self.folder, self.run = machine, folder, folder / "run"
        self.old_logs = {}
        spec = folder / "job.toml"
        spec.write_text(model.spec(machine.tree, ests, steps))
        self.log = folder / "train.log"
        self.process = machine.start(
            self.log, "train", spec, "--run", self.run, "--devices", devices, "--oversubscribe", *more,
            profiles=profiles,
        )  # fmt: skip

    @classmethod
    def resumed(cls, machine, folder, devices, steps, profiles=None):
        run = cls.__new__(cls)
        run.machine, run.folder, run.run = machine, folder, folder / "run"
        run.old_logs = {log: log.stat().st_size for log in run.run.glob("worker-*.log")}
        run.log = folder / "resumed.log"
        run.process = machine.start(
            run.log, "train", "--resume", "--run", run.run, "--devices", devices, "--oversubscribe",
            "--set", f"train.steps={steps}", profiles=profiles,
        )  # fmt: skip
        return run

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def words(self):
        """Its output and its workers' logs: their beginnings and ends."""
        logs = [self.log, *sorted(self.run.glob("worker-*.log"))]
        return "\n".join(f"== {log.name}\n{both_ends(log.read_text(errors='replace'))}" for log in logs if log.exists())

    def reason(self):
        """The first line by which it says why it ended, to stand behind other words; "" where it does not."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        told = [line for line in lines if line.startswith(REASONS)]
        return f": {told[0]}" if told else ""

    def worker_lines(self):
        """The lines of its workers, without those before a resume."""
        for log in sorted(self.run.glob("worker-*.log")):
            yield from log.read_bytes()[self.old_logs.get(log, 0) :].decode(errors="replace").splitlines()

    def choices(self):
        """{operation: the run's choice for it}."""
        file = self.run / "algorithms.jsonl"
        text = file.read_text() if file.exists() else ""
        return {json.loads(line)["key"]: json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()}

    def measured(self):
        """Operations that its workers measured algorithms for."""
        return {line.split(": ")[0] for line in self.worker_lines() if MEASURED in line}

    def require_unsaid(self, *words):
        """No worker said any of this."""
        said = [line for line in self.worker_lines() if any(one in line for one in words)]
        if said:
            raise Failed(f"{self.folder.name}: {said[0]}")

    def finish(self, seconds=180):
        seconds = self.machine.patience(seconds)
        try:
            code = self.process.wait(seconds)
        except Exception:
            raise Failed(f"did not end within {seconds} s\n{self.words()}") from None
        if code != 0:
            raise Failed(f"ended with exit code {code}{self.reason()}\n{self.words()}")
        self.require_unsaid(*STORE_LOST)
        return self

    def steps(self):
        file = self.run / "metrics.jsonl"
        if not file.exists():
            return []
        text = file.read_text()
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [line for line in lines if "loss" in line]

    def events(self, name):
        lines = (self.run / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def _wait(self, what, holds, seconds):
        seconds = self.machine.patience(seconds)
        end = time.monotonic() + seconds
        while not holds():
            if self.process.poll() is not None:
                raise Failed(f"ended before {what}{self.reason()}\n{self.words()}")
            if time.monotonic() > end:
                raise Failed(f"no {what} within {seconds} s\n{self.words()}")
            time.sleep(0.02)

    def wait_for_step(self, step, seconds=120):
        self._wait(f"step {step}", lambda: any(line["step"] >= step for line in self.steps()[-1:]), seconds)

    def wait_for(self, event, seconds=120):
        self._wait(f"event \"{event}\"", lambda: self.events(event), seconds)

    def workers(self):
        code, text = self.machine.call("status", self.run, "--json")
        if code != 0:
            raise Failed(f"status: exit code {code}\n{text}\n{self.words()}")
        return [worker["pid"] for worker in json.loads(text)["workers"]]

    def resize(self, devices):
        code, text = self.machine.call(
            "resize", self.run, "--devices", devices, "--oversubscribe", "--json", seconds=self.machine.patience(120)
        )
        (self.folder / "resize.log").open("a").write(text)
        if code != 0:
            raise Failed(f"resize to {devices}: exit code {code}\n{text}\n{self.words()}")
        return json.loads(text.splitlines()[-1])

    def stop(self):
        code, text = self.machine.call("stop", self.run, seconds=self.machine.patience(120))
        if code != 0:
            raise Failed(f"stop: exit code {code}\n{text}\n{self.words()}")
        if self.process.wait(self.machine.patience(60)) != 75:
            raise Failed(f"a stopped run should end with 75\n{self.words()}")
        self.require_unsaid(*STORE_LOST)

    def kill_a_worker(self):
        os.kill(self.workers()[-1], signal.SIGKILL)

    def samples_per_second(self):
        """The median of the second half of its steps."""
        rates = sorted(step["samples_per_s"] for step in self.steps()[len(self.steps()) // 2 :])
        return rates[len(rates) // 2]


def differ(machine, a, b):
    """The difference of two runs in words ("": they are equal), and the number of steps in common."""
    code, text = machine.call("verify", a.run, b.run, "--json")
    if code not in (0, 3):
        raise Failed(f"verify: exit code {code}\n{text}")
    words = machine.call("verify", a.run, b.run)[1] if code == 3 else ""
    return words, json.loads(text.splitlines()[-1])["steps"]["common"]


def compare(machine, a, b, steps):
    """Two runs must be equal at this many steps. Returns what was compared, in words."""
    words, common = differ(machine, a, b)
    if words:
        raise Failed(f"{a.folder.name} and {b.folder.name} differ:\n{words}")
    if common != steps:
        raise Failed(f"{a.folder.name} and {b.folder.name} have {common} steps in common, not {steps}")
    return f"{a.folder.name[3:]} = {b.folder.name[3:]} over {common} steps"
