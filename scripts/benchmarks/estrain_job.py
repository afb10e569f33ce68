"""A job run by estrain, stopped and continued by signals so that it takes turns with others."""

import json
import signal
import subprocess
import time
from pathlib import Path

from process_tree import end_tree, signal_all, wait_until, with_descendants

FOREVER = 1_000_000_000
LONGEST_TURN = 32  # seconds


class EstrainJob:
    """Runs until close(), or to the end of its `steps`."""

    def __init__(self, bench, case, ests=1, devices="1", steps=FOREVER, sections="", job="", options=()):
        folder = bench.new_folder()
        self.bench, self.run = bench, folder / "run"
        self.samples_per_step = case.batch * ests
        spec = case.spec(folder, ests, steps, sections, job)
        self.log = folder / "log"
        self.started = time.monotonic()
        with open(self.log, "w") as log:
            command = [bench.estrain, "train", spec, "--run", self.run, "--devices", devices, *options]
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=bench.environment
            )
        self._read = 0
        self._stopped_at = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_tree(self.process)

    def wait_for_step(self, step):
        metrics = self.run / "metrics.jsonl"
        try:
            wait_until(
                lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= step,
                f"step {step}",
                process=self.process,
            )
        except RuntimeError as error:
            raise RuntimeError(f"estrain {error}:\n{self.log.read_text()}") from None

    def new_rates(self):
        """Samples/s of each step recorded since the last call."""
        with open(self.run / "metrics.jsonl", "rb") as file:
            file.seek(self._read)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._read += len(text)
        return [json.loads(line)["samples_per_s"] for line in text.splitlines()]

    def step_seconds(self):
        """The seconds of each step recorded since the last call; the first step of a run has no time, and is left out."""
        return [self.samples_per_step / rate for rate in self.new_rates() if rate > 0]

    def step_seconds_by_number(self):
        """{step: seconds} of the whole run, the first step left out."""
        text = (self.run / "metrics.jsonl").read_text()
        lines = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
        rates = {line["step"]: line["samples_per_s"] for line in lines}
        return {step: self.samples_per_step / rate for step, rate in rates.items() if rate > 0}

    def pause(self):
        signal_all(with_descendants(self.process.pid), signal.SIGSTOP)
        self._stopped_at = time.monotonic()

    def go_on(self):
        signal_all(reversed(with_descendants(self.process.pid)), signal.SIGCONT)

    def timed_turn(self, seconds):
        """Goes on for about so long, then stops. Returns the seconds of a step: the time that all steps took that began
        and ended within the turn, recording and all else included, over their number."""
        stood_still = time.monotonic() - self._stopped_at
        self.new_rates()
        self.go_on()
        time.sleep(seconds)
        self.pause()
        # The step that the stop fell into tells which records come from before the turn.
        steps = self.step_seconds()
        gap = max(range(len(steps)), key=steps.__getitem__, default=-1)
        if gap < 0 or steps[gap] < 0.9 * stood_still or len(steps) < gap + 2:
            if self.process.poll() is not None:
                raise RuntimeError(f"estrain ended with code {self.process.returncode}:\n{self.log.read_text()[-3000:]}")
            if 2 * seconds > LONGEST_TURN:
                raise RuntimeError(f"no whole step within {seconds:.0f} s:\n{self.log.read_text()[-3000:]}")
            return self.timed_turn(2 * seconds)
        within = steps[gap + 1 :]
        return sum(within) / len(within)

    def events(self, name):
        lines = (self.run / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def worker_pids(self):
        pids = with_descendants(self.process.pid)
        return [pid for pid in pids if b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def malloc_settings(self):
        """The settings of malloc in a worker's environment, for the programs that it is compared with."""
        told = Path(f"/proc/{self.worker_pids()[0]}/environ").read_text().split("\0")
        settings = dict(line.split("=", 1) for line in told if line.startswith(("GLIBC_TUNABLES=", "MALLOC_")))
        if not settings:
            raise RuntimeError("the environment of a worker does not say what malloc is to do")
        return settings

    def resize(self, devices):
        command = [self.bench.estrain, "resize", self.run, "--devices", devices, "--json", *self.bench.resize_options]
        ended = subprocess.run(command, check=True, capture_output=True, text=True, env=self.bench.environment)
        return json.loads(ended.stdout)
