"""One EST with algorithms = "torch" against Python's torch with deterministic algorithms: every bit of every step."""

import json
import os
import random
import struct
import subprocess

from jobs import GPT, SMALL_GPT, Model, Run, adamw, sgd
from report import Failed, Skipped

IMAGES, PIXELS = 256, 28 * 28
REPLAY_SECONDS, FURTHER_SECONDS = 75, 30
DEFAULT = "torch's default"
SETTING = 'algorithms = "torch", not the default'
ALWAYS = [DEFAULT, "foreach=False", "fused=True"]
# Settings that could explain a difference, each in a process of its own: {in words: (cuDNN's benchmark mode, environment)}.
FURTHER = {
    "cuDNN chooses by measuring": (True, {}),
    "NVIDIA_TF32_OVERRIDE=0": (False, {"NVIDIA_TF32_OVERRIDE": "0"}),
}


def models(machine):
    small = machine.dry_run
    return {
        "lenet": (Model("lenet", 4 if small else 32), {}),
        "resnet18": (Model("resnet18", 2 if small else 8), {"channels": 3, "pad": 2}),
        "gpt": (Model("gpt", 2 if small else 8, options=SMALL_GPT if small else GPT), {}),
    }


def write_images(folder):
    """Made-up images and labels in the format that needs no library, and the keys that name them."""
    draw = random.Random(1)
    images, labels = folder / "images", folder / "labels"
    images.write_bytes(struct.pack(">4i", 0x803, IMAGES, 28, 28) + draw.randbytes(IMAGES * PIXELS))
    labels.write_bytes(struct.pack(">2i", 0x801, IMAGES) + bytes(draw.randrange(10) for _ in range(IMAGES)))
    return {"format": "idx", "images": str(images), "labels": str(labels)}


def train(machine, name, optimizer, steps):
    model, data = models(machine)[name]
    model.optimizer = optimizer
    folder = machine.new_folder(f"{name}-{optimizer['name']}")
    model.data = data | write_images(folder) if name != "gpt" else {}
    model.checkpoint = {"every": 1, "keep": 1000}
    with Run(machine, model, folder, 1, steps, machine.devices(1), ("--set", "job.algorithms=torch")) as run:
        return run.finish(100).run


def shown(found):
    """A line of the replay's report in words."""
    if "error" in found:
        return f"{found['variant']}: {found['error']}"
    if found["equal"]:
        return f"{found['variant']}: equal over {found['compared']} steps"
    tensors = "; ".join(
        one["name"] + (f" {one['differing']} of {one['elements']} differ, at most {one['ulp']} ULP" if "ulp" in one else
                       f": {one['shape']}")
        for one in found["tensors"]
    )  # fmt: skip
    loss = f", loss {found['loss'][0]!r} against {found['loss'][1]!r}" if found.get("loss_differs") else ""
    groups = ", ".join(f"{count} of {group}" for group, count in found.get("groups", {}).items())
    where = f"differs at step {found['step']}{loss}; tensors {groups or 'of the start'}"
    return f"{found['variant']}: {where}: {tensors}"


def replay(machine, runs, variants, seconds, benchmark=False, environment=None):
    """(lines of torch_replay.py's report, why there are no more of them or "")."""
    folder = machine.new_folder("replay")
    plan, report = folder / "plan.json", folder / "report.jsonl"
    told = {"device": machine.device, "hdf5": machine.library("libhdf5"), "runs": list(map(str, runs))}
    plan.write_text(json.dumps(told | {"variants": variants, "benchmark": benchmark}))
    report.touch()
    command = [machine.python, machine.tree / "scripts/gpu/torch_replay.py", plan, report]
    with open(folder / "replay.log", "w") as log:
        try:
            code = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | (environment or {}),
                timeout=machine.patience(seconds),
            ).returncode  # fmt: skip
            why = f"torch_replay.py ended with code {code}" if code != 0 else ""
        except subprocess.TimeoutExpired:
            why = f"torch_replay.py took longer than {seconds} s"
    text = report.read_text()
    found = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    if why:
        why += "\n" + (folder / "replay.log").read_text()[-2000:]
    return found, why


def lines_of(found):
    return [f"{str(one['run']).split('/')[-2][3:]}, {shown(one)}" for one in found]


def may_be_kernels(found):
    """Whether more than the form of the optimizer's update is behind a difference."""
    buffers = found.get("groups", {}).get("buffers")
    return bool("groups" not in found or found["loss_differs"] or found["gradients_differ"] or buffers)


def further(machine, found):
    """Lines on what differs, if they could say why."""
    if not may_be_kernels(found):
        return ["the gradients are equal: it is the form of the optimizer's update"]
    run, lines = found["run"], []
    for what, (benchmark, environment) in FURTHER.items():
        found, why = replay(machine, [run], [DEFAULT], FURTHER_SECONDS, benchmark, environment)
        lines += lines_of([one | {"variant": what} for one in found]) or [f"{what}: {why}"]
    return lines


def check(name):
    def compare(machine, report):
        if machine.python is None:
            raise Skipped("there is no Python with torch here")
        if machine.library("libhdf5") is None:
            raise Failed("ldd names no libhdf5 of the program")
        steps = machine.rounds(8 if name == "resnet18" else 16, 3)
        runs = [train(machine, name, optimizer, steps) for optimizer in (sgd(), adamw())]
        found, why = replay(machine, runs, ALWAYS, REPLAY_SECONDS)
        lines = lines_of(found)
        for line in lines:
            report.found(line)
        by_default = [one for one in found if one["variant"] == DEFAULT]
        different = [one for one in by_default if not one.get("equal")]
        if different:
            headline = "; ".join([SETTING, *lines_of(by_default)])
            raise Failed("\n".join([headline, *lines, *further(machine, different[0]), why]))
        if why or len(by_default) < len(runs):
            raise Failed("\n".join([why.splitlines()[0] if why else "not all runs were repeated", *lines, why]))
        alike = sum(one.get("equal", False) for one in found) - len(by_default)
        return (
            f"{SETTING}; sgd and adamw: equal to torch by default over {by_default[0]['compared']} steps; "
            f"{alike} of {len(found) - len(by_default)} runs with foreach=False, too"
        )

    return compare
