"""One model of examples/workloads: exported, and trained by estrain in several ways."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import programs
from ddp_bits import kinds_of_processor, unequal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "benchmarks"))
from process_tree import end_tree, wait_until, with_descendants  # noqa: E402

STEPS = 8  # of a run that stays where it is
FEW = 4  # of one at D2
STAGE = 3  # steps at least between two things that happen to an elastic run
FOREVER = 1_000_000_000


class Workload:
    """Everything lies in `folder`: the programs, a copy of the spec, and data/, which is there already."""

    def __init__(self, name, folder, estrain):
        self.name, self.folder, self.estrain = name, folder, estrain
        programs.write(folder, [name])
        self.spec = folder / f"{name}.toml"
        shutil.copy(programs.EXAMPLES / "workloads" / name / "small.toml", self.spec)

    def command(self, run, devices, *settings):
        options = [word for setting in settings for word in ("--set", setting)]
        return [self.estrain, "train", self.spec, "--run", run, "--devices", devices, *options]

    def train(self, what, devices, *settings):
        """Returns the run directory and the finished process."""
        run = self.folder / f"{self.name}.{what}"
        shutil.rmtree(run, ignore_errors=True)
        done = subprocess.run(self.command(run, devices, *settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        return run, done

    def plain(self):
        """Two ESTs on one worker."""
        run, done = self.train("plain", "1", "job.ests=2", f"train.steps={STEPS}", f"train.eval_every={STEPS // 2}")
        if done.returncode:
            raise SystemExit(f"{self.name}: estrain ended with {done.returncode}:\n{done.stdout}")
        return run

    def written_back(self, run):
        """The run's weights in the file of the evaluation program."""
        out = self.folder / f"{self.name}.trained.pt2"
        subprocess.run([self.estrain, "weights", run, out, "--format", "pt2", "--force", "--program",
                        self.folder / f"{self.name}-eval.pt2"], check=True, stdout=subprocess.PIPE)
        return out

    def kinds(self):
        """At D2 on each kind of processor: "equal", or what is not."""
        runs = []
        for kind in kinds_of_processor():
            run, done = self.train(kind.replace(":", "-"), kind, "job.determinism=D2", "job.ests=2",
                                   f"train.steps={FEW}", "train.eval_every=never")
            if done.returncode == 2:
                names = dict.fromkeys(re.findall(r"aten::(\S+)", done.stdout))
                return "refused: " + (", ".join(names) or done.stdout)
            if done.returncode:
                raise SystemExit(f"{self.name} at D2 on {kind}: estrain ended with {done.returncode}:\n{done.stdout}")
            runs.append(run)
        found = unequal(self.estrain, runs[0], runs[1:])
        return f"DIFFERENT: {found[0]}" if found else "equal"

    def elastic(self):
        """Four ESTs: on 2 workers, resized to 1, to 3 of which one is killed, stopped, and resumed on 2. It ends by a
        stop; what is compared is all the steps until then."""
        run = self.folder / f"{self.name}.elastic"
        shutil.rmtree(run, ignore_errors=True)
        settings = "job.ests=4", f"train.steps={FOREVER}", "train.eval_every=never"
        with Running(self.command(run, "2", *settings), run) as job:
            job.pass_steps()
            job.resize("1")
            job.pass_steps()
            job.resize("3")
            job.pass_steps()
            job.kill_a_worker()
            job.pass_steps()
            job.stop()
        with Running([self.estrain, "train", "--resume", "--run", run, "--devices", "cpu=1,cpu=3"], run) as job:
            job.pass_steps()
            job.stop()
        happened = [json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()]
        counts = {event: happened.count(event) for event in ("resize", "fault", "recovered", "start")}
        if counts != {"resize": 2, "fault": 1, "recovered": 1, "start": 2}:
            raise SystemExit(f"{self.name}: not all happened that was to happen: {counts}")
        return run


class Running:
    """A job that trains while things happen to it."""

    def __init__(self, command, run):
        self.run, self.log = run, run.with_suffix(".log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.estrain = command[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_tree(self.process)

    def steps(self):
        metrics = self.run / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def pass_steps(self):
        """Waits for some more. The first ones are those of a start."""
        until = self.steps() + STAGE
        try:
            wait_until(lambda: self.steps() >= until, f"step {until}", seconds=600, process=self.process)
        except RuntimeError as error:
            raise SystemExit(f"{error}:\n{self.log.read_text()}") from None

    def resize(self, devices):
        subprocess.run([self.estrain, "resize", self.run, "--devices", devices], check=True, stdout=subprocess.PIPE)

    def kill_a_worker(self):
        workers = [pid for pid in with_descendants(self.process.pid)
                   if b"\0worker\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(workers[-1], signal.SIGKILL)
        wait_until(lambda: '"recovered"' in (self.run / "events.jsonl").read_text(), "recovery", seconds=600,
                   process=self.process)

    def stop(self):
        subprocess.run([self.estrain, "stop", self.run], check=True, stdout=subprocess.PIPE)
        if self.process.wait(600) != 75:
            raise SystemExit(f"{self.run.name}: exit code {self.process.returncode} after a stop:\n{self.log.read_text()}")
