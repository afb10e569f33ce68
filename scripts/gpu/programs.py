"""Programs that users export: the networks of examples/workloads."""

import hashlib
import os
import re
import subprocess
from pathlib import Path

import equality
from jobs import Run, compare
from report import Failed, Skipped

NAMES = (
    "bert", "gpt2", "llama", "swin", "vit", "yolov3", "resnet50", "efficientnet", "t5", "lstm", "electra", "neumf",
    "shufflenetv2", "vgg19",
)  # fmt: skip
D2_STEPS = 20
WRITE_SECONDS = 120  # that exporting one may take
NOTHING_THERE = 77  # exit code of scripts/workloads where Python's packages or the data are not there


class Program:
    """A job of an exported program, as jobs.Model is one of a built-in network. Its files lie in `folder`."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder

    def spec(self, _, ests, steps):
        text = (self.folder / f"{self.name}.toml").read_text()
        for key, value in {"ests": ests, "steps": steps, "eval_every": '"never"'}.items():
            text, count = re.subn(rf"(?m)^{key} = .*", f"{key} = {value}", text)
            if count != 1:
                raise Failed(f"the spec of {self.name} has {count} lines of {key}")
        text = re.sub(r'(?m)^(file|path|test_path) = "', rf'\g<0>{self.folder}/', text)
        return text + "\n[checkpoint]\nkeep = 1\n\n[recovery]\nhang_seconds = 120\n"


def fetched(machine, name):
    """The program's files: of those that were packed, whose weights are drawn; else exported now."""
    folder = machine.new_folder(f"{name}-files")
    packed = machine.build / "programs"
    if packed.is_dir():
        if not machine.python:
            raise Skipped("there is no Python with torch here, which draws the weights")
        (folder / "data").symlink_to(packed / "data")
        (folder / f"{name}.toml").write_text((packed / f"{name}.toml").read_text())
        command = [machine.python, Path(__file__).with_name("drawn_weights.py"), packed / f"{name}.packed",
                   folder / f"{name}.pt2"]  # fmt: skip
    else:
        command = [machine.tree / "scripts/workloads", "--no-setup", "--write", folder, "--only", name]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}  # Python finds its own
    ended = subprocess.run(command, capture_output=True, text=True, timeout=machine.patience(WRITE_SECONDS), env=environment)
    if ended.returncode == NOTHING_THERE:
        raise Skipped(f"{machine.build} has no programs that were packed, and none can be exported here: {ended.stdout.strip()}")
    if ended.returncode:
        raise Failed(f"{' '.join(map(str, command))}: exit code {ended.returncode}\n{ended.stderr[-2000:]}")
    return Program(name, folder)


def digest(run):
    """Of every step's losses and state: two runs of one number of steps have it in common if their bits are equal."""
    content = (run.run / "fingerprints").read_bytes() + "".join(line["loss_bits"] for line in run.steps()).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def check(name):
    """At D1, one worker = one that was resized, killed and resumed; at D2, the GPU = the CPU. Digests are told, for the
    same steps of another kind of GPU."""

    def measure(machine, report):
        program = fetched(machine, name)
        said = []

        def tell(words):
            said.append(words)
            report.found(words)

        def train(what, ests, steps, device, *more):
            folder = machine.new_folder(f"{name}-{what}")
            with Run(machine, program, folder, ests, steps, device, more) as run:
                return run.finish()

        def on_both():
            steps, d2 = machine.rounds(D2_STEPS, 2), ("--set", "job.determinism=D2")
            gpu = train("d2-gpu", 2, steps, machine.devices(1), *d2)
            told = compare(machine, gpu, train("d2-cpu", 2, steps, "cpu*2", *d2), steps)
            tell(f"{told}, digest {digest(gpu)}")

        on_both()
        disturbed, steps, _ = equality.disturbed(machine, program, machine.new_folder(f"{name}-disturbed"), ests=2)
        one = train("one", 2, steps, machine.devices(1))
        tell(f"{compare(machine, one, disturbed, steps)}, digest {digest(one)}")
        return "; ".join(said)

    return measure

