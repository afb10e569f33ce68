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
GPU_PIXELS = 32
DISTURBED = ("neumf", "lstm")  # in brief: small ones
GPU_STEPS = 2  # of one at D2 on a simulated GPU
FOREVER = 1_000_000_000
SIMULATED = programs.EXAMPLES.parent / "tests/simulated_gpu"


class Workload:
    """Everything lies in `folder`: the programs, a copy of the spec, and data/, which is there already."""
    starts = []  # words before the command that trains

    def __init__(self, name, folder, estrain):
        self.name, self.folder, self.estrain = name, folder, estrain
        self.spec = folder / f"{name}.toml"
        self.export()

    def export(self):
        programs.write(self.folder, [self.name])
        shutil.copy(programs.EXAMPLES / "workloads" / self.name / "small.toml", self.spec)

    def command(self, run, devices, *settings):
        options = [word for setting in settings for word in ("--set", setting)]
        return [*(self.starts or [self.estrain]), "train", self.spec, "--run", run, "--devices", devices, *options]

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

    def elastic(self, devices=("2", "1", "3"), resumed="cpu=1,cpu=3", ests=4, stage=STAGE):
        """Four ESTs: on 2 workers, resized to 1, to 3 of which one is killed, stopped, and resumed on 2. It ends by a
        stop; what is compared is all the steps until then."""
        run = self.folder / f"{self.name}.elastic"
        shutil.rmtree(run, ignore_errors=True)
        settings = f"job.ests={ests}", f"train.steps={FOREVER}", "train.eval_every=never"
        with Running(self.command(run, devices[0], *settings), run, self.estrain, stage) as job:
            for more in devices[1:]:
                job.pass_steps()
                job.resize(more)
            job.pass_steps()
            job.kill_a_worker()
            job.pass_steps()
            job.stop()
        resume = [*(self.starts or [self.estrain]), "train", "--resume", "--run", run, "--devices", resumed]
        with Running(resume, run, self.estrain, stage) as job:
            job.pass_steps()
            job.stop()
        happened = [json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()]
        counts = {event: happened.count(event) for event in ("resize", "fault", "recovered", "start")}
        if counts != {"resize": 2, "fault": 1, "recovered": 1, "start": 2}:
            raise SystemExit(f"{self.name}: not all happened that was to happen: {counts}")
        return run


class OnGpus(Workload):
    """On simulated GPUs (tests/simulated_gpu). The program is exported without a comparison, for training alone."""

    def __init__(self, name, folder, estrain):
        super().__init__(name, folder, estrain)
        build = estrain.parent
        self.starts = [SIMULATED / "run", build, build / "simulated_gpu/estrain"]

    def export(self):
        programs.write_unchecked(self.folder, self.name, self.pixels())
        text = (programs.EXAMPLES / "workloads" / self.name / "small.toml").read_text()
        text = "".join(line for line in text.splitlines(True) if not line.startswith("eval_file"))
        if self.pixels():
            text = re.sub(r"(?m)^(resize|crop) = .*", rf"\1 = [{GPU_PIXELS}, {GPU_PIXELS}]", text)
        self.spec.write_text(re.sub(r"(?m)^batch = .*", "batch = 2", text))

    def pixels(self):
        """Of networks of convolutions, whose algorithms take the simulation long, on each side; None: those of small()."""
        return GPU_PIXELS if self.name in ("resnet50", "vgg19", "efficientnet", "shufflenetv2") else None

    def over_gpus(self, brief):
        """At D1: two ESTs on two GPUs, resized to one and back to two, of which one is killed, stopped, and resumed on
        one, have the bits of one GPU. `brief`: all but DISTURBED stay on two GPUs."""
        if brief and self.name not in DISTURBED:
            run = self.trained("cuda:0,cuda:1", f"train.steps={GPU_STEPS}")
            return self.compared(run, "cuda:0", f"train.steps={GPU_STEPS}") + ", undisturbed"
        run = self.elastic(("cuda:0,cuda:1", "cuda:1", "cuda:0,cuda:1"), "cuda:0", ests=2, stage=1)
        steps = len((run / "metrics.jsonl").read_text().splitlines())
        return self.compared(run, "cuda:0", f"train.steps={steps}")

    def as_on_cpu(self):
        """At D2 the steps of a CPU and a GPU."""
        settings = "job.determinism=D2", f"train.steps={GPU_STEPS}"
        return self.compared(self.trained("cpu", *settings), "cuda:0", *settings)

    def trained(self, devices, *settings):
        run, done = self.train(re.sub("[:,]", "-", devices), devices, "job.ests=2", "train.eval_every=never", *settings)
        if done.returncode:
            raise SystemExit(f"{self.name} on {devices}: estrain ended with {done.returncode}:\n{done.stdout}")
        return run

    def compared(self, run, devices, *settings):
        steps = len((run / "metrics.jsonl").read_text().splitlines())
        found = unequal(self.estrain, run, [self.trained(devices, *settings)])
        return f"DIFFERENT: {found[0]}" if found else f"equal, {steps} steps"


class Running:
    """A job that trains while things happen to it, with `stage` steps at least in between."""

    def __init__(self, command, run, estrain, stage=STAGE):
        self.run, self.log, self.estrain, self.stage = run, run.with_suffix(".log"), estrain, stage
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_tree(self.process)

    def steps(self):
        metrics = self.run / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def pass_steps(self):
        """Waits for some more. The first ones are those of a start."""
        until = self.steps() + self.stage
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
